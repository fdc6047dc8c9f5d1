"""Drives a coordinator's machine: effects, appends to its topic, timers, loading and unloading.

Job: give the machine its events and perform its effects in the order in which it emits them, which
is also the order of the records in its internal topic. Everything happens on the broker's loop,
except reading the bytes of a partition that is loaded, and parsing them, which is done in a worker
thread, one partition at a time (as Kafka's one-thread schedulers of its two coordinators).

Invariants: the machine is never called from inside itself: effects go through one queue, drained by
the first caller that finds it idle. Loaded state is used only when the whole ISR has its records,
so that no later leader can know less; Kafka serves loaded state at once.

Mirrors code that Kafka's GroupMetadataManager and TransactionStateManager each contain: appending,
loading, `onElection` / `onResignation`. The parts of only one coordinator (its effects, answers,
helpers, configuration) are in `group_runtime` and `transaction_runtime`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from math import inf
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Protocol, TypeVar

import trio
from mypy_extensions import mypyc_attr

from ...coordinator.partition_load import PartitionLoad
from ...protocol.invariants import BrokenInvariant
from ...protocol.zookeeper.constants import ZkCode
from ...protocol.zookeeper.operations import GetData
from ...replication.controller import znodes
from ...replication.partition import Partition
from ...replication.types import ProduceResult, ProduceResults, ReplicatedAppend, RoleChange
from ...storage.append_info import AppendOrigin
from ..replicas.applied_replicas import AppliedReplicas

if TYPE_CHECKING:
    import logging

    from ..zk.zookeeper_client import ZooKeeperClient

MAX_LOADING_THREADS: Final = 1
REPLICATION_POLL_MS: Final = 10
MAX_LOAD_TIMES: Final = 100

_MS: Final = 1000


class Machine(Protocol):
    """The common interface of the two coordinators. The caller performs the effects."""

    def take_effects(self) -> list[Any]: ...

    def start(self, partition_count: int, now_ms: int) -> None: ...

    def stop(self) -> None: ...

    def next_deadline_ms(self) -> int | None: ...

    def is_due_before(self, at_ms: float) -> bool: ...

    def tick(self, now_ms: int) -> None: ...

    def begin_load(self, partition: int, epoch: int) -> PartitionLoad | None: ...

    def is_loading(self, load: Any) -> bool: ...

    def finish_load(self, load: Any, now_ms: int) -> None: ...

    def abandon_load(self, load: Any) -> None: ...


class Append(Protocol):
    """A machine's effect: a batch for one partition of its topic."""

    @property
    def partition(self) -> int: ...

    @property
    def batch(self) -> bytearray: ...


MachineT = TypeVar("MachineT", bound=Machine)
EffectT = TypeVar("EffectT")


async def internal_partition_count(zookeeper: ZooKeeperClient, topic: str, configured: int) -> int:
    """The partition count of an internal topic: its own, or `configured` if it does not exist.

    All brokers must place keys alike, so an existing topic takes precedence over this broker's
    configuration.
    """
    read = GetData(znodes.topic_path(topic))
    found = await zookeeper.over_sessions(lambda: zookeeper.execute_one(read))
    if found.code is ZkCode.OK:
        return len(znodes.decode_topic(topic, found.data).partitions)
    return configured


def _add(load: PartitionLoad, records: Any) -> None:
    load.add(records.read())


class AppendWaiter:
    """The replica manager's token of an append that waits for replicas."""

    __slots__ = ("append", "runtime")

    def __init__(self, runtime: CoordinatorRuntime[Any, Any], append: Append) -> None:
        self.runtime = runtime
        self.append = append

    def complete(self, results: ProduceResults) -> None:
        """Pass on the result of the only partition."""
        (result,) = results.values()
        self.runtime.append_completed(self.append, result, self.runtime.now_ms)


