"""The cluster controller as a state machine over ZooKeeper.

Job: every broker runs one. It watches /controller, tries to become the controller when there is
none, and as controller turns events into znode writes and requests to brokers.

`process(event, wall_ms)` is a flow: it yields ZooKeeper operations and receives their results. The
runtime runs one flow at a time to its end and performs `take_effects()` after each step.

Invariants:
- Only the holder of /controller acts; every write is fenced by the version of /controller_epoch
  that it saw when elected. A failed fence means that another broker is the controller: resign.
- Memory changes only after ZooKeeper has taken the write.
- Each request event is answered exactly once, also when the controller moves in the middle.

Mirrors kafka.controller.KafkaController. Leaves out delegation tokens and KRaft migration.
"""

import logging
from collections.abc import Callable
from contextlib import suppress

from ...protocol.apis.allocate_producer_ids import AllocateProducerIdsResponse
from ...protocol.apis.alter_partition import AlterPartitionResponse
from ...protocol.apis.alter_partition_reassignments import AlterPartitionReassignmentsResponse
from ...protocol.apis.controlled_shutdown import ControlledShutdownResponse, RemainingPartition
from ...protocol.apis.leader_and_isr import LeaderAndIsrResponse
from ...protocol.apis.list_partition_reassignments import ListPartitionReassignmentsResponse
from ...protocol.apis.stop_replica import StopReplicaResponse
from ...protocol.apis.update_features import UpdateFeaturesResponse
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.zookeeper.constants import ZkCode
from ...protocol.zookeeper.operations import (
    Create,
    Delete,
    Exists,
    Flow,
    GetData,
    Multi,
    SessionExpired,
    SetData,
    ZkError,
    expect,
    run_one,
)
from . import events, features, replica_states, znodes
from .brokers import UNKNOWN_BROKER_EPOCH, BrokerChanges, read_live_brokers
from .config import ControllerConfig
from .context import ControllerContext, Replica
from .effects import (
    Effect,
    OpenChannel,
    Reply,
    Resigned,
    StartTimer,
)
from .leadership import ControllerMoved, fenced_writes, refresh_leadership
from .partition_states import PartitionStateMachine
from .parts import ControllerParts
from .reassignment import Reassignments
from .reassignment_requests import answer_alter, answer_list
from .requests import ControllerRequests, ElectionResult
from .topics import TopicChanges, read_assignments, read_topic_names

logger = logging.getLogger("pybroker.replication.controller.kafka_controller")

NO_CONTROLLER = -1
FIRST_REBALANCE_DELAY_MS = 5_000
ELECTION_RETRY_DELAY_MS = 1_000


