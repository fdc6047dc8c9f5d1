"""OffsetFetch with `require_stable` (KIP-447): offsets to resume from, exactly once.

A client that asks for stable offsets resumes from them and relies on no later commit existing. A
broker that is cut off from the controller still believes that it is the coordinator, and its
offsets may be old. So the answer is sent after the ISR has confirmed an append: for each partition
of `__consumer_offsets` concerned, the known value of one offset (or its absence) is appended once
more. That changes nothing: an offset with a pending commit is unstable, and not chosen. If the
append fails, the client must find the coordinator again (NOT_COORDINATOR); but with fewer replicas
than min.insync.replicas, when nothing can be committed, the answer is sent.

Mirrors nothing in Kafka, which answers at once.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import NamedTuple

from ...protocol.apis.offset_fetch import OffsetFetchResponseGroup
from ...protocol.errors import ErrorCode
from ...protocol.records.record import SimpleRecord
from ...protocol.topics import TopicPartition
from .commits import Commits
from .core import Core
from .records import offset_commit_records, offset_tombstones


class Wanted(NamedTuple):
    """A group, and the requested partitions by topic; None: all that have an offset."""

    group_id: str
    topics: Iterable[tuple[str, Iterable[int]]] | None
    # Of the member that asks, if it says so.
    member_id: str | None = None
    member_epoch: int = -1


_STANDS = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    }
)


class _Attempt:
    """A request: its answers, and the partitions of the offsets topic with a pending append."""

    __slots__ = ("answers", "open_partitions", "token")

    def __init__(self, token: object, answers: list[OffsetFetchResponseGroup]) -> None:
        self.token = token
        self.answers = answers
        self.open_partitions: set[int] = set()


class StableFetches:
    """The part of the coordinator that proves its answers about stable offsets."""

    __slots__ = ("_commits", "_core")

    def __init__(self, core: Core, commits: Commits) -> None:
        self._core = core
        self._commits = commits

    def fetch(self, token: object, wanted: Sequence[Wanted], now_ms: int) -> None:
        """Reply with an OffsetFetchResponseGroup for each group, in their order."""
        answers = [self._commits.fetch(*one, require_stable=True) for one in wanted]
        attempt = _Attempt(token, answers)
        for answer in answers if self._core.config.proves else ():
            offset = _stable_offset(answer)
            log_partition = self._core.partition_for(answer.group_id)
            if offset is not None and log_partition not in attempt.open_partitions:
                attempt.open_partitions.add(log_partition)
                records = self._as_known(answer.group_id, offset, now_ms)
                proved = partial(self._proved, attempt, log_partition)
                self._core.append_proof(log_partition, records, proved)
        if not attempt.open_partitions:
            self._core.reply(token, answers)

    def _as_known(self, group_id: str, offset: TopicPartition, now_ms: int) -> list[SimpleRecord]:
        stamp_ms = self._core.wall.stamp_ms(now_ms)
        group = self._core.groups.get(group_id)
        value = None if group is None else group.offsets.get(offset)
        if value is None:
            return offset_tombstones(group_id, [offset], stamp_ms)
        return offset_commit_records(group_id, {offset: value}, stamp_ms)

    def _proved(
        self,
        attempt: _Attempt,
        log_partition: int,
        append_id: int,
        error: ErrorCode,
        base_offset: int,
        now_ms: int,
    ) -> None:
        if error not in _STANDS:
            for index, answer in enumerate(attempt.answers):
                if self._core.partition_for(answer.group_id) == log_partition:
                    attempt.answers[index] = OffsetFetchResponseGroup(
                        group_id=answer.group_id, error_code=ErrorCode.NOT_COORDINATOR
                    )
        attempt.open_partitions.discard(log_partition)
        if not attempt.open_partitions:
            self._core.reply(attempt.token, attempt.answers)


def _stable_offset(answer: OffsetFetchResponseGroup) -> TopicPartition | None:
    """A partition that has a stable answer, without an error; None if there is none."""
    for topic in answer.topics:
        for entry in topic.partitions:
            if entry.error_code == ErrorCode.NONE:
                return topic.name, entry.partition_index
    return None
