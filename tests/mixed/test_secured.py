"""Apache Kafka and us in one cluster whose brokers know each other by certificates and passwords.

Every connection between brokers, those of the controller included, is SASL_SSL with
PLAIN; so is that of the clients. Each of the brokers is killed while it leads; nothing that
was acknowledged is lost. Takes about 60 s. Skipped without Java and Maven.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import NamedTuple

import pytest
import trio

from pybroker import EARLIEST, Cluster, Consumer, Producer, SimpleRecord, create_topic
from tests.support.apache_kafka import ApacheKafkaProcess, kafka_jars
from tests.support.certificate_files import PASSWORD, Authority
from tests.support.processes import BrokerProcess, free_port, zookeeper_process

pytestmark = pytest.mark.timeout(240)

OURS, KAFKA_A, KAFKA_B = 1, 2, 3
NODES = (OURS, KAFKA_A, KAFKA_B)
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
USERS = 'user_broker="broker-secret" user_alice="alice-secret"'
TOPIC = "kept"
WAIT_SECONDS = 60.0
BATCHES = 2 * len(NODES)  # to each partition


class Secured(NamedTuple):
    nodes: Mapping[int, BrokerProcess]
    ports: Mapping[int, int]
    client: Mapping[str, str]

    @property
    def bootstrap(self) -> str:
        return ",".join(f"localhost:{port}" for port in self.ports.values())


def settings(authority: Authority, node: int, port: int, secure_port: int) -> dict[str, str]:
    store = authority.issue(f"broker-{node}", names=("localhost",)).with_suffix(".p12")
    return {
        "listeners": f"PLAINTEXT://127.0.0.1:{port},BROKERS://localhost:{secure_port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,BROKERS:SASL_SSL",
        "inter.broker.listener.name": "BROKERS",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.brokers.plain.sasl.jaas.config": (
            f'{PLAIN} username="broker" password="broker-secret" {USERS};'
        ),
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(store),
        "ssl.keystore.password": PASSWORD,
        "ssl.key.password": PASSWORD,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.ca),
        "connections.max.reauth.ms": "5000",
        "default.replication.factor": "3",
        "min.insync.replicas": "2",
        "zookeeper.session.timeout.ms": "6000",
        "replica.lag.time.max.ms": "10000",
        "controlled.shutdown.enable": "false",
    }


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    kafka_jars()
    directory = tmp_path_factory.mktemp("secured")
    authority = Authority(directory / "certificates")
    with ExitStack() as stack:
        connect = stack.enter_context(zookeeper_process(directory))
        nodes: dict[int, BrokerProcess] = {}
        ports = {}
        for node in NODES:
            port = free_port(2)
            kind = BrokerProcess if node == OURS else ApacheKafkaProcess
            config = settings(authority, node, port, port + 1)
            nodes[node] = kind(directory / str(node), connect, config, node, port)
            ports[node] = port + 1
            stack.callback(nodes[node].kill)
            nodes[node].launch()
        for process in nodes.values():
            process.wait_until_ready()
        client = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f'{PLAIN} username="alice" password="alice-secret";',
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(authority.ca),
        }
        yield Secured(nodes, ports, client)


async def all_in_sync(cluster: Cluster) -> dict[int, int]:
    """The leaders by partition, once all replicas are in sync."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        topic = await cluster.led_topic(TOPIC, wait_for_missing=True)
        if all(len(partition.isr_nodes) == len(NODES) for partition in topic.partitions):
            return {one.partition_index: int(one.leader_id) for one in topic.partitions}
        assert time.monotonic() < deadline, f"not in sync: {topic.partitions}"
        await trio.sleep(0.1)


async def test_each_leader_dies(secured: Secured) -> None:
    written: list[bytes] = []
    async with Cluster(secured.bootstrap, security=secured.client) as cluster:
        await create_topic(cluster, TOPIC, partitions=len(NODES), replication_factor=len(NODES))
        producer = Producer(cluster, TOPIC)
        await producer.start()

        async def write(text: str) -> None:
            for batch in range(BATCHES):
                values = [f"{text}-{batch}-{number}".encode() for number in range(50)]
                await producer.send([SimpleRecord(1, None, value) for value in values])
                written.extend(values)

        for node in NODES:
            assert node in (await all_in_sync(cluster)).values()
            await write(f"with {node}")
            process = secured.nodes[node]
            process.kill()
            await write(f"without {node}")
            process.launch()
            await trio.to_thread.run_sync(process.wait_until_ready)
        await all_in_sync(cluster)
        consumer = Consumer(cluster, TOPIC)
        await consumer.start()
        await consumer.seek(EARLIEST)
        read: list[bytes] = []
        with trio.fail_after(WAIT_SECONDS):
            while len(read) < len(written):
                read += [bytes(one.record.value or b"") for one in await consumer.poll()]
        assert sorted(read) == sorted(written)
