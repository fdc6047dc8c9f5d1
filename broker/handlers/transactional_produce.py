"""Produce requests with transactional batches: verified before the first append (KIP-890, part 1).

One request carries batches of one producer and epoch, or it is refused whole. A batch whose
transaction is open in its log already is appended at once, as are all with
transaction.partition.verification.enable=false. Otherwise, the request waits for the transaction
coordinator; batches outside of the transaction are answered with an error, the others are appended
with the guards of their verification.

The records of a request that waits are copied: they lie in the buffer of its connection.

Mirrors ReplicaManager.handleProduceAppend.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ...protocol.apis.produce import ProduceRequest
from ...protocol.errors import ErrorCode, ProtocolError
from ...protocol.records.batch import BatchHeader, read_batch_header
from ...protocol.topics import TopicPartition
from ...replication.producers import begin_verification
from ...replication.types import ProduceResult, ProduceResults
from ...storage.verification import VerificationGuard
from ..coordinators.transaction_verifier import Answer, Question, TransactionVerifier
from ..replicas.applied_replicas import AppliedReplicas

if TYPE_CHECKING:
    from ..network.request import Request

_MAGIC_V2 = 2
_FIRST_VERSION_WITH_ABORTABLE = 11

Entries = dict[TopicPartition, Any]
Guards = Mapping[TopicPartition, VerificationGuard] | None
Append = Callable[["Request", Entries, Guards, ProduceResults], None]

_NOT_ADDED = "Partition was not added to the transaction"
# Older clients do not repeat a produce for a coordinator's error: they know this code.
_AS_NOT_ENOUGH_REPLICAS = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


class TransactionalProduce:
    __slots__ = ("_is_enabled", "_replicas", "_verifier")

    def __init__(
        self,
        replicas: AppliedReplicas,
        verifier: TransactionVerifier,
        is_enabled: Callable[[], bool],
    ) -> None:
        self._replicas = replicas
        self._verifier = verifier
        self._is_enabled = is_enabled

    def produce(self, request: Request, entries: Entries, append: Append) -> None:
        """Verify the partitions that need it, then `append` the permitted ones."""
        headers = _transactional_headers(entries)
        producers = {(header.producer_id, header.producer_epoch) for header in headers.values()}
        if len(producers) > 1:
            error = ErrorCode.INVALID_PRODUCER_ID_MAPPING
            append(request, {}, None, {key: ProduceResult(error) for key in entries})
            return
        if not producers or not self._is_enabled():
            append(request, entries, None, {})
            return
        ((producer_id, producer_epoch),) = producers
        now_ms = self._replicas.clock()
        refused: ProduceResults = {}
        guards: dict[TopicPartition, VerificationGuard] = {}
        for key, header in headers.items():
            guard = begin_verification(
                self._replicas.manager.hosted,
                key,
                producer_id,
                producer_epoch,
                header.base_sequence,
                now_ms,
            )
            if isinstance(guard, ErrorCode):
                refused[key] = ProduceResult(guard)
            elif guard is not None:
                guards[key] = guard
        for key in refused:
            del entries[key]
        if not guards:
            append(request, entries, guards, refused)
            return
        body: ProduceRequest = request.body
        assert body.transactional_id is not None
        waiting = _Waiting(request, entries, guards, refused, append)
        self._verifier.ask(
            Question(
                body.transactional_id,
                producer_id,
                producer_epoch,
                guards,
                waiting.verified,
                knows_abortable=request.api_version >= _FIRST_VERSION_WITH_ABORTABLE,
            )
        )
        if not waiting.is_over:
            waiting.keep()


class _Waiting:
    """A produce request while its transaction is verified."""

    __slots__ = ("append", "entries", "guards", "is_over", "refused", "request")

    def __init__(
        self,
        request: Request,
        entries: Entries,
        guards: dict[TopicPartition, VerificationGuard],
        refused: ProduceResults,
        append: Append,
    ) -> None:
        self.request = request
        self.entries = entries
        self.guards = guards
        self.refused = refused
        self.append = append
        self.is_over = False

    def keep(self) -> None:
        """In the connection's buffer the records may not outlive the handler's call."""
        for key, records in self.entries.items():
            self.entries[key] = bytearray(records)

    def verified(self, errors: Answer) -> None:
        self.is_over = True
        for key, error in errors.items():
            if key in self.guards:
                self.refused[key] = produce_error(error)
                del self.entries[key]
        self.append(self.request, self.entries, self.guards, self.refused)


def produce_error(error: ErrorCode) -> ProduceResult:
    """A failed verification as the answer of a produce."""
    if error is ErrorCode.INVALID_TXN_STATE:
        return ProduceResult(error, error_message=_NOT_ADDED)
    if error in _AS_NOT_ENOUGH_REPLICAS:
        return ProduceResult(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            error_message="Unable to verify the partition has been added to the transaction. "
            f"Underlying error: {error.name}",
        )
    return ProduceResult(error)


def _transactional_headers(entries: Entries) -> dict[TopicPartition, BatchHeader]:
    """The first batch of each partition, where it is transactional; a malformed one fails later.

    A partition with more than one batch is refused by the log.
    """
    headers = {}
    for key, records in entries.items():
        try:
            header = read_batch_header(records)
        except ProtocolError:
            continue
        if header.magic == _MAGIC_V2 and header.is_transactional and header.producer_id >= 0:
            headers[key] = header
    return headers
