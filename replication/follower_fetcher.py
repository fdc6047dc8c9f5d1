"""Follows one leader broker: what to ask it next for our partitions, and what to do with answers.

Job: `next_step` says what to send now (or how long to wait), `answered` and `failed` take what came
of it. One exchange at a time. In this order: cut logs whose last epoch is in doubt (an
OffsetForLeaderEpoch for those that have epochs), find the range of those that are out of it
(ListOffsets), then fetch for all that are ready.

Invariants: only a partition whose log does not diverge from the leader's fetches; an answer counts
only for the very state that asked (same leader epoch, same offset); records are appended as they
come, at the log end; a trouble of one partition delays this partition only; nothing is fetched
while an append of ours still waits for its flush, because the next fetch acknowledges it.

Mirrors AbstractFetcherThread and ReplicaFetcherThread. Leaves out tiered storage and moves between
log directories. Beyond Kafka: the back-off of a partition begins small and doubles.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ..protocol.errors import ErrorCode, KafkaError
from ..protocol.messages.fetch import (
    FetchRequest,
    FetchResponse,
    FetchResponsePartitionData,
    ReplicaState,
)
from ..protocol.messages.offsets import ListOffsetsResponse, OffsetForLeaderEpochResponse
from ..protocol.schema import Message
from ..storage.descriptors import OutOfDescriptors
from . import follower_appends, follower_queries
from .follower import FollowerPartition, FollowerState
from .follower_session import FollowerSession, SessionRequest, Wanted
from .follower_steps import (
    FETCH_VERSION,
    FETCH_VERSION_BY_NAME,
    THROTTLED_WAIT_MS,
    Exchange,
    FetcherConfig,
    Wait,
)
from .throttle import UNLIMITED
from .types import CONSUMER_REPLICA_ID, NO_EPOCH, PartitionKey

if TYPE_CHECKING:
    from .replica_manager import ReplicaManager

logger = logging.getLogger(__name__)

# The session is over, but the leader is well: name everything anew, at once.
_SESSION_ERRORS = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)


class FollowerFetcher:
    __slots__ = (
        "_changed",
        "_config",
        "_delayed",
        "_forget",
        "_manager",
        "_session",
        "_states",
        "_unflushed",
        "failed_keys",
        "fetcher_id",
        "source_id",
    )

    def __init__(
        self, manager: ReplicaManager, source_id: int, fetcher_id: int, config: FetcherConfig
    ) -> None:
        self.source_id = source_id
        self.fetcher_id = fetcher_id
        self._manager = manager
        self._config = config
        self._session = FollowerSession()
        self._states: dict[PartitionKey, FollowerPartition] = {}
        # States that the session may not know as they are: looked at when a fetch is made.
        self._changed: dict[PartitionKey, FollowerPartition] = {}
        self._delayed: dict[PartitionKey, FollowerPartition] = {}
        self._forget: set[PartitionKey] = set()
        self.failed_keys: set[PartitionKey] = set()
        # Appended up to this offset, but not yet flushed as the topic asks.
        self._unflushed: dict[PartitionKey, int] = {}

    def __len__(self) -> int:
        return len(self._states)

    @property
    def states(self) -> Iterable[FollowerPartition]:
        return self._states.values()

    # -- which partitions -----------------------------------------------------------------------

    def add(self, state: FollowerPartition) -> None:
        self.remove(state.key)
        self._states[state.key] = state
        self._changed[state.key] = state

    def remove(self, key: PartitionKey) -> bool:
        state = self._states.pop(key, None)
        self.failed_keys.discard(key)
        self._changed.pop(key, None)
        self._delayed.pop(key, None)
        self._unflushed.pop(key, None)
        if state is None:
            return False
        self._forget.add(key)
        return True

    def flushed(self, key: PartitionKey, offset: int) -> bool:
        """The log is on disk below `offset`; True if fetching may go on now."""
        wanted = self._unflushed.get(key)
        if wanted is None or wanted > offset:
            return False
        del self._unflushed[key]
        return not self._unflushed

    # -- what next ------------------------------------------------------------------------------

    def next_step(self, now_ms: int) -> Exchange | Wait:
        self._drop_stale()
        if self._unflushed:
            return Wait(None)
        if self._delayed:
            self._end_delays(now_ms)
        for state in self._changed.values():
            if state.state is not FollowerState.FETCHING:
                question = self._ask(now_ms)
                if question is not None:
                    return question
                break
        return self._fetch(now_ms)

    def _ask(self, now_ms: int) -> Exchange | None:
        """What must be known before all can fetch."""
        asking = [state for state in self._changed.values() if state.key not in self._delayed]
        truncating = []
        for state in asking:
            if state.state is FollowerState.TRUNCATING:
                if self._has_epochs(state):
                    truncating.append(state)
                else:
                    self._truncate_without_epochs(state, now_ms)
        if truncating:
            return follower_queries.ask_epochs(truncating, self._manager.config.broker_id)
        searching = [
            state
            for state in asking
            if state.state in (FollowerState.FINDING_END, FollowerState.FINDING_START)
        ]
        if searching:
            return follower_queries.ask_offsets(searching, self._manager.config.broker_id)
        return None

    def _has_epochs(self, state: FollowerPartition) -> bool:
        return state.partition.log.leader_epochs.latest_epoch >= 0

    def _truncate_without_epochs(self, state: FollowerPartition, now_ms: int) -> None:
        """An empty log, or one of old formats: all that is known to be right is below the HW."""
        try:
            follower_appends.truncate(self, state, state.initial_offset, now_ms)
        except KafkaError as error:
            self.trouble(state, error, now_ms)

    def _drop_stale(self) -> None:
        """Partitions that are gone, failed with their disk, or have another role by now."""
        partitions = self._manager.partitions
        stale = [
            key
            for key, state in self._changed.items()
            if partitions.get(key) is not state.partition or not state.is_current
        ]
        for key in stale:
            self.remove(key)

    def _end_delays(self, now_ms: int) -> None:
        over = [key for key, state in self._delayed.items() if state.delayed_until_ms <= now_ms]
        for key in over:
            self._changed[key] = self._delayed.pop(key)

    def _fetch(self, now_ms: int) -> Exchange | Wait:
        config, manager = self._config, self._manager
        changed: dict[PartitionKey, Wanted] = {}
        later: dict[PartitionKey, FollowerPartition] = {}
        has_quota = manager.follower_quota.limit != UNLIMITED
        for key, state in self._changed.items():
            if key in self._delayed:
                self._forget.add(key)
            elif state.state is not FollowerState.FETCHING:
                self._forget.add(key)
                later[key] = state
            elif has_quota and not state.is_in_sync and self._is_over_quota(state, now_ms):
                self._forget.add(key)
                state.delayed_until_ms = now_ms + THROTTLED_WAIT_MS
                self._delayed[key] = state
            else:
                self._forget.discard(key)
                changed[key] = self._wanted(state)
        self._changed = later
        request = self._session.build(changed, self._forget)
        self._forget.clear()
        if not len(self._session) and not request.forgotten:
            return Wait(self._next_due_ms())
        # A new session is to be answered at once: nobody else would open it meanwhile.
        is_long_poll = self._session.is_settled
        wait_ms = config.wait_max_ms if is_long_poll else 0
        due_ms = self._next_due_ms() if self._delayed else None
        if due_ms is not None:
            wait_ms = max(0, min(wait_ms, due_ms - now_ms))
        broker_id, by_id = manager.config.broker_id, request.uses_topic_ids
        return Exchange(
            FetchRequest(
                replica_id=CONSUMER_REPLICA_ID if by_id else broker_id,
                replica_state=(
                    ReplicaState(replica_id=broker_id, replica_epoch=manager.broker_epoch)
                    if by_id
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
            FETCH_VERSION if by_id else FETCH_VERSION_BY_NAME,
            {},
            request,
            is_long_poll=wait_ms > 0,
        )

    def _is_over_quota(self, state: FollowerPartition, now_ms: int) -> bool:
        manager = self._manager
        throttled = follower_appends.is_throttled(manager, state)
        return throttled and manager.follower_quota.is_exceeded(now_ms)

    def _wanted(self, state: FollowerPartition) -> Wanted:
        topic, partition = state.key
        return Wanted(
            topic,
            state.topic_id,
            partition,
            state.fetch_offset,
            state.leader_epoch,
            state.last_fetched_epoch if self._config.truncates_on_fetch else NO_EPOCH,
            state.partition.log.log_start_offset,
            self._config.room_for_each_of(len(self._states)),
        )

    def _next_due_ms(self) -> int | None:
        return min((state.delayed_until_ms for state in self._delayed.values()), default=None)

    # -- what came of it ------------------------------------------------------------------------

    def answered(self, exchange: Exchange, response: Message, now_ms: int) -> None:
        """Take the whole answer at once."""
        for _ in self.take_answer(exchange, response, now_ms):
            pass

    def take_answer(self, exchange: Exchange, response: Message, now_ms: int) -> Iterator[None]:
        """Take an answer partition by partition: other work may be done at each yield."""
        if isinstance(response, FetchResponse):
            assert exchange.session is not None
            for key, data in self._session_data(exchange.session, response, now_ms):
                self._take(key, data, now_ms)
                yield
        elif isinstance(response, OffsetForLeaderEpochResponse):
            follower_queries.epochs_answered(self, exchange, response, now_ms)
        else:
            assert isinstance(response, ListOffsetsResponse)
            follower_queries.offsets_answered(self, exchange, response, now_ms)

    def failed(self, exchange: Exchange, now_ms: int) -> None:
        """No answer: the whole connection is in doubt; its partitions are asked for anew."""
        self.abandoned()
        if exchange.session is not None:
            for state in self._states.values():
                if state.state is FollowerState.FETCHING:
                    self.delay(state, now_ms)
        else:
            for key, state in exchange.states.items():
                if self._states.get(key) is state:
                    self.delay(state, now_ms)

    def hurry(self) -> None:
        """The leader may be reachable now: end all delays."""
        for state in self._delayed.values():
            state.delayed_until_ms = 0

    def abandoned(self) -> None:
        """An idle poll was given up for something better to ask."""
        self._session.reset()

    def _session_data(
        self, request: SessionRequest, response: FetchResponse, now_ms: int
    ) -> list[tuple[PartitionKey, FetchResponsePartitionData]]:
        answers = self._session.accept(request, response)
        if answers is None:
            code = ErrorCode(response.error_code)
            logger.info("Fetch session with broker %d is over: %s", self.source_id, code.name)
            if code not in _SESSION_ERRORS:
                for state in list(self._states.values()):
                    self.delay(state, now_ms)
            return []
        return answers

    def _take(self, key: PartitionKey, data: FetchResponsePartitionData, now_ms: int) -> None:
        state = self._states.get(key)
        sent = self._session.sent(key)
        if state is None or sent is None:
            return
        if not self.holds(state):
            self.remove(key)
            return
        if (
            state.state is not FollowerState.FETCHING
            or key in self._delayed
            or sent.fetch_offset != state.fetch_offset
            or sent.current_leader_epoch != state.leader_epoch
        ):
            return
        try:
            follower_appends.take(self, state, data, now_ms)
        except KafkaError as error:
            self.trouble(state, error, now_ms)

    # -- for the modules that handle answers ------------------------------------------------------

    @property
    def manager(self) -> ReplicaManager:
        return self._manager

    def holds(self, state: FollowerPartition) -> bool:
        return (
            self._states.get(state.key) is state
            and self._manager.partitions.get(state.key) is state.partition
            and state.is_current
        )

    def moved(self, state: FollowerPartition) -> None:
        """The leader must hear of the state as it is now."""
        self._changed[state.key] = state

    def unflushed(self, key: PartitionKey, offset: int) -> None:
        self._unflushed[key] = max(offset, self._unflushed.get(key, 0))

    def delay(self, state: FollowerPartition, now_ms: int) -> None:
        state.delay(now_ms, self._config.first_backoff_ms, self._config.backoff_ms)
        self._delayed[state.key] = state
        self._changed[state.key] = state

    def fail(self, state: FollowerPartition, reason: str, level: int = logging.ERROR) -> None:
        """Give the partition up until the controller speaks of it again."""
        topic, partition = state.key
        logger.log(
            level,
            "Partition %s-%d is not fetched from broker %d any more, until its next leader epoch: "
            "%s", topic, partition, self.source_id, reason,
        )  # fmt: skip
        state.move_to(FollowerState.FAILED)
        self.remove(state.key)
        self.failed_keys.add(state.key)

    def leader_refuses(self, state: FollowerPartition, code: ErrorCode, now_ms: int) -> None:
        """An error of the leader for one partition, in whichever answer."""
        topic, partition = state.key
        if code is ErrorCode.FENCED_LEADER_EPOCH:
            # Ours is the newest epoch we know of, so the controller has news that are on the way.
            self.fail(state, f"its leader epoch {state.leader_epoch} is over", logging.INFO)
            return
        logger.info(
            "Broker %d says %s of %s-%d (leader epoch %d); trying again",
            self.source_id, code.name, topic, partition, state.leader_epoch,
        )  # fmt: skip
        self.delay(state, now_ms)

    def trouble(self, state: FollowerPartition, error: KafkaError, now_ms: int) -> None:
        """Our own log or the records that came are not in order."""
        topic, partition = state.key
        if isinstance(error, OutOfDescriptors):
            logger.warning("%s-%d: %s", *state.key, error.message)
            self.delay(state, now_ms)
        elif error.code is ErrorCode.KAFKA_STORAGE_ERROR:
            self.remove(state.key)
            self._manager.storage_failed(state.key)
        elif error.code is ErrorCode.CORRUPT_MESSAGE:
            logger.error(
                "Found invalid records from broker %d for %s-%d at offset %d; asking again: %s",
                self.source_id, topic, partition, state.fetch_offset, error.message,
            )  # fmt: skip
            self.delay(state, now_ms)
        else:
            self.fail(state, error.message)
