"""A follower's questions to its leader besides records: the end of an epoch, the log's bounds.

Out of range: if the leader's log end is before ours, cut to it; else if its log start is behind our
end, start anew there; else continue to fetch from our end.

Moved to the remote tier: ask where the leader's own records begin, and which epoch ends there; its
last record is in the segment whose state the log takes over.

Mirrors AbstractFetcherThread.truncateToEpochEndOffsets and fetchOffsetAndTruncate, and
TierStateMachine.buildRemoteLogAuxState.
"""

from collections.abc import Iterable, Iterator
from typing import TypeVar

from ..protocol.apis.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ..protocol.apis.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderEpochResponseEpochEndOffset,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ..protocol.errors import ErrorCode, KafkaError
from ..protocol.topics import TopicPartition
from .follower import FollowerPartition, FollowerState, truncation_point
from .follower_appends import FollowerAppends
from .follower_steps import Exchange
from .follower_table import FollowerTable
from .offsets import EARLIEST_LOCAL_TIMESTAMP, EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from .types import Effect, RebuildFromTier

_TIMESTAMPS = {
    FollowerState.FINDING_END: LATEST_TIMESTAMP,
    FollowerState.FINDING_START: EARLIEST_TIMESTAMP,
    FollowerState.FINDING_LOCAL_START: EARLIEST_LOCAL_TIMESTAMP,
}

AnswerT = TypeVar(
    "AnswerT", OffsetForLeaderEpochResponseEpochEndOffset, ListOffsetsPartitionResponse
)


def ask_epochs(states: Iterable[FollowerPartition], broker_id: int, version: int) -> Exchange:
    """One OffsetForLeaderEpoch for all of them: the leader's end of our newest epoch."""
    topics: dict[str, OffsetForLeaderTopic] = {}
    asked = {}
    for state in states:
        asked[state.key] = state
        name, index = state.key
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = OffsetForLeaderTopic(topic=name, partitions=[])
        topic.partitions.append(
            OffsetForLeaderPartition(
                partition=index,
                current_leader_epoch=state.leader_epoch,
                leader_epoch=(
                    state.leader_local_start[1] - 1
                    if state.state is FollowerState.FINDING_EARLIER_EPOCH
                    else state.partition.log.leader_epochs.latest_epoch
                ),
            )
        )
    return Exchange(
        OffsetForLeaderEpochRequest(replica_id=broker_id, topics=list(topics.values())),
        version,
        asked,
    )


def ask_offsets(states: Iterable[FollowerPartition], broker_id: int, version: int) -> Exchange:
    """One ListOffsets for all of them: the leader's end, or its start if our records are gone
    there."""
    topics: dict[str, ListOffsetsTopic] = {}
    asked = {}
    for state in states:
        asked[state.key] = state
        name, index = state.key
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = ListOffsetsTopic(name=name, partitions=[])
        topic.partitions.append(
            ListOffsetsPartition(
                partition_index=index,
                current_leader_epoch=state.leader_epoch,
                timestamp=_TIMESTAMPS[state.state],
            )
        )
    return Exchange(
        ListOffsetsRequest(replica_id=broker_id, topics=list(topics.values())),
        version,
        asked,
    )


class FollowerQueries:
    """Takes the answers."""

    __slots__ = ("_appends", "_effects", "_table")

    def __init__(
        self, table: FollowerTable, appends: FollowerAppends, effects: list[Effect]
    ) -> None:
        self._effects = effects
        self._table = table
        self._appends = appends

    def epochs_answered(
        self, exchange: Exchange, response: OffsetForLeaderEpochResponse, now_ms: int
    ) -> None:
        answers = (
            ((topic.topic, answer.partition), answer)
            for topic in response.topics
            for answer in topic.partitions
        )
        for state, answer in self._good_answers(exchange, answers, now_ms):
            if state.state is FollowerState.FINDING_EARLIER_EPOCH:
                local_start, epoch = state.leader_local_start
                if answer.end_offset > local_start - 1:
                    epoch = answer.leader_epoch
                self._rebuild_from_tier(state, epoch)
                continue
            log = state.partition.log
            point = truncation_point(
                log, answer.leader_epoch, answer.end_offset, state.initial_offset
            )
            try:
                if point.is_final:
                    self._appends.truncate(state, point.offset, now_ms)
                else:
                    self._appends.cut(state, point.offset, now_ms)
            except KafkaError as error:
                self._table.trouble(state, error, now_ms)

    def offsets_answered(
        self, exchange: Exchange, response: ListOffsetsResponse, now_ms: int
    ) -> None:
        answers = (
            ((topic.name, answer.partition_index), answer)
            for topic in response.topics
            for answer in topic.partitions
        )
        for state, answer in self._good_answers(exchange, answers, now_ms):
            try:
                self._found(state, answer, now_ms)
            except KafkaError as error:
                self._table.trouble(state, error, now_ms)

    def _good_answers(
        self,
        exchange: Exchange,
        answers: Iterable[tuple[TopicPartition, AnswerT]],
        now_ms: int,
    ) -> Iterator[tuple[FollowerPartition, AnswerT]]:
        """The usable answers, of partitions whose state is unchanged since the question."""
        open_states = dict(exchange.states)
        for key, answer in answers:
            state = open_states.pop(key, None)
            if state is None or not self._table.holds(state):
                continue
            if answer.error_code:
                self._table.leader_refuses(state, ErrorCode(answer.error_code), now_ms)
                continue
            state.succeeded()
            yield state, answer
        self._delay_unanswered(open_states.values(), now_ms)

    def _found(
        self, state: FollowerPartition, answer: ListOffsetsPartitionResponse, now_ms: int
    ) -> None:
        end_offset = state.partition.log.log_end_offset
        if state.state is FollowerState.FINDING_LOCAL_START:
            self._found_local_start(state, answer)
        elif state.state is FollowerState.FINDING_END:
            if answer.offset < end_offset:
                self._appends.truncate(state, max(answer.offset, 0), now_ms)
            else:
                state.move_to(FollowerState.FINDING_START)
                self._table.moved(state)
        elif answer.offset > end_offset:
            self._appends.start_over(state, answer.offset, now_ms)
        else:
            state.fetch_from(end_offset)
            self._table.moved(state)

    def _found_local_start(
        self, state: FollowerPartition, answer: ListOffsetsPartitionResponse
    ) -> None:
        state.leader_local_start = (answer.offset, answer.leader_epoch)
        if answer.offset <= state.fetch_offset or answer.leader_epoch < 0:
            state.fetch_from(state.partition.log.log_end_offset)  # it has all by now
            self._table.moved(state)
        elif answer.leader_epoch == 0:
            self._rebuild_from_tier(state, 0)
        else:
            state.move_to(FollowerState.FINDING_EARLIER_EPOCH)
            self._table.moved(state)

    def _rebuild_from_tier(self, state: FollowerPartition, epoch: int) -> None:
        state.move_to(FollowerState.REBUILDING)
        self._table.moved(state)
        local_start = state.leader_local_start[0]
        self._effects.append(RebuildFromTier(state.key, state.topic_id, epoch, local_start, state))

    def _delay_unanswered(self, states: Iterable[FollowerPartition], now_ms: int) -> None:
        for state in states:
            if self._table.holds(state):
                self._table.delay(state, now_ms)
