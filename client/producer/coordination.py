"""A producer's requests to coordinators: its id, a transaction's partitions, offsets and end.

Requests with temporary errors are retried for as long as the producer blocks (`max_block_ms`); a
coordinator that has moved is looked up. A fence, or an error while aborting, ends the producer;
other errors doom the transaction.
Mirrors: TransactionManager's request handlers; KIP-98, KIP-360, KIP-447, KIP-890.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar

import trio

from ...protocol.api import ApiKey
from ...protocol.apis.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from ...protocol.apis.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from ...protocol.apis.end_txn import EndTxnRequest, EndTxnResponse
from ...protocol.apis.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ...protocol.apis.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from ...protocol.errors import ErrorCode
from ...protocol.features import Feature
from ...protocol.schema import Message
from ..cluster import RETRY_BACKOFF_SECONDS, Cluster, CoordinatorKind, retrying
from ..connection import Connection
from ..errors import ClientError, LoginError, ProducerFenced, Refused, Unsupported
from ..refusals import NotAllowed
from .batch import Identity
from .settings import ProducerSettings

R = TypeVar("R", bound=Message)

BUSY_PAUSE_SECONDS = 0.02  # while the coordinator still completes the last transaction
LAST_FOR_CLIENTS = 3  # of AddPartitionsToTxn; later versions are for brokers
FIRST_THAT_RAISES_EPOCHS = 3  # of InitProducerId
FIRST_WITH_MEMBERS = 3  # of TxnOffsetCommit
FIRST_THAT_ADDS_OFFSETS = 5  # of TxnOffsetCommit
FIRST_END_THAT_RAISES = 5  # of EndTxn

_FENCES = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH})
_MOVED = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
_PASSING = frozenset({ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS})


class GroupMetadata(NamedTuple):
    """A consumer's membership; its offsets become part of a transaction (KIP-447)."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


