"""The whole: brokers, ZooKeeper, clients, faults and the audit, driven by one seed.

A run creates a topic, lets producers and consumers work while things go wrong, then heals all and
demands that the cluster comes together again in bounded time: every replica in its ISR, all logs
alike, every producer through, every consumer at the end, one controller, and metadata that agrees
with ZooKeeper everywhere.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from pybroker_kafka.broker.zk.registration import ensure_top_level_paths
from pybroker_kafka.protocol.topics import TopicPartition
from pybroker_kafka.protocol.zookeeper.operations import Create
from pybroker_kafka.replication.controller import znodes
from pybroker_kafka.replication.controller.znodes import ReplicaAssignment, TopicAssignment
from tests.simulation.audit import Audit
from tests.simulation.broker import Broker
from tests.simulation.clients import Client, Consumer, Producer
from tests.simulation.faults import Faults
from tests.simulation.kernel import START_MS, Kernel, Process
from tests.simulation.network import Network
from tests.simulation.settings import Settings
from tests.simulation.virtual_trio import simulated
from tests.simulation.zookeeper import ZooKeeperServer, ZooKeeperSession

TOPIC = "t"
CALM_START_MS = 1_000
CONVERGENCE_LIMIT_MS = 60_000
CHECK_MS = 100


@dataclass(slots=True)
class Result:
    """What came of a seed."""

    seed: int
    digest: str
    steps: int
    virtual_ms: int
    batches: int
    settings: str
    error: str | None = None
    trace: tuple[str, ...] = ()


class Cluster:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.kernel = Kernel(seed)
        self.settings = self.new_settings(self.kernel.random)
        self.network = Network(self.kernel)
        self.zookeeper = ZooKeeperServer(self.kernel, self.network)
        self.keys = self.new_keys()
        self.topic_ids: dict[str, bytes] = {}
        self.cut_power: set[int] = set()
        self.brokers = {
            broker_id: self.new_broker(broker_id)
            for broker_id in range(1, self.settings.broker_count + 1)
        }
        self.by_process = {broker.process: broker for broker in self.brokers.values()}
        self.audit = Audit(self)
        self.kernel.after_step = self.audit.after_step
        self.faults = Faults(self)
        self.admin = ZooKeeperSession(
            self.kernel, self.network, self.zookeeper, Process("admin"), 4_000
        )
        self.producers: list[Producer] = []
        self.consumers: list[Consumer] = []
        self._has_converged = False
        self.reason = "it has not begun"

    def broker_named(self, name: str) -> Broker:
        return self.brokers[int(name[1:])]

    def new_topic_id(self) -> bytes:
        return self.kernel.random.randbytes(16)

    # What another kind of cluster has in another way

    def new_settings(self, random: Random) -> Settings:
        return Settings(random)

    def new_keys(self) -> list[TopicPartition]:
        return [(TOPIC, index) for index in range(self.settings.partition_count)]

    def new_broker(self, broker_id: int) -> Broker:
        return Broker(self, broker_id)

    def start_clients(self) -> None:
        random = self.kernel.random
        for number, key in enumerate(self.keys):
            for kind in range(2):
                producer_id = 1_000 + number if kind else -1
                name = f"producer{number}{'i' if kind else ''}"
                pause_ms = random.choice((40, 150, 300))
                self.producers.append(Producer(self, name, key, producer_id, pause_ms))
            self.consumers.append(Consumer(self, f"consumer{number}", key))
        clients: list[Client] = [*self.producers, *self.consumers]
        for client in clients:
            client.start()

    def stop_clients(self) -> None:
        for producer in self.producers:
            producer.is_stopping = True

    @property
    def writing_clients(self) -> Sequence[Any]:
        return self.producers

    def what_clients_miss(self) -> str:
        for consumer in self.consumers:
            end = self.audit.ledger(consumer.key).end
            if consumer.position != end and not self.settings.unclean_elections:
                return f"{consumer.name} is at {consumer.position} of {end}"
        return ""

    def check_clients(self) -> None:
        for producer in self.producers:
            if not self.settings.unclean_elections:
                self.audit.check_producer(
                    producer.name, producer.key, producer.acknowledged, producer.sent,
                    producer.is_idempotent,
                )  # fmt: skip

    # A run

    def run(self) -> None:
        kernel = self.kernel
        kernel.note(f"seed {self.seed}: {self.settings}")
        self.admin.start()
        self.admin.on_connected = self._set_up
        kernel.run_until(START_MS + CALM_START_MS)
        self.start_clients()
        self.faults.start()
        kernel.run_until(kernel.now_ms + self.settings.faults_ms)
        kernel.note("all faults end")
        self.faults.end()
        self.stop_clients()
        self._check_convergence()
        deadline_ms = kernel.now_ms + CONVERGENCE_LIMIT_MS
        if not kernel.run_until(deadline_ms, lambda: self._has_converged):
            self.audit.fail(f"no convergence in {CONVERGENCE_LIMIT_MS} ms: {self.reason}")
        self.check_clients()

    def _set_up(self) -> None:
        self.admin.on_connected = lambda: None
        self.admin.run(ensure_top_level_paths(), self._create_topic)

    def _create_topic(self, _outcome: Any) -> None:
        creations = [
            creation
            for topic in dict.fromkeys(topic for topic, _ in self.keys)
            for creation in self._creation_of(topic)
        ]
        self.admin.execute(creations, lambda _results: self._start_brokers())

    def _creation_of(self, topic: str) -> list[Create]:
        random, settings = self.kernel.random, self.settings
        topic_id = self.topic_ids[topic] = self.new_topic_id()
        assignment = TopicAssignment(
            topic_id,
            {
                index: ReplicaAssignment(
                    tuple(random.sample(list(self.brokers), settings.replication_factor))
                )
                for name, index in self.keys
                if name == topic
            },
        )
        config = {"min.insync.replicas": str(settings.min_insync_replicas)}
        if settings.unclean_elections:
            config["unclean.leader.election.enable"] = "true"
        return [
            Create(f"/config/topics/{topic}", znodes.encode_config(config)),
            Create(znodes.topic_path(topic), znodes.encode_topic(assignment)),
        ]

    def assignment_of(self, key: TopicPartition) -> ReplicaAssignment:
        """As ZooKeeper has it."""
        node = self.zookeeper.machine.tree.get(znodes.topic_path(key[0]))
        assert node is not None
        return znodes.decode_topic(key[0], node.data).partitions[key[1]]

    def call_as_admin(self, broker: Broker, message: Any, version: int) -> None:
        """Ask a broker for something; whether it is answered does not matter."""
        self.network.call(
            self.admin.process, broker.name, broker, message, version, lambda _answer: None, 4_000
        )

    def _start_brokers(self) -> None:
        for broker in self.brokers.values():
            self.kernel.after(self.kernel.random.randint(0, 50), None, broker.start)

    # The end

    def _check_convergence(self) -> None:
        self.reason = self._what_is_missing()
        self._has_converged = not self.reason
        self.kernel.after(CHECK_MS, None, self._check_convergence)

    def _what_is_missing(self) -> str:
        for broker in self.brokers.values():
            if not broker.is_serving or not broker.session.is_connected:
                return f"{broker.name} is not registered"
        active = [b for b in self.brokers.values() if b.controller.machine.is_active]
        if len(active) != 1:
            return f"there are {len(active)} controllers"
        # Before the logs: those of coordinators move on as long as somebody asks again.
        for client in self.writing_clients:
            if not client.is_idle:
                return f"{client.name} is not through"
        for key in self.keys:
            missing = self._what_partition_misses(key)
            if missing:
                return f"{key[0]}-{key[1]}: {missing}"
        return self.what_clients_miss()

    def _what_partition_misses(self, key: TopicPartition) -> str:
        state = self.audit.ledger(key).state
        assignment = self.assignment_of(key)
        if assignment.is_being_reassigned:
            return f"it is being reassigned: {assignment}"
        replicas = assignment.replicas
        if state is None or state.leader < 0:
            return "no leader"
        if set(state.isr) != set(replicas):
            return f"the ISR {state.isr} is not {replicas}"
        leader = self.brokers[state.leader].manager.partitions.get(key)
        if leader is None or not leader.is_leader or leader.leader_epoch != state.leader_epoch:
            return f"b{state.leader} does not lead"
        for broker_id in replicas:
            partition = self.brokers[broker_id].manager.partitions.get(key)
            if partition is None or partition.leader_epoch != state.leader_epoch:
                return f"b{broker_id} is in another epoch"
            log = partition.log
            if not log.log_end_offset == log.high_watermark == leader.log.log_end_offset:
                return f"b{broker_id} has {log}, the leader {leader.log}"
            batches = self.audit.replica(broker_id, key).batches
            if batches != self.audit.replica(state.leader, key).batches:
                return f"b{broker_id} has other batches than the leader"
        for broker in self.brokers.values():
            seen = broker.manager.metadata.partition_state(*key)
            known = None if seen is None else (seen.leader, seen.leader_epoch, set(seen.isr))
            if known != (state.leader, state.leader_epoch, set(state.isr)):
                return f"the metadata of {broker.name} says {known}"
        return ""


def simulate(seed: int) -> Result:
    """Run one seed to its end; whatever it found is in the result."""
    return run_cluster(Cluster(seed))


def run_cluster(cluster: Cluster) -> Result:
    kernel = cluster.kernel
    error: str | None = None
    try:
        with simulated(kernel, cluster.seed):
            cluster.run()
    except AssertionError as failure:
        error = f"{type(failure).__name__}: {failure}"
    result = Result(
        cluster.seed, kernel.digest, kernel.steps, kernel.now_ms - START_MS,
        cluster.audit.acknowledged_batches, str(cluster.settings), error,
    )  # fmt: skip
    if error is not None:
        result.trace = tuple(kernel.trace)
    return result
