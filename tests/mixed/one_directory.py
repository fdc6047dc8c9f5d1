"""A log directory that brokers open in turns: what is written to it, and what each must answer.

Job: `write_everything` has Apache Kafka's own clients write all that a topic can hold (formats v0
to v2, every codec, idempotent and transactional data, commits, aborts, a transaction that stays
open); `observe` notes a broker's answers to every kind of question about it, once it has settled;
`check_same` compares those of two brokers. `forget_registration` stands for the time that passes
until ZooKeeper expires the session of a broker that was killed.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from pybroker_kafka.protocol.apis.init_producer_id import InitProducerIdRequest
from pybroker_kafka.protocol.apis.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from pybroker_kafka.protocol.apis.list_transactions import ListTransactionsRequest
from pybroker_kafka.protocol.apis.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from pybroker_kafka.protocol.apis.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from pybroker_kafka.protocol.errors import ErrorCode
from tests.support.apache_kafka import kafka_jars
from tests.support.maven import compiled
from tests.support.old_formats import rows
from tests.support.processes import BrokerProcess
from tests.support.short_lived_java import JVM_OPTIONS
from tests.support.wire import TRANSACTION, Topic, WireClient

SOURCE = Path(__file__).parents[1] / "compat" / "java" / "WriteEverything.java"
CONFIG = {
    "inter.broker.protocol.version": "2.8",  # the last that writes the old formats
    "log.message.timestamp.before.max.ms": str(2**63 - 1),
    "log.retention.ms": "-1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}
EVERYTHING = "everything"
WAIT_SECONDS = 120.0
WRITE_SECONDS = 240.0
START_MS = 1_700_000_000_000

Seen = dict[str, Any]


def wait_for(condition: Callable[[], object], what: str, seconds: float = WAIT_SECONDS) -> None:
    """Until the condition is true; what it was at last is told."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {what}; {found!r}"
        time.sleep(0.05)


def forget_registration(connect: str) -> None:
    zookeeper = KazooClient(connect)
    zookeeper.start(timeout=WAIT_SECONDS)
    try:
        for path in ("/controller", "/brokers/ids/1"):
            with suppress(NoNodeError):
                zookeeper.delete(path)
    finally:
        zookeeper.stop()
        zookeeper.close()


