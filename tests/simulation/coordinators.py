"""The coordinators of one simulated broker: real machines, with runtimes on virtual time.

Real: the machines of transactions and groups, their handlers, marker queues. Simulated: what waits
in `coordinator_runtime` and its two heirs, `marker_sender` and `transaction_verifier`, all of
`broker.coordinators`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from pybroker_kafka.broker.coordinators.coordinator_runtime import REPLICATION_POLL_MS
from pybroker_kafka.broker.coordinators.marker_writer import Errors, Marker
from pybroker_kafka.broker.coordinators.transaction_verifier import (
    VERIFYING_VERSION,
    Question,
    _request,
)
from pybroker_kafka.coordinator.group.core import GroupConfig
from pybroker_kafka.coordinator.group.core import Reply as GroupReply
from pybroker_kafka.coordinator.group.group_coordinator import GroupCoordinator
from pybroker_kafka.coordinator.transaction.core import (
    AllocateProducerId,
    Append,
    MarkerJob,
    Reply,
    SendMarkers,
    TransactionConfig,
)
from pybroker_kafka.coordinator.transaction.markers import (
    NO_BROKER,
    MarkerQueues,
    marker_results,
    markers_request,
)
from pybroker_kafka.coordinator.transaction.transaction_coordinator import TransactionCoordinator
from pybroker_kafka.protocol.errors import ErrorCode, KafkaError
from pybroker_kafka.protocol.topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, TopicPartition
from pybroker_kafka.replication.types import ACKS_ALL, ReplicatedAppend, RoleChange
from pybroker_kafka.storage.append_info import AppendOrigin
from tests.simulation.wires import LISTENER

if TYPE_CHECKING:
    from tests.simulation.broker import Broker
    from tests.simulation.transactions import TransactionalBroker

MARKERS_VERSION = 1
TICK_MS = 100
ABORT_CHECK_MS = 300
EXPIRY_CHECK_MS = 2_000  # of transactional ids and of committed offsets
REQUEST_TIMEOUT_MS = 1_500
LOAD_BYTES = 2_000
LONGEST_LOAD_STEP_MS = 30
MARKER_PAUSE_MS = 5
MAX_OWN_PARTITIONS = 1
# The own coordinator and the own partitions are asked without the network; Apache Kafka's are not.
OWN_AT_ONCE = True


class _AppendWait:
    __slots__ = ("append", "runtime")

    def __init__(self, runtime: Any, append: Any) -> None:
        self.runtime = runtime
        self.append = append

    def complete(self, results: Any) -> None:
        (result,) = results.values()
        self.runtime.append_completed(self.append, result)


class SimulatedCoordinator:
    """What both have in common: effects in order, appends, loading, ticks."""

    topic = ""

    def __init__(self, broker: Broker, machine: Any) -> None:
        self.broker = broker
        self.machine = machine
        self._is_performing = False
        self._tick()

    @property
    def now_ms(self) -> int:
        return self.broker.kernel.now_ms

    def perform(self) -> None:
        if self._is_performing:
            return
        self._is_performing = True
        while effects := self.machine.take_effects():
            for effect in effects:
                self.do(effect)
        self._is_performing = False

    def do(self, effect: Any) -> None:
        raise AssertionError

    def later(self, delay_ms: int, run: Any, *args: Any) -> None:
        self.broker.kernel.after(delay_ms, self.broker.process, run, *args)

    def _tick(self) -> None:
        self.later(TICK_MS, self._tick)
        self.machine.tick(self.now_ms)
        self.perform()

    def append(self, append: Any, acks: int, timeout_ms: int, guard: Any = None) -> None:
        replicas, key = self.broker.replicas, (self.topic, append.partition)
        guards = None if guard is None else {key: guard}
        result = replicas.append_one(
            key,
            replicas.hosted.partitions.get(key),
            append.batch,
            ReplicatedAppend(acks, timeout_ms, self.now_ms, None, AppendOrigin.COORDINATOR, guards),
            _AppendWait,
            (self, append),
        )
        if result is not None:
            self.append_completed(append, result)

    def append_completed(self, append: Any, result: Any) -> None:
        raise AssertionError

    def roles_changed(
        self, became_leader: Iterable[RoleChange], became_follower: Iterable[RoleChange]
    ) -> None:
        for change in became_follower:
            if change.topic == self.topic:
                epoch = change.leader_epoch if change.leader_epoch >= 0 else None
                self.unload(change.partition, epoch)
        for change in became_leader:
            if change.topic == self.topic:
                load = self.machine.begin_load(change.partition, change.leader_epoch)
                if load is not None:
                    replica = self.broker.manager.partitions[change.topic, change.partition]
                    load.next_offset = replica.log.log_start_offset
                    self.later(0, self._load, load, replica)

    def unload(self, partition: int, epoch: int | None) -> None:
        raise AssertionError

    def _load(self, load: Any, replica: Any) -> None:
        """A piece of the log; other things happen between two of them."""
        log = replica.log
        if load.next_offset >= log.log_end_offset:
            load.decode()
            self._finish_load(load, replica)
            return
        try:
            read = log.read(load.next_offset, LOAD_BYTES, upper_bound_offset=log.log_end_offset)
        except KafkaError:
            self.machine.abandon_load(load)
            return
        load.add(read.records.read())
        pause_ms = self.broker.kernel.random.randint(0, LONGEST_LOAD_STEP_MS)
        self.later(pause_ms, self._load, load, replica)

    def _finish_load(self, load: Any, replica: Any) -> None:
        if replica.is_replicated(load.next_offset):
            self.machine.finish_load(load, self.now_ms)
            self.perform()
        elif self.machine.is_loading(load):
            self.later(REPLICATION_POLL_MS, self._finish_load, load, replica)


class SimulatedTransactions(SimulatedCoordinator):
    topic = TRANSACTIONS_TOPIC
    acks = ACKS_ALL
    broker: TransactionalBroker

    def __init__(self, broker: TransactionalBroker) -> None:
        machine = TransactionCoordinator(
            TransactionConfig(
                abort_timed_out_interval_ms=ABORT_CHECK_MS,
                remove_expired_interval_ms=EXPIRY_CHECK_MS,
                request_timeout_ms=REQUEST_TIMEOUT_MS,
            ),
            broker.wall,
        )
        machine.start(1, broker.kernel.now_ms)
        self.queues = MarkerQueues(self._leader_of)
        self._busy: set[int] = set()
        super().__init__(broker, machine)

    def do(self, effect: Any) -> None:
        if isinstance(effect, Reply):
            effect.token.answer(effect.result)
        elif isinstance(effect, Append):
            self.append(effect, self.acks, effect.timeout_ms)
        elif isinstance(effect, SendMarkers):
            self._send_markers(effect.job)
        else:
            assert isinstance(effect, AllocateProducerId)
            producer_id = self.broker.cluster.new_producer_id()
            self.later(2, self._allocated, effect.attempt, producer_id)

    def _allocated(self, attempt: Any, producer_id: int) -> None:
        self.machine.producer_id_allocated(attempt, producer_id, self.now_ms)
        self.perform()

    def append_completed(self, append: Append, result: Any) -> None:
        self.machine.appended(append.append_id, result.error_code, self.now_ms)
        self.perform()

    def unload(self, partition: int, epoch: int | None) -> None:
        self.machine.unload(partition, epoch)
        self.queues.unload(partition)

    # Markers

    def _leader_of(self, partition: TopicPartition) -> int | None:
        metadata = self.broker.manager.metadata
        state = metadata.partition_state(*partition)
        if state is None:
            return None
        is_known = metadata.broker_endpoint(state.leader, LISTENER) is not None
        return state.leader if is_known else NO_BROKER

    def _send_markers(self, job: MarkerJob) -> None:
        routed = self.queues.add(job)
        for broker_id in routed.brokers:
            if broker_id == self.broker.broker_id and OWN_AT_ONCE:
                self._write_piece()
            else:
                self._pump(broker_id)
        for partitions, error in (
            (routed.gone, ErrorCode.NONE),
            (routed.leaderless, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ):
            if partitions:
                part = job._replace(partitions=partitions)
                results = dict.fromkeys(partitions, error)
                self.machine.markers_answered(part, results, self.now_ms)
                self.perform()

    def _write_piece(self) -> None:
        """As `MarkerSender`: the first of what this broker leads at once, the rest bit by bit."""
        own = self.broker.broker_id
        if not self.queues.waits(own):
            return
        job = self.queues.take_piece(own, MAX_OWN_PARTITIONS)
        marker = Marker(job.producer_id, job.producer_epoch, job.coordinator_epoch, job.committed)
        self.broker.markers.write(marker, job.partitions, partial(self._written, job))
        self.later(0, self._write_piece)

    def _written(self, job: MarkerJob, errors: Errors) -> None:
        self.machine.markers_answered(job, errors, self.now_ms)
        self.perform()

    def _pump(self, broker_id: int) -> None:
        if broker_id in self._busy or not self.queues.waits(broker_id):
            return
        jobs = self.queues.take(broker_id)
        self._busy.add(broker_id)
        self.broker.call(
            broker_id, markers_request(jobs), MARKERS_VERSION,
            lambda response: self._answered(broker_id, jobs, response),
        )  # fmt: skip

    def _answered(self, broker_id: int, jobs: list[MarkerJob], response: Any) -> None:
        self._busy.discard(broker_id)
        results = {} if response is None else marker_results(response)
        for job in jobs:
            outcome = results.get(job.producer_id, {})
            self.machine.markers_answered(job, outcome, self.now_ms)
            self.perform()
        self.later(MARKER_PAUSE_MS, self._pump, broker_id)


class SimulatedGroups(SimulatedCoordinator):
    topic = OFFSETS_TOPIC
    config = GroupConfig(offsets_retention_check_interval_ms=EXPIRY_CHECK_MS)

    def __init__(self, broker: Broker) -> None:
        self._ids = 0
        machine = GroupCoordinator(self.config, self._new_uuid, broker.wall)
        machine.start(1, broker.kernel.now_ms)
        super().__init__(broker, machine)

    def _new_uuid(self) -> str:
        self._ids += 1
        process = self.broker.process
        return f"{process.name}.{process.generation}.{self._ids}"

    def do(self, effect: Any) -> None:
        if isinstance(effect, GroupReply):
            effect.token.respond(effect.response)
            return
        self.append(effect, effect.required_acks, REQUEST_TIMEOUT_MS, effect.verification)

    def append_completed(self, append: Any, result: Any) -> None:
        if append.required_acks:
            base = -1 if result.error_code else result.base_offset
            self.machine.appended(append.append_id, result.error_code, base, self.now_ms)
            self.perform()

    def unload(self, partition: int, epoch: int | None) -> None:
        self.machine.unload(partition, epoch, self.now_ms)
        self.perform()

    def on_markers(self, producer_id: int, partitions: frozenset[int], committed: bool) -> None:
        self.machine.complete_transaction(producer_id, partitions, committed=committed)


class Verifier:
    """`broker.coordinators.transaction_verifier`, a request a question."""

    def __init__(self, broker: TransactionalBroker) -> None:
        self._broker = broker

    def ask(self, question: Question) -> None:
        state = self._broker.manager.metadata.partition_state(TRANSACTIONS_TOPIC, 0)
        if state is None or not self._broker.manager.metadata.is_alive(state.leader):
            question.fail(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return
        if state.leader == self._broker.broker_id and OWN_AT_ONCE:
            machine = self._broker.transactions.machine
            verified = machine.verify_partitions(
                question.transactional_id,
                question.producer_id,
                question.producer_epoch,
                question.keys,
            )
            question.on_answer({key: question.error_for(e) for key, e in verified.items() if e})
            return
        self._broker.call(
            state.leader, _request([question]), VERIFYING_VERSION,
            lambda response: self._answered(question, response),
        )  # fmt: skip

    def _answered(self, question: Question, response: Any) -> None:
        if response is None:
            question.fail(ErrorCode.NETWORK_EXCEPTION)
            return
        (result,) = response.results_by_transaction
        question.on_answer(
            {
                (topic.name, entry.partition_index): question.error_for(entry.partition_error_code)
                for topic in result.topic_results
                for entry in topic.results_by_partition
                if entry.partition_error_code
            }
        )
