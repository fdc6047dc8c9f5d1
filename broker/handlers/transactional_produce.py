"""Produce requests with transactional batches: verified before the first append (KIP-890).

One request carries batches of one producer and epoch, or it is refused whole. A batch whose
transaction is open in its log already is appended at once, as are all with
transaction.partition.verification.enable=false. Otherwise, the request waits for the transaction
coordinator; batches outside of the transaction are answered with an error, the others are appended
with the guards of their verification.

From version 12 on the coordinator adds the partitions to the transaction instead (part 2), whatever
the config says. While it still completes the producer's transaction before, it is asked again after
a moment, for a while: the producer would wait longer.

The records of a request that waits are copied: they lie in the buffer of its connection.

Mirrors ReplicaManager.handleProduceAppend. Left out: the keys add.partitions.to.txn.retry.* of
Kafka 4, whose defaults are used.
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
from ...storage.verification import NOT_ADDED, VerificationGuard
from ..coordinators.transaction_verifier import Answer, Question, TransactionVerifier
from ..replicas.applied_replicas import AppliedReplicas

if TYPE_CHECKING:
    from ..network.request import Request

_MAGIC_V2 = 2
_FIRST_VERSION_WITH_ABORTABLE = 11
_FIRST_VERSION_THAT_ADDS = 12
ADD_RETRY_BACKOFF_MS = 20
MAX_ADD_RETRIES_MS = 100

Entries = dict[TopicPartition, Any]
Guards = Mapping[TopicPartition, VerificationGuard] | None
Append = Callable[["Request", Entries, Guards, ProduceResults], None]

_NOT_ADDED_MESSAGE = "Partition was not added to the transaction"
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
        adds = request.api_version >= _FIRST_VERSION_THAT_ADDS
        if not producers or not (adds or self._is_enabled()):
            append(request, entries, None, {})
            return
        waiting = _Waiting(self, request, entries, headers, append)
        waiting.ask()
        if not waiting.is_over:
            waiting.keep()


class _Waiting:
    """A produce request while its transaction is verified.

    `guards` and `refused` are those of the last question.
    """

    __slots__ = ("_adds", "_handler", "_headers", "_since_ms", "append", "entries",
                 "guards", "is_over", "refused", "request")  # fmt: skip

    def __init__(
        self,
        handler: TransactionalProduce,
        request: Request,
        entries: Entries,
        headers: dict[TopicPartition, BatchHeader],
        append: Append,
    ) -> None:
        self._handler = handler
        self._headers = headers
        self._adds = request.api_version >= _FIRST_VERSION_THAT_ADDS
        self._since_ms = handler._replicas.clock()
        self.request = request
        self.entries = entries
        self.guards: dict[TopicPartition, VerificationGuard] = {}
        self.refused: ProduceResults = {}
        self.append = append
        self.is_over = False

    def ask(self) -> None:
        """Ask the coordinator about the partitions whose transaction is not open in their log; all
        over again if it was busy."""
        handler = self._handler
        guards, refused = self.guards, self.refused = {}, {}
        asked: list[TopicPartition] = []
        now_ms = handler._replicas.clock()
        for key, header in self._headers.items():
            guard = begin_verification(
                handler._replicas.manager.hosted,
                key,
                header.producer_id,
                header.producer_epoch,
                header.base_sequence,
                now_ms,
                adds=self._adds,
            )
            if isinstance(guard, ErrorCode):
                refused[key] = ProduceResult(guard)
            elif guard is not None:
                guards[key] = guard
                asked.append(key)
            elif self._adds:
                guards[key] = NOT_ADDED  # it is open
        if not asked:
            self._proceed()
            return
        request = self.request
        body: ProduceRequest = request.body
        assert body.transactional_id is not None
        header = self._headers[asked[0]]
        handler._verifier.ask(
            Question(
                body.transactional_id,
                header.producer_id,
                header.producer_epoch,
                asked,
                self.verified,
                knows_abortable=request.api_version >= _FIRST_VERSION_WITH_ABORTABLE,
                adds=self._adds,
            )
        )

    def keep(self) -> None:
        """In the connection's buffer the records may not outlive the handler's call."""
        for key, records in self.entries.items():
            self.entries[key] = bytearray(records)

    def verified(self, errors: Answer) -> None:
        if self._adds and ErrorCode.CONCURRENT_TRANSACTIONS in errors.values():
            handler = self._handler
            if handler._replicas.clock() - self._since_ms < MAX_ADD_RETRIES_MS:
                handler._verifier.call_later(ADD_RETRY_BACKOFF_MS, self.ask)
                return
        for key, error in errors.items():
            if key in self.guards:
                self.refused[key] = produce_error(error, adds=self._adds)
        self._proceed()

    def _proceed(self) -> None:
        self.is_over = True
        for key in self.refused:
            del self.entries[key]
        self.append(self.request, self.entries, self.guards, self.refused)


def produce_error(error: ErrorCode, *, adds: bool = False) -> ProduceResult:
    """A failed verification as the answer of a produce. A producer of version 2 knows a busy
    coordinator."""
    if error is ErrorCode.INVALID_TXN_STATE:
        return ProduceResult(error, error_message=_NOT_ADDED_MESSAGE)
    if error in _AS_NOT_ENOUGH_REPLICAS and not (
        adds and error is ErrorCode.CONCURRENT_TRANSACTIONS
    ):
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
