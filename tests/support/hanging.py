"""Transactions that are open: one that its coordinator knows, and one that it does not."""

from __future__ import annotations

import time
from contextlib import closing

import confluent_kafka
import trio

from pybroker_kafka.client.admin.admin import Admin
from pybroker_kafka.client.cluster import Cluster
from pybroker_kafka.protocol.records.builder import build_batch
from pybroker_kafka.protocol.records.record import SimpleRecord

from .wire import WireClient

WAIT_SECONDS = 120


def transactional(bootstrap: str, name: str) -> confluent_kafka.Producer:
    """A producer with this transactional id, which the cluster knows."""
    made = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
    made.init_transactions(WAIT_SECONDS)
    return made


def hang(bootstrap: str, topic: str, partition: int, name: str) -> None:
    """Write a record whose transaction the coordinator was never told of."""
    transactional(bootstrap, name)
    batch, leader = trio.run(_batch_and_leader, bootstrap, topic, partition, name)
    with closing(WireClient(leader)) as kafka:
        # Version 12 would tell it.
        answer = kafka.produce(topic, batch, partition=partition, transactional_id=name, version=11)
        assert answer.error_code == 0


async def _batch_and_leader(
    bootstrap: str, topic: str, partition: int, name: str
) -> tuple[bytes, str]:
    async with Cluster(bootstrap) as cluster:
        owner = (await Admin(cluster).transactions.describe([name]))[name]
        known = await cluster.metadata([topic])
    batch = build_batch(
        [SimpleRecord(int(time.time() * 1000), None, b"hangs")],
        producer_id=owner.producer_id,
        producer_epoch=owner.producer_epoch,
        base_sequence=0,
        is_transactional=True,
    )
    (leader,) = (
        one.leader_id for one in known.topics[0].partitions if one.partition_index == partition
    )
    (address,) = (f"{one.host}:{one.port}" for one in known.brokers if one.node_id == leader)
    return bytes(batch), address