class OffsetToCommit(NamedTuple):
    """The next offset to read."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


Offsets = Mapping[tuple[str, int], int | OffsetToCommit]


async def idempotent_identity(cluster: Cluster, topic: str) -> Identity:
    """An id from any broker. A refusal names `topic`, which is being written to. Raises
    ClientError."""
    async for _ in retrying():
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
        answer = await cluster.ask_anyone(ApiKey.INIT_PRODUCER_ID, request, InitProducerIdResponse)
        if answer.error_code == ErrorCode.NONE:
            return Identity(answer.producer_id, answer.producer_epoch)
        if not ErrorCode(answer.error_code).retriable:
            break
    code = ErrorCode(answer.error_code)
    if code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:  # it may not write to any topic either
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    cluster.asks("write", topic).check(code, None, "no producer id")
    raise AssertionError("a code was refused and is none")


class Coordination:
    """The requests of one transactional id."""

    def __init__(self, cluster: Cluster, settings: ProducerSettings) -> None:
        assert settings.transactional_id is not None
        self._cluster = cluster
        self._settings = settings
        self._id = settings.transactional_id
        self._features_epoch = -1
        # Whether the cluster has transaction version 2, as a coordinator told last.
        self.has_version_2 = False

    async def initialise(self, identity: Identity) -> Identity:
        """Get a newer epoch than any before; `identity` is ours, if we have one. Raises
        ClientError.

        Other producers with this id are fenced, and their open transactions aborted.
        """

        def question(version: int) -> InitProducerIdRequest:
            if version < FIRST_THAT_RAISES_EPOCHS:
                return InitProducerIdRequest(
                    transactional_id=self._id,
                    transaction_timeout_ms=self._settings.transaction_timeout_ms,
                )
            return InitProducerIdRequest(
                transactional_id=self._id,
                transaction_timeout_ms=self._settings.transaction_timeout_ms,
                producer_id=identity.producer_id,
                producer_epoch=identity.epoch,
            )

        answer = await self._ask(
            "get a producer id",
            ApiKey.INIT_PRODUCER_ID,
            question,
            InitProducerIdResponse,
            lambda answer: [answer.error_code],
        )
        return Identity(answer.producer_id, answer.producer_epoch)

    async def add_partitions(self, identity: Identity, places: list[tuple[str, int]]) -> None:
        """Add partitions to the transaction. Raises ClientError."""
        topics: dict[str, list[int]] = {}
        for topic, partition in places:
            topics.setdefault(topic, []).append(partition)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._id,
            v3_and_below_producer_id=identity.producer_id,
            v3_and_below_producer_epoch=identity.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=name, partitions=sorted(partitions))
                for name, partitions in topics.items()
            ],
        )
        await self._ask(
            "add partitions to the transaction",
            ApiKey.ADD_PARTITIONS_TO_TXN,
            lambda _version: request,
            AddPartitionsToTxnResponse,
            lambda answer: [
                result.partition_error_code
                for topic in answer.results_by_topic_v3_and_below
                for result in topic.results_by_partition
            ],
            newest=LAST_FOR_CLIENTS,
        )

    async def add_offsets(self, identity: Identity, group_id: str) -> None:
        """Add a group's offsets to the transaction. Raises ClientError."""
        request = AddOffsetsToTxnRequest(
            transactional_id=self._id,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            group_id=group_id,
        )
        await self._ask(
            "add offsets to the transaction",
            ApiKey.ADD_OFFSETS_TO_TXN,
            lambda _version: request,
            AddOffsetsToTxnResponse,
            lambda answer: [answer.error_code],
        )

    async def commit_offsets(
        self, identity: Identity, offsets: Offsets, group: GroupMetadata, *, adds: bool = False
    ) -> None:
        """Commit offsets at the group's coordinator; with `adds` it adds them to the transaction,
        if it can. Raises ClientError."""
        if not adds or not await self._adds_offsets(group.group_id):
            await self.add_offsets(identity, group.group_id)
            adds = False
        topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
        for (topic, partition), to_commit in offsets.items():
            if isinstance(to_commit, int):
                to_commit = OffsetToCommit(to_commit)
            topics.setdefault(topic, []).append(
                TxnOffsetCommitRequestPartition(
                    partition_index=partition,
                    committed_offset=to_commit.offset,
                    committed_leader_epoch=to_commit.leader_epoch,
                    committed_metadata=to_commit.metadata,
                )
            )

        def question(version: int) -> TxnOffsetCommitRequest:
            request = TxnOffsetCommitRequest(
                transactional_id=self._id,
                group_id=group.group_id,
                producer_id=identity.producer_id,
                producer_epoch=identity.epoch,
                topics=[
                    TxnOffsetCommitRequestTopic(name=name, partitions=parts)
                    for name, parts in topics.items()
                ],
            )
            if version >= FIRST_WITH_MEMBERS:
                request.generation_id = group.generation_id
                request.member_id = group.member_id
                request.group_instance_id = group.group_instance_id
            return request

        await self._ask(
            "commit offsets in the transaction",
            ApiKey.TXN_OFFSET_COMMIT,
            question,
            TxnOffsetCommitResponse,
            lambda answer: [
                part.error_code for topic in answer.topics for part in topic.partitions
            ],
            newest=FIRST_THAT_ADDS_OFFSETS if adds else None,
            of=(CoordinatorKind.GROUP, group.group_id),
        )

    async def _adds_offsets(self, group_id: str) -> bool:
        """Whether the connection to the group's coordinator offers it."""
        try:
            coordinator = await self._cluster.coordinator(CoordinatorKind.GROUP, group_id)
            newest = coordinator.version(ApiKey.TXN_OFFSET_COMMIT, FIRST_THAT_ADDS_OFFSETS)
        except ClientError:
            return False
        return newest >= FIRST_THAT_ADDS_OFFSETS

    async def end(self, identity: Identity, *, is_commit: bool, raises: bool = False) -> Identity:
        """Commit or abort the transaction; the identity of the next one. Raises ClientError."""
        request = EndTxnRequest(
            transactional_id=self._id,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            committed=is_commit,
        )
        answer = await self._ask(
            "commit" if is_commit else "abort",
            ApiKey.END_TXN,
            lambda _version: request,
            EndTxnResponse,
            lambda answer: [answer.error_code],
            newest=FIRST_END_THAT_RAISES if raises else None,
        )
        if answer.producer_id < 0:  # a version that raises nothing
            return identity
        return Identity(answer.producer_id, answer.producer_epoch)

    async def _ask(
        self,
        what: str,
        key: ApiKey,
        question: Callable[[int], Message],
        answer_class: type[R],
        codes: Callable[[R], list[int]],
        *,
        newest: int | None = None,
        of: tuple[CoordinatorKind, str] | None = None,
    ) -> R:
        """Ask until all `codes` of the answer are 0. Raises ClientError."""
        kind, name = of or (CoordinatorKind.TRANSACTION, self._id)
        problem = "no coordinator answers"
        with trio.move_on_after(self._settings.max_block_ms / 1000):
            while True:
                pause = RETRY_BACKOFF_SECONDS
                try:
                    coordinator = await self._cluster.coordinator(kind, name)
                    if kind is CoordinatorKind.TRANSACTION:
                        self._learn(coordinator)
                    answer = await coordinator.request(key, question, answer_class, newest=newest)
                except (LoginError, Refused, Unsupported):
                    raise
                except ClientError as error:
                    problem = str(error)
                    self._cluster.forget_coordinator(kind, name)
                else:
                    code = _worst(codes(answer))
                    if code is ErrorCode.NONE:
                        return answer
                    problem = code.description
                    self._check(code, what, kind, name)
                    if code in _MOVED:
                        self._cluster.forget_coordinator(kind, name)
                    elif code is ErrorCode.CONCURRENT_TRANSACTIONS:
                        pause = BUSY_PAUSE_SECONDS
                await trio.sleep(pause)
        raise ClientError(f"cannot {what} within {self._settings.max_block_ms} ms: {problem}")

    def _learn(self, coordinator: Connection) -> None:
        """Learn the finalized features, of which a new connection knows more."""
        if coordinator.features_epoch >= self._features_epoch:
            self._features_epoch = coordinator.features_epoch
            self.has_version_2 = coordinator.features.get(Feature.TRANSACTION, 0) >= 2

    def _check(self, code: ErrorCode, what: str, kind: CoordinatorKind, name: str) -> None:
        """Raises ClientError unless the error is temporary."""
        if code in _FENCES:
            raise ProducerFenced(f"cannot {what}: another producer has {self._id!r} now", code)
        asked = self._cluster.asks("write", self._id)
        if code is ErrorCode.GROUP_AUTHORIZATION_FAILED:
            asked = self._cluster.asks("read", name)
        refusal = asked.refusal(code) if code is not ErrorCode.TOPIC_AUTHORIZATION_FAILED else None
        if refusal is not None:
            raise NotAllowed(f"cannot {what}: {refusal}", code)
        if not (code.retriable or code in _MOVED or code in _PASSING):
            raise Refused(f"cannot {what}: {code.description} ({code.name})", code)


def _worst(codes: list[int]) -> ErrorCode:
    """A permanent error, otherwise a temporary one: untried partitions have neither."""
    found = [ErrorCode(code) for code in codes if code not in (0, _NOT_ATTEMPTED)]
    final = [code for code in found if not (code.retriable or code in _PASSING)]
    return (final or found or [ErrorCode.NONE])[0]


_NOT_ATTEMPTED = int(ErrorCode.OPERATION_NOT_ATTEMPTED)
