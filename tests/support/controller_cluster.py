"""Brokers with controller machines over a dictionary ZooKeeper, for scenario and property tests.

Everything is explicit: `settle()` delivers fired watches, timers are listed but never run by
themselves, and requests to brokers are recorded and, unless told otherwise, answered as good.
"""

import json
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pybroker_kafka.broker.zk.registration import ensure_top_level_paths, register_broker
from pybroker_kafka.protocol.apis.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
)
from pybroker_kafka.protocol.apis.stop_replica import StopReplicaPartitionError, StopReplicaResponse
from pybroker_kafka.protocol.apis.update_metadata import (
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from pybroker_kafka.protocol.features import NOTHING_SUPPORTED
from pybroker_kafka.protocol.topics import TopicPartition
from pybroker_kafka.protocol.zookeeper.operations import Create, Delete, SetData, ZkOperation
from pybroker_kafka.replication.controller import events, znodes
from pybroker_kafka.replication.controller.config import ControllerConfig
from pybroker_kafka.replication.controller.effects import (
    CloseChannel,
    ControlRequest,
    Effect,
    OpenChannel,
    Reply,
    Resigned,
    SendRequest,
    StartTimer,
)
from pybroker_kafka.replication.controller.kafka_controller import Controller
from pybroker_kafka.replication.controller.znodes import (
    BrokerRegistration,
    ReplicaAssignment,
    TopicAssignment,
)
from pybroker_kafka.replication.metadata_cache import Endpoint, MetadataCache, PartitionState
from tests.support.zookeeper_tree import ZooKeeperTree

NOW_MS = 1_730_000_000_000


class SimulatedBroker:
    """A broker that follows orders: keeps its metadata, and what it was told to hold."""

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.cache = MetadataCache(broker_id)
        self.replicas: dict[TopicPartition, LeaderAndIsrPartitionState] = {}
        self.leader_epochs: dict[TopicPartition, int] = {}
        # What a test may replace.
        self.answer: Callable[[Any], Any] = self.receive

    def receive(self, request: ControlRequest) -> object:
        if isinstance(request, UpdateMetadataRequest):
            self.cache.update(request)
            return UpdateMetadataResponse()
        if isinstance(request, LeaderAndIsrRequest):
            for led in request.topic_states:
                for state in led.partition_states:
                    partition = (led.topic_name, state.partition_index)
                    self.replicas[partition] = state
            return LeaderAndIsrResponse()
        errors = []
        for stopped in request.topic_states:
            for stop in stopped.partition_states:
                partition = (stopped.topic_name, stop.partition_index)
                if stop.delete_partition:
                    self.replicas.pop(partition, None)
                errors.append(
                    StopReplicaPartitionError(topic_name=partition[0], partition_index=partition[1])
                )
        return StopReplicaResponse(partition_errors=errors)


class ControllerCluster:
    def __init__(self, broker_ids: Iterable[int] = (), **config: Any) -> None:
        self.tree = ZooKeeperTree()
        self.tree.run(ensure_top_level_paths())
        self.config = config
        self.controllers: dict[int, Controller] = {}
        self.brokers: dict[int, SimulatedBroker] = {}
        self.sessions: dict[int, int] = {}
        self.next_session = 100
        self.next_topic_id = 1
        self.sent: list[tuple[int, ControlRequest]] = []
        self.replies: dict[object, Any] = {}
        self.timers: list[StartTimer] = []
        self.channels: set[int] = set()
        self.answering = True
        self.queue: deque[tuple[int, events.Event]] = deque()
        self.settling = False
        for broker_id in broker_ids:
            self.start(broker_id)

    # Brokers

    def start(
        self,
        broker_id: int,
        rack: str | None = None,
        *,
        controller: bool = True,
        features: Mapping[str, tuple[int, int]] = NOTHING_SUPPORTED,
    ) -> None:
        session = self.sessions[broker_id] = self.next_session
        self.next_session += 1
        self.brokers[broker_id] = SimulatedBroker(broker_id)
        endpoint = Endpoint("PLAINTEXT", "PLAINTEXT", "h", 9000 + broker_id)
        registration = BrokerRegistration(broker_id, (endpoint,), rack, features=features)
        self.tree.run(register_broker(registration, NOW_MS, session), session)
        self.settle()
        if controller:
            self.controllers[broker_id] = Controller(
                ControllerConfig(broker_id, **self.config), self._topic_id
            )
            self.process(broker_id, events.Startup())

    def kill(self, broker_id: int) -> None:
        """The process dies and its session expires."""
        session = self.sessions.pop(broker_id)
        self.controllers.pop(broker_id, None)
        del self.brokers[broker_id]
        self.tree.expire(session)
        self.settle()

    def _topic_id(self) -> bytes:
        self.next_topic_id += 1
        return self.next_topic_id.to_bytes(16, "big")

    # Events

    @property
    def active(self) -> Controller:
        (active,) = [c for c in self.controllers.values() if c.is_active]
        return active

    def process(self, broker_id: int, event: events.Event) -> None:
        """One event on one broker's controller, and all that follows from it, in order."""
        self.queue.append((broker_id, event))
        self.settle()

    def settle(self) -> None:
        if self.settling:
            return  # whoever settles already comes to it
        self.settling = True
        try:
            while self.queue or self.tree.fired:
                for watcher, kind, path in self.tree.take_fired():
                    assert isinstance(watcher, int)
                    change = events.NodeChanged if kind == "data" else events.ChildrenChanged
                    self.queue.append((watcher, change(path)))
                if self.queue:
                    self._process(*self.queue.popleft())
        finally:
            self.settling = False

    def _process(self, broker_id: int, event: events.Event) -> None:
        controller = self.controllers.get(broker_id)
        if controller is not None:
            session = self.sessions[broker_id]
            self.tree.run(controller.process(event, NOW_MS), session, broker_id)
            self._perform(broker_id, controller.take_effects())

    def _perform(self, broker_id: int, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, SendRequest):
                self.sent.append((effect.broker_id, effect.request))
                self._deliver(broker_id, effect)
            elif isinstance(effect, Reply):
                assert effect.token not in self.replies, "answered twice"
                self.replies[effect.token] = effect.response
            elif isinstance(effect, StartTimer):
                self.timers.append(effect)
            elif isinstance(effect, OpenChannel):
                self.channels.add(effect.broker.broker_id)
            elif isinstance(effect, CloseChannel):
                self.channels.discard(effect.broker_id)
            elif isinstance(effect, Resigned):
                self.channels.clear()

    def _deliver(self, controller_id: int, effect: SendRequest) -> None:
        broker = self.brokers.get(effect.broker_id)
        if broker is None or not self.answering:
            return
        response = broker.answer(effect.request)
        event = events.BrokerResponse(effect.broker_id, effect.request, response)
        self.queue.append((controller_id, event))

    def ask(self, event_type: Callable[..., events.RequestEvent], *args: object) -> Any:
        """A request event to the active controller; its answer."""
        token = object()
        (broker_id,) = [i for i, c in self.controllers.items() if c.is_active]
        self.process(broker_id, event_type(token, *args))
        return self.replies.pop(token)

    # Administration, as brokers write it

    def create_topic(
        self, topic: str, assignment: dict[int, list[int]], config: dict[str, str] | None = None
    ) -> None:
        partitions = {p: ReplicaAssignment(tuple(r)) for p, r in assignment.items()}
        data = znodes.encode_topic(TopicAssignment(self._topic_id(), partitions))
        self.write(
            Create(f"/config/topics/{topic}", znodes.encode_config(config or {})),
            Create(znodes.topic_path(topic), data),
        )

    def add_partitions(self, topic: str, added: dict[int, list[int]]) -> None:
        current = znodes.decode_topic(topic, self.tree.nodes[znodes.topic_path(topic)].data)
        partitions = dict(current.partitions)
        partitions.update({p: ReplicaAssignment(tuple(r)) for p, r in added.items()})
        data = znodes.encode_topic(TopicAssignment(current.topic_id, partitions))
        self.write(SetData(znodes.topic_path(topic), data))

    def delete_topic(self, topic: str) -> None:
        self.write(Create(znodes.delete_topic_path(topic)))

    def delete_controller_node(self) -> None:
        self.write(Delete(znodes.CONTROLLER))

    def write(self, *operations: ZkOperation) -> None:
        for result in self.tree.perform(operations):
            assert result.ok, result
        self.settle()

    # Looking

    def state(self, topic: str, partition: int = 0) -> znodes.LeaderAndIsr:
        node = self.tree.nodes[znodes.partition_state_path(topic, partition)]
        return znodes.decode_partition_state(node.data, node.version)

    def json(self, path: str) -> Any:
        return json.loads(self.tree.nodes[path].data or b"")

    def take_sent(self) -> list[str]:
        """What was sent since last asked, as readable lines."""
        lines = [f"{broker_id} <- {describe(request)}" for broker_id, request in self.sent]
        self.sent.clear()
        return lines


def state_seen_by(broker: SimulatedBroker, topic: str) -> PartitionState:
    """Partition 0 as the broker's metadata has it."""
    state = broker.cache.partition_state(topic, 0)
    assert state is not None
    return state


def describe(request: ControlRequest) -> str:
    if isinstance(request, UpdateMetadataRequest):
        parts = [
            f"{t.topic_name}-{s.partition_index}:{s.leader}/{s.isr}"
            for t in request.topic_states
            for s in t.partition_states
        ]
        alive = ",".join(str(broker.id) for broker in request.live_brokers)
        return " ".join(["UpdateMetadata", f"alive={alive}", *parts])
    if isinstance(request, LeaderAndIsrRequest):
        parts = [
            f"{t.topic_name}-{s.partition_index}:leader={s.leader} epoch={s.leader_epoch} "
            f"isr={s.isr}{' new' if s.is_new else ''}"
            for t in request.topic_states
            for s in t.partition_states
        ]
        return " ".join(["LeaderAndIsr", *parts])
    parts = [
        f"{t.topic_name}-{s.partition_index}:epoch={s.leader_epoch}"
        f"{' delete' if s.delete_partition else ''}"
        for t in request.topic_states
        for s in t.partition_states
    ]
    return " ".join(["StopReplica", *parts])
