"""Incremental fetch sessions (KIP-227): a client names its partitions once, then only changes.

A request carries (session id, epoch):
  (0, -1)  everything named, no session          (0, 0)   everything named, make a session
  (id, -1) close `id`, as (0, -1)                 (id, 0)  close `id`, as (0, 0)
  (id, n)  changes and forgotten partitions since (id, n - 1)
`FetchSessions.begin` turns it into a context whose `entries` are to be read; `finish` takes the
results and returns the content of the response. An incremental response leaves out a partition that
has no news: no records, same HW and log start, no error, no divergence, no preferred replica.

Invariants: a session's epoch grows by one with each accepted request and wraps from 2^31-1 to 1; a
refused request changes nothing; a partition that had records goes to the end of the order, so that
none starves; an error is repeated until it is over.

Mirrors FetchSession, FetchManager and their cache. Leaves out the cache's shards, which exist to
share out a lock. The cache is bounded by slots; eviction searches it, which happens only when full.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from ..protocol.apis.fetch import FetchResponsePartitionData
from ..protocol.errors import ErrorCode
from .types import FetchEntry, FetchResults

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
MAX_EPOCH: Final = 2**31 - 1
MAX_SESSION_ID: Final = 2**31 - 1
EVICTION_AGE_MS: Final = 120_000
DEFAULT_SLOTS: Final = 1000

# (topic name or topic id, partition)
SessionKey = tuple[str | bytes, int]
Answer = list[tuple[FetchEntry, FetchResponsePartitionData]]


def next_epoch(epoch: int) -> int:
    if epoch < 0:
        return FINAL_EPOCH
    return 1 if epoch == MAX_EPOCH else epoch + 1


class SessionPartition(FetchEntry):
    """A partition of a session: its fetch parameters, and the offsets answered last."""

    __slots__ = ("sent_high_watermark", "sent_log_start_offset")

    def __init__(self, entry: FetchEntry) -> None:
        super().__init__(
            entry.topic,
            entry.partition,
            topic_id=entry.topic_id,
            fetch_offset=entry.fetch_offset,
            max_bytes=entry.max_bytes,
            current_leader_epoch=entry.current_leader_epoch,
            last_fetched_epoch=entry.last_fetched_epoch,
            log_start_offset=entry.log_start_offset,
        )
        self.sent_high_watermark = -1
        self.sent_log_start_offset = -1

    def take_over(self, entry: FetchEntry) -> None:
        self.latest = None
        if (
            entry.current_leader_epoch != self.current_leader_epoch
            or entry.fetch_offset < self.fetch_offset
        ):
            # A follower that got a new epoch, or has cut its log, while an answer was on its way
            # took nothing from that answer. (Kafka's follower then keeps its HW till the next one.)
            self.sent_high_watermark = -1
        self.fetch_offset = entry.fetch_offset
        self.max_bytes = entry.max_bytes
        self.current_leader_epoch = entry.current_leader_epoch
        self.last_fetched_epoch = entry.last_fetched_epoch
        self.log_start_offset = entry.log_start_offset

    def has_news(self, data: FetchResponsePartitionData) -> bool:
        """Whether `data` must be sent; remembers what is sent."""
        news = bool(data.records) or data.preferred_read_replica >= 0
        if data.high_watermark != self.sent_high_watermark:
            self.sent_high_watermark = data.high_watermark
            news = True
        if data.log_start_offset != self.sent_log_start_offset:
            self.sent_log_start_offset = data.log_start_offset
            news = True
        if data.error_code or data.diverging_epoch.epoch >= 0:
            # The next answer without the error or divergence then counts as news, too: a follower
            # that has to truncate its log ignores the HW of this answer.
            self.sent_high_watermark = -1
            news = True
        return news


class FetchSession:
    """The partitions that one client or follower fetches repeatedly, in the order of service."""

    __slots__ = (
        "approved",
        "created_ms",
        "epoch",
        "is_privileged",
        "last_used_ms",
        "partitions",
        "session_id",
        "uses_topic_ids",
    )

    def __init__(
        self,
        session_id: int,
        partitions: dict[SessionKey, SessionPartition],
        *,
        is_privileged: bool,
        uses_topic_ids: bool,
        now_ms: int,
    ) -> None:
        # Never NO_SESSION, and no other session's; never changes.
        self.session_id = session_id
        # In the order of the next answer: one that had records goes to the end.
        self.partitions = partitions
        # A follower's; it gives way to no client's.
        self.is_privileged = is_privileged
        # Fetch v13 and later; a session never changes between names and ids.
        self.uses_topic_ids = uses_topic_ids
        # Both in ms of the monotonic clock; each accepted request sets the second.
        self.created_ms = now_ms
        self.last_used_ms = now_ms
        # The epoch that the next request must name: 1 to MAX_EPOCH, one more per accepted request.
        self.epoch = next_epoch(INITIAL_EPOCH)
        # A fact that the owner found true of all partitions; reset when a partition is added.
        self.approved: object = None

    @property
    def value(self) -> tuple[bool, int, int]:
        return (self.is_privileged, len(self.partitions), self.session_id)

    @property
    def is_established(self) -> bool:
        """Old enough at its last use to give way to a session that is worth more."""
        return self.last_used_ms - self.created_ms > EVICTION_AGE_MS

    def update(
        self, changes: Mapping[SessionKey, FetchEntry], forgotten: Iterable[SessionKey]
    ) -> None:
        partitions = self.partitions
        for key, entry in changes.items():
            known = partitions.get(key)
            if known is None:
                partitions[key] = SessionPartition(entry)
                self.approved = None
            else:
                known.take_over(entry)
        for key in forgotten:
            partitions.pop(key, None)


def session_key(entry: FetchEntry, uses_topic_ids: bool) -> SessionKey:
    if uses_topic_ids:
        return entry.topic_id, entry.partition
    assert entry.topic is not None
    return entry.topic, entry.partition


class FetchContext:
    """One fetch request's view of its session: without one, everything that was read is sent."""

    __slots__ = ("entries", "error_code", "session")

    def __init__(
        self,
        entries: Sequence[FetchEntry] = (),
        error_code: ErrorCode = ErrorCode.NONE,
        session: FetchSession | None = None,
    ) -> None:
        self.entries = entries
        self.error_code = error_code
        self.session = session  # that is there already

    def finish(self, results: FetchResults) -> tuple[ErrorCode, int, Answer]:
        """(error, session id, results to send) for the results, which are in the entries' order."""
        return self.error_code, NO_SESSION, list(zip(self.entries, results, strict=True))

    def withheld(self) -> tuple[ErrorCode, int]:
        """(error, session id) of the empty answer to a client that is over its quota: the session
        is as if it had not asked."""
        return ErrorCode.NONE, NO_SESSION


