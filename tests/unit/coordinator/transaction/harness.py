"""A transaction coordinator on a virtual clock, with its topic and the data partitions in memory.

`Harness` performs the machine's effects as the broker does: appends reach the log and are
acknowledged, markers are written, producer ids given, each at once or held until the test says so.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from pybroker_kafka.coordinator.transaction.core import (
    AllocateProducerId,
    Append,
    Attempt,
    InitAttempt,
    MarkerJob,
    Reply,
    SendMarkers,
    TransactionConfig,
)
from pybroker_kafka.coordinator.transaction.metadata import TransactionMetadata
from pybroker_kafka.coordinator.transaction.states import TransactionState
from pybroker_kafka.coordinator.transaction.transaction_coordinator import TransactionCoordinator
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.records.batch import assign_offset_and_epoch, read_batch_header
from pybroker_kafka.protocol.topics import TopicPartition
from pybroker_kafka.protocol.wall_clock import WallClock
from tests.support import coordinators

START_MS = 1_700_000_000_000
TIMEOUT_MS = 60_000
FIRST_PRODUCER_ID = 1000
NAME = "txn-1"
A, B, C = ("a", 0), ("a", 1), ("b", 0)


class Call(coordinators.Call):
    """One request and its result, or an error for one."""

    @property
    def error(self) -> ErrorCode:
        result = self.result
        error: ErrorCode = result if isinstance(result, ErrorCode) else result.error
        return error


class Harness:
    """See the module."""

    def __init__(
        self,
        config: TransactionConfig | None = None,
        partition_count: int = 1,
        *,
        version: int = 0,
    ) -> None:
        """`version`: the finalized transaction.version, and that of all producers."""
        self.version = version
        self.config = config or TransactionConfig()
        self.partition_count = partition_count
        self.now_ms = START_MS
        self.wall = WallClock()
        self.epoch = 0
        self.logs: dict[int, list[bytearray]] = {p: [] for p in range(partition_count)}
        self.next_producer_id = FIRST_PRODUCER_ID
        self.calls: list[Call] = []
        # Effects of these kinds wait in `held_*` until the test answers them.
        self.holds: set[type[Any]] = set()
        self.held_appends: deque[Append] = deque()
        self.held_markers: deque[MarkerJob] = deque()
        self.held_attempts: deque[Attempt] = deque()
        self.markers: list[tuple[TopicPartition, bool, int, int]] = []
        self.machine = TransactionCoordinator(self.config, self.wall, lambda: self.version)
        self.machine.start(partition_count, self.now_ms)
        for partition in range(partition_count):
            self.load(partition)

    # The broker around the machine

    def perform(self) -> None:
        for effect in self.machine.take_effects():
            if isinstance(effect, Reply):
                effect.token.answer(effect.result)
            elif isinstance(effect, Append):
                self.held_appends.append(effect)
                if Append not in self.holds:
                    self.acknowledge()
            elif isinstance(effect, SendMarkers):
                self.held_markers.append(effect.job)
                if SendMarkers not in self.holds:
                    self.write_markers()
            else:
                self.held_attempts.append(effect.attempt)
                if AllocateProducerId not in self.holds:
                    self.give_producer_id()

    def acknowledge(
        self, error: ErrorCode = ErrorCode.NONE, *, is_logged: bool | None = None
    ) -> None:
        """The outcome of the oldest append; what fails is not in the log unless it is said."""
        append = self.held_appends.popleft()
        if error is ErrorCode.NONE if is_logged is None else is_logged:
            self._log(append)
        self.machine.appended(append.append_id, error, self.now_ms)
        self.perform()

    def _log(self, append: Append) -> None:
        log = self.logs[append.partition]
        end_offset = read_batch_header(log[-1]).next_offset if log else 0
        assign_offset_and_epoch(append.batch, 0, end_offset, self.epoch)
        log.append(append.batch)

    def write_markers(self, results: Mapping[TopicPartition, ErrorCode] | None = None) -> None:
        """The answer to the oldest job: by default all partitions have their markers."""
        job = self.held_markers.popleft()
        if results is None:
            results = dict.fromkeys(job.partitions, ErrorCode.NONE)
        for partition in sorted(job.partitions):
            if results.get(partition) is ErrorCode.NONE:
                self.markers.append(
                    (partition, job.committed, job.producer_epoch, job.coordinator_epoch)
                )
        self.machine.markers_answered(job, results, self.now_ms)
        self.perform()

    def give_producer_id(self, error: ErrorCode = ErrorCode.NONE) -> None:
        attempt = self.held_attempts.popleft()
        allocated: int | ErrorCode = error
        if error is ErrorCode.NONE:
            allocated = self.next_producer_id
            self.next_producer_id += 1
        self.machine.producer_id_allocated(attempt, allocated, self.now_ms)
        self.perform()

    def load(self, partition: int = 0) -> None:
        """This broker becomes the leader, in a new epoch."""
        self.epoch += 1
        load = self.machine.begin_load(partition, self.epoch)
        assert load is not None
        for batch in self.logs[partition]:
            load.add(batch)
        self.machine.finish_load(load, self.now_ms)
        self.perform()

    def unload(self, partition: int = 0) -> None:
        self.epoch += 1
        self.machine.unload(partition, self.epoch)

    def fail_over(self) -> None:
        """Away and back: all that is known is what is in the log."""
        self.unload()
        self.load()

    def pass_time(self, ms: int) -> None:
        coordinators.pass_time(self, ms)

    # Requests

    def call(self, name: str) -> Call:
        call = Call(name)
        self.calls.append(call)
        return call

    def init(
        self,
        name: str = NAME,
        *,
        expected: tuple[int, int] | None = None,
        timeout_ms: int = TIMEOUT_MS,
    ) -> Call:
        call = self.call("InitProducerId")
        attempt = InitAttempt(call, name, timeout_ms, expected)
        self.machine.init_producer_id(attempt, self.now_ms)
        self.perform()
        return call

    def add(self, producer: tuple[int, int], *partitions: TopicPartition, name: str = NAME) -> Call:
        call = self.call("AddPartitionsToTxn")
        self.machine.add_partitions(
            call, name, *producer, partitions, self.now_ms, client_version=self.version
        )
        self.perform()
        return call

    def end(self, producer: tuple[int, int], *, committed: bool = True, name: str = NAME) -> Call:
        call = self.call("EndTxn")
        self.machine.end_transaction(
            call, name, *producer, self.now_ms, committed=committed, client_version=self.version
        )
        self.perform()
        return call

    def ended(self, producer: tuple[int, int], *, committed: bool = True) -> tuple[int, int]:
        """Version 2: the producer id and epoch after the end of its transaction."""
        result = self.end(producer, committed=committed).result
        assert result.error is ErrorCode.NONE
        return result.producer_id, result.producer_epoch

    # Short forms

    def start(self, name: str = NAME, **options: Any) -> tuple[int, int]:
        """Producer id and epoch of a producer that starts."""
        result = self.init(name, **options).result
        assert result.error is ErrorCode.NONE
        return result.producer_id, result.producer_epoch

    def begin(self, *partitions: TopicPartition, name: str = NAME) -> tuple[int, int]:
        """A producer with an open transaction."""
        producer = self.start(name)
        assert self.add(producer, *(partitions or (A, B)), name=name).error is ErrorCode.NONE
        return producer

    def decide(self, *partitions: TopicPartition, committed: bool = True) -> tuple[int, int]:
        """A producer whose transaction is decided; its markers wait in `held_markers`."""
        producer = self.begin(*partitions)
        self.holds = {SendMarkers}
        self.end(producer, committed=committed)
        return producer

    def start_completing(self) -> tuple[int, int]:
        """A producer whose markers are written; that all is complete waits in `held_appends`."""
        producer = self.decide(A)
        self.holds = {Append}
        self.write_markers()
        return producer

    def find(self, name: str = NAME) -> TransactionMetadata | None:
        found = [m for m in self.machine.transactions() if m.transactional_id == name]
        return found[0] if found else None

    @property
    def metadata(self) -> TransactionMetadata:
        found = self.find()
        assert found is not None
        return found

    @property
    def state(self) -> TransactionState:
        return self.metadata.state