class Controller:
    def __init__(self, config: ControllerConfig, new_topic_id: Callable[[], bytes]) -> None:
        self._config = config
        self._parts = ControllerParts(config)
        self._reassignments = Reassignments(self._parts)
        self._brokers = BrokerChanges(self._parts, self._reassignments)
        self._topics = TopicChanges(self._parts, new_topic_id)
        self._requests = ControllerRequests(self._parts)
        self.active_controller_id = NO_CONTROLLER
        self._active = False
        self._sits_out = False  # after a failed take-over or a lost session, until Startup
        self._wall_ms = 0

    @property
    def is_active(self) -> bool:
        """This broker is the controller, as far as it knows."""
        return self._active

    @property
    def context(self) -> ControllerContext:
        return self._parts.context

    @property
    def partitions(self) -> PartitionStateMachine:
        """The partition states, for their counters."""
        return self._parts.partitions

    @property
    def illegal_transitions(self) -> int:
        """State changes that were asked for and refused: a sign of a broken invariant."""
        return self._parts.partitions.illegal_transitions + self._parts.replicas.illegal_transitions

    def take_effects(self) -> list[Effect]:
        effects = self._parts.effects[:]
        self._parts.effects.clear()  # in place: all parts share this list
        return effects

    # Events

    def process(self, event: events.Event, wall_ms: int) -> Flow[None]:
        self._wall_ms = wall_ms
        try:
            yield from self._handle(event)
        except ControllerMoved:
            logger.info("broker %d is not the controller any more", self._config.broker_id)
            self._resign()
            with suppress(SessionExpired):
                yield from self._read_controller()
        except SessionExpired:
            self._resign()
        except (ZkError, znodes.MalformedZnode):
            logger.exception("controller event %s failed", type(event).__name__)
            self._parts.send_batch()

    def _handle(self, event: events.Event) -> Flow[None]:
        if isinstance(event, events.Startup):
            self._sits_out = False
            yield from self._elect()
        elif isinstance(event, events.SessionLost):
            self._sits_out = True  # until it is registered again
            self._resign()
        elif isinstance(event, events.NodeChanged) and event.path == znodes.CONTROLLER:
            yield from self._on_controller_change()
        elif isinstance(event, events.RequestEvent):
            yield from self._answer(event)
        elif self._active:
            yield from self._handle_active(event)
        if self._active and self.context.partitions_being_reassigned:
            yield from self._reassignments.complete()

    def _handle_active(self, event: events.Event) -> Flow[None]:
        if isinstance(event, events.ChildrenChanged):
            yield from self._on_children_changed(event.path)
        elif isinstance(event, events.NodeChanged):
            yield from self._on_node_changed(event.path)
        elif isinstance(event, events.BrokerResponse):
            yield from self._on_response(event)
        elif isinstance(event, events.UncleanElectionEnabled):
            yield from self._parts.partitions.elect_offline_and_new(event.topic)
        elif isinstance(event, events.AutoRebalance):
            self._schedule_rebalance(self._config.leader_imbalance_check_interval_ms)
            yield from self._requests.rebalance_leaders()

    def _on_children_changed(self, path: str) -> Flow[None]:
        if path == znodes.BROKER_IDS:
            yield from self._brokers.process_change()
        elif path == znodes.TOPICS:
            yield from self._topics.process_change()
        elif path == znodes.DELETE_TOPICS:
            yield from self._topics.process_deletion()
        elif path == znodes.ISR_CHANGES:
            yield from self._topics.process_isr_changes()
        elif path == znodes.LOG_DIR_EVENTS:
            yield from self._brokers.process_log_dir_events()

    def _on_node_changed(self, path: str) -> Flow[None]:
        parent, _, name = path.rpartition("/")
        if parent == znodes.BROKER_IDS and name.isdecimal():
            yield from self._brokers.process_modification(int(name))
        elif parent == znodes.TOPICS:
            yield from self._topics.process_modification(name)
        elif path == znodes.PREFERRED_ELECTION:
            yield from self._elect_preferred_by_znode()
        elif path == znodes.REASSIGN_PARTITIONS:
            yield from self._reassignments.process_requests()

    def _on_response(self, event: events.BrokerResponse) -> Flow[None]:
        """An answer to a request for an earlier epoch of its broker comes too late: the broker has
        bounced, what that request asked for was asked again, and a refusal says nothing of the new
        request. Kafka takes the refusal, and the topic's deletion waits for the next bounce."""
        epoch = getattr(event.request, "broker_epoch", UNKNOWN_BROKER_EPOCH)
        broker = self.context.brokers.get(event.broker_id)
        if broker is not None and UNKNOWN_BROKER_EPOCH != epoch < broker.epoch:
            return
        response = event.response
        if isinstance(response, LeaderAndIsrResponse):
            yield from self._brokers.process_leader_and_isr_response(event.broker_id, response)
        elif isinstance(response, StopReplicaResponse):
            yield from self._on_stop_replica_response(event, response)
        elif getattr(response, "error_code", 0) != ErrorCode.NONE:
            logger.error("broker %d refused UpdateMetadata: %r", event.broker_id, response)

    def _on_stop_replica_response(
        self, event: events.BrokerResponse, response: StopReplicaResponse
    ) -> Flow[None]:
        """Only the deletion of topics and of removed replicas cares how StopReplica went."""
        deleting = {
            (topic.topic_name, state.partition_index)
            for topic in getattr(event.request, "topic_states", ())
            for state in topic.partition_states
            if state.delete_partition
        }
        errors = {
            (e.topic_name, e.partition_index): e.error_code for e in response.partition_errors
        }
        failed: list[Replica] = []
        done: list[Replica] = []
        for partition in sorted(deleting):
            error = response.error_code or errors.get(partition, ErrorCode.NONE)
            replica = Replica(*partition, event.broker_id)
            if not error:
                done.append(replica)
            elif self.context.replica_state(replica) is replica_states.DELETION_STARTED:
                failed.append(replica)
        self._reassignments.confirm_deletion(event.broker_id, (r.topic_partition for r in done))
        yield from self._parts.deletion.fail_replicas(failed)
        yield from self._parts.deletion.complete_replicas(done)

    # Requests

    def _answer(self, event: events.RequestEvent) -> Flow[None]:
        response: object = None
        try:
            if not self._active:
                response = _no_controller(event)
            else:
                response = yield from self._respond(event)
        except (ControllerMoved, SessionExpired):
            response = _no_controller(event)
            raise
        except KafkaError as error:
            response = _refusal(event, error.code)
        finally:
            answer = response or _refusal(event, ErrorCode.UNKNOWN_SERVER_ERROR)
            self._parts.effects.append(Reply(event.token, answer))

    def _respond(self, event: events.RequestEvent) -> Flow[object]:
        requests = self._requests
        if isinstance(event, events.AlterPartition):
            return (yield from requests.alter_partition(event.request, event.api_version))
        if isinstance(event, events.ControlledShutdown):
            return (yield from self._shut_down(event))
        if isinstance(event, events.AllocateProducerIds):
            return (yield from requests.allocate_producer_ids(event.request))
        if isinstance(event, events.ElectLeaders):
            return (yield from requests.elect_leaders(event.partitions, unclean=event.unclean))
        if isinstance(event, events.AlterPartitionReassignments):
            return (yield from answer_alter(self._reassignments, event.request))
        if isinstance(event, events.ListPartitionReassignments):
            return answer_list(self._reassignments, event.request)
        return (
            yield from features.update(
                self.context, event.request, event.api_version, self._config.protocol
            )
        )

    def _shut_down(self, event: events.ControlledShutdown) -> Flow[ControlledShutdownResponse]:
        remaining = yield from self._brokers.controlled_shutdown(
            event.request.broker_id, event.request.broker_epoch
        )
        return ControlledShutdownResponse(
            remaining_partitions=[
                RemainingPartition(topic_name=p[0], partition_index=p[1]) for p in sorted(remaining)
            ]
        )

    # Election

    def _read_controller(self) -> Flow[None]:
        """Read which broker is the controller, and watch for changes."""
        _, current = yield [
            Exists(znodes.CONTROLLER, watch=True),
            GetData(znodes.CONTROLLER),
        ]
        expect(current, znodes.CONTROLLER, ZkCode.NO_NODE)
        if current.ok:
            self.active_controller_id = znodes.decode_controller(current.data)
        else:
            self.active_controller_id = NO_CONTROLLER

    def _on_controller_change(self) -> Flow[None]:
        yield from self._read_controller()
        if self._active and self.active_controller_id != self._config.broker_id:
            self._resign()
        if self.active_controller_id == NO_CONTROLLER and not self._sits_out:
            yield from self._elect()

    def _elect(self) -> Flow[None]:
        yield from self._read_controller()
        if self.active_controller_id != NO_CONTROLLER:
            return
        if not (yield from self._win()):
            yield from self._read_controller()
            return
        self.active_controller_id = self._config.broker_id
        self._active = True
        logger.info(
            "broker %d is the controller, epoch %d", self._config.broker_id, self.context.epoch
        )
        try:
            yield from self._fail_over()
        except (ZkError, znodes.MalformedZnode):
            logger.exception("cannot take over as controller; giving it up for a while")
            self._sits_out = True
            yield from self.step_down()
            retry = StartTimer(ELECTION_RETRY_DELAY_MS, events.Startup())
            self._parts.effects.append(retry)

    def _win(self) -> Flow[bool]:
        """Create /controller and raise the epoch in one step; False if another was faster."""
        stored = yield from run_one(GetData(znodes.CONTROLLER_EPOCH))
        if expect(stored, znodes.CONTROLLER_EPOCH, ZkCode.NO_NODE).code is ZkCode.NO_NODE:
            yield [Create(znodes.CONTROLLER_EPOCH, b"0")]
            stored = yield from run_one(GetData(znodes.CONTROLLER_EPOCH))
        expect(stored, znodes.CONTROLLER_EPOCH)
        epoch = znodes.decode_controller_epoch(stored.data) + 1
        payload = znodes.encode_controller(self._config.broker_id, self._wall_ms)
        claim = Multi(
            (
                Create(znodes.CONTROLLER, payload, ephemeral=True),
                SetData(znodes.CONTROLLER_EPOCH, str(epoch).encode(), stored.version),
            )
        )
        result = yield from run_one(claim)
        if not expect(result, znodes.CONTROLLER, ZkCode.NODE_EXISTS, ZkCode.BAD_VERSION).ok:
            # Our own claim may have arrived although its answer was lost with a connection.
            current, now = yield [GetData(znodes.CONTROLLER), GetData(znodes.CONTROLLER_EPOCH)]
            ours = (
                current.ok
                and current.data == payload
                and znodes.decode_controller_epoch(now.data) == epoch
            )
            if not ours:
                return False
        self.context.epoch = epoch
        self.context.epoch_zk_version = stored.version + 1
        return True

    def _fail_over(self) -> Flow[None]:
        """Read the cluster, notify all brokers, elect missing leaders, continue deletions."""
        parts, context = self._parts, self.context
        yield from features.set_up(self._config.protocol, self._config.features)
        yield from self._topics.delete_notifications((znodes.LOG_DIR_EVENTS, znodes.ISR_CHANGES))
        context.brokers = yield from read_live_brokers()
        parts.effects.extend(OpenChannel(broker) for broker in context.brokers.values())
        topics = yield from read_topic_names()
        yield from self._topics.take_over((yield from read_assignments(topics)))
        yield from refresh_leadership(context, context.all_partitions())
        deletions, halted = yield from self._topics.read_pending_deletions()
        unknown = set(deletions) - context.assignments.keys()
        yield from parts.deletion.forget_requests(sorted(unknown))
        yield from parts.deletion.initialize(set(deletions) - unknown, halted)
        # Brokers must know each other before they lead or follow. (Kafka sends only the brokers
        # here; a broker that has just started would then deny that there are topics.)
        parts.send_update_metadata(context.brokers, list(context.leadership))
        # Leaders are elected before the ISRs shrink (Kafka: after), as when a broker dies under a
        # controller that lives: requests that wait for an ISR to shrink, and clients' Metadata
        # behind their produce requests, then find the new leaders, and no partition is first
        # announced without a leader.
        yield from parts.replicas.startup()
        yield from parts.partitions.startup()
        yield from parts.replicas.take_absent_offline()
        requested = yield from self._reassignments.process_requests()
        yield from self._reassignments.resume(lambda partition: partition not in requested)
        yield from parts.deletion.resume_all()
        yield from self._elect_preferred_by_znode()
        if self._config.auto_leader_rebalance_enable:
            self._schedule_rebalance(FIRST_REBALANCE_DELAY_MS)

    def _schedule_rebalance(self, delay_ms: int) -> None:
        self._parts.effects.append(StartTimer(delay_ms, events.AutoRebalance()))

    def _elect_preferred_by_znode(self) -> Flow[None]:
        """The legacy tool's request: elect, then delete the node, with or without success."""
        path = znodes.PREFERRED_ELECTION
        _, stored = yield [Exists(path, watch=True), GetData(path)]
        if not stored.ok:
            return
        try:
            pairs = znodes.decode_partition_list(stored.data, path)
        except znodes.MalformedZnode as error:
            logger.error("ignoring %s", error)
            pairs = []
        results = yield from self._requests.elect_leaders(pairs, unclean=False)
        for partition, result in results.items():
            if result.error not in (ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED):
                logger.warning("preferred election of %s-%d: %s", *partition, result.error.name)
        (deleted,) = yield from fenced_writes(self.context, [Delete(path)])
        expect(deleted, path, ZkCode.NO_NODE)
        yield [Exists(path, watch=True)]

    # Resignation

    def _resign(self) -> None:
        self._parts.batch.clear()
        if self._active:
            logger.info("broker %d resigns as controller", self._config.broker_id)
            self._active = False
            self.context.reset()
            self._parts.effects.append(Resigned())
        self.active_controller_id = NO_CONTROLLER

    def step_down(self) -> Flow[None]:
        """Let another broker try: remove our /controller, if it is still ours."""
        self._resign()
        with suppress(ControllerMoved, ZkError):
            yield from fenced_writes(self.context, [Delete(znodes.CONTROLLER)])


def _no_controller(event: object) -> object:
    """The answer of a broker that is not, or no longer, the controller; Kafka has another one for
    brokers that stop."""
    stops = isinstance(event, events.ControlledShutdown)
    return _refusal(event, ErrorCode.STALE_CONTROLLER_EPOCH if stops else ErrorCode.NOT_CONTROLLER)


def _refusal(event: object, code: ErrorCode) -> object:
    if isinstance(event, events.AlterPartition):
        return AlterPartitionResponse(error_code=code)
    if isinstance(event, events.ControlledShutdown):
        return ControlledShutdownResponse(error_code=code)
    if isinstance(event, events.AllocateProducerIds):
        return AllocateProducerIdsResponse(error_code=code)
    if isinstance(event, events.AlterPartitionReassignments):
        return AlterPartitionReassignmentsResponse(error_code=code, error_message=code.description)
    if isinstance(event, events.ListPartitionReassignments):
        return ListPartitionReassignmentsResponse(error_code=code, error_message=code.description)
    if isinstance(event, events.UpdateFeatures):
        return UpdateFeaturesResponse(error_code=code, error_message=code.description)
    assert isinstance(event, events.ElectLeaders)
    return {partition: ElectionResult(code) for partition in event.partitions or ()}
