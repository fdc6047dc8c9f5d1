"""Follows one leader broker: its next request for our partitions, and the handling of answers.

Job: `next_step` returns the request to send now (or the time to wait), `answered` and `failed` take
its outcome. One exchange at a time. In this order: cut logs whose last epoch is in doubt (an
OffsetForLeaderEpoch for those that have epochs), find the range of those that are out of it
(ListOffsets), then fetch for all that are ready.

Invariants: only a partition whose log does not diverge from the leader's fetches; an answer counts
only for the very state that asked (same leader epoch, same offset); records are appended as they
come, at the log end; an error of one partition delays this partition only; nothing is fetched while
an append of ours still waits for its flush, because the next fetch acknowledges it.

Mirrors AbstractFetcherThread and ReplicaFetcherThread. Leaves out moves between log directories.
"""

import logging
from collections.abc import Iterator

from ..protocol.apis.fetch import (
    FetchRequest,
    FetchResponse,
    FetchResponsePartitionData,
    ReplicaState,
)
from ..protocol.apis.list_offsets import ListOffsetsResponse
from ..protocol.apis.offset_for_leader_epoch import OffsetForLeaderEpochResponse
from ..protocol.errors import ErrorCode, KafkaError
from ..protocol.schema import Message
from ..protocol.topics import TopicPartition
from .follower import FollowerPartition, FollowerState
from .follower_appends import FollowerAppends
from .follower_queries import FollowerQueries, ask_epochs, ask_offsets
from .follower_session import FollowerSession, SessionRequest, Wanted
from .follower_steps import (
    FETCH_BY_ID,
    FETCH_WITH_REPLICA_STATE,
    NEWEST_FETCH_BY_NAME,
    THROTTLED_WAIT_MS,
    Exchange,
    FetcherConfig,
    Wait,
)
from .follower_table import FollowerTable
from .replica_manager import ReplicaManager
from .throttle import UNLIMITED
from .types import CONSUMER_REPLICA_ID, NO_EPOCH, ZERO_TOPIC_ID, RebuildFromTier, TierState

logger = logging.getLogger("pybroker.replication.follower_fetcher")

# The session is over, but the leader is well: name everything anew, at once.
_SESSION_ERRORS = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)


_SEARCHING = (
    FollowerState.FINDING_END,
    FollowerState.FINDING_START,
    FollowerState.FINDING_LOCAL_START,
)