def write_everything(broker: BrokerProcess) -> int:
    """How many records were written."""
    done = subprocess.run(
        ["java", "-Xmx128m", *JVM_OPTIONS,
         "-cp", compiled(SOURCE, kafka_jars()), "WriteEverything", broker.bootstrap, EVERYTHING],
        capture_output=True, text=True, timeout=WRITE_SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr + broker.log_text[-2000:]
    return int(done.stdout.split()[-1])


def wait_until_settled(client: WireClient) -> None:
    """It leads, has loaded what it coordinates, and has written all markers that it owes."""
    topic = Topic(EVERYTHING, b"")

    def leads() -> bool:
        return bool(client.fetch(topic, version=4).error_code == 0)

    def has_loaded_the_group() -> bool:
        error, _ = committed(client, require_stable=True)
        return error == 0

    def owes_no_marker() -> bool:
        request = ListTransactionsRequest(state_filters=["PrepareCommit", "PrepareAbort"])
        answer = client.call(request, 0)
        return answer.error_code == 0 and not answer.transaction_states

    wait_for(leads, f"leads {EVERYTHING}")
    client.coordinator(EVERYTHING)
    client.coordinator(EVERYTHING, TRANSACTION)
    wait_for(owes_no_marker, "has loaded its transactions and ended those that were decided")
    wait_for(has_loaded_the_group, f"knows what the group {EVERYTHING} has committed")


def committed(client: WireClient, *, require_stable: bool) -> tuple[int, int]:
    """Error code and offset."""
    wanted = OffsetFetchRequestTopics(name=EVERYTHING, partition_indexes=[0])
    group = OffsetFetchRequestGroup(group_id=EVERYTHING, topics=[wanted])
    request = OffsetFetchRequest(groups=[group], require_stable=require_stable)
    (answer,) = client.call(request, 8).groups
    if answer.error_code:
        return answer.error_code, -1
    (partition,) = (p for t in answer.topics for p in t.partitions)
    return partition.error_code, partition.committed_offset


def observe(client: WireClient) -> Seen:
    """What consumers of every kind can see."""
    wait_until_settled(client)
    topic = Topic(EVERYTHING, b"")
    end = client.fetch(topic, version=4).high_watermark
    seen: Seen = {"end": end}
    for isolation in (0, 1):
        for offset in range(0, end + 1, 13):
            data = client.fetch(topic, offset, version=12, isolation_level=isolation)
            aborted = [(a.producer_id, a.first_offset) for a in data.aborted_transactions or ()]
            seen[f"fetch {offset}, isolation {isolation}"] = (
                data.error_code, data.high_watermark, data.last_stable_offset,
                data.log_start_offset, sorted(aborted), bytes(data.records or b""),
            )  # fmt: skip
    for version in range(4):
        for offset in range(0, end, 41):
            data = client.fetch(topic, offset, version=version)
            found = (data.error_code, rows(bytes(data.records or b"")))
            seen[f"fetch v{version} {offset}"] = found
    for isolation in (0, 1):
        for timestamp in (-1, -2, -3, 0, 2**40 * 10, *range(START_MS, START_MS + 6000, 333)):
            name = f"offset at {timestamp}, isolation {isolation}"
            seen[name] = offset_at(client, timestamp, isolation)
    seen["end of epoch 0"] = end_of_epoch(client, 0)
    for stable in (False, True):
        seen[f"committed, stable {stable}"] = committed(client, require_stable=stable)
    return seen


def offset_at(client: WireClient, timestamp: int, isolation: int) -> tuple[int, int, int]:
    """Error code, timestamp, offset."""
    query = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation,
        topics=[ListOffsetsTopic(name=EVERYTHING, partitions=[query])],
    )
    ((found,),) = (t.partitions for t in client.call(request, 8).topics)
    return found.error_code, found.timestamp, found.offset


def end_of_epoch(client: WireClient, epoch: int) -> tuple[int, int]:
    asked = OffsetForLeaderPartition(partition=0, leader_epoch=epoch)
    request = OffsetForLeaderEpochRequest(
        topics=[OffsetForLeaderTopic(topic=EVERYTHING, partitions=[asked])]
    )
    ((found,),) = (t.partitions for t in client.call(request, 3).topics)
    assert found.error_code == 0
    return found.leader_epoch, found.end_offset


def check_same(found: Seen, expected: Seen) -> None:
    """What old consumers get may end at different places: before a batch in zstd, Apache Kafka
    loses all that it would have converted in one go with it."""
    assert found.keys() == expected.keys()
    for name, answer in expected.items():
        if name.startswith("fetch v"):
            (error, records), (expected_error, wanted) = found[name], answer
            common = min(len(records), len(wanted))
            assert (error, records[:common]) == (expected_error, wanted[:common]), name
            assert common or not records + wanted, name
        else:
            assert found[name] == answer, name


def end_open_transaction(client: WireClient, end: int) -> None:
    """The transaction that was left open ends when its producer comes back."""
    request = InitProducerIdRequest(transactional_id="open", transaction_timeout_ms=60_000)

    def is_back() -> bool:
        code = ErrorCode(client.call(request, 4).error_code)
        assert code == ErrorCode.NONE or code.retriable, code
        return code == ErrorCode.NONE

    def is_over() -> bool:
        data = client.fetch(Topic(EVERYTHING, b""), end, version=4)
        return bool(data.last_stable_offset == end + 1)

    wait_for(is_back, "the transaction's producer is back")
    wait_for(is_over, "the transaction is over")
