"""Controllers, brokers and ZooKeeper in an arbitrary order of small steps.

Unlike `ControllerCluster`, nothing runs to its end by itself: a controller's flow can be stopped
between any two of its ZooKeeper round trips while other controllers, brokers and administrators
act; requests and responses are under way for as long as the schedule likes. Only what the real
world orders is ordered: events of one controller, requests of one channel.

Every write to a partition's state is checked against the rules of the game; `settle` lets
everything that is under way finish, after which `check_converged` looks at the whole.
"""

from collections import deque
from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from pybroker_kafka.broker.zk.registration import ensure_top_level_paths, register_broker
from pybroker_kafka.protocol.apis.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
)
from pybroker_kafka.protocol.apis.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from pybroker_kafka.protocol.apis.controlled_shutdown import ControlledShutdownRequest
from pybroker_kafka.protocol.apis.leader_and_isr import LeaderAndIsrPartitionState
from pybroker_kafka.protocol.topics import TopicPartition
from pybroker_kafka.protocol.zookeeper.operations import (
    Create,
    Delete,
    Exists,
    Flow,
    SessionExpired,
    SetData,
    ZkOperation,
)
from pybroker_kafka.replication.controller import events, znodes
from pybroker_kafka.replication.controller.config import ControllerConfig
from pybroker_kafka.replication.controller.context import NO_LEADER, ControllerContext
from pybroker_kafka.replication.controller.effects import (
    CloseChannel,
    ControlRequest,
    OpenChannel,
    Reply,
    Resigned,
    SendRequest,
)
from pybroker_kafka.replication.controller.kafka_controller import Controller
from pybroker_kafka.replication.controller.znodes import (
    BrokerRegistration,
    LeaderAndIsr,
    ReplicaAssignment,
    TopicAssignment,
)
from pybroker_kafka.replication.metadata_cache import Endpoint
from tests.support.controller_cluster import NOW_MS, SimulatedBroker
from tests.support.zookeeper_tree import ZooKeeperTree

MAX_STEPS_TO_SETTLE = 200_000


class Node:
    """One broker process: its controller machine, what it does now, and its channels."""

    def __init__(self, broker_id: int, session: int, controller: Controller) -> None:
        self.broker_id = broker_id
        self.session = session
        self.session_alive = True
        self.controller = controller
        self.events: deque[events.Event] = deque([events.Startup()])
        self.flow: Flow[None] | None = None
        self.operations: Sequence[ZkOperation] = ()
        # What this node, as controller, has under way to each broker, with the epoch it is for.
        self.channels: dict[int, deque[ControlRequest]] = {}
        self.channel_epochs: dict[int, int] = {}


class Step(NamedTuple):
    """What a node does next: as a controller, or with the first request for one broker."""

    node: Node
    channel: int | None = None


class FencedBroker(SimulatedBroker):
    """Takes nothing of an older controller, and nothing that was meant for its former life."""

    def __init__(self, broker_id: int, epoch: int) -> None:
        super().__init__(broker_id)
        self.epoch = epoch
        self.controller_epoch = 0

    def receive(self, request: ControlRequest) -> object:
        if request.broker_epoch < self.epoch or request.controller_epoch < self.controller_epoch:
            return None
        self.controller_epoch = request.controller_epoch
        return super().receive(request)


