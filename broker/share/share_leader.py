"""The share partitions that this broker leads: their state, their fetches, their timers.

Job: `ShareLeader` keeps a share partition for each group and partition that a member has fetched.
It reads the state from the share coordinator first (`Persister`), fetches records for members and
lets them wait for some, applies acknowledgements, ends locks, and stores each change; the changes
of one share partition are stored in order, one request at a time.

Invariants: a change is answered after it is stored, or has failed; a share partition is served as
long as this broker leads its partition without a break (`Partition.leading_since_epoch`), and is
forgotten otherwise: the next leader has what is stored. A fetch that waits is looked at when its
partition has new records, and when records of its group are available again; at most
MAX_ANSWERS_AT_ONCE are answered in a turn. A share partition with locks has a timer for the first
that ends.

Mirrors SharePartitionManager, DelayedShareFetch and SharePartitionCache of Kafka 4.3. A fetch is
one step here, from the look at the log to the acquisition, so that no fetch lock is needed. Leaves
out remote storage.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import Final, NamedTuple, Protocol

import trio

from ...protocol import invariants
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.invariants import BrokenInvariant
from ...protocol.timer_wheel import TimerEntry, TimerWheel
from ...protocol.topics import TopicPartition
from ...replication.offsets import OffsetQuery, Searched
from ...replication.partition import Partition
from ...replication.purgatory import KeyedPurgatory
from ...replication.share.acknowledging import Acknowledgement, acknowledge
from ...replication.share.acquiring import AcquireMode, Asked
from ...replication.share.fetching import Acquisition, ShareFetch, read_for
from ...replication.share.in_flight import StateWrite
from ...replication.share.sessions import PartitionKey, SessionKey, ShareSessions, Wanted
from ...replication.share.share_partition import Phase, SharePartition
from ...replication.types import CONSUMER_REPLICA_ID, FetchParams, Isolation, ShareFetchesDue
from ...storage.log_lookup import search
from ..coordinators.persister import Persister
from ..replicas.applied_replicas import AppliedReplicas
from .group_settings import ShareSettings
from .share_counts import ShareCounts
from .stored_states import FENCING, UNINITIALIZED, ServedKey, StoredStates

logger: Final = logging.getLogger("pybroker.broker.share.share_leader")

# One costs about 100 us.
MAX_ANSWERS_AT_ONCE: Final = 32
MAX_SEARCHERS: Final = 2
# The key of what waits for its time alone.
_NOTHING: Final[ServedKey] = ("", b"", -1)
_MS: Final = 1000

Stored = Callable[[ErrorCode, str | None], None]


class Waiter(Protocol):
    """The request of a fetch."""

    def parked(self, fetch: ShareFetch, /) -> None: ...
    def complete(self, results: Acquisition, /) -> None: ...


class _Change(NamedTuple):
    write: StateWrite
    stored: Stored | None


class Served(TimerEntry):
    """A share partition, and the changes of it that are to be stored."""

    __slots__ = ("changes", "idle", "key", "lock_timeouts", "machine", "since_epoch", "topic")

    def __init__(
        self, key: ServedKey, topic: str, since_epoch: int, machine: SharePartition
    ) -> None:
        super().__init__()
        self.key = key
        self.topic = topic
        # `Partition.leading_since_epoch` at the start.
        self.since_epoch = since_epoch
        self.machine = machine
        self.changes: deque[_Change] = deque()
        # Set while a request stores changes: when there are none left.
        self.idle: trio.Event | None = None
        # Records whose locks have ended.
        self.lock_timeouts = 0

    @property
    def partition(self) -> TopicPartition:
        return self.topic, self.key[2]


class ShareLeader:
    """`run` until cancelled."""

    def __init__(
        self,
        replicas: AppliedReplicas,
        persister: Persister,
        settings_of: Callable[[str], ShareSettings],
        sessions: ShareSessions,
        *,
        clock: Callable[[], int],
    ) -> None:
        self._replicas = replicas
        self._manager = replicas.manager
        self._states = StoredStates(persister)
        self.settings_of = settings_of
        self.sessions = sessions
        self._clock = clock
        self.counts = ShareCounts()
        self.served: dict[ServedKey, Served] = {}
        # Changes under way: a share partition that begins anew waits for those of its predecessor.
        self._storing: dict[ServedKey, trio.Event] = {}
        # By partition: the keys of `served`.
        self._groups: dict[TopicPartition, set[ServedKey]] = {}
        self.waiting: KeyedPurgatory[ShareFetch] = KeyedPurgatory("ShareFetch", clock())
        self._locks: TimerWheel[Served] = TimerWheel(clock())
        self._due: dict[ServedKey, None] = {}
        self._is_due = trio.Event()
        self._wake = trio.Event()
        self._sleep_until_ms: float = inf
        self._nursery: trio.Nursery | None = None
        # Nothing begins any more; connections that close later are those of a broker that ends.
        self._is_over = False
        # Few, since these threads compete with the event loop for the interpreter.
        self._searchers = trio.CapacityLimiter(MAX_SEARCHERS)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            nursery.start_soon(self._run_timers)
            nursery.start_soon(self._answer_due)
            task_status.started()
            try:
                await trio.sleep_forever()
            finally:
                self._is_over = True

    # Share partitions

    def _find(self, group_id: str, wanted: Wanted) -> Served:
        """The share partition; raises KafkaError if this broker does not lead the partition."""
        assert wanted.topic is not None
        topic, index = wanted.topic, wanted.partition
        key = (group_id, wanted.topic_id, index)
        served = self.served.get(key)
        partition = self._manager.partitions.get((topic, index))
        if served is not None and not _leads(partition, served):
            self._forget(served)
            served = None
        if partition is None:
            raise KafkaError(self._manager.hosted.missing_error((topic, index)))
        if not partition.is_leader:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if served is None:
            served = self._begin(key, partition)
        return served

    def _begin(self, key: ServedKey, partition: Partition) -> Served:
        limits = self.settings_of(key[0]).limits
        machine = SharePartition(partition.leader_epoch, limits)
        served = Served(key, partition.topic, partition.leading_since_epoch, machine)
        self.served[key] = served
        self._groups.setdefault(served.partition, set()).add(key)
        machine.phase = Phase.INITIALIZING
        self._start(self._initialize, served)
        return served

    def _start(self, task: Callable[[Served], object], served: Served) -> None:
        assert self._nursery is not None, "run is not running"
        if not self._is_over:
            self._nursery.start_soon(task, served)  # type: ignore[arg-type]

    def _forget(self, served: Served) -> None:
        """Another broker leads it, or its group is gone; what waits is answered."""
        if self.served.pop(served.key, None) is None:
            return
        served.machine.phase = Phase.FENCED
        if served.is_scheduled:
            self._locks.cancel(served)
        keys = self._groups[served.partition]
        keys.discard(served.key)
        if not keys:
            del self._groups[served.partition]
            self._manager.waiting.shared.discard(served.partition)
        self._look_at(served.key)

    def forget_group(self, group_id: str) -> None:
        """The group has no members here."""
        for served in [each for each in self.served.values() if each.key[0] == group_id]:
            self._forget(served)

    # The stored state

    async def _initialize(self, served: Served) -> None:
        machine = served.machine
        while (storing := self._storing.get(served.key)) is not None:
            await storing.wait()
        try:
            state = await self._states.read(served.key, machine.leader_epoch)
            start_offset = state.start_offset
            if start_offset == UNINITIALIZED:
                start_offset = await self._first_offset(served)
            if machine.phase is Phase.FENCED:
                return
            machine.initialize(start_offset, state.state_epoch, state.batches)
        except KafkaError as error:
            logger.info("%s-%d of %s is not served: %s", served.topic, served.key[2],
                        served.key[0], error)  # fmt: skip
            if machine.phase is not Phase.FENCED:
                self._failed(served, error)
            return
        self._look_at(served.key)

    async def _first_offset(self, served: Served) -> int:
        """Where a group begins that has no state: share.auto.offset.reset."""
        timestamp = self.settings_of(served.key[0]).reset_timestamp(
            self._replicas.wall.at_ms(self._clock())
        )
        query = OffsetQuery(timestamp, Isolation.READ_UNCOMMITTED, served.machine.leader_epoch)
        offsets, key = self._manager.offsets, served.partition
        searched = found = None
        if timestamp >= 0:
            to_search = offsets.batches_to_search(key, query)
            if to_search is not None:
                name, batches = to_search
                for batch in batches:
                    found = await trio.to_thread.run_sync(
                        search, (batch,), name, limiter=self._searchers, abandon_on_cancel=True
                    )
                    if found is not None:
                        break
                searched = Searched(found)
        with self._replicas.applying:
            answer = offsets.list_offset(key, query, searched)
        if answer.error_code:
            raise KafkaError(answer.error_code)
        if answer.offset < 0:
            raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE)
        return answer.offset

    def _failed(self, served: Served, error: KafkaError) -> None:
        """Fetches that wait for it get the error; the next one tries again."""
        for fetch in self.waiting.watchers(served.key):
            fetch.errors[served.key[1:]] = error
        self._forget(served)
        served.machine.phase = Phase.FAILED

    # Changes

    def _store(self, served: Served, write: StateWrite, stored: Stored | None) -> None:
        served.changes.append(_Change(write, stored))
        if served.idle is None:
            if served.key in self._storing:
                raise BrokenInvariant(f"{served.partition} stores beside its predecessor")
            served.idle = trio.Event()
            self._storing[served.key] = served.idle
            self._start(self._store_all, served)

    async def _store_all(self, served: Served) -> None:
        while served.changes:
            changes = _next_changes(served.changes)
            writes = [change.write for change in changes]
            code, message = await self._states.write(served.key, served.machine, writes)
            now_ms = self._clock()
            for change in changes:
                served.machine.written(change.write, is_stored=not code, now_ms=now_ms)
            self._schedule(served)
            if code in FENCING and self.served.get(served.key) is served:
                self._forget(served)
            self._look_at(served.key)
            for change in changes:
                if any(run.write is change.write for run in change.write.runs):
                    raise BrokenInvariant(f"{served.partition} answers before its write has ended")
                if change.stored is not None:
                    change.stored(code, message)
            if invariants.THOROUGH:
                self.check()
        assert served.idle is not None
        served.idle.set()
        if self._storing.get(served.key) is served.idle:
            del self._storing[served.key]
        served.idle = None

    # Requests

    def acknowledge(
        self,
        session: SessionKey,
        wanted: Wanted,
        batches: Sequence[Acknowledgement],
        done: Stored,
    ) -> None:
        """`done` is called once, perhaps before this returns."""
        group_id, member_id = session
        assert wanted.topic is not None
        counts = self.counts.of_topic(wanted.topic)
        counts.acknowledge_requests += 1
        served = self.served.get((group_id, wanted.topic_id, wanted.partition))
        if served is not None and not self._is_led(served):
            self._forget(served)
            done(ErrorCode.NOT_LEADER_OR_FOLLOWER, None)
            return
        if served is None:
            counts.failed_acknowledge_requests += 1
            done(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)
            return
        machine = served.machine
        machine.limits = self.settings_of(group_id).limits
        try:
            write = acknowledge(machine, member_id, batches, self._clock())
        except KafkaError as error:
            counts.failed_acknowledge_requests += 1
            done(error.code, error.message)
            return
        finally:
            self._schedule(served)
        if write is None:
            self.counts.acknowledged(batches)
            done(ErrorCode.NONE, None)
            return

        def stored(code: ErrorCode, message: str | None) -> None:
            if code:
                counts.failed_acknowledge_requests += 1
            else:
                self.counts.acknowledged(batches)
            done(code, message)

        self._store(served, write, stored)

    def end_session(self, session: SessionKey) -> bool:
        """Give back what the member has acquired; False if there is no such session."""
        partitions = self.sessions.remove(session)
        if partitions is None:
            return False
        group_id, member_id = session
        for topic_id, index in partitions:
            served = self.served.get((group_id, topic_id, index))
            if served is None or not self._is_led(served):
                continue
            write = served.machine.release(member_id)
            if write is not None:
                self._store(served, write, None)
        return True

    def disconnected(self, connection: object) -> None:
        """The connection of sessions was closed."""
        sessions, groups = self.sessions.disconnected(connection)
        for session in sessions:
            self.end_session(session)
        for group_id in groups:
            self.forget_group(group_id)

    def fetch(self, fetch: ShareFetch, waiter: Waiter) -> None:
        """`waiter.complete` is called once, perhaps before this returns."""
        fetch.token = waiter
        for wanted in fetch.wanted:
            assert wanted.topic is not None
            self.counts.of_topic(wanted.topic).fetch_requests += 1
            try:
                self._find(fetch.group_id, wanted)
            except KafkaError as error:
                fetch.errors[wanted.key] = error
        if len(fetch.errors) == len(fetch.wanted):
            self._complete(fetch, {})
            return
        results = self._try(fetch, is_last=fetch.max_wait_ms <= 0)
        if results is not None:
            self._complete(fetch, results)
            return
        now_ms = self._clock()
        self.waiting.watch(fetch, dict.fromkeys(_keys(fetch)), now_ms + fetch.max_wait_ms)
        shared = self._manager.waiting.shared
        for wanted in fetch.wanted:
            assert wanted.topic is not None
            shared.add((wanted.topic, wanted.partition))
        waiter.parked(fetch)
        self._wake_at(now_ms + fetch.max_wait_ms)

    def hold(self, waiter: Waiter, group_id: str, wait_ms: int) -> None:
        """Complete `waiter` when this time is over."""
        params = FetchParams(CONSUMER_REPLICA_ID, max(wait_ms, 0), 0, 0, Isolation.READ_UNCOMMITTED)
        asked = Asked("", AcquireMode.BATCH_OPTIMIZED, 0, 0)
        fetch = ShareFetch(group_id, asked, params, ())
        fetch.token = waiter
        ends_ms = self._clock() + fetch.max_wait_ms
        self.waiting.watch(fetch, (_NOTHING,), ends_ms)
        waiter.parked(fetch)
        self._wake_at(ends_ms)

    def cancel(self, fetch: ShareFetch) -> None:
        """Its client is gone."""
        self.waiting.remove(fetch)

    def hurry(self, fetch: ShareFetch) -> None:
        """Its client sends nothing more: answer it with what there is."""
        if self.waiting.remove(fetch):
            self._complete(fetch, self._try(fetch, is_last=True) or {})

    def _try(self, fetch: ShareFetch, *, is_last: bool) -> Acquisition | None:
        """Acquire what there is; None if it is to wait."""
        machines: dict[PartitionKey, tuple[Partition, SharePartition]] = {}
        settings = self.settings_of(fetch.group_id)
        for wanted in fetch.wanted:
            key = wanted.key
            if key in fetch.errors:
                continue
            served = self.served.get((fetch.group_id, *key))
            partition = self._manager.partitions.get((wanted.topic or "", wanted.partition))
            if served is None or partition is None or not _leads(partition, served):
                if served is not None:
                    self._forget(served)
                fetch.errors[key] = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
                continue
            machine = served.machine
            if machine.phase is Phase.ACTIVE:
                machine.limits = settings.limits
                if machine.can_acquire():
                    machines[key] = partition, machine
        if fetch.errors and not is_last and len(fetch.errors) > fetch.known_errors:
            is_last = True
        fetch.known_errors = len(fetch.errors)
        with self._replicas.applying as manager:
            results = read_for(fetch, machines, manager.reader, self._clock(), is_last=is_last)
        for key in machines:
            self._schedule(self.served[fetch.group_id, *key])
        return results

    def _complete(self, fetch: ShareFetch, results: Acquisition) -> None:
        for wanted in fetch.wanted:
            if wanted.key in fetch.errors and wanted.topic is not None:
                self.counts.of_topic(wanted.topic).failed_fetch_requests += 1
        waiter: Waiter = fetch.token  # type: ignore[assignment]
        waiter.complete(results)

    # What waits

    def on_due(self, effect: ShareFetchesDue) -> None:
        """A partition has changed."""
        key = effect.topic, effect.partition
        groups = self._groups.get(key)
        if not groups:
            self._manager.waiting.shared.discard(key)
            return
        for served_key in groups:
            self._look_at(served_key)

    def _look_at(self, key: ServedKey) -> None:
        if key in self.waiting.watched:
            self._due[key] = None
            self._is_due.set()

    async def _answer_due(self) -> None:
        while True:
            await self._is_due.wait()
            self._is_due = trio.Event()
            while self._due:
                key = next(iter(self._due))
                del self._due[key]
                self._answer_some(key)
                await trio.lowlevel.checkpoint()

    def _answer_some(self, key: ServedKey) -> None:
        """The oldest first, as long as there is something for them."""
        count = 0
        for fetch in self.waiting.watchers(key):
            if count >= MAX_ANSWERS_AT_ONCE:
                self._look_at(key)
                return
            if not fetch.is_waiting:
                continue
            results = self._try(fetch, is_last=False)
            count += 1
            if results is not None:
                self.waiting.remove(fetch)
                self._complete(fetch, results)
            elif not self._has_some(key):
                return

    def _has_some(self, key: ServedKey) -> bool:
        served = self.served.get(key)
        if served is None:
            return True  # they are to learn that
        if served.machine.phase is not Phase.ACTIVE or not served.machine.can_acquire():
            return False
        partition = self._manager.partitions.get(served.partition)
        isolation = self.settings_of(key[0]).isolation
        return (
            partition is None
            or partition.readable_end_offset(isolation) > served.machine.next_fetch_offset()
        )

    # Time

    def _is_led(self, served: Served) -> bool:
        return _leads(self._manager.partitions.get(served.partition), served)

    def _schedule(self, served: Served) -> None:
        """See that the next lock of the share partition ends in time."""
        ends_ms = served.machine.next_lock_end_ms
        if ends_ms is None or served.machine.phase is not Phase.ACTIVE:
            return
        if not served.is_scheduled or ends_ms < served.deadline_ms:
            self._locks.reschedule(served, ends_ms)
            self._wake_at(ends_ms)

    def _wake_at(self, deadline_ms: int) -> None:
        if deadline_ms < self._sleep_until_ms:
            self._wake.set()

    async def _run_timers(self) -> None:
        while True:
            deadlines = [self.waiting.next_deadline_ms(), self._locks.next_deadline_ms()]
            next_ms = min((each for each in deadlines if each is not None), default=None)
            self._sleep_until_ms = inf if next_ms is None else next_ms
            wait_ms = inf if next_ms is None else next_ms - self._clock()
            with trio.move_on_after(max(0, wait_ms) / _MS):
                await self._wake.wait()
                self._wake = trio.Event()
            self.tick(self._clock())

    def tick(self, now_ms: int) -> None:
        for fetch in self.waiting.expire(now_ms, MAX_ANSWERS_AT_ONCE):
            self.counts.expired_fetches += 1
            self._complete(fetch, self._try(fetch, is_last=True) or {})
        for served in self._locks.advance(now_ms, MAX_ANSWERS_AT_ONCE):
            write, count = served.machine.expire(now_ms)
            served.lock_timeouts += count
            if write is not None:
                self._store(served, write, None)
                self._look_at(served.key)
            self._schedule(served)
        if invariants.THOROUGH:
            self.check()

    # Invariants

    def check(self) -> None:
        """Walk over all share partitions."""
        for key, served in self.served.items():
            machine, ends_ms = served.machine, served.machine.next_lock_end_ms
            if machine.phase in (Phase.FENCED, Phase.FAILED):
                raise BrokenInvariant(f"{served.partition} is served, and {machine.phase.name}")
            if key not in self._groups.get(served.partition, ()):
                raise BrokenInvariant(f"{served.partition} has no group {key[0]}")
            if machine.phase is not Phase.ACTIVE or ends_ms is None:
                continue
            if not served.is_scheduled or served.deadline_ms > ends_ms:
                raise BrokenInvariant(f"{served.partition} has no timer for the locks of {ends_ms}")


def _leads(partition: Partition | None, served: Served) -> bool:
    return (
        partition is not None
        and partition.is_leader
        and partition.leading_since_epoch == served.since_epoch
    )


def _keys(fetch: ShareFetch) -> Iterable[ServedKey]:
    for wanted in fetch.wanted:
        yield fetch.group_id, wanted.topic_id, wanted.partition


def _next_changes(changes: deque[_Change]) -> list[_Change]:
    """As many as one request can store: they name different records."""
    taken = [changes.popleft()]
    first, last = _span(taken[0].write)
    while changes:
        next_first, next_last = _span(changes[0].write)
        if next_first <= last and first <= next_last:
            break
        taken.append(changes.popleft())
        first, last = min(first, next_first), max(last, next_last)
    return taken


def _span(write: StateWrite) -> tuple[int, int]:
    batches = write.batches
    return min(batch.first_offset for batch in batches), max(batch.last_offset for batch in batches)
