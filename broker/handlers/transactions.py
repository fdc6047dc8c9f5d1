"""The APIs of producers and their transactions that go to the transaction coordinator.

| API | versions | notes |
|---|---|---|
| InitProducerId | 0-5 | without transactional id any broker gives a new producer id, epoch 0 |
| AddPartitionsToTxn | 0-5 | v0-3 of clients; v4+ of brokers, several transactions: to verify, or |
| | | add for producers of transaction version 2 |
| AddOffsetsToTxn | 0-4 | adds the group's partition of `__consumer_offsets` |
| EndTxn | 0-5 | v5 raises the epoch, and answers the next producer id and epoch |
| DescribeTransactions | 0 | |
| ListTransactions | 0-2 | v1 filters by duration, v2 by a pattern |

PRODUCER_FENCED is INVALID_PRODUCER_EPOCH to clients that do not know it: InitProducerId before v4,
the others before v2. In AddPartitionsToTxn one partition that cannot be added fails all of its
transaction: the others are answered OPERATION_NOT_ATTEMPTED.

Mirrors the handlers of the same names in KafkaApis.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from ...coordinator.transaction.core import EndResult, InitAttempt, InitResult
from ...coordinator.transaction.metadata import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    RAISES_EPOCHS,
)
from ...coordinator.transaction.states import STATES_BY_LABEL
from ...protocol.acls import AclOperation, ResourceType
from ...protocol.api import ApiKey
from ...protocol.apis.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from ...protocol.apis.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from ...protocol.apis.describe_transactions import DescribeTransactionsResponse
from ...protocol.apis.end_txn import EndTxnRequest, EndTxnResponse
from ...protocol.apis.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.topics import INTERNAL_TOPICS, OFFSETS_TOPIC, TopicPartition
from ..coordinators.producer_ids import ProducerIds
from ..coordinators.transaction_runtime import TransactionRuntime
from ..network.turns import Steps, distinct

if TYPE_CHECKING:
    from ...replication.metadata_cache import MetadataCache
    from ..network.request import Handler, Request

_FIRST_FENCED_INIT_VERSION = 4
_FIRST_FENCED_VERSION = 2
_FIRST_BATCHED_VERSION = 4
_FIRST_RAISING_END_VERSION = 5


class TransactionHandlers:
    __slots__ = ("_metadata", "_offsets_partition_for", "_producer_ids", "_runtime")

    def __init__(
        self,
        runtime: TransactionRuntime,
        producer_ids: ProducerIds,
        metadata: MetadataCache,
        *,
        offsets_partition_for: Callable[[str], int],
    ) -> None:
        """`offsets_partition_for` gives a group's partition of the offsets topic."""
        self._runtime = runtime
        self._producer_ids = producer_ids
        self._metadata = metadata
        self._offsets_partition_for = offsets_partition_for

    def handlers(self) -> Mapping[ApiKey, Handler]:
        return {
            ApiKey.INIT_PRODUCER_ID: self.init_producer_id,
            ApiKey.ADD_PARTITIONS_TO_TXN: self.add_partitions,
            ApiKey.ADD_OFFSETS_TO_TXN: self.add_offsets,
            ApiKey.END_TXN: self.end,
            ApiKey.DESCRIBE_TRANSACTIONS: self.describe,
            ApiKey.LIST_TRANSACTIONS: self.list,
        }

    # InitProducerId

    async def init_producer_id(self, request: Request) -> None:
        body: InitProducerIdRequest = request.body
        call = _InitCall(request)
        has_id = body.producer_id != NO_PRODUCER_ID
        has_epoch = body.producer_epoch != NO_PRODUCER_EPOCH
        if has_id != has_epoch:
            call.answer(InitResult(ErrorCode.INVALID_REQUEST))
        elif body.transactional_id is None:
            try:
                producer_id = await self._producer_ids.next_id()
            except KafkaError as error:
                call.answer(InitResult(error.code))
            else:
                call.answer(InitResult(ErrorCode.NONE, producer_id, 0))
        else:
            runtime = self._runtime
            attempt = InitAttempt(
                call,
                body.transactional_id,
                body.transaction_timeout_ms,
                (body.producer_id, body.producer_epoch) if has_id else None,
            )
            runtime.machine.init_producer_id(attempt, runtime.now_ms)
            runtime.perform()

    # AddPartitionsToTxn and AddOffsetsToTxn

    def add_partitions(self, request: Request) -> Steps:
        body: AddPartitionsToTxnRequest = request.body
        transactions = body.transactions
        if request.api_version < _FIRST_BATCHED_VERSION:
            transactions = [
                AddPartitionsToTxnTransaction(
                    transactional_id=body.v3_and_below_transactional_id,
                    producer_id=body.v3_and_below_producer_id,
                    producer_epoch=body.v3_and_below_producer_epoch,
                    topics=body.v3_and_below_topics,
                )
            ]
        call = _AddPartitionsCall(request, len(transactions))
        if not transactions:
            call.respond()
        for index, transaction in enumerate(transactions):
            yield from self._add_to_one(call, index, transaction)

    def _add_to_one(
        self, call: _AddPartitionsCall, index: int, transaction: AddPartitionsToTxnTransaction
    ) -> Steps:
        runtime = self._runtime
        partitions = yield from distinct(_partitions(transaction.topics))
        refused = yield from self._refused(call, transaction.transactional_id, partitions)
        part = _AddPartitionsPart(call, index, transaction.transactional_id, partitions)
        if refused:
            yield from part.refuse(refused)
            return
        producer = (transaction.transactional_id, transaction.producer_id)
        epoch = transaction.producer_epoch
        if transaction.verify_only:
            part.answer_each(runtime.machine.verify_partitions(*producer, epoch, partitions))
        else:
            runtime.machine.add_partitions(
                part, *producer, epoch, partitions, runtime.now_ms, call.connection,
                RAISES_EPOCHS if call.is_batched else 0,
            )  # fmt: skip
            runtime.perform()

    def _refused(
        self, call: _AddPartitionsCall, transactional_id: str, partitions: Iterable[TopicPartition]
    ) -> Generator[None, None, dict[TopicPartition, ErrorCode]]:
        """Partitions that cannot be in a transaction; clients may not name internal topics."""
        refused = {}
        of_transaction = not call.permits(ResourceType.TRANSACTIONAL_ID, transactional_id)
        for topic, partition in partitions:
            if of_transaction:
                refused[topic, partition] = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            elif not call.permits(ResourceType.TOPIC, topic):
                refused[topic, partition] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif self._metadata.partition_state(topic, partition) is None:
                refused[topic, partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            yield
        return refused

    def add_offsets(self, request: Request) -> None:
        body: AddOffsetsToTxnRequest = request.body
        runtime = self._runtime
        runtime.machine.add_partitions(
            _ErrorCall(request, lambda error: AddOffsetsToTxnResponse(error_code=error)),
            body.transactional_id,
            body.producer_id,
            body.producer_epoch,
            [(OFFSETS_TOPIC, self._offsets_partition_for(body.group_id))],
            runtime.now_ms,
            request.peer.number,
        )
        runtime.perform()

    # EndTxn

    def end(self, request: Request) -> None:
        body: EndTxnRequest = request.body
        runtime = self._runtime
        raises = request.api_version >= _FIRST_RAISING_END_VERSION
        runtime.machine.end_transaction(
            _EndCall(request)
            if raises
            else _ErrorCall(request, lambda error: EndTxnResponse(error_code=error)),
            body.transactional_id,
            body.producer_id,
            body.producer_epoch,
            runtime.now_ms,
            committed=body.committed,
            connection=request.peer.number,
            client_version=RAISES_EPOCHS if raises else 0,
        )
        runtime.perform()

    # Descriptions

    def describe(self, request: Request) -> None:
        describe = self._runtime.machine.describe
        states = [describe(name) for name in request.body.transactional_ids]
        request.respond(DescribeTransactionsResponse(transaction_states=states))

    def list(self, request: Request) -> Steps:
        body, runtime = request.body, self._runtime
        known: list[str] = []
        unknown: list[str] = []
        for name in (yield from distinct(body.state_filters)):
            (known if name in STATES_BY_LABEL else unknown).append(name)
            yield
        response = runtime.machine.list_transactions(
            known or unknown[:1],
            body.producer_id_filters,
            body.duration_filter,
            runtime.now_ms,
            _matcher_of(body.transactional_id_pattern),
        )
        if response.error_code == ErrorCode.NONE:
            response.unknown_state_filters = unknown
        request.respond(response)


def _matcher_of(pattern: str | None) -> Callable[[str], bool]:
    """KafkaError (INVALID_REGULAR_EXPRESSION) if the pattern is none."""
    if not pattern:
        return lambda _: True
    from ...protocol.regular_expressions import RegularExpression

    try:
        expression = RegularExpression(pattern)
    except KafkaError as error:
        text = f"Transaction ID pattern `{pattern}` is not a valid regular expression: "
        raise KafkaError(error.code, text + error.message) from error
    return expression.matches


# Answers of the machine; each class knows the response of its API.


def _old_error(error: ErrorCode, *, knows_fenced: bool) -> ErrorCode:
    if error is ErrorCode.PRODUCER_FENCED and not knows_fenced:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error


class _InitCall:
    __slots__ = ("_request",)

    def __init__(self, request: Request) -> None:
        self._request = request

    def answer(self, result: InitResult) -> None:
        knows_fenced = self._request.api_version >= _FIRST_FENCED_INIT_VERSION
        self._request.respond(
            InitProducerIdResponse(
                error_code=_old_error(result.error, knows_fenced=knows_fenced),
                producer_id=result.producer_id,
                producer_epoch=result.producer_epoch,
            )
        )

    def close(self) -> None:
        self._request.close()


class _ErrorCall:
    """A request whose answer is an error code, NONE included."""

    __slots__ = ("_request", "_response")

    def __init__(
        self,
        request: Request,
        response: Callable[[ErrorCode], AddOffsetsToTxnResponse | EndTxnResponse],
    ) -> None:
        self._request = request
        self._response = response

    def answer(self, error: ErrorCode) -> None:
        knows_fenced = self._request.api_version >= _FIRST_FENCED_VERSION
        self._request.respond(self._response(_old_error(error, knows_fenced=knows_fenced)))

    def close(self) -> None:
        self._request.close()


class _EndCall:
    """An EndTxn of a producer of transaction version 2."""

    __slots__ = ("_request",)

    def __init__(self, request: Request) -> None:
        self._request = request

    def answer(self, result: EndResult) -> None:
        self._request.respond(
            EndTxnResponse(
                error_code=result.error,
                producer_id=result.producer_id,
                producer_epoch=result.producer_epoch,
            )
        )

    def close(self) -> None:
        self._request.close()


class _AddPartitionsCall:
    """An AddPartitionsToTxn request: answered when all of its transactions are."""

    __slots__ = ("_missing", "_request", "_results", "connection")

    def __init__(self, request: Request, count: int) -> None:
        self._request = request
        self.connection = request.peer.number
        self._results: list[AddPartitionsToTxnResult] = [AddPartitionsToTxnResult()] * count
        self._missing = count

    @property
    def is_batched(self) -> bool:
        return self._request.api_version >= _FIRST_BATCHED_VERSION

    def permits(self, kind: ResourceType, name: str) -> bool:
        """Whether it may write to this topic or transaction; brokers are not asked."""
        if self.is_batched:
            return True
        if kind is ResourceType.TOPIC and name in INTERNAL_TOPICS:
            return False
        return self._request.permits(AclOperation.WRITE, kind, name)

    def part_answered(
        self, index: int, transactional_id: str, errors: Mapping[TopicPartition, ErrorCode]
    ) -> None:
        for _ in self.answer_part(index, transactional_id, errors):
            pass

    def answer_part(
        self, index: int, transactional_id: str, errors: Mapping[TopicPartition, ErrorCode]
    ) -> Steps:
        knows_fenced = self._request.api_version >= _FIRST_FENCED_VERSION
        by_topic: dict[str, list[AddPartitionsToTxnPartitionResult]] = {}
        for (topic, partition), error in errors.items():
            by_topic.setdefault(topic, []).append(
                AddPartitionsToTxnPartitionResult(
                    partition_index=partition,
                    partition_error_code=_old_error(error, knows_fenced=knows_fenced),
                )
            )
            yield
        self._results[index] = AddPartitionsToTxnResult(
            transactional_id=transactional_id,
            topic_results=[
                AddPartitionsToTxnTopicResult(name=topic, results_by_partition=results)
                for topic, results in by_topic.items()
            ],
        )
        self._missing -= 1
        if self._missing == 0:
            self.respond()

    def respond(self) -> None:
        if self.is_batched:
            response = AddPartitionsToTxnResponse(results_by_transaction=self._results)
        else:
            response = AddPartitionsToTxnResponse(
                results_by_topic_v3_and_below=self._results[0].topic_results
            )
        self._request.respond(response)

    def close(self) -> None:
        self._request.close()


class _AddPartitionsPart:
    """One transaction of an AddPartitionsToTxn request."""

    __slots__ = ("_call", "_index", "_partitions", "_transactional_id")

    def __init__(
        self,
        call: _AddPartitionsCall,
        index: int,
        transactional_id: str,
        partitions: list[TopicPartition],
    ) -> None:
        self._call = call
        self._index = index
        self._transactional_id = transactional_id
        self._partitions = partitions

    def answer(self, error: ErrorCode) -> None:
        self.answer_each(dict.fromkeys(self._partitions, error))

    def refuse(self, refused: Mapping[TopicPartition, ErrorCode]) -> Steps:
        """Refuse all partitions, since at least one cannot be added."""
        errors = {}
        for key in self._partitions:
            errors[key] = refused.get(key, ErrorCode.OPERATION_NOT_ATTEMPTED)
            yield
        yield from self._call.answer_part(self._index, self._transactional_id, errors)

    def answer_each(self, errors: Mapping[TopicPartition, ErrorCode]) -> None:
        self._call.part_answered(self._index, self._transactional_id, errors)

    def close(self) -> None:
        self._call.close()


def _partitions(topics: Iterable[AddPartitionsToTxnTopic]) -> Iterator[TopicPartition]:
    for topic in topics:
        for partition in topic.partitions:
            yield topic.name, partition