class FollowerFetcher:
    __slots__ = (
        "_appends",
        "_config",
        "_manager",
        "_queries",
        "_session",
        "fetcher_id",
        "source_id",
        "table",
    )

    def __init__(
        self, manager: ReplicaManager, source_id: int, fetcher_id: int, config: FetcherConfig
    ) -> None:
        self.source_id = source_id
        self.fetcher_id = fetcher_id
        self._manager = manager
        self._config = config
        self._session = FollowerSession()
        self.table = FollowerTable(manager, source_id, config)
        self._appends = FollowerAppends(manager, self.table)
        self._queries = FollowerQueries(self.table, self._appends, manager.effects)

    # The next step

    def next_step(self, now_ms: int) -> Exchange | Wait:
        table = self.table
        table.drop_stale()
        if table.unflushed:
            return Wait(None)
        if table.delayed:
            table.end_delays(now_ms)
        for state in table.changed.values():
            if state.state is not FollowerState.FETCHING:
                question = self._ask(now_ms)
                if question is not None:
                    return question
                break
        return self._fetch(now_ms)

    def _ask(self, now_ms: int) -> Exchange | None:
        """The next question that must be answered before all partitions can fetch."""
        table = self.table
        asking = [state for state in table.changed.values() if state.key not in table.delayed]
        truncating = []
        for state in asking:
            if state.state is FollowerState.FINDING_EARLIER_EPOCH:
                truncating.append(state)
            elif state.state is FollowerState.TRUNCATING:
                if self._has_epochs(state):
                    truncating.append(state)
                else:
                    self._truncate_without_epochs(state, now_ms)
        if truncating:
            version = self._config.protocol.offset_for_leader_epoch
            return ask_epochs(truncating, self._manager.config.broker_id, version)
        searching = [state for state in asking if state.state in _SEARCHING]
        if searching:
            version = self._config.protocol.list_offsets
            return ask_offsets(searching, self._manager.config.broker_id, version)
        return None

    def _has_epochs(self, state: FollowerPartition) -> bool:
        return state.partition.log.leader_epochs.latest_epoch >= 0

    def _truncate_without_epochs(self, state: FollowerPartition, now_ms: int) -> None:
        """An empty log, or one of old formats: all that is known to be right is below the HW."""
        try:
            self._appends.truncate(state, state.initial_offset, now_ms)
        except KafkaError as error:
            self.table.trouble(state, error, now_ms)

    def _fetch(self, now_ms: int) -> Exchange | Wait:
        config, manager, table = self._config, self._manager, self.table
        changed: dict[TopicPartition, Wanted] = {}
        later: dict[TopicPartition, FollowerPartition] = {}
        has_quota = manager.follower_quota.limit != UNLIMITED
        throttled = self._throttled_count() if has_quota else 0
        for key, state in table.changed.items():
            if key in table.delayed:
                table.forget.add(key)
            elif state.state is not FollowerState.FETCHING:
                table.forget.add(key)
                later[key] = state
            elif has_quota and not state.is_in_sync and self._is_over_quota(state, now_ms):
                table.forget.add(key)
                state.delayed_until_ms = now_ms + THROTTLED_WAIT_MS
                table.delayed[key] = state
            else:
                table.forget.discard(key)
                changed[key] = self._wanted(state, throttled, now_ms)
        table.changed = later
        request = self._session.build(changed, table.forget)
        table.forget.clear()
        if not len(self._session) and not request.forgotten:
            return Wait(table.next_due_ms())
        # A new session must be answered at once: no other request would open it meanwhile.
        is_long_poll = self._session.needs_no_session
        wait_ms = config.wait_max_ms if is_long_poll else 0
        due_ms = table.next_due_ms() if table.delayed else None
        if due_ms is not None:
            wait_ms = max(0, min(wait_ms, due_ms - now_ms))
        broker_id, version = manager.config.broker_id, config.protocol.fetch
        if not request.uses_topic_ids:
            version = min(version, NEWEST_FETCH_BY_NAME)
        with_state = version >= FETCH_WITH_REPLICA_STATE
        return Exchange(
            FetchRequest(
                replica_id=CONSUMER_REPLICA_ID if with_state else broker_id,
                replica_state=(
                    ReplicaState(
                        replica_id=broker_id, replica_epoch=manager.leadership.broker_epoch
                    )
                    if with_state
                    else ReplicaState()
                ),
                max_wait_ms=wait_ms,
                min_bytes=config.min_bytes,
                max_bytes=config.response_max_bytes,
                session_id=request.session_id,
                session_epoch=request.epoch,
                topics=request.topics,
                forgotten_topics_data=request.forgotten,
            ),
            version,
            {},
            request,
            is_long_poll=wait_ms > 0,
        )

    def _is_over_quota(self, state: FollowerPartition, now_ms: int) -> bool:
        manager = self._manager
        throttled = self._appends.is_throttled(state)
        return throttled and manager.follower_quota.is_exceeded(now_ms)

    def _throttled_count(self) -> int:
        """The number of partitions that share the rest of the quota; 1 at least."""
        states = self.table.states.values()
        count = sum(not s.is_in_sync and self._appends.is_throttled(s) for s in states)
        return max(1, count)

    def _room(self, state: FollowerPartition, throttled: int, now_ms: int) -> int:
        """The number of bytes to ask for. A throttle has to bite from the first fetch on: no more
        than Kafka's follower asks for, and ours no more than the rest of its own quota."""
        config, limits = self._config, state.partition.log.config
        if not (
            limits.leader_replication_throttled_replicas
            or limits.follower_replication_throttled_replicas
        ):
            return config.room_for_each_of(len(self.table.states))
        room = config.partition_max_bytes
        if throttled and not state.is_in_sync and self._appends.is_throttled(state):
            room = min(room, self._manager.follower_quota.piece(now_ms, throttled))
        return room

    def _wanted(self, state: FollowerPartition, throttled: int, now_ms: int) -> Wanted:
        topic, partition = state.key
        return Wanted(
            topic,
            state.topic_id if self._config.protocol.fetch >= FETCH_BY_ID else ZERO_TOPIC_ID,
            partition,
            state.fetch_offset,
            state.leader_epoch,
            state.last_fetched_epoch if self._config.truncates_on_fetch else NO_EPOCH,
            state.partition.log.log_start_offset,
            self._room(state, throttled, now_ms),
        )

    # The outcome of an exchange

    def answered(self, exchange: Exchange, response: Message, now_ms: int) -> None:
        """Take the whole answer at once."""
        for _ in self.take_answer(exchange, response, now_ms):
            pass

    def take_answer(self, exchange: Exchange, response: Message, now_ms: int) -> Iterator[None]:
        """Take an answer partition by partition: other work may be done at each yield."""
        yield from self._appends.rebuild(now_ms)
        if isinstance(response, FetchResponse):
            assert exchange.session is not None
            for key, data in self._session_data(exchange.session, response, now_ms):
                self._take(key, data, now_ms)
                yield
        elif isinstance(response, OffsetForLeaderEpochResponse):
            self._queries.epochs_answered(exchange, response, now_ms)
        else:
            assert isinstance(response, ListOffsetsResponse)
            self._queries.offsets_answered(exchange, response, now_ms)
        yield from self._appends.rebuild(now_ms)

    def failed(self, exchange: Exchange, now_ms: int) -> None:
        """No answer: the whole connection is in doubt; its partitions are asked for anew."""
        self.abandoned()
        table = self.table
        if exchange.session is not None:
            for state in table.states.values():
                if state.state is FollowerState.FETCHING:
                    table.delay(state, now_ms)
        else:
            for key, state in exchange.states.items():
                if table.states.get(key) is state:
                    table.delay(state, now_ms)

    def tier_read(self, asked: RebuildFromTier, found: TierState | None, now_ms: int) -> None:
        """What the remote tier has of a partition that rebuilds; None: it cannot be read now."""
        state = self.table.states.get(asked.key)
        if state is not asked.state or state is None or not self.table.holds(state):
            return
        if state.state is FollowerState.REBUILDING:
            try:
                self._appends.rebuild_from_tier(state, found, now_ms)
            except KafkaError as error:
                self.table.trouble(state, error, now_ms)

    def hurry(self) -> None:
        """The leader may be reachable now: end all delays."""
        for state in self.table.delayed.values():
            state.delayed_until_ms = 0

    def abandoned(self) -> None:
        """An idle poll was cancelled in favour of a better request."""
        self._session.reset()

    def _session_data(
        self, request: SessionRequest, response: FetchResponse, now_ms: int
    ) -> list[tuple[TopicPartition, FetchResponsePartitionData]]:
        answers = self._session.accept(request, response)
        if answers is None:
            code = ErrorCode(response.error_code)
            logger.info("Fetch session with broker %d has ended: %s", self.source_id, code.name)
            if code not in _SESSION_ERRORS:
                for state in list(self.table.states.values()):
                    self.table.delay(state, now_ms)
            return []
        return answers

    def _take(self, key: TopicPartition, data: FetchResponsePartitionData, now_ms: int) -> None:
        table = self.table
        state = table.states.get(key)
        sent = self._session.sent(key)
        if state is None or sent is None:
            return
        if not table.holds(state):
            table.remove(key)
            return
        if (
            state.state is not FollowerState.FETCHING
            or key in table.delayed
            or sent.fetch_offset != state.fetch_offset
            or sent.current_leader_epoch != state.leader_epoch
        ):
            return
        try:
            self._appends.take(state, data, now_ms)
        except KafkaError as error:
            table.trouble(state, error, now_ms)
