"""Offsets that are committed within a transaction (TxnOffsetCommit): pending until its marker.

The commit is appended to the offsets topic as a transactional batch of the producer. From then on
it is pending: invisible, but reported as unstable (by OffsetFetch with require_stable), until the
marker of the transaction is in that partition: COMMIT makes it visible, ABORT drops it.

The sender is validated as for OffsetCommit, with two differences: an old client that names neither
member nor generation may commit to a group with members, and a rebalance does not get in the way.

A marker can be written while the partition is still being loaded. Its transaction may have been
read already, so the marker is kept with the load and applied after it.

Mirrors handleTxnCommitOffsets and scheduleHandleTxnCompletion of GroupCoordinator, and the
transactional half of GroupMetadataManager.storeOffsets (KIP-98, KIP-447).
"""

import logging
from collections.abc import Callable, Container, Iterable
from functools import partial

from ...protocol.apis.txn_offset_commit import TxnOffsetCommitRequest
from ...protocol.errors import ErrorCode
from ...protocol.topics import TopicPartition
from ..connection_order import ConnectionOrders
from .changing_group import ChangingGroup
from .commit_attempt import CommitAttempt, client_error
from .core import Core
from .group import Group
from .modern_offsets import check_commit, check_partition
from .offsets import OffsetAndMetadata
from .records import offset_commit_records
from .states import GroupState

logger = logging.getLogger("pybroker.coordinator.group.transactions")

# Producers with known connections: thousands of tasks of a few applications.
MAX_PRODUCERS = 10_000


class TransactionalCommits:
    """The part of the coordinator that keeps offsets of open transactions."""

    __slots__ = ("_connections", "_core", "_topic_id")

    def __init__(self, core: Core, topic_id: Callable[[str], bytes | None]) -> None:
        self._core = core
        self._topic_id = topic_id
        self._connections = ConnectionOrders[tuple[str, int]](MAX_PRODUCERS)

    def commit(
        self,
        token: object,
        request: TxnOffsetCommitRequest,
        unknown: Container[TopicPartition],
        verification: object,
        now_ms: int,
        connection: int,
    ) -> None:
        """Commit; `verification` goes with the append, which is refused if it is out of date.

        A late request (`connection_order`) would be pending in the producer's next transaction.
        """
        stamp_ms = self._core.wall.stamp_ms(now_ms)
        attempt = CommitAttempt(
            token,
            request,
            unknown,
            lambda entry: OffsetAndMetadata(
                offset=entry.committed_offset,
                leader_epoch=entry.committed_leader_epoch,
                metadata=entry.committed_metadata or "",
                commit_timestamp_ms=stamp_ms,
                since_ms=now_ms,
            ),
        )
        group = None
        if attempt.values:
            group, error = self._find_group(request, attempt.values, now_ms)
            if error is ErrorCode.NONE and self._connections.is_late(
                (request.group_id, request.producer_id), connection
            ):
                error = ErrorCode.NOT_COORDINATOR
            if error is not ErrorCode.NONE:
                attempt.fail_rest(error)
        attempt.refuse_too_large(self._core.config.offset_metadata_max_bytes)
        values = attempt.values
        if group is None or not values:
            self._core.reply(token, attempt.response())
            return
        producer_id = request.producer_id
        append_id = self._core.append_transactional(
            group.partition,
            offset_commit_records(group.group_id, values, stamp_ms),
            partial(self._appended, attempt, group),
            producer_id,
            request.producer_epoch,
            verification,
        )
        self._core.groups_by_producer.setdefault(producer_id, set()).add(group.group_id)
        group.offsets.prepare_transactional(producer_id, append_id, values)

    def _find_group(
        self, request: TxnOffsetCommitRequest, partitions: Iterable[TopicPartition], now_ms: int
    ) -> tuple[Group | None, ErrorCode]:
        error = self._core.check_group(request.group_id)
        if error is not ErrorCode.NONE:
            return None, error
        group = self._core.groups.get(request.group_id)
        if group is None:
            group = self._core.create_group(request.group_id, now_ms)
        generation_id = request.generation_id
        if group.modern is not None:
            is_named = request.member_id or request.group_instance_id is not None
            if generation_id < 0 and not is_named:
                return group, ErrorCode.NONE
            return group, self._check_member(group.modern, request, partitions)
        if generation_id < 0 and group.state is GroupState.EMPTY:
            return group, ErrorCode.NONE
        if generation_id < 0 and not request.member_id and request.group_instance_id is None:
            return group, ErrorCode.NONE  # before version 3 there is nothing to check
        error = group.validate_member(request.member_id, request.group_instance_id)
        if error is ErrorCode.NONE and generation_id != group.generation_id:
            error = ErrorCode.ILLEGAL_GENERATION
        return group, error

    def _check_member(
        self,
        group: ChangingGroup,
        request: TxnOffsetCommitRequest,
        partitions: Iterable[TopicPartition],
    ) -> ErrorCode:
        """One partition that the member has not got in its epoch refuses all; clients know the
        error of classic members."""
        member_id, epoch = request.member_id, request.generation_id
        error = check_commit(group, member_id, epoch)
        for partition in partitions:
            if error is not ErrorCode.NONE:
                break
            error = check_partition(group, member_id, epoch, partition, self._topic_id)
        return ErrorCode.ILLEGAL_GENERATION if error is ErrorCode.STALE_MEMBER_EPOCH else error

    def _appended(
        self,
        attempt: CommitAttempt[TxnOffsetCommitRequest],
        group: Group,
        append_id: int,
        error: ErrorCode,
        base_offset: int,
        now_ms: int,
    ) -> None:
        values, offsets = attempt.values, group.offsets
        producer_id = attempt.request.producer_id
        if error is ErrorCode.NONE:
            offsets.transactional_appended(producer_id, append_id, base_offset, values)
            self._core.stats.offsets_committed += len(values)
        else:
            logger.info("append %d of transactional offsets failed: %s", append_id, error.name)
            offsets.transactional_failed(producer_id, append_id, values)
            if producer_id not in offsets.open_producers():
                self._forget(producer_id, group.group_id)
        attempt.fail_rest(client_error(error))
        self._core.reply(attempt.token, attempt.response())

    def complete(self, producer_id: int, partitions: Container[int], *, committed: bool) -> None:
        """A transaction's marker was written to these partitions of the offsets topic."""
        for partition, load in self._core.loading.items():
            if partition in partitions:
                load.markers.append((producer_id, committed))
        for group_id in sorted(self._core.groups_by_producer.get(producer_id, ())):
            group = self._core.groups[group_id]
            if group.partition in partitions:
                group.offsets.complete_transaction(producer_id, committed=committed)
                self._forget(producer_id, group_id)

    def _forget(self, producer_id: int, group_id: str) -> None:
        group_ids = self._core.groups_by_producer.get(producer_id)
        if group_ids is None:
            return
        group_ids.discard(group_id)
        if not group_ids:
            del self._core.groups_by_producer[producer_id]
