"""One cluster of one pybroker and two Apache Kafka brokers over one ZooKeeper, shared by tests.

Job: a `Cluster` of the fault tests whose nodes KAFKA_A and KAFKA_B are Apache Kafka; `elect` makes
one node the controller; `under_load` runs producers and consumers while a test breaks and mends,
then has their books and all replicas audited.
Invariants: every test leaves all three nodes running and in sync. Nodes reach each other directly:
no link is cut here. Apache Kafka cannot come back before ZooKeeper has expired its old session, so
`kill_and_expire` waits for that. What all must say, every node that serves is asked for.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from pybroker_kafka.protocol.apis.find_coordinator import FindCoordinatorRequest
from pybroker_kafka.protocol.apis.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from tests.support.apache_kafka import ApacheKafkaProcess, kafka_jars
from tests.support.audit import audit
from tests.support.cluster import CONFIG, Cluster, PartitionView, ZooKeeperServer
from tests.support.ledger import ConfluentProducer, ConfluentReader, Ledger
from tests.support.observer import Observer
from tests.support.our_loads import OurProducer, OurReader
from tests.support.processes import BrokerProcess, ZooKeeperProcess
from tests.support.real_zookeeper import RealZooKeeper

OURS, KAFKA_A, KAFKA_B = 1, 2, 3
EACH_LEADS = {0: [OURS, KAFKA_A, KAFKA_B], 1: [KAFKA_A, KAFKA_B, OURS], 2: [KAFKA_B, OURS, KAFKA_A]}
WAIT_SECONDS = 180.0
TOLD_LINES = 12
SESSION_SECONDS = 10.0
FOR_EVER = {"max_tries": -1}  # to connect, while members of an ensemble are replaced
# A JVM on a busy machine is silent for longer than our broker.
MIXED_CONFIG = {
    **{name: value for name, value in CONFIG.items() if "listener" not in name},
    "zookeeper.session.timeout.ms": "6000",
    "replica.lag.time.max.ms": "10000",
    "replica.socket.timeout.ms": "10000",
    "controller.socket.timeout.ms": "10000",
    "auto.leader.rebalance.enable": "false",
    "log.cleaner.enable": "false",
}

T = TypeVar("T")


class MixedCluster(Cluster):
    def __init__(
        self, directory: Path, zookeepers: Sequence[ZooKeeperServer], connect: str = ""
    ) -> None:
        """`connect`: of servers that the caller starts and kills; by default all of `zookeepers`,
        which the cluster starts."""
        self._connect = connect or ",".join(f"127.0.0.1:{server.port}" for server in zookeepers)
        super().__init__(directory, zookeepers)
        self._zookeeper = KazooClient(
            self._connect,
            timeout=SESSION_SECONDS,
            connection_retry=FOR_EVER,
            command_retry=FOR_EVER,
        )

    def _broker(self, node: int, _: str, config: Mapping[str, str]) -> BrokerProcess:
        kind = BrokerProcess if node == OURS else ApacheKafkaProcess
        place = self.directory / f"broker-{node}"
        return kind(place, self._connect, {**MIXED_CONFIG, **config}, node)

    def start_all(self) -> None:
        super().start_all()
        self._zookeeper.start(timeout=WAIT_SECONDS)
        self.all_agree_on_brokers()

    def close(self) -> None:
        self._zookeeper.stop()
        self._zookeeper.close()
        super().close()

    def wait_for(
        self, condition: Callable[[], T | None], what: str, seconds: float = WAIT_SECONDS
    ) -> T:
        """As patient as this cluster needs; a failure tells the state that was seen."""
        try:
            return super().wait_for(condition, what, max(seconds, WAIT_SECONDS))
        except AssertionError as error:
            said = [self._said_by(node) for node in self.serving]
            logged = [f"{node} logged: {self.nodes[node].log_text[-600:]}" for node in self.nodes]
            told = [f"{error}; {self.serving} serve", *self.story[-TOLD_LINES:], *said, *logged]
            raise AssertionError("\n".join(told)) from None

    def _said_by(self, node: int) -> str:
        """What a node says of the cluster, and of the group that reads under load."""
        find = FindCoordinatorRequest(key_type=0, coordinator_keys=[Books.GROUP])
        fetch = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=Books.GROUP, topics=None)]
        )
        try:
            seen = self.metadata(None, node)
            (coordinator,) = self.ask(node, find, 4).coordinators
            (group,) = self.ask(node, fetch, 8).groups
        except (OSError, AssertionError) as error:
            return f"{node} says nothing: {error!r}"
        partitions = [
            f"{topic.name}-{p.partition_index}: {p.leader_id} leads epoch {p.leader_epoch}, "
            f"{p.isr_nodes} of {p.replica_nodes} in sync, error {p.error_code}"
            for topic in seen.topics
            for p in topic.partitions
        ]
        brokers = sorted(broker.node_id for broker in seen.brokers)
        return (
            f"{node} says: controller {seen.controller_id}, brokers {brokers}, {partitions}; "
            f"coordinator of {Books.GROUP} {coordinator.node_id}, error {coordinator.error_code}; "
            f"its offsets: error {group.error_code}, {group.topics}"
        )

    # What is done to it

    def elect(self, node: int) -> None:
        """Make this node the controller: the others stand still while it is elected."""
        if self._elected() != node:
            others = [other for other in self.serving if other != node]
            for other in others:
                self.pause(other)
            try:
                self._zookeeper.delete("/controller")
                self.wait_for(lambda: self._elected() == node, f"{node} is elected")
            finally:
                for other in others:
                    self.resume(other)
        self._wait_for_all(
            lambda each: self.metadata("", each).controller_id == node,
            f"hears that {node} is the controller",
        )

    def _elected(self) -> int | None:
        try:
            node: int = json.loads(self._zookeeper.get("/controller")[0])["brokerid"]
        except NoNodeError:
            return None
        return node

    def kill_and_expire(self, node: int) -> None:
        """SIGKILL; returns once ZooKeeper has given the node up."""
        self.kill(node)
        path = f"/brokers/ids/{node}"
        self.wait_for(lambda: self._zookeeper.exists(path) is None, f"{path} is gone")

    # What all nodes say

    def _wait_for_all(self, holds: Callable[[int], bool], what: str) -> None:
        """Each node that serves comes to it."""
        for node in self.serving:
            self.wait_for(partial(holds, node), f"{node} {what}")

    def all_agree_on_brokers(self) -> None:
        """Each node that serves names exactly the nodes that serve."""

        def holds(node: int) -> bool:
            named = {broker.node_id for broker in self.metadata("", node).brokers}
            return named == set(self.serving)

        self._wait_for_all(holds, f"knows all of {self.serving}")

    def all_agree(self, topic: str, holds: Callable[[PartitionView], bool], what: str) -> None:
        """Each node that serves says so of every partition."""
        self._wait_for_all(
            lambda node: all(map(holds, self.partitions(topic, node).values())), f"says that {what}"
        )

    def all_agree_on_in_sync(self, topic: str) -> None:
        self.all_agree(
            topic,
            lambda view: view.leader in view.isr and view.isr == set(view.replicas),
            f"all replicas of {topic} are in sync",
        )

    def all_agree_on_loss(self, topic: str, dead: int) -> None:
        self.all_agree(
            topic,
            lambda view: view.leader in self.serving and dead not in view.isr,
            f"{topic} goes on without {dead}",
        )

    def all_agree_on_placement(self, topic: str, expected: Mapping[int, Sequence[int]]) -> None:
        """Each partition is on these nodes, and all of them are in sync."""
        in_sync = {p: (list(nodes), set(nodes)) for p, nodes in expected.items()}

        def holds(node: int) -> bool:
            views = self.partitions(topic, node).items()
            return {p: (list(view.replicas), set(view.isr)) for p, view in views} == in_sync

        self._wait_for_all(holds, f"says that {topic} is on {expected}")

    def all_know_partitions(self, topic: str, count: int) -> None:
        self._wait_for_all(
            lambda node: len(self.partitions(topic, node)) == count,
            f"knows {count} partitions of {topic}",
        )

    def all_agree_on_topics(
        self, *, present: Sequence[str] = (), absent: Sequence[str] = ()
    ) -> None:
        def holds(node: int) -> bool:
            names = {topic.name for topic in self.metadata(None, node).topics}
            return names.issuperset(present) and names.isdisjoint(absent)

        self._wait_for_all(holds, f"has {list(present)}, not {list(absent)}")


class Books(Ledger):
    """Of librdkafka's clients and ours: kafka-python's would take the machine from the JVMs."""

    GROUP = "reader"
    OUR_GROUP = "our-reader"

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self.topic = topic
        self.partitions = partitions
        self.producers = [
            ConfluentProducer(bootstrap, name, topic, partitions, idempotent=idempotent)
            for name, idempotent in (("once", True), ("at-least-once", False))
        ]
        self.producers.append(OurProducer(bootstrap, "ours", topic, partitions, idempotent=True))
        self.consumers = [
            ConfluentReader(bootstrap, self.GROUP, topic),
            OurReader(bootstrap, self.OUR_GROUP, topic),
        ]


class Load:
    """Producers and consumers at work, and what the test waits for meanwhile."""

    def __init__(self, cluster: MixedCluster, ledger: Books) -> None:
        self._cluster = cluster
        self._ledger = ledger

    def goes_on(self, records: int = 60) -> None:
        """Until every producer has more acknowledgements."""
        before = self._ledger.acknowledged
        self._cluster.wait_for(self._ledger.progress(records), f"more records after {before}")

    def is_committed(self) -> None:
        """Until the consumers have read, and committed what they read."""

        def all_have() -> bool:
            self._ledger.raise_crashes()
            return all(consumer.committed for consumer in self._ledger.consumers)

        self._cluster.wait_for(all_have, "the consumers have committed")


@contextmanager
def under_load(cluster: MixedCluster, topic: str) -> Iterator[Load]:
    """Load on a new topic that every node leads a partition of; audited at the end."""
    cluster.create_topic(topic, assignment=EACH_LEADS, config={"segment.bytes": "30000"})
    ledger = Books(cluster.bootstrap, topic, len(EACH_LEADS))
    observer = Observer(cluster, topic)
    ledger.start()
    observer.start()
    try:
        load = Load(cluster, ledger)
        load.goes_on()
        load.is_committed()
        yield load
        load.goes_on()
        broken = audit(cluster, ledger, observer)
    finally:
        ledger.abandon()
        observer.end()
    assert broken + ledger.errors == [], "\n".join(cluster.story)


@contextmanager
def mixed_cluster(directory: Path, zookeeper: str) -> Iterator[MixedCluster]:
    kafka_jars()
    place = directory / "zookeeper"
    server: ZooKeeperServer
    server = ZooKeeperProcess(place) if zookeeper == "embedded" else RealZooKeeper(place)
    started = MixedCluster(directory, [server])
    try:
        started.start_all()
        yield started
    finally:
        started.close()