class Simulation:
    def __init__(self, random: Random, broker_count: int = 3, *, unclean: bool = False) -> None:
        self.random = random
        self.unclean = unclean
        self.tree = ZooKeeperTree()
        self.tree.run(ensure_top_level_paths())
        self.tree.on_write = self._check_write
        self.nodes: dict[int, Node] = {}
        self.brokers: dict[int, FencedBroker] = {}
        self.next_session = 100
        self.next_topic = 0
        self.broker_ids = list(range(1, broker_count + 1))
        self.states: dict[TopicPartition, LeaderAndIsr] = {}
        self.leaders: dict[tuple[TopicPartition, int, int], int] = {}
        self.controller_epoch = 0
        self.trace: list[str] = []
        self.illegal_transitions = 0
        self.written_by_leader = False

    # Rules that hold at every write

    def _check_write(self, path: str, data: bytes | None) -> None:
        if path == znodes.CONTROLLER_EPOCH:
            epoch = int(data or b"")
            assert epoch >= self.controller_epoch, "the controller epoch went back"
            self.controller_epoch = epoch
        if not path.endswith("/state") or not path.startswith(znodes.TOPICS):
            return
        _, _, _, topic, _, index, _ = path.split("/")
        partition = (topic, int(index))
        node = self.tree.nodes[path]
        new = znodes.decode_partition_state(data, node.version)
        stored = znodes.decode_topic(topic, self.tree.nodes[znodes.topic_path(topic)].data)
        replicas = stored.partitions[partition[1]].replicas
        assert new.isr, "the ISR is empty"
        old = self.states.get(partition)
        # A leader that writes states itself learns a little late that a replica was dropped.
        strangers = set(new.isr) - set(replicas) - set(old.isr if old else ())
        assert self.written_by_leader or not strangers, "a stranger in the ISR"
        assert new.leader == -1 or new.leader in new.isr, "the leader is not in the ISR"
        assert self.written_by_leader or new.controller_epoch == self.controller_epoch, (
            "a replaced controller wrote"
        )
        key = (partition, node.czxid, new.leader_epoch)
        if new.leader != -1:
            assert self.leaders.setdefault(key, new.leader) == new.leader, "two leaders an epoch"
        if old is not None and node.version > 0:
            assert new.leader_epoch >= old.leader_epoch, "the leader epoch went back"
            if new.leader_epoch == old.leader_epoch:
                assert new.leader == old.leader
            elif not self.unclean:
                assert set(new.isr) <= set(old.isr), "an election added to the ISR"
                assert new.leader in (-1, *old.isr), "an unclean election"
        self.states[partition] = new

    # Actors

    def start_broker(self, broker_id: int) -> None:
        session, self.next_session = self.next_session, self.next_session + 1
        endpoint = Endpoint("PLAINTEXT", "PLAINTEXT", "h", 9000 + broker_id)
        registration = BrokerRegistration(broker_id, (endpoint,))
        epoch = self.tree.run(register_broker(registration, NOW_MS, session), session)
        self.brokers[broker_id] = FencedBroker(broker_id, epoch)
        config = ControllerConfig(broker_id, unclean_leader_election_enable=self.unclean)
        self.nodes[broker_id] = Node(broker_id, session, Controller(config, self._topic_id))
        self.trace.append(f"start {broker_id}")

    def kill_broker(self, broker_id: int) -> None:
        node = self.nodes.pop(broker_id)
        self.illegal_transitions += node.controller.illegal_transitions
        del self.brokers[broker_id]
        self.tree.expire(node.session)
        self.trace.append(f"kill {broker_id}")

    def expire_session(self, broker_id: int) -> None:
        """The process lives and will notice; until then it believes what it believes."""
        node = self.nodes[broker_id]
        self.tree.expire(node.session)
        node.session_alive = False
        self.trace.append(f"expire {broker_id}")

    def _topic_id(self) -> bytes:
        return self.random.randbytes(16)

    def create_topic(self) -> None:
        topic = f"t{self.next_topic}"
        self.next_topic += 1
        factor = self.random.randint(1, len(self.broker_ids))
        partitions = {
            index: ReplicaAssignment(tuple(self.random.sample(self.broker_ids, factor)))
            for index in range(self.random.randint(1, 3))
        }
        data = znodes.encode_topic(TopicAssignment(self._topic_id(), partitions))
        self.tree.perform([Create(znodes.topic_path(topic), data)])
        self.trace.append(f"create {topic} {[p.replicas for p in partitions.values()]}")

    def topics(self) -> list[str]:
        return list(self.tree.children(znodes.TOPICS))

    def grow_topic(self, topic: str) -> None:
        path = znodes.topic_path(topic)
        current = znodes.decode_topic(topic, self.tree.nodes[path].data)
        factor = len(current.partitions[0].replicas)
        partitions = dict(current.partitions)
        replicas = tuple(self.random.sample(self.broker_ids, factor))
        partitions[len(partitions)] = ReplicaAssignment(replicas)
        data = znodes.encode_topic(TopicAssignment(current.topic_id, partitions))
        self.tree.perform([SetData(path, data)])
        self.trace.append(f"grow {topic}")

    def reassign(self, topic: str) -> None:
        """Some partitions move, by the API or by the legacy znode; or what moves is cancelled."""
        stored = self._stored(topic)
        targets = {
            index: self.random.sample(self.broker_ids, self.random.randint(1, len(self.broker_ids)))
            for index in stored.partitions
            if self.random.random() < 0.7
        }
        self.trace.append(f"reassign {topic} {targets}")
        if self.random.random() < 0.3:
            data = znodes.encode_reassignment({(topic, i): ids for i, ids in targets.items()})
            self.tree.perform([Create(znodes.REASSIGN_PARTITIONS, data)])
            return
        asked = [
            ReassignablePartition(
                partition_index=index, replicas=ids if self.random.random() < 0.8 else None
            )
            for index, ids in targets.items()
        ]
        request = AlterPartitionReassignmentsRequest(
            topics=[ReassignableTopic(name=topic, partitions=asked)]
        )
        for node in self.nodes.values():
            if node.controller.is_active:
                node.events.append(events.AlterPartitionReassignments(object(), request))

    def catch_up(self) -> None:
        """Every leader takes all live replicas into its ISR: reassignments come to their ends."""
        for broker in self.brokers.values():
            for partition, state in broker.replicas.items():
                isr = [r for r in state.replicas if r in self.brokers]
                if state.leader == broker.broker_id and set(isr) != set(state.isr):
                    self._ask_for_isr(broker, partition, state, isr)

    def delete_topic(self, topic: str) -> None:
        self.tree.perform([Create(znodes.delete_topic_path(topic))])
        self.trace.append(f"delete {topic}")

    def move_controller(self) -> None:
        self.tree.perform([Delete(znodes.CONTROLLER)])
        self.trace.append("move controller")

    def change_isr(self) -> None:
        """A leader changes its ISR: asks the controller, or writes it itself as old brokers do."""
        led = [
            (broker, partition, state)
            for broker in self.brokers.values()
            for partition, state in broker.replicas.items()
            if state.leader == broker.broker_id and self.nodes[broker.broker_id].session_alive
        ]
        if not led:
            return
        broker, partition, state = self.random.choice(led)
        others = [r for r in state.replicas if r in self.brokers and r != broker.broker_id]
        isr = [broker.broker_id, *self.random.sample(others, self.random.randint(0, len(others)))]
        self.trace.append(f"isr {partition} {isr}")
        if self.random.random() < 0.5:
            self._write_isr(partition, state, isr)
        else:
            self._ask_for_isr(broker, partition, state, isr)

    def _ask_for_isr(
        self,
        broker: FencedBroker,
        partition: TopicPartition,
        state: LeaderAndIsrPartitionState,
        isr: list[int],
    ) -> None:
        asked = AlterPartitionRequestPartitionData(
            partition_index=partition[1],
            leader_epoch=state.leader_epoch,
            partition_epoch=state.partition_epoch,
            new_isr=isr,
        )
        topic = AlterPartitionRequestTopicData(topic_name=partition[0], partitions=[asked])
        request = AlterPartitionRequest(
            broker_id=broker.broker_id, broker_epoch=broker.epoch, topics=[topic]
        )
        for node in self.nodes.values():
            if node.controller.is_active:
                node.events.append(events.AlterPartition(object(), request, 1))

    def _write_isr(
        self, partition: TopicPartition, state: LeaderAndIsrPartitionState, isr: list[int]
    ) -> None:
        path = znodes.partition_state_path(*partition)
        new = LeaderAndIsr(state.leader, state.leader_epoch, tuple(isr), 0, state.controller_epoch)
        change = b'{"version":1,"partitions":[{"topic":"%s","partition":%d}]}' % (
            partition[0].encode(),
            partition[1],
        )
        self.written_by_leader = True
        data = znodes.encode_partition_state(new)
        (written,) = self.tree.perform([SetData(path, data, state.partition_epoch)])
        self.written_by_leader = False
        if written.ok:
            state.partition_epoch = written.version
            self.tree.perform(
                [Create(f"{znodes.ISR_CHANGES}/isr_change_", change, sequential=True)]
            )

    def elect(self) -> None:
        """An administrator, or the clock, wants leaders elected."""
        unclean = self.unclean and self.random.random() < 0.5
        choices: list[events.Event] = [
            events.ElectLeaders(object(), None, unclean),
            events.AutoRebalance(),
            events.UncleanElectionEnabled(None) if self.unclean else events.AutoRebalance(),
        ]
        event = self.random.choice(choices)
        for node in self.nodes.values():
            if node.controller.is_active:
                node.events.append(event)
        self.trace.append(f"{event}")

    def shut_down(self, broker_id: int) -> None:
        """A controlled shutdown is asked of whoever is, or was, the controller."""
        request = ControlledShutdownRequest(broker_id=broker_id, broker_epoch=-1)
        for node in self.nodes.values():
            if node.controller.is_active:
                node.events.append(events.ControlledShutdown(object(), request))
        self.trace.append(f"controlled shutdown {broker_id}")

    # Steps

    def steps(self) -> list[Step]:
        """Everything that could happen next by itself."""
        self._route_watches()
        found: list[Step] = []
        for node in self.nodes.values():
            if not node.session_alive or node.flow is not None or node.events:
                found.append(Step(node))
            found += [
                Step(node, broker_id)
                for broker_id, queue in node.channels.items()
                if queue and broker_id in self.brokers
            ]
        return found

    def step(self, step: Step) -> None:
        if step.channel is None:
            self._step_controller(step.node)
        else:
            self._step_channel(step.node, step.channel)

    def _route_watches(self) -> None:
        for watcher, kind, path in self.tree.take_fired():
            broker_id, session = watcher if isinstance(watcher, tuple) else (None, None)
            node = self.nodes.get(broker_id)
            if node is not None and node.session == session and node.session_alive:
                change = events.NodeChanged if kind == "data" else events.ChildrenChanged
                node.events.append(change(path))

    def _step_controller(self, node: Node) -> None:
        """One round trip to ZooKeeper, or the start of the next event."""
        try:
            if not node.session_alive:
                self._notice_expiry(node)
            elif node.flow is None:
                node.flow = node.controller.process(node.events.popleft(), NOW_MS)
                node.operations = next(node.flow)
            else:
                watcher = (node.broker_id, node.session)
                results = self.tree.perform(node.operations, node.session, watcher)
                node.operations = node.flow.send(results)
        except StopIteration:
            node.flow = None
        self._perform(node)

    def _notice_expiry(self, node: Node) -> None:
        flow, node.flow = node.flow, None
        if flow is not None:
            try:
                flow.throw(SessionExpired())
            except StopIteration:
                pass
            else:
                raise AssertionError("a flow went on without a session")
            self._perform(node)
        node.events.clear()
        for _ in node.controller.process(events.SessionLost(), NOW_MS):
            raise AssertionError("a lost session needs no ZooKeeper")
        broker_id = node.broker_id
        node.session, self.next_session = self.next_session, self.next_session + 1
        node.session_alive = True
        endpoint = Endpoint("PLAINTEXT", "PLAINTEXT", "h", 9000 + broker_id)
        registration = BrokerRegistration(broker_id, (endpoint,))
        epoch = self.tree.run(register_broker(registration, NOW_MS, node.session), node.session)
        self.brokers[broker_id].epoch = epoch
        node.events.append(events.Startup())

    def _perform(self, node: Node) -> None:
        for effect in node.controller.take_effects():
            if isinstance(effect, OpenChannel):
                node.channels.setdefault(effect.broker.broker_id, deque())
            elif isinstance(effect, CloseChannel):
                node.channels.pop(effect.broker_id, None)
            elif isinstance(effect, Resigned):
                node.channels.clear()
            elif isinstance(effect, SendRequest):
                node.channels[effect.broker_id].append(effect.request)
            else:
                assert isinstance(effect, Reply) or type(effect).__name__ == "StartTimer"

    def _step_channel(self, node: Node, broker_id: int) -> None:
        request = node.channels[broker_id].popleft()
        response = self.brokers[broker_id].receive(request)
        if response is not None:
            node.events.append(events.BrokerResponse(broker_id, request, response))

    # The end

    def settle(self) -> None:
        for _ in range(MAX_STEPS_TO_SETTLE):
            steps = self.steps()
            if not steps:
                return
            self.step(self.random.choice(steps))
        raise AssertionError("it never settles")

    def check_converged(self) -> None:
        """With nothing under way: one controller, and everyone agrees with ZooKeeper."""
        active = [n for n in self.nodes.values() if n.controller.is_active]
        if not self.nodes:
            return
        (controller,) = active
        context = controller.controller.context
        assert set(context.brokers) == set(self.brokers)
        stored = {topic: self._stored(topic) for topic in self.topics()}
        assert set(context.topics) == set(stored)
        deleting = set(self.tree.children(znodes.DELETE_TOPICS))
        for topic, assignment in stored.items():
            for index, replicas in assignment.partitions.items():
                alive = [r for r in replicas.replicas if context.is_live(r)]
                if topic in deleting:
                    everyone = {r for a in assignment.partitions.values() for r in a.replicas}
                    moving = any(a.is_being_reassigned for a in assignment.partitions.values())
                    gone = not moving and all(map(context.is_live, everyone))
                    assert not gone, f"{topic} should be gone"
                else:
                    self._check_partition((topic, index), alive)
                self._check_reassignment((topic, index), replicas, context)
        for broker in self.brokers.values():
            known = set(broker.cache.topics())
            # A deletion that waits for a dead broker since the last election is not announced yet.
            assert known <= set(stored), "a deleted topic is still known"
            assert broker.cache.controller_id == controller.broker_id
            assert set(broker.cache.alive_brokers()) == set(self.brokers)

    def _check_reassignment(
        self, partition: TopicPartition, stored: ReplicaAssignment, context: ControllerContext
    ) -> None:
        assert context.assignment(partition) == stored
        moving = partition in context.partitions_being_reassigned
        assert moving == stored.is_being_reassigned, f"{partition}: {stored}"
        state = self.tree.nodes.get(znodes.partition_state_path(*partition))
        if state is None:
            return
        found = znodes.decode_partition_state(state.data, state.version)
        isr = set(found.isr)
        # The last member stays when it goes, as in Kafka's ReplicaStateMachine; nothing leads then.
        is_last = len(isr) == 1 and found.leader == NO_LEADER
        assert is_last or isr <= set(stored.replicas), f"a stranger in the ISR {isr} of {partition}"
        target = stored.target_replicas
        done = set(target) <= isr and any(map(context.is_live, target))
        assert not (moving and done), f"{partition} has everything that it needs: {stored}, {isr}"

    def _stored(self, topic: str) -> TopicAssignment:
        return znodes.decode_topic(topic, self.tree.nodes[znodes.topic_path(topic)].data)

    def _check_partition(self, partition: TopicPartition, alive: list[int]) -> None:
        path = znodes.partition_state_path(*partition)
        (exists,) = self.tree.perform([Exists(path)])
        if not exists.ok:
            assert not alive, f"{partition} could have a leader"
            return
        node = self.tree.nodes[path]
        state = znodes.decode_partition_state(node.data, node.version)
        in_sync = [r for r in state.isr if r in alive]
        # A broker that shuts down leads until it is gone.
        served = not in_sync or state.leader in self.brokers
        assert served, f"{partition} could have a leader: {state}"
        for broker_id, broker in self.brokers.items():
            seen = broker.cache.partition_state(*partition)
            assert seen is not None, f"broker {broker_id} does not know {partition}"
            assert (seen.leader, seen.leader_epoch, seen.isr) == (
                state.leader,
                state.leader_epoch,
                state.isr,
            ), f"broker {broker_id} has {seen}, ZooKeeper {state}"
            if broker_id in alive and partition in broker.replicas:
                assert broker.replicas[partition].leader_epoch == state.leader_epoch
