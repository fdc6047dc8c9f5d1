"""TxnOffsetCommit v0-5: offsets of a group that become visible when a transaction commits.

Before the commit goes to the group coordinator, the transaction is verified with its own
coordinator, as a produce is (KIP-890, part 1): the offsets topic's partition must have been added
to it by AddOffsetsToTxn. v2 brings leader epochs, v3 member and generation (KIP-447), v4 the error
TRANSACTION_ABORTABLE; from v5 on the offsets topic's partition is added to the transaction here
(part 2). Clients below v2 do not know COORDINATOR_LOAD_IN_PROGRESS here.

Mirrors KafkaApis.handleTxnOffsetCommitRequest and GroupCoordinator.handleTxnCommitOffsets. Left
out: authorization.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ...coordinator.group.commit_attempt import client_error, partition_errors
from ...protocol.api import ApiKey
from ...protocol.apis.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from ...protocol.errors import ErrorCode
from ...protocol.topics import OFFSETS_TOPIC, TopicPartition
from ...replication.producers import begin_verification
from ...storage.verification import NOT_ADDED, NOT_VERIFIED, VerificationGuard
from ..coordinators.group_runtime import GroupRuntime
from ..coordinators.transaction_verifier import Answer, Question, TransactionVerifier
from ..replicas.applied_replicas import AppliedReplicas

if TYPE_CHECKING:
    from ..network.request import Handler, Request

_FIRST_VERSION_WITH_LOADING = 2
_FIRST_VERSION_WITH_ABORTABLE = 4
_FIRST_VERSION_THAT_ADDS = 5
_NO_SEQUENCE = -1


class TxnOffsetCommitHandler:
    __slots__ = ("_is_enabled", "_replicas", "_runtime", "_verifier")

    def __init__(
        self,
        runtime: GroupRuntime,
        replicas: AppliedReplicas,
        verifier: TransactionVerifier,
        is_enabled: Callable[[], bool],
    ) -> None:
        """`is_enabled`: transaction.partition.verification.enable."""
        self._runtime = runtime
        self._replicas = replicas
        self._verifier = verifier
        self._is_enabled = is_enabled

    def handlers(self) -> Mapping[ApiKey, Handler]:
        return {ApiKey.TXN_OFFSET_COMMIT: self.commit}

    def commit(self, request: Request) -> None:
        body: TxnOffsetCommitRequest = request.body
        machine = self._runtime.machine
        state = self._replicas.manager.metadata.partition_state
        keys = [
            (topic.name, entry.partition_index)
            for topic in body.topics
            for entry in topic.partitions
        ]
        unknown = frozenset(key for key in keys if state(*key) is None)
        commit = _Commit(self._runtime, request, unknown)
        if len(unknown) == len(set(keys)):
            commit.refuse(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return
        error = machine.check_transactional_group(body.group_id)
        if error is not ErrorCode.NONE:
            commit.refuse(error)
            return
        adds = request.api_version >= _FIRST_VERSION_THAT_ADDS
        if not (adds or self._is_enabled()):
            commit.proceed(None)
            return
        key = (OFFSETS_TOPIC, machine.partition_for(body.group_id))
        guard = begin_verification(
            self._replicas.manager.hosted,
            key,
            body.producer_id,
            body.producer_epoch,
            _NO_SEQUENCE,
            self._replicas.clock(),
            adds=adds,
        )
        if isinstance(guard, ErrorCode):
            commit.refuse(client_error(guard))
        elif guard is None:
            commit.proceed(
                NOT_ADDED if adds else NOT_VERIFIED
            )  # the transaction is open, or has just been ended
        else:
            self._verifier.ask(
                Question(
                    body.transactional_id,
                    body.producer_id,
                    body.producer_epoch,
                    [key],
                    _Verified(commit, guard),
                    knows_abortable=request.api_version >= _FIRST_VERSION_WITH_ABORTABLE,
                    adds=adds,
                )
            )


class _Commit:
    """One request in progress; the token under which the group coordinator answers it."""

    __slots__ = ("_request", "_runtime", "_unknown")

    def __init__(
        self, runtime: GroupRuntime, request: Request, unknown: frozenset[TopicPartition]
    ) -> None:
        self._runtime = runtime
        self._request = request
        self._unknown = unknown

    def proceed(self, guard: VerificationGuard | None) -> None:
        runtime = self._runtime
        runtime.machine.commit_transactional_offsets(
            self,
            self._request.body,
            runtime.now_ms,
            self._unknown,
            guard,
            self._request.peer.number,
        )
        runtime.perform()

    def refuse(self, error: ErrorCode) -> None:
        body: TxnOffsetCommitRequest = self._request.body
        errors = {
            (topic.name, entry.partition_index): error
            for topic in body.topics
            for entry in topic.partitions
        }
        errors.update(dict.fromkeys(self._unknown, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        self.respond(partition_errors(body, errors))

    def respond(self, response: TxnOffsetCommitResponse) -> None:
        if self._request.api_version < _FIRST_VERSION_WITH_LOADING:
            for topic in response.topics:
                for entry in topic.partitions:
                    if entry.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                        entry.error_code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        self._request.respond(response)

    def close(self) -> None:
        self._request.close()


class _Verified:
    """The continuation after the answer of the transaction coordinator."""

    __slots__ = ("_commit", "_guard")

    def __init__(self, commit: _Commit, guard: VerificationGuard) -> None:
        self._commit = commit
        self._guard = guard

    def __call__(self, errors: Answer) -> None:
        if errors:
            (error,) = set(errors.values())
            self._commit.refuse(client_error(error))
        else:
            self._commit.proceed(self._guard)