class NewSessionContext(FetchContext):
    """A full fetch that opens a session, if there is room for one."""

    __slots__ = ("_is_privileged", "_now_ms", "_sessions", "_uses_topic_ids")

    def __init__(
        self,
        entries: Sequence[FetchEntry],
        sessions: "FetchSessions",
        *,
        is_privileged: bool,
        uses_topic_ids: bool,
        now_ms: int,
    ) -> None:
        super().__init__(entries)
        self._now_ms = now_ms
        self._sessions = sessions
        self._is_privileged = is_privileged
        self._uses_topic_ids = uses_topic_ids

    def finish(self, results: FetchResults) -> tuple[ErrorCode, int, Answer]:
        answer: Answer = list(zip(self.entries, results, strict=True))
        session_id = self._sessions.create(
            answer,
            self._now_ms,
            is_privileged=self._is_privileged,
            uses_topic_ids=self._uses_topic_ids,
        )
        return ErrorCode.NONE, session_id, answer


class IncrementalContext(FetchContext):
    """A fetch in a session: only partitions with news are answered, and partitions with records go
    to the end of the order."""

    __slots__ = ("_expected_epoch", "_session")

    def __init__(self, session: FetchSession) -> None:
        super().__init__(list(session.partitions.values()), session=session)
        self._session = session
        self._expected_epoch = session.epoch

    def finish(self, results: FetchResults) -> tuple[ErrorCode, int, Answer]:
        session = self._session
        if session.epoch != self._expected_epoch:
            # The client has sent its next request already, perhaps on another connection.
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH, session.session_id, []
        answer: Answer = []
        partitions = session.partitions
        for entry, data in zip(self.entries, results, strict=True):
            assert isinstance(entry, SessionPartition)
            if entry.has_news(data):
                answer.append((entry, data))
                if data.records:
                    key = session_key(entry, session.uses_topic_ids)
                    partitions[key] = partitions.pop(key)
        return ErrorCode.NONE, session.session_id, answer

    def withheld(self) -> tuple[ErrorCode, int]:
        session = self._session
        is_expected = session.epoch == self._expected_epoch
        error = ErrorCode.NONE if is_expected else ErrorCode.INVALID_FETCH_SESSION_EPOCH
        return error, session.session_id


