"""Fetches the assigned partitions into a bounded buffer, in the consumer's own nursery.

One task starts jobs as needed: metadata, and for each broker resets of positions, checks of
positions after a change of leaders, and long-polling fetches over a connection of its own. Only one
job of a kind runs at a time; a fetch job continues while fetches return records and there is room.
While a broker's job is overdue, other brokers are asked for metadata: as soon as another broker
leads, that broker is fetched from, and the stuck job delays nothing. Jobs put their results into
`Positions`, `TopicsView` and the buffer; an error that a retry cannot resolve is kept and raised
when records are requested.

Invariants: at most MAX_BUFFERED_FETCHES fetches of a partition are buffered; records fetched before
a seek or a revocation are never returned.

Mirrors: Fetcher, AbstractFetch of the Java client; KIP-227, 392, 951. In Java a paused leader
delays its partitions for request.timeout.ms (30 s), even if another broker leads by then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from functools import partial
from typing import Final, Generic

import trio

from ...protocol.api import ApiKey
from ...protocol.apis.fetch import FetchRequest, FetchResponse, FetchResponsePartitionData
from ...protocol.errors import ErrorCode, ProtocolError
from ...protocol.primitives import Buffer
from ...protocol.records.batch import iter_batch_headers
from ...protocol.topics import TopicPartition
from ..cluster import RETRY_BACKOFF_SECONDS, Cluster
from ..errors import ClientError, ConnectionFailed, LoginError, Refused
from ..refusals import NotAllowed
from .background import Bell
from .fetch_session import FetchSession, SessionRequest, Wanted
from .offset_requests import by_leader
from .options import EARLIEST, ConsumerOptions
from .position_checks import BACKOFF_MS, PositionChecks
from .positions import MAX_BUFFERED_FETCHES, PartitionState, Position, Positions
from .topics_view import Leader, TopicsView
from .unpacking import B, Unpack

IDLE_SECONDS: Final = 1.0  # between two checks for work, if the bell does not ring
OVERDUE_SECONDS: Final = 1.0  # beyond the requested wait: then other brokers are asked for metadata
# A broker silent for this long beyond the wait is tried over another connection: twice as long each
# time, as it may be busy.
FETCH_GRACE_SECONDS: Final = 5.0
MAX_FETCH_GRACE_SECONDS: Final = 30.0
END_SESSIONS_SECONDS: Final = 1.0  # at most: brokers drop idle sessions by themselves

# The metadata is out of date.
_STALE: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.LEADER_NOT_AVAILABLE,
    }
)


def now_ms() -> int:
    return int(trio.current_time() * 1000)


def _due_ms(seconds: float) -> int:
    """The time at which a job is overdue that may take this long."""
    return now_ms() + int((seconds + OVERDUE_SECONDS) * 1000)


class Fetcher(Generic[B]):
    """See the module. `wanted_topics` returns the topics that need metadata; None: all topics.
    `unpack` makes the buffered batches; while `has_room` is False nothing more is fetched."""

    def __init__(
        self,
        cluster: Cluster,
        options: ConsumerOptions,
        positions: Positions,
        wanted_topics: Callable[[], Collection[str] | None],
        unpack: Unpack[B],
        has_room: Callable[[], bool] = lambda: True,
    ) -> None:
        self.purpose = cluster.new_purpose("fetch")  # of its connections

        self._cluster = cluster
        self._options = options
        self._positions = positions
        self._wanted_topics = wanted_topics
        self._unpack = unpack
        self._has_room = has_room
        self.view = TopicsView()
        self.on_metadata: Callable[[], None] = lambda: None
        self.bell = Bell()  # there is something to do
        self.arrived = Bell()  # there is something to take
        self.failure: Exception | None = None
        self.buffer: deque[tuple[PartitionState, int, B, bool]] = deque()
        self._sessions: dict[int, FetchSession] = {}
        self._checks = PositionChecks(
            cluster, options, positions, self.view, self._fail, self._heed
        )
        self._jobs: dict[str, int | None] = {}  # with the time at which each is overdue
        self._grace_seconds: dict[int, float] = {}  # of brokers that did not answer
        self._metadata_due_ms = 0
        self.fetches = 0
        self.bytes_fetched = 0

    # Jobs

    async def run(self) -> None:
        """Start jobs until cancelled."""
        async with trio.open_nursery() as nursery:
            while True:
                self._start_jobs(nursery)
                self._notice_overdue()
                await self.bell.wait(self._seconds_to_next())

    async def end_sessions(self) -> None:
        """End the brokers' fetch sessions, so that they free them. Call it after `run` has
        ended."""
        with trio.move_on_after(END_SESSIONS_SECONDS):
            async with trio.open_nursery() as nursery:
                for node, session in self._sessions.items():
                    request = session.end()
                    if request is not None:
                        nursery.start_soon(self._end_session, node, request)

    async def _end_session(self, node: int, session: SessionRequest) -> None:
        request = self._request(session)
        request.max_wait_ms = 0
        with suppress(ClientError):  # the broker may be gone, and the session with it
            # On another connection: the last fetch may still wait.
            connection = await self._cluster.connection(node)
            await connection.request(ApiKey.FETCH, request, FetchResponse)

    def refresh_metadata(self) -> None:
        """Refresh soon: something has shown that the metadata is out of date."""
        due = now_ms() + BACKOFF_MS
        if due < self._metadata_due_ms:
            self._metadata_due_ms = due
            self.bell.ring()

    def need_metadata(self) -> None:
        """Refresh at once: other topics are wanted."""
        self._metadata_due_ms = 0
        self.bell.ring()

    def _start_jobs(self, nursery: trio.Nursery) -> None:
        now = now_ms()
        if self._metadata_due_ms <= now and self._wanted_topics() != set():
            self._start(nursery, "metadata", self._update_metadata)
        to_ask, is_known = self._checks.resets(now)
        if not is_known:
            self.refresh_metadata()
        for node in to_ask:
            self._start(nursery, f"resets at {node}", partial(self._checks.reset, node), 0.0)
        unvalidated = self._checks.unvalidated()
        for node in by_leader(unvalidated, self.view.leader) if unvalidated else ():
            work = partial(self._checks.validate, node)
            self._start(nursery, f"validations at {node}", work, 0.0)
        wait = self._options.fetch_max_wait_seconds
        for node in self._fetchable(now) if self._has_room() else ():
            name = f"fetch from {node}"
            self._start(nursery, name, partial(self._fetch_from, node, name), wait)

    def _start(
        self,
        nursery: trio.Nursery,
        name: str,
        work: Callable[[], Awaitable[None]],
        seconds: float | None = None,
    ) -> None:
        """`seconds` is the time that the job may take; None: other brokers cannot help."""
        if name not in self._jobs:
            self._jobs[name] = None if seconds is None else _due_ms(seconds)
            nursery.start_soon(self._job, name, work)

    def _notice_overdue(self) -> None:
        """Refresh metadata while a broker is silent."""
        now = now_ms()
        for name, due in self._jobs.items():
            if due is not None and due <= now:
                self.refresh_metadata()
                self._jobs[name] = now + int(OVERDUE_SECONDS * 1000)

    def _seconds_to_next(self) -> float:
        """The time until work is due by the clock alone."""
        now = now_ms()
        times = [now + int(IDLE_SECONDS * 1000), self._metadata_due_ms]
        times += [due for due in self._jobs.values() if due is not None]
        times += [state.backoff_until_ms for _, state in self._positions.items()]
        return (min(at for at in times if at > now) - now) / 1000

    async def _job(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        pause = 0.0
        try:
            await work()
        except (LoginError, Refused) as error:
            self._fail(error)
            pause = RETRY_BACKOFF_SECONDS
        except ClientError:
            self.refresh_metadata()
            pause = RETRY_BACKOFF_SECONDS
        if pause:
            await trio.sleep(pause)
        del self._jobs[name]
        self.bell.ring()

    def _fail(self, error: Exception) -> None:
        """Keep an error, to raise it when records are requested."""
        self.failure = error
        self.arrived.ring()

    def take_failure(self) -> None:
        """Raises the kept error, once."""
        error, self.failure = self.failure, None
        if error is not None:
            raise error

    # Metadata

    async def _update_metadata(self) -> None:
        wanted = self._wanted_topics()
        names = None if wanted is None else sorted(wanted)
        create = self._options.allow_auto_create_topics and wanted is not None
        answer = await self._cluster.metadata(names, create_missing=create)
        self.view.take(answer)
        if wanted is not None:
            self.view.keep_only(wanted)
        is_ready = not self.view.errors and all(
            self._leader_is_known(partition) for partition in self._positions
        )
        age = self._options.metadata_max_age_seconds if is_ready else RETRY_BACKOFF_SECONDS
        self._metadata_due_ms = now_ms() + int(age * 1000)
        for name, code in self.view.errors.items():
            refusal = self._cluster.asks("describe", name).refusal(code)
            if refusal is not None and wanted is not None:
                self._fail(NotAllowed(refusal, code))
            elif code == ErrorCode.INVALID_TOPIC_EXCEPTION:
                self._fail(ClientError(f"{name!r} cannot be the name of a topic"))
        self.on_metadata()
        if not is_ready:
            await trio.sleep(RETRY_BACKOFF_SECONDS)

    def _leader_is_known(self, partition: TopicPartition) -> bool:
        leader = self.view.leader(partition)
        return leader is not None and leader.node >= 0

    # Fetches

    def _fetchable(self, now: int) -> dict[int, dict[TopicPartition, Wanted]]:
        """The partitions to fetch, by broker."""
        unvalidated = self._checks.unvalidated()
        nodes: dict[int, dict[TopicPartition, Wanted]] = {}
        for partition, state in self._positions.items():
            if not state.is_fetchable(now) or partition in unvalidated:
                continue
            leader = self.view.leader(partition)
            if leader is None or leader.node < 0 or state.is_ahead_of(leader.epoch, now):
                self.refresh_metadata()
                continue
            node = state.read_from(leader.node, now)
            at = state.fetch_position
            assert at is not None
            topic_id = self.view.topic_id(partition[0])
            nodes.setdefault(node, {})[partition] = Wanted(
                topic_id, at.offset, leader.epoch, self._options.max_partition_fetch_bytes
            )
        return nodes

    async def _fetch_from(self, node: int, job: str) -> None:
        """Fetch again and again, while fetches return only records and there is room for more."""
        while self._has_room() and (wanted := self._fetchable(now_ms()).get(node)):
            self._jobs[job] = _due_ms(self._options.fetch_max_wait_seconds)
            if not await self._fetch(node, wanted):
                return

    async def _fetch(self, node: int, wanted: dict[TopicPartition, Wanted]) -> bool:
        """Whether every partition of the answer has brought records: then fetch again at once."""
        attempts = {tp: self._positions[tp].attempt for tp in wanted}
        session = self._sessions.setdefault(node, FetchSession())
        request = self._request(session.request(wanted))
        grace = self._grace_seconds.get(node, FETCH_GRACE_SECONDS)
        begun = trio.current_time()
        try:
            connection = await self._cluster.connection(node, self.purpose)
            timeout = self._options.fetch_max_wait_seconds + grace
            answer = await connection.request(
                ApiKey.FETCH, request, FetchResponse, timeout_seconds=timeout
            )
        except ClientError:
            session.on_lost()
            if trio.current_time() - begun >= grace:
                self._grace_seconds[node] = min(2 * grace, MAX_FETCH_GRACE_SECONDS)
            for partition in wanted:
                if (state := self._positions.get(partition)) is not None:
                    state.preferred_replica = -1
            raise
        self._grace_seconds.pop(node, None)
        code = ErrorCode(answer.error_code)
        if not session.on_answer(code, answer.session_id):
            if code not in (
                ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
                ErrorCode.INVALID_FETCH_SESSION_EPOCH,
            ):
                raise ConnectionFailed(f"a fetch from broker {node} failed: {code.description}")
            return False
        self.fetches += 1
        parts = buffered = 0
        for topic in answer.responses:
            name = topic.topic or self.view.name_of(topic.topic_id)
            for part in topic.partitions if name else []:
                partition = (str(name), part.partition_index)
                state = self._positions.get(partition)
                if state is None or partition not in wanted or state.attempt != attempts[partition]:
                    continue
                at = state.fetch_position
                if at is None or at.offset != wanted[partition].offset:
                    continue
                if parts:  # each is a step: other tasks run between two
                    await trio.lowlevel.checkpoint()
                parts += 1
                buffered += await self._take(partition, state, part)
        return 0 < parts == buffered

    def _request(self, session: SessionRequest) -> FetchRequest:
        options = self._options
        return FetchRequest(
            max_wait_ms=int(options.fetch_max_wait_seconds * 1000),
            min_bytes=options.fetch_min_bytes,
            max_bytes=options.fetch_max_bytes,
            isolation_level=int(options.reads_committed),
            session_id=session.session_id,
            session_epoch=session.epoch,
            topics=session.topics,
            forgotten_topics_data=session.forgotten,
            rack_id=options.rack or "",
        )

    async def _take(
        self,
        partition: TopicPartition,
        state: PartitionState,
        part: FetchResponsePartitionData,
    ) -> bool:
        """Put one partition's part of an answer into the buffer; False if nothing was buffered."""
        code = ErrorCode(part.error_code)
        if code != ErrorCode.NONE:
            self._refused(partition, state, part, code)
            return False
        if part.preferred_read_replica >= 0:
            state.prefer(part.preferred_read_replica, now_ms())
            return False
        state.high_watermark = part.high_watermark
        state.last_stable_offset = part.last_stable_offset
        if part.log_start_offset >= 0:
            state.log_start_offset = part.log_start_offset
        records = part.records
        if not records:
            return False
        assert isinstance(records, (bytes, memoryview))
        self.bytes_fetched += len(records)
        attempt, at = state.attempt, state.fetch_position
        if at is None:
            return False
        aborted = (part.aborted_transactions or ()) if self._options.reads_committed else None
        try:
            batches = await self._unpack(partition, records, at.offset, aborted)
        except ProtocolError as error:
            name = f"{partition[0]}-{partition[1]}"
            self._fail(ClientError(f"{name} cannot be read at {at}: {error}; seek past it"))
            state.is_paused = True
            return False
        if state.attempt != attempt or state.fetch_position != at:
            # The position was changed, or another broker has sent the same: leadership has moved.
            return False
        if not batches:
            self._too_large(partition, state, records)
            return False
        state.take_fetched(batches[-1].next_offset, batches[-1].leader_epoch)
        self.buffer.extend((state, attempt, b, b is batches[-1]) for b in batches)
        self.arrived.ring()
        return True

    def _too_large(self, partition: TopicPartition, state: PartitionState, records: Buffer) -> None:
        """Brokers before 0.10.1 truncate a batch that is larger than the limit (no KIP-74)."""
        if next(iter_batch_headers(records), None) is None:
            name = f"{partition[0]}-{partition[1]}"
            self._fail(
                ClientError(
                    f"{name} has a batch of more than {len(records)} bytes: "
                    "raise max_partition_fetch_bytes"
                )
            )
            state.is_paused = True

    def _refused(
        self,
        partition: TopicPartition,
        state: PartitionState,
        part: FetchResponsePartitionData,
        code: ErrorCode,
    ) -> None:
        state.backoff_until_ms = now_ms() + BACKOFF_MS
        was_follower = state.preferred_replica >= 0
        state.preferred_replica = -1
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            if not was_follower:  # a follower may be behind; the leader decides
                self._out_of_range(partition, state)
            return
        leader = part.current_leader
        if leader.leader_id >= 0:
            self.view.move(partition, Leader(leader.leader_id, leader.leader_epoch))
        self._heed(partition, code)

    def _out_of_range(self, partition: TopicPartition, state: PartitionState) -> None:
        reset_to = self._options.reset_to
        if reset_to is not None:
            state.request_reset(reset_to)
            return
        at = state.fetch_position
        name = f"{partition[0]}-{partition[1]}"
        self._fail(ClientError(f"{name}: there is no offset {at.offset if at else EARLIEST}"))
        state.is_paused = True

    def _heed(self, partition: TopicPartition, code: ErrorCode) -> None:
        """Handle an error of one partition: refresh metadata for a retry, or fail."""
        refusal = self._cluster.asks("read", partition[0]).refusal(code)
        if refusal is not None:
            self._fail(NotAllowed(refusal, code))
        elif code in _STALE or code.retriable:
            self.refresh_metadata()
        else:
            name = f"{partition[0]}-{partition[1]}"
            self._fail(ClientError(f"{name} cannot be fetched: {code.description} ({code.name})"))

    # Batches for the application

    def take(self, max_records: int) -> B | None:
        """The next batch of a partition that is not paused; the position moves behind it."""
        paused = []
        found = None
        while self.buffer and found is None:
            entry = self.buffer.popleft()
            state, attempt, batch, is_last = entry
            if state.attempt != attempt or state.is_revoked:
                continue
            if state.is_paused:
                paused.append(entry)
                continue
            first, rest = batch.split(max_records)
            if rest is not None:
                self.buffer.appendleft((state, attempt, rest, is_last))
            elif is_last:
                if state.buffered_count == MAX_BUFFERED_FETCHES:  # it had been too full to fetch
                    self.bell.ring()
                state.buffered_count -= 1
            state.position = Position(first.next_offset, first.leader_epoch)
            if len(first):
                found = first
        self.buffer.extendleft(reversed(paused))
        return found
