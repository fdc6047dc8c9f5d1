"""A transaction coordinator that is cut off from ZooKeeper, and still answers clients.

Its session is over, another broker coordinates, and a producer has gone there with its next
transaction. Then its EndTxn goes to the old one, whose memory knows a transaction of this producer
that is committed. Apache Kafka 3.9 says that all is well, and nothing is committed (the second part
of KIP-890 closed that in 4.0, with an epoch for each transaction); pybroker asks the ISR first.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from pybroker_kafka.protocol.apis.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from pybroker_kafka.protocol.apis.metadata import MetadataRequest
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.testing import Network
from tests.support.apache_kafka import ApacheKafkaProcess, kafka_jars
from tests.support.patience import until
from tests.support.processes import BrokerProcess, zookeeper_process
from tests.support.wire import TRANSACTION, WireClient, batch, unique
from tests.wire import transaction_steps as steps

pytestmark = pytest.mark.timeout(300)

STATE_TOPIC = "__transaction_state"
WAIT_SECONDS = 120.0
NODES = (1, 2)
CONFIG = {
    "zookeeper.session.timeout.ms": "6000",
    "default.replication.factor": "2",
    "offsets.topic.replication.factor": "2",
    "transaction.state.log.replication.factor": "2",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.min.isr": "1",
    "auto.leader.rebalance.enable": "false",
    "log.cleaner.enable": "false",
    # How long an answer is waited for that the ISR does not confirm.
    "request.timeout.ms": "4000",
}


class Pair:
    """Two brokers, each with a way to ZooKeeper that can be silenced."""

    def __init__(
        self,
        kind: type[BrokerProcess],
        directory: Path,
        zookeeper_port: int,
        config: Mapping[str, str],
    ) -> None:
        self._stack = ExitStack()
        self.network = self._stack.enter_context(Network())
        self.nodes = {}
        for node in NODES:
            port = self.network.front("zookeeper", zookeeper_port, near=node)
            broker = kind(directory / f"broker-{node}", f"127.0.0.1:{port}", config, node)
            self._stack.callback(broker.kill)
            broker.launch()
            self.nodes[node] = broker
        for broker in self.nodes.values():
            broker.wait_until_ready()

    def close(self) -> None:
        self._stack.close()

    @contextmanager
    def client(self, node: int) -> Iterator[WireClient]:
        with WireClient(self.nodes[node].bootstrap) as kafka:
            yield kafka

    def leader(self, topic: str, *, said_by: int) -> tuple[int, set[int]]:
        """The leader of partition 0, and its ISR."""
        with self.client(said_by) as kafka:
            topics = kafka.call(MetadataRequest(topics=None)).topics
        found = [one.partitions[0] for one in topics if one.name == topic and one.partitions]
        return (found[0].leader_id, set(found[0].isr_nodes)) if found else (-1, set())

    def wait_for_leader(self, topic: str, node: int, isr: set[int], *, said_by: int) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while (seen := self.leader(topic, said_by=said_by)) != (node, isr):
            assert time.monotonic() < deadline, seen
            time.sleep(0.1)


@pytest.fixture
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pair]:
    kind, more = request.param
    if kind is ApacheKafkaProcess:
        kafka_jars()
    with zookeeper_process(tmp_path / "zookeeper") as connect:
        started = Pair(kind, tmp_path, int(connect.rpartition(":")[2]), {**CONFIG, **more})
        try:
            yield started
        finally:
            started.close()


@pytest.mark.parametrize(
    ("pair", "is_lied_to"),
    [
        ((BrokerProcess, {}), False),
        ((BrokerProcess, {"pybroker.coordinator.proof": "false"}), True),
        ((ApacheKafkaProcess, {}), True),
    ],
    ids=["pybroker", "pybroker-without-proof", "apache-kafka"],
    indirect=["pair"],
)
def test_a_commit_told_by_a_coordinator_that_is_none(pair: Pair, is_lied_to: bool) -> None:
    with pair.client(1) as any_broker:
        wait_for_brokers(any_broker)
        old = any_broker.coordinator("any", TRANSACTION).id
        new = 3 - old
        topic = unique("t")
        replicas = CreatableReplicaAssignment(partition_index=0, broker_ids=[new])
        creation = CreatableTopic(
            name=topic, num_partitions=-1, replication_factor=-1, assignments=[replicas]
        )
    with pair.client(1) as one, pair.client(2) as two:
        for kafka in (one, two):
            answer = kafka.call(CreateTopicsRequest(topics=[creation], timeout_ms=15_000))
            if answer.topics[0].error_code == ErrorCode.NONE:
                break
        else:
            raise AssertionError(answer)
    pair.wait_for_leader(STATE_TOPIC, old, {1, 2}, said_by=new)
    pair.wait_for_leader(topic, new, {new}, said_by=old)

    with pair.client(old) as zombie, pair.client(new) as heir:
        producer = steps.start(zombie)
        assert a_transaction(zombie, heir, producer, topic, sequence=0) == ErrorCode.NONE
        steps.wait_for_state(zombie, producer.name, "CompleteCommit")
        pair.network.silence(old, "zookeeper")
        pair.wait_for_leader(STATE_TOPIC, new, {new}, said_by=new)

        with heir.timeout(WAIT_SECONDS):
            told = a_transaction(heir, heir, producer, topic, sequence=1, ends_at=zombie)
        now = steps.describe(heir, producer.name).transaction_state
        assert now == "Ongoing"
        if is_lied_to:
            assert told == ErrorCode.NONE
        else:
            assert told in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            assert steps.end(heir, producer) == ErrorCode.NONE


def a_transaction(
    coordinator: WireClient,
    leader: WireClient,
    producer: steps.Producer,
    topic: str,
    *,
    sequence: int,
    ends_at: WireClient | None = None,
) -> int:
    """One record, and what EndTxn says."""
    until(lambda: steps.add(coordinator, producer, (topic, 0)) == {(topic, 0): ErrorCode.NONE})
    records = batch(
        b"v", producer_id=producer.id, producer_epoch=producer.epoch, base_sequence=sequence,
        is_transactional=True,
    )  # fmt: skip
    answer = leader.produce(topic, records, transactional_id=producer.name)
    assert answer.error_code == ErrorCode.NONE, answer
    return steps.end(ends_at or coordinator, producer)


def wait_for_brokers(kafka: WireClient) -> None:
    until(lambda: len(kafka.call(MetadataRequest(topics=[])).brokers) >= len(NODES))
