"""Fetches the assigned partitions into a bounded buffer, in the consumer's own nursery.

One task decides what is to be done, and starts a job for each: metadata, resets of positions,
checks of positions after a change of leaders, and one long-polling fetch for each broker over a
connection of its own. A job of a kind runs once at a time. All that jobs learn goes into
`Positions`, `TopicsView` and the buffer; an error that trying again does not heal is kept and
raised where records are asked for.

Invariants: of a partition at most MAX_BUFFERED_FETCHES fetches are buffered; what was fetched
before a seek or a revocation is never handed out.

Mirrors: Fetcher, AbstractFetch, OffsetFetcher of the Java client; KIP-227, 320, 392, 951.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import Final, Generic

import trio

from ...protocol.api import ApiKey
from ...protocol.errors import ErrorCode, ProtocolError
from ...protocol.messages.fetch import (
    FetchRequest,
    FetchResponse,
    FetchResponsePartitionData,
)
from ...protocol.primitives import Buffer
from ...protocol.records.batch import iter_batch_headers
from ...protocol.topics import TopicPartition
from ..cluster import RETRY_BACKOFF_SECONDS, Cluster
from ..errors import ClientError, ConnectionFailed, LoginError, Refused
from ..refusals import NotAllowed
from .background import Bell
from .fetch_session import FetchSession, SessionRequest, Wanted
from .offset_requests import Found, by_leader, leader_epoch_ends, list_offsets
from .options import EARLIEST, ConsumerOptions
from .positions import NO_EPOCH, PartitionState, Position, Positions
from .topics_view import Leader, TopicsView
from .unpacking import B, Unpack

IDLE_SECONDS: Final = 1.0  # between looks at what is to be done, when nobody rings
BACKOFF_MS: Final = int(RETRY_BACKOFF_SECONDS * 1000)
# A broker that has not answered for so long beyond the wait is paused or cut off; others may lead.
FETCH_GRACE_SECONDS: Final = 15.0
FETCH: Final = "fetch"  # the purpose of the connections

# The metadata is not as it was.
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


class Fetcher(Generic[B]):
    """See the module. `wanted_topics` says what metadata is for; None: all topics. `unpack` makes
    what is buffered; while `has_room` is False nothing more is fetched."""

    def __init__(
        self,
        cluster: Cluster,
        options: ConsumerOptions,
        positions: Positions,
        wanted_topics: Callable[[], Collection[str] | None],
        unpack: Unpack[B],
        has_room: Callable[[], bool] = lambda: True,
    ) -> None:
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
        self._jobs: set[str] = set()
        self._metadata_due_ms = 0
        self._node_backoff_ms: dict[int, int] = {}
        self.fetches = 0
        self.bytes_fetched = 0

    # What is to be done

    async def run(self) -> None:
        """Until it is cancelled."""
        async with trio.open_nursery() as nursery:
            while True:
                self._start_jobs(nursery)
                await self.bell.wait(IDLE_SECONDS)

    def refresh_metadata(self) -> None:
        """Soon: something has shown that it is not as it was."""
        self._metadata_due_ms = min(self._metadata_due_ms, now_ms() + BACKOFF_MS)
        self.bell.ring()

    def need_metadata(self) -> None:
        """At once: other topics are wanted."""
        self._metadata_due_ms = 0
        self.bell.ring()

    def _start_jobs(self, nursery: trio.Nursery) -> None:
        now = now_ms()
        if self._metadata_due_ms <= now and self._wanted_topics() != set():
            self._start(nursery, "metadata", self._update_metadata)
        if self._positions.resets(now):
            self._start(nursery, "resets", self._reset)
        if self._unvalidated():
            self._start(nursery, "validations", self._validate)
        for node in self._fetchable(now) if self._has_room() else ():
            self._start(nursery, f"fetch from {node}", partial(self._fetch_from, node))

    def _start(self, nursery: trio.Nursery, name: str, work: Callable[[], Awaitable[None]]) -> None:
        if name not in self._jobs:
            self._jobs.add(name)
            nursery.start_soon(self._job, name, work)

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
        self._jobs.discard(name)
        self.bell.ring()

    def _fail(self, error: Exception) -> None:
        """Raised to whoever asks for records."""
        self.failure = error
        self.arrived.ring()

    def take_failure(self) -> None:
        """Raises what has gone wrong, once."""
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

    # Positions

    async def _reset(self) -> None:
        """Ask for the offsets that positions are to be set to."""
        wanted = self._positions.resets(now_ms())
        nodes = by_leader(wanted, self.view.leader)
        if sum(map(len, nodes.values())) < len(wanted):
            self.refresh_metadata()
            await trio.sleep(RETRY_BACKOFF_SECONDS)
        for node, leaders in nodes.items():
            connection = await self._cluster.connection(node)
            asked = {tp: (wanted[tp][0], leader) for tp, leader in leaders.items()}
            found = await list_offsets(
                connection, asked, reads_committed=self._options.reads_committed
            )
            for partition, each in found.items():
                self._take_reset(partition, wanted[partition], each)

    def _take_reset(
        self, partition: TopicPartition, asked: tuple[int, int], found: Found | ErrorCode
    ) -> None:
        state = self._positions.get(partition)
        if state is None or state.attempt != asked[1] or state.reset_to is None:
            return  # sought elsewhere meanwhile
        if isinstance(found, Found):
            if found.offset >= 0:
                state.seek(Position(found.offset, found.epoch))
            else:  # no record is that young
                state.request_reset(-1)
            return
        state.backoff_until_ms = now_ms() + BACKOFF_MS
        self._heed(partition, found)

    def _unvalidated(self) -> dict[TopicPartition, tuple[int, Leader]]:
        """Positions whose leader has changed since they were checked (KIP-320)."""
        found = {}
        for partition, state in self._positions.items():
            at = state.fetch_position
            if at is None or at.epoch == NO_EPOCH:
                continue
            leader = self.view.leader(partition)
            if leader is None or leader.node < 0 or leader.epoch == NO_EPOCH:
                continue
            if state.validated_epoch == NO_EPOCH and leader.epoch == at.epoch:
                state.validated_epoch = leader.epoch
            elif leader.epoch > state.validated_epoch:
                found[partition] = (at.epoch, leader)
        return found

    async def _validate(self) -> None:
        """Whether the log still is, up to the position, what it was when that was read."""
        wanted = self._unvalidated()
        attempts = {tp: self._positions[tp].attempt for tp in wanted}
        for node, leaders in by_leader(wanted, self.view.leader).items():
            connection = await self._cluster.connection(node)
            asked = {tp: (wanted[tp][0], leader) for tp, leader in leaders.items()}
            for partition, end in (await leader_epoch_ends(connection, asked)).items():
                state = self._positions.get(partition)
                if state is None or state.attempt != attempts[partition]:
                    continue
                if isinstance(end, ErrorCode):
                    state.backoff_until_ms = now_ms() + BACKOFF_MS
                    self._heed(partition, end)
                    await trio.sleep(RETRY_BACKOFF_SECONDS)
                else:
                    self._take_end(partition, state, end, leaders[partition])

    def _take_end(
        self, partition: TopicPartition, state: PartitionState, end: Position, leader: Leader
    ) -> None:
        at = state.fetch_position
        if at is None:
            return
        if end.offset >= at.offset and end.epoch != NO_EPOCH:
            state.validated_epoch = leader.epoch
            return
        reset_to = self._options.reset_to
        name = f"{partition[0]}-{partition[1]}"
        if end.offset >= 0 and end.epoch != NO_EPOCH and state.position is not None:
            diverged = min(end.offset, state.position.offset)
            if reset_to is not None:
                state.seek(Position(diverged, end.epoch))
                state.validated_epoch = leader.epoch
                return
            self._fail(ClientError(f"{name} was cut off at offset {end.offset}: seek to go on"))
        elif reset_to is not None:
            state.request_reset(reset_to)
            return
        else:
            self._fail(ClientError(f"{name} has no record of epoch {at.epoch}: seek to go on"))
        state.is_paused = True

    # Fetches

    def _fetchable(self, now: int) -> dict[int, dict[TopicPartition, Wanted]]:
        """By broker, what is to be fetched from it."""
        unvalidated = self._unvalidated()
        nodes: dict[int, dict[TopicPartition, Wanted]] = {}
        for partition, state in self._positions.items():
            if not state.is_fetchable(now) or partition in unvalidated:
                continue
            leader = self.view.leader(partition)
            if leader is None or leader.node < 0:
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

    async def _fetch_from(self, node: int) -> None:
        wanted = self._fetchable(now_ms()).get(node)
        if not wanted:
            return
        attempts = {tp: self._positions[tp].attempt for tp in wanted}
        session = self._sessions.setdefault(node, FetchSession())
        request = self._request(session.request(wanted))
        try:
            connection = await self._cluster.connection(node, FETCH)
            timeout = self._options.fetch_max_wait_seconds + FETCH_GRACE_SECONDS
            answer = await connection.request(
                ApiKey.FETCH, request, FetchResponse, timeout_seconds=timeout
            )
        except ClientError:
            session.on_lost()
            for partition in wanted:
                if (state := self._positions.get(partition)) is not None:
                    state.preferred_replica = -1
            raise
        code = ErrorCode(answer.error_code)
        if not session.on_answer(code, answer.session_id):
            if code not in (
                ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
                ErrorCode.INVALID_FETCH_SESSION_EPOCH,
            ):
                raise ConnectionFailed(f"a fetch from broker {node} failed: {code.description}")
            return
        self.fetches += 1
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
                await self._take(partition, state, part)

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
    ) -> None:
        """One partition's part of an answer goes into the buffer."""
        code = ErrorCode(part.error_code)
        if code != ErrorCode.NONE:
            self._refused(partition, state, part, code)
            return
        if part.preferred_read_replica >= 0:
            state.prefer(part.preferred_read_replica, now_ms())
            return
        state.high_watermark = part.high_watermark
        state.last_stable_offset = part.last_stable_offset
        if part.log_start_offset >= 0:
            state.log_start_offset = part.log_start_offset
        records = part.records
        if not records:
            return
        assert isinstance(records, (bytes, memoryview))
        self.bytes_fetched += len(records)
        attempt, at = state.attempt, state.fetch_position
        if at is None:
            return
        aborted = (part.aborted_transactions or ()) if self._options.reads_committed else None
        try:
            batches = await self._unpack(partition, records, at.offset, aborted)
        except ProtocolError as error:
            name = f"{partition[0]}-{partition[1]}"
            self._fail(ClientError(f"{name} cannot be read at {at}: {error}; seek past it"))
            state.is_paused = True
            return
        if state.attempt != attempt:
            return
        if not batches:
            self._too_large(partition, state, records)
            return
        state.take_fetched(batches[-1].next_offset, batches[-1].leader_epoch)
        self.buffer.extend((state, attempt, b, b is batches[-1]) for b in batches)
        self.arrived.ring()

    def _too_large(self, partition: TopicPartition, state: PartitionState, records: Buffer) -> None:
        """Brokers before 0.10.1 cut a batch that is larger than the limit (no KIP-74)."""
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
            if not was_follower:  # a follower may be behind; the leader knows better
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
        """An error of one partition: wait, learn the leaders anew, or tell the application."""
        refusal = self._cluster.asks("read", partition[0]).refusal(code)
        if refusal is not None:
            self._fail(NotAllowed(refusal, code))
        elif code in _STALE or code.retriable:
            self.refresh_metadata()
        else:
            name = f"{partition[0]}-{partition[1]}"
            self._fail(ClientError(f"{name} cannot be fetched: {code.description} ({code.name})"))

    # What the application takes

    def take(self, max_records: int) -> B | None:
        """The next batch of a partition that is not paused; its position goes behind it."""
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
                state.buffered_count -= 1
                self.bell.ring()
            state.position = Position(first.next_offset, first.leader_epoch)
            if len(first):
                found = first
        self.buffer.extendleft(reversed(paused))
        return found