class FetchSessions:
    """The sessions of this broker, at most `slots` of them."""

    __slots__ = ("_random_id", "_sessions", "eviction_count", "slots")

    def __init__(self, random_id: Callable[[int, int], int], slots: int = DEFAULT_SLOTS) -> None:
        self._random_id = random_id
        self.slots = slots
        self.eviction_count = 0
        # In the order of their last use.
        self._sessions: dict[int, FetchSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partition_count(self) -> int:
        return sum(len(session.partitions) for session in self._sessions.values())

    def size_with(self, session_id: int, change_count: int) -> int:
        """At most so many partitions a session will have with that many changes."""
        session = self._sessions.get(session_id)
        return change_count + (0 if session is None else len(session.partitions))

    def begin(
        self,
        session_id: int,
        epoch: int,
        changes: Mapping[SessionKey, FetchEntry],
        forgotten: Iterable[SessionKey],
        *,
        is_follower: bool,
        uses_topic_ids: bool,
        now_ms: int,
    ) -> FetchContext:
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self._sessions.pop(session_id, None)
            entries = list(changes.values())
            if epoch == FINAL_EPOCH:
                return FetchContext(entries)
            return NewSessionContext(
                entries,
                self,
                is_privileged=is_follower,
                uses_topic_ids=uses_topic_ids,
                now_ms=now_ms,
            )
        session = self._sessions.get(session_id)
        if session is None:
            return FetchContext(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != epoch:
            return FetchContext(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids != uses_topic_ids:
            return FetchContext(error_code=ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        session.update(changes, forgotten)
        del self._sessions[session_id]
        if not session.partitions:
            return FetchContext()
        self._sessions[session_id] = session
        session.last_used_ms = now_ms
        session.epoch = next_epoch(session.epoch)
        return IncrementalContext(session)

    def create(
        self, answer: Answer, now_ms: int, *, is_privileged: bool, uses_topic_ids: bool
    ) -> int:
        """A session of these partitions, or NO_SESSION if there is no room for it."""
        value = (is_privileged, len(answer), 0)
        if len(self._sessions) >= self.slots and not self._evict(value, now_ms):
            return NO_SESSION
        partitions: dict[SessionKey, SessionPartition] = {}
        for entry, data in answer:
            partition = SessionPartition(entry)
            partition.has_news(data)  # it is sent in any case, and remembered
            partitions[session_key(entry, uses_topic_ids)] = partition
        session_id = self._new_id()
        self._sessions[session_id] = FetchSession(
            session_id,
            partitions,
            is_privileged=is_privileged,
            uses_topic_ids=uses_topic_ids,
            now_ms=now_ms,
        )
        return session_id

    def _new_id(self) -> int:
        while True:
            session_id = self._random_id(1, MAX_SESSION_ID)
            if session_id not in self._sessions:
                return session_id

    def _evict(self, value: tuple[bool, int, int], now_ms: int) -> bool:
        """Make room: evict an unused session, else a session worth less than `value`."""
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None:
            return False
        if now_ms - oldest.last_used_ms > EVICTION_AGE_MS:
            victim = oldest
        else:
            # A follower's new session may take the place of any consumer's.
            candidates = [
                session
                for session in self._sessions.values()
                if session.is_established or (value[0] and not session.is_privileged)
            ]
            if not candidates:
                return False
            victim = min(candidates, key=_value_of)
            if value < victim.value:
                return False
        del self._sessions[victim.session_id]
        self.eviction_count += 1
        return True


def _value_of(session: FetchSession) -> tuple[bool, int, int]:
    return session.value
