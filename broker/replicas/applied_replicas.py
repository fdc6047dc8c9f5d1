"""Calls to the replica manager whose effects are applied when the call returns.

To apply the effects of a call is to perform them and to answer the operations that it completed.
`append`, `append_one`, `fetch` and `delete_records` apply their own effects; every other change of
replicas is made in `with replicas.applying as manager:`. Only reads have no effects.

A call that may wait returns its results, or None. In the second case it has called `waiter(*args)`
for the object to notify, which has `complete(results)` and is made only if a call really waits.
(`args` are one argument: calls with any number of them are slow, compiled too.)

Invariants: a waiter is known before any effect is applied, since the receiver of an answer may
complete it; waiters are notified after the manager's call has returned, so that nothing re-enters
it in the middle of a state change; a waiter that fails does not prevent the notification of others.

The driver, `replica_runtime`, performs effects and runs timers.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Protocol, TypeVarTuple

from mypy_extensions import mypyc_attr

from ...protocol.invariants import BrokenInvariant
from ...protocol.topics import TopicPartition
from ...replication.hosted_partitions import HostedPartitions
from ...replication.partition import Partition
from ...replication.purgatory import Operation
from ...replication.replica_manager import ReplicaManager
from ...replication.types import (
    ACKS_ALL,
    DeleteRecordsResult,
    DeleteRecordsResults,
    Done,
    Effect,
    FetchEntry,
    FetchParams,
    FetchResults,
    ProduceResult,
    ProduceResults,
    ReplicatedAppend,
)
from ...storage.validation import AppendInput

logger: Final = logging.getLogger("pybroker.broker.replicas.applied_replicas")

Args = TypeVarTuple("Args")


class Waiter(Protocol):
    """The token of an operation that waits."""

    def complete(self, results: Any, /) -> None: ...


@mypyc_attr(allow_interpreted_subclasses=True)
class AppliedReplicas(ABC):
    __slots__ = (
        "_appends",
        "_completed",
        "_effects",
        "_fetches",
        "applying",
        "clock",
        "hosted",
        "manager",
        "wall",
    )

    def __init__(self, manager: ReplicaManager, clock: Callable[[], int]) -> None:
        self.manager = manager
        self.clock = clock  # monotonic, in ms
        self.wall = manager.hosted.log_manager.wall
        self.hosted: HostedPartitions = manager.hosted
        # For `with`: returns the manager, and applies the effects at the end.
        self.applying = _Applying(self)
        self._appends = manager.appends
        self._fetches = manager.fetches
        # The manager's own lists.
        self._effects = manager.effects
        self._completed = manager.completed

    # Calls that may have to wait

    def append(
        self,
        entries: Mapping[TopicPartition, AppendInput],
        append: ReplicatedAppend,
        waiter: Callable[[*Args], Waiter],
        args: tuple[*Args],
    ) -> ProduceResults | None:
        """Like `Appends.append`."""
        outcome = self._appends.append(None, entries, append)
        results = None
        if isinstance(outcome, Done):
            results = outcome.result
        else:
            self._park_append(outcome.operation, append, waiter(*args))
        if self._effects or self._completed:
            self.apply_effects()
        return results

    def append_one(
        self,
        key: TopicPartition,
        partition: Partition | None,
        records: AppendInput,
        append: ReplicatedAppend,
        waiter: Callable[[*Args], Waiter],
        args: tuple[*Args],
    ) -> ProduceResult | None:
        """Like `Appends.append_one`; a waiter gets a dict of one result."""
        result = self._appends.append_one(key, partition, records, append)
        is_pending = result.is_pending
        if is_pending:
            parked = self._appends.wait(None, {key: result}, {key}, append)
            self._park_append(parked.operation, append, waiter(*args))
        if self._effects or self._completed:
            self.apply_effects()
        return None if is_pending else result

    def _park_append(self, operation: Operation, append: ReplicatedAppend, waiter: Waiter) -> None:
        _park(operation, waiter)
        if append.required_acks == ACKS_ALL:
            self.parked(append.timeout_ms, append.now_ms)

    def fetch(
        self,
        params: FetchParams,
        entries: Sequence[FetchEntry],
        now_ms: int,
        waiter: Callable[[*Args], Waiter],
        args: tuple[*Args],
    ) -> FetchResults | None:
        """Like `Fetches.fetch`."""
        outcome = self._fetches.fetch(None, params, entries, now_ms)
        results = None
        if isinstance(outcome, Done):
            results = outcome.result
        else:
            _park(outcome.operation, waiter(*args))
            self.parked(outcome.operation.deadline_ms - now_ms, now_ms)
        if self._effects or self._completed:
            self.apply_effects()
        return results

    def delete_records(
        self,
        wanted: Mapping[TopicPartition, int],
        timeout_ms: int,
        now_ms: int,
        waiter: Callable[[*Args], Waiter],
        args: tuple[*Args],
    ) -> DeleteRecordsResults | None:
        """Like `Offsets.delete_records`."""
        outcome = self.manager.offsets.delete_records(None, wanted, timeout_ms, now_ms)
        results = None
        if isinstance(outcome, Done):
            results = outcome.result
        else:
            _park(outcome.operation, waiter(*args))
            self.parked(timeout_ms, now_ms)
        self.apply_effects()
        return results

    def prune(self, key: TopicPartition, before_offset: int, now_ms: int) -> DeleteRecordsResult:
        """Delete records of an internal topic for its coordinator; followers do it later."""
        outcome = self.manager.offsets.delete_records(
            None, {key: before_offset}, 0, now_ms, is_coordinators=True
        )
        assert isinstance(outcome, Done)
        self.apply_effects()
        return outcome.result[key]

    # Waiting operations

    def answer_now(self, operation: Operation) -> None:
        """Like `WaitingOperations.answer_now`."""
        self.manager.waiting.answer_now(operation)
        self.apply_effects()

    def cancel(self, operation: Operation) -> None:
        """Like `WaitingOperations.cancel`."""
        self.manager.waiting.cancel(operation)

    # Effects

    def apply_effects(self) -> None:
        """Perform the effects and answer the completed operations of the last calls."""
        effects, completed = self._effects, self._completed
        while effects or completed:
            if effects:
                for effect in self.manager.take_effects():
                    self.perform(effect)
            if completed:
                for token, results in self.manager.take_completed():
                    waiter: Any = token
                    if waiter is None:
                        raise BrokenInvariant(f"before it has a waiter, there is {results}")
                    try:
                        waiter.complete(results)
                    except Exception as error:
                        self.answer_failed(waiter, error)

    def answer_failed(self, waiter: Waiter, error: Exception) -> None:
        """A waiter has raised an error on its results."""
        if isinstance(error, BrokenInvariant):
            raise error
        logger.error("Answering %r failed", waiter, exc_info=error)
        request = getattr(waiter, "request", None)
        if request is not None:  # the client would wait for ever
            request.connection.fail(error)

    @abstractmethod
    def perform(self, effect: Effect) -> None:
        """Perform an effect of the manager, or begin to."""

    @abstractmethod
    def parked(self, wait_ms: int, now_ms: int) -> None:
        """Something waits for at most `wait_ms`: see that timers go off in time."""


def _park(operation: Operation, waiter: Waiter) -> None:
    """Set the waiter of an operation, and pass the operation to it if it has `parked`."""
    if operation.token is not None:
        raise BrokenInvariant(f"{operation.token!r} waits already, beside {waiter!r}")
    operation.token = waiter
    told = getattr(waiter, "parked", None)
    if told is not None:
        told(operation)


class _Applying:
    """One object for all calls: it is reentrant."""

    __slots__ = ("_replicas",)

    def __init__(self, replicas: AppliedReplicas) -> None:
        self._replicas = replicas

    def __enter__(self) -> ReplicaManager:
        return self._replicas.manager

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._replicas.apply_effects()
