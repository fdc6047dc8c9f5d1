"""Offsets of the consumer's group and of logs, with retries.

Invariant: commits are sent one after the other, so an older one never overwrites a newer one.

Mirrors: ConsumerCoordinator's commits, OffsetFetcher's lookups.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

import trio

from ...protocol.errors import ErrorCode
from ...protocol.topics import TopicPartition
from ..cluster import Cluster, CoordinatorKind, retrying
from ..errors import ClientError, LoginError, Refused
from ..refusals import NotAllowed
from .group import Group
from .membership import NO_GENERATION
from .offset_requests import (
    Committed,
    Found,
    by_leader,
    commit,
    fetch_committed,
    list_offsets,
)
from .topics_view import TopicsView

# Errors of a commit by a consumer that is not, or not now, allowed to commit.
_NOT_OURS: Final = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.REBALANCE_IN_PROGRESS,
    }
)
# Errors of a read: the member has another epoch by now, or joins again.
_OF_THE_NEXT_EPOCH: Final = (
    ErrorCode.STALE_MEMBER_EPOCH,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,
)


class CommitFailed(ClientError):
    """The group rebalances, or has continued without this consumer.

    Uncommitted records will be read again, perhaps by another member.
    """


class OffsetKeeper:
    """See the module."""

    def __init__(self, cluster: Cluster, group: Group | None, *, reads_committed: bool) -> None:
        self._cluster = cluster
        self._group = group
        self._reads_committed = reads_committed
        self._turn = trio.Lock()

    def _needs_group(self) -> Group:
        if self._group is None:
            raise ClientError("this takes a group: give the consumer a group_id")
        return self._group

    @property
    def generation(self) -> int:
        """The generation in which offsets are read of the application's progress now."""
        return NO_GENERATION if self._group is None else self._group.generation

    async def commit(self, offsets: Mapping[TopicPartition, Committed], generation: int) -> None:
        """Commit until the coordinator confirms. Raises CommitFailed, ClientError.

        `generation` is that of the offsets: in a later one the partitions may belong to others,
        whose progress a repeated commit would take back.
        """
        group = self._needs_group()
        if not offsets:
            return
        async with self._turn:
            left = dict(offsets)
            problem = ""
            async for _ in retrying():
                problem = await self._commit_once(group, left, generation)
                if not left:
                    return
            raise ClientError(f"offsets of group {self._id(group)} are not committed: {problem}")

    @staticmethod
    def _id(group: Group) -> str:
        return repr(group.group_id)

    async def _commit_once(
        self, group: Group, left: dict[TopicPartition, Committed], generation: int
    ) -> str:
        """Removes committed partitions from `left`; returns the reason why others remain."""
        member = group.member()
        if group.is_subscribed and group.generation != generation:
            raise CommitFailed(
                f"group {member.group_id!r} has rebalanced since generation {generation}: the "
                "offsets are not committed, and the records are read again"
            )
        try:
            connection = await self._cluster.coordinator(
                CoordinatorKind.GROUP, member.group_id, group.work.purpose
            )
            answer = await commit(connection, member, left)
        except (LoginError, Refused):
            raise
        except ClientError as error:
            self._cluster.forget_coordinator(CoordinatorKind.GROUP, member.group_id)
            return str(error)
        problem = "not all were answered"
        for partition, code in answer.items():
            if code == ErrorCode.NONE:
                left.pop(partition, None)
                continue
            group.note_commit(code)
            refusal = self._cluster.asks("read", member.group_id).refusal(code)
            if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                refusal = self._cluster.asks("read", partition[0]).refusal(code)
            if refusal is not None:
                raise NotAllowed(refusal, code)
            if code in _NOT_OURS:
                raise CommitFailed(f"group {member.group_id!r}: {code.description} ({code.name})")
            if not code.retriable and code != ErrorCode.STALE_MEMBER_EPOCH:
                name = f"{partition[0]}-{partition[1]}"
                raise Refused(f"{name} is not committed: {code.description} ({code.name})", code)
            if code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE):
                self._cluster.forget_coordinator(CoordinatorKind.GROUP, member.group_id)
            problem = code.description
        return problem

    async def committed(
        self, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, Committed]:
        """The committed offsets of those partitions that have one. Raises ClientError."""
        group = self._needs_group()
        group_id = group.group_id
        problem = ""
        async for _ in retrying():
            try:
                connection = await self._cluster.coordinator(
                    CoordinatorKind.GROUP, group_id, group.work.purpose
                )
                found, code = await fetch_committed(connection, group.reader(), partitions)
            except (LoginError, Refused):
                raise
            except ClientError as error:
                self._cluster.forget_coordinator(CoordinatorKind.GROUP, group_id)
                problem = str(error)
                continue
            if code == ErrorCode.NONE:
                return found
            refusal = self._cluster.asks("describe", group_id).refusal(code)
            if refusal is not None:
                raise NotAllowed(refusal, code)
            problem = code.description
            if not code.retriable and code not in _OF_THE_NEXT_EPOCH:
                break
            if code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE):
                self._cluster.forget_coordinator(CoordinatorKind.GROUP, group_id)
        raise ClientError(f"group {group_id!r} returned no offsets: {problem}")

    async def offsets_at(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, Found]:
        """The offsets of all partitions; -1 if no record is that young. Raises ClientError."""
        found: dict[TopicPartition, Found] = {}
        problem = "no leader"
        missing = set(timestamps)
        if not missing:
            return found
        async for _ in retrying():
            view = TopicsView()
            view.take(await self._cluster.metadata(sorted({topic for topic, _ in missing})))
            for node, leaders in by_leader(missing, view.leader).items():
                asked = {tp: (timestamps[tp], leader) for tp, leader in leaders.items()}
                try:
                    connection = await self._cluster.connection(node)
                    answer = await list_offsets(
                        connection, asked, reads_committed=self._reads_committed
                    )
                except (LoginError, Refused):
                    raise
                except ClientError as error:
                    problem = str(error)
                    continue
                for partition, each in answer.items():
                    if isinstance(each, Found):
                        found[partition] = each
                        continue
                    problem = each.description
                    refusal = self._cluster.asks("describe", partition[0]).refusal(each)
                    if refusal is not None:
                        raise NotAllowed(refusal, each)
            missing -= found.keys()
            if not missing:
                return found
        names = ", ".join(f"{topic}-{number}" for topic, number in sorted(missing))
        raise ClientError(f"offsets of {names} cannot be had: {problem}")