@mypyc_attr(allow_interpreted_subclasses=True)
class CoordinatorRuntime(ABC, Generic[MachineT, EffectT]):
    """One broker's coordinator of one kind. A subclass performs each kind of effect, passes the
    outcome of an append to its machine, and unloads a partition."""

    __slots__ = (
        "_clock",
        "_effects",
        "_is_performing",
        "_load_buffer_bytes",
        "_load_limit",
        "_nursery",
        "_performers",
        "_replicas",
        "_sleep_until_ms",
        "_wake",
        "load_times_ms",
        "machine",
    )

    topic: ClassVar[str]
    logger: ClassVar[logging.Logger]

    def __init__(
        self,
        replicas: AppliedReplicas,
        machine: MachineT,
        performers: Mapping[type, Callable[[Any], None]],
        *,
        clock: Callable[[], int],
        load_buffer_bytes: int,
    ) -> None:
        """`performers` performs effects by their type."""
        self.machine = machine
        self.load_times_ms: deque[int] = deque(maxlen=MAX_LOAD_TIMES)
        self._replicas = replicas
        self._performers = performers
        self._clock = clock
        self._load_buffer_bytes = load_buffer_bytes
        self._load_limit = trio.CapacityLimiter(MAX_LOADING_THREADS)
        self._effects: deque[EffectT] = deque()  # taken from the machine, and not yet performed
        self._is_performing = False
        self._sleep_until_ms: float = inf
        self._wake = trio.Event()
        self._nursery: trio.Nursery | None = None

    @property
    def now_ms(self) -> int:
        """The time of the monotonic clock."""
        return self._clock()

    def look_again(self) -> None:
        """Time has passed faster than trio's clock: check the deadlines."""
        self._wake.set()

    async def run(
        self,
        partition_count: int,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serve until cancelled; `partition_count` is that of the topic, existing or future."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            self.machine.start(partition_count, self.now_ms)
            nursery.start_soon(self._run_timers)
            task_status.started()
            try:
                await trio.sleep_forever()
            finally:
                self.machine.stop()

    def _start(self, run: Callable[..., Any], *arguments: Any) -> None:
        """Run this in a task of its own."""
        assert self._nursery is not None, f"the coordinator of {self.topic} does not run"
        self._nursery.start_soon(run, *arguments)

    # Effects

    def perform(self) -> None:
        """Perform the machine's effects; to be called after each call of it.

        A machine that is called while an effect is performed has its own effects performed after
        all that are queued already; one that fails leaves those behind it to the next call.
        """
        if self._is_performing:
            return
        self._is_performing = True
        machine, effects, performers = self.machine, self._effects, self._performers
        effects.extend(machine.take_effects())
        try:
            while effects:
                effect = effects.popleft()
                performers[type(effect)](effect)
                effects.extend(machine.take_effects())
        finally:
            self._is_performing = False
        self._note_deadline()

    def _append_batch(
        self, append: Append, required_acks: int, timeout_ms: int, guard: Any = None
    ) -> None:
        replicas, now_ms, key = self._replicas, self.now_ms, (self.topic, append.partition)
        guards = None if guard is None else {key: guard}
        result = replicas.append_one(
            key,
            replicas.hosted.partitions.get(key),
            append.batch,
            ReplicatedAppend(
                required_acks, timeout_ms, now_ms, None, AppendOrigin.COORDINATOR, guards
            ),
            AppendWaiter,
            (self, append),
        )
        if result is not None:
            self.append_completed(append, result, now_ms)

    @abstractmethod
    def append_completed(self, append: Any, result: ProduceResult, now_ms: int) -> None:
        """The outcome of an append, at once or after waiting for replicas."""

    # Timers

    def _note_deadline(self) -> None:
        if self.machine.is_due_before(self._sleep_until_ms):
            self._wake.set()

    async def _run_timers(self) -> None:
        while True:
            now_ms = self.now_ms
            deadline_ms = self.machine.next_deadline_ms()
            self._sleep_until_ms = inf if deadline_ms is None else deadline_ms
            seconds = inf if deadline_ms is None else max(0, deadline_ms - now_ms) / _MS
            with trio.move_on_after(seconds):
                await self._wake.wait()
            self._wake = trio.Event()
            self.machine.tick(self.now_ms)
            self.perform()

    # Leadership

    def on_leadership_change(
        self, became_leader: Iterable[RoleChange], became_follower: Iterable[RoleChange]
    ) -> None:
        """Partitions whose role changed here; topics other than the coordinator's are ignored.

        Load the partitions that this broker now leads, unload those that it leads no more. A
        partition whose replica was stopped counts as a follower; a negative epoch means that it is
        not known.
        """
        for change in became_follower:
            if change.topic == self.topic:
                epoch = change.leader_epoch if change.leader_epoch >= 0 else None
                self._unload(change.partition, epoch)
        for change in became_leader:
            if change.topic == self.topic:
                self._start_load(change.partition, change.leader_epoch)

    @abstractmethod
    def _unload(self, partition: int, epoch: int | None) -> None:
        """This broker leads the partition no more."""

    def _begin_load(self, partition: int, epoch: int) -> PartitionLoad | None:
        return self.machine.begin_load(partition, epoch)

    def _start_load(self, partition: int, epoch: int) -> None:
        load = self._begin_load(partition, epoch)
        if load is None:
            return
        replica = self._replicas.hosted.partitions.get((self.topic, partition))
        if replica is None:
            self.logger.error("%s-%d is led here but has no log", self.topic, partition)
            self.machine.abandon_load(load)
            return
        load.next_offset = replica.log.log_start_offset
        if load.next_offset >= replica.log.log_end_offset:
            self.machine.finish_load(load, self.now_ms)
            self.perform()
        else:
            self._start(self._load, load, replica)

    async def _load(self, load: PartitionLoad, replica: Partition) -> None:
        started = trio.current_time()
        try:
            async with self._load_limit:
                await self._read(load, replica)
        except BrokenInvariant:
            raise
        except Exception:
            if not self.machine.is_loading(load):
                return  # another broker leads the partition now; the log here may be deleted
            # Not served rather than served without its content: consumers would start over, zombies
            # would not be fenced.
            self.logger.exception("Loading %s-%d failed", self.topic, load.partition)
            self.machine.abandon_load(load)
            return
        while self.machine.is_loading(load):
            if replica.is_replicated(load.next_offset):
                break
            await trio.sleep(REPLICATION_POLL_MS / _MS)
        else:
            return
        self.machine.finish_load(load, self.now_ms)
        self.perform()
        took_ms = int((trio.current_time() - started) * _MS)
        self.load_times_ms.append(took_ms)
        self.logger.info(
            "Loaded %s-%d in epoch %d: %d records in %d ms, %d skipped",
            self.topic,
            load.partition,
            load.epoch,
            load.record_count,
            took_ms,
            load.skipped_count,
        )

    async def _read(self, load: PartitionLoad, replica: Partition) -> None:
        """Read all of a partition into `load`, and decode it; stop when it is not wanted any more.

        Positions are looked up on the loop; only bytes are read and parsed in the thread. The
        replica may move to another log directory meanwhile, and then has another log.
        """
        is_loading = self.machine.is_loading
        while is_loading(load) and load.next_offset < replica.log.log_end_offset:
            offset = load.next_offset
            read = replica.log.read(
                offset,
                self._load_buffer_bytes,
                upper_bound_offset=replica.log.log_end_offset,
                min_one_batch=True,
            )
            if len(read.records) == 0:
                break
            await trio.to_thread.run_sync(_add, load, read.records)
            if load.next_offset <= offset:
                break
        if is_loading(load):
            await trio.to_thread.run_sync(load.decode)
