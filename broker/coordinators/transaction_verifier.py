"""Asks transaction coordinators whether partitions belong to an open transaction (KIP-890).

A `Question` names a transaction and partitions; its `on_answer` gets the partitions that do not
belong to it, each with its error (none: all do). For a producer of version 2 it adds them to the
transaction instead (`adds`). Questions to one coordinator wait while one request to it is under way
and then go out together, in AddPartitionsToTxn, over one connection a broker. The own coordinator
is asked at once and without a request; Kafka makes no difference. There is one question a
transactional id in a request: of two that wait, the one with the higher epoch stays and the other's
producer is fenced; of two with the same epoch the later stays, since it is the client's retry.

A coordinator that knows no verification (before 3.6) verifies everything by its silence.

Mirrors kafka.server.AddPartitionsToTxnManager.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Any

import trio

from ...coordinator.group.placement import partition_for_key
from ...protocol.api import ApiKey
from ...protocol.apis.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ...protocol.apis.api_versions import ApiVersionsRequest
from ...protocol.errors import ErrorCode
from ...protocol.invariants import BrokenInvariant
from ...protocol.topics import TRANSACTIONS_TOPIC, TopicPartition
from ...replication.metadata_cache import MetadataCache
from ..cluster.broker_connection import (
    REQUEST_TIMEOUT_MS,
    BrokerConnection,
    ChannelError,
    Connect,
    connect_plaintext,
)

logger = logging.getLogger("pybroker.broker.transactions")

# The first version for brokers; later ones add error codes only.
VERIFYING_VERSION = 4
_API_VERSIONS_VERSION = 2

Answer = Mapping[TopicPartition, ErrorCode]
# The own coordinator: (transactional id, producer id, producer epoch, partitions) to an error for
# each of them, NONE included.
VerifyHere = Callable[[str, int, int, Iterable[TopicPartition]], Answer]
# The same for partitions to add; the errors come later.
AddHere = Callable[[str, int, int, Collection[TopicPartition], Callable[[Answer], None]], None]


class Question:
    """Do these partitions belong to the producer's open transaction? With `adds`: they do now."""

    __slots__ = ("adds", "keys", "knows_abortable", "on_answer", "producer_epoch", "producer_id",
                 "transactional_id")  # fmt: skip

    def __init__(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        keys: Iterable[TopicPartition],
        on_answer: Callable[[Answer], None],
        *,
        knows_abortable: bool,
        adds: bool = False,
    ) -> None:
        """`knows_abortable`: the client understands TRANSACTION_ABORTABLE."""
        self.adds = adds
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.keys = tuple(keys)
        self.on_answer = on_answer
        self.knows_abortable = knows_abortable

    def answer(self, errors: Answer) -> None:
        try:
            self.on_answer(errors)
        except BrokenInvariant:
            raise
        except Exception:
            logger.exception("Going on after the verification of %s failed", self.transactional_id)

    def fail(self, error: ErrorCode) -> None:
        self.answer(dict.fromkeys(self.keys, error))

    def error_for(self, code: int) -> ErrorCode:
        """A coordinator's answer in terms that producers know."""
        error = ErrorCode(code)
        if error is ErrorCode.PRODUCER_FENCED:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if error is ErrorCode.TRANSACTION_ABORTABLE and not self.knows_abortable:
            return ErrorCode.INVALID_TXN_STATE
        return error


class TransactionVerifier:
    """All questions of one broker; `run` until cancelled."""

    def __init__(
        self,
        metadata: MetadataCache,
        listener: str,
        client_id: str,
        verify_here: VerifyHere,
        add_here: AddHere,
        *,
        connect: Connect = connect_plaintext,
        timeout_ms: int = REQUEST_TIMEOUT_MS,
    ) -> None:
        self.failure_count = 0
        self._metadata = metadata
        self._listener = listener
        self._client_id = client_id
        self._verify_here = verify_here
        self._add_here = add_here
        self._connect = connect
        self._timeout_ms = timeout_ms
        self._channels: dict[int, _Channel] = {}
        self._nursery: trio.Nursery | None = None

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            task_status.started()
            await trio.sleep_forever()

    def ask(self, question: Question) -> None:
        """Answered at once if the coordinator is this broker's, or none is known; else later."""
        broker_id = self._coordinator_of(question.transactional_id)
        if broker_id is None or self._nursery is None:
            self.count_failures(question)
            question.fail(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return
        if broker_id == self._metadata.broker_id:
            self._answer_here(question)
            return
        channel = self._channels.get(broker_id)
        if channel is None:
            channel = self._channels[broker_id] = _Channel(self, broker_id)
            self._nursery.start_soon(channel.run)
        channel.add(question)

    def call_later(self, delay_ms: int, action: Callable[[], None]) -> None:
        """Call `action` after that time; at once if this does not run."""
        if self._nursery is None:
            action()
        else:
            self._nursery.start_soon(self._wait, delay_ms, action)

    @staticmethod
    async def _wait(delay_ms: int, action: Callable[[], None]) -> None:
        await trio.sleep(delay_ms / 1000)
        try:
            action()
        except BrokenInvariant:
            raise
        except Exception:
            logger.exception("Going on after a question that was asked again failed")

    def _answer_here(self, question: Question) -> None:
        producer = (question.transactional_id, question.producer_id, question.producer_epoch)
        if question.adds:
            self._add_here(*producer, question.keys, partial(self._answered_here, question))
        else:
            self._answered_here(question, self._verify_here(*producer, question.keys))

    def _answered_here(self, question: Question, verified: Answer) -> None:
        errors = {key: question.error_for(error) for key, error in verified.items() if error}
        self.failure_count += len(errors)
        question.on_answer(errors)  # it handles its own errors

    def count_failures(self, question: Question) -> None:
        self.failure_count += len(question.keys)

    def _coordinator_of(self, transactional_id: str) -> int | None:
        count = self._metadata.partition_count(TRANSACTIONS_TOPIC)
        if not count:
            return None
        partition = partition_for_key(transactional_id, count)
        state = self._metadata.partition_state(TRANSACTIONS_TOPIC, partition)
        if state is None or not self._metadata.is_alive(state.leader):
            return None
        return state.leader

    def open_connection(self, broker_id: int) -> BrokerConnection | None:
        endpoint = self._metadata.broker_endpoint(broker_id, self._listener)
        if endpoint is None:
            return None
        return BrokerConnection(
            endpoint, self._client_id, connect=self._connect, timeout_ms=self._timeout_ms
        )

    def has_moved(self, broker_id: int, connection: BrokerConnection) -> bool:
        endpoint = self._metadata.broker_endpoint(broker_id, self._listener)
        return endpoint != connection.endpoint


class _Channel:
    """Questions to one coordinator; one request is under way at a time."""

    def __init__(self, verifier: TransactionVerifier, broker_id: int) -> None:
        self._verifier = verifier
        self._broker_id = broker_id
        self._waiting: dict[str, Question] = {}
        self._wake = trio.Event()
        self._connection: BrokerConnection | None = None
        self._can_verify = False

    def add(self, question: Question) -> None:
        name = question.transactional_id
        earlier = self._waiting.get(name)
        if earlier is not None and question.producer_epoch < earlier.producer_epoch:
            self._fail(question, ErrorCode.INVALID_PRODUCER_EPOCH)
            return
        self._waiting[name] = question
        self._wake.set()
        if earlier is not None:
            is_fenced = earlier.producer_epoch < question.producer_epoch
            error = ErrorCode.INVALID_PRODUCER_EPOCH if is_fenced else ErrorCode.NETWORK_EXCEPTION
            self._fail(earlier, error)

    async def run(self) -> None:
        try:
            while True:
                while not self._waiting:
                    self._wake = trio.Event()
                    await self._wake.wait()
                questions, self._waiting = self._waiting, {}
                await self._ask(questions)
        finally:
            if self._connection is not None:
                self._connection.close()

    def _fail(self, question: Question, error: ErrorCode) -> None:
        self._verifier.count_failures(question)
        question.fail(error)

    async def _ask(self, questions: Mapping[str, Question]) -> None:
        try:
            response = await self._exchange(questions.values())
        except ChannelError as problem:
            logger.warning("Broker %d cannot verify transactions: %s", self._broker_id, problem)
            self._fail_all(questions, ErrorCode.NETWORK_EXCEPTION)
            return
        if response is None:
            for question in questions.values():
                question.answer({})
            return
        if response.error_code:
            error = ErrorCode(response.error_code)
            logger.error("Broker %d refuses to verify: %s", self._broker_id, error.name)
            if error is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
                error = ErrorCode.INVALID_TXN_STATE  # not a client's error
            self._fail_all(questions, error)
            return
        answered = {result.transactional_id: result for result in response.results_by_transaction}
        for name, question in questions.items():
            if name in answered:
                self._answer(question, answered[name].topic_results)
            else:
                self._fail(question, ErrorCode.NETWORK_EXCEPTION)

    def _answer(self, question: Question, topics: Any) -> None:
        errors = {
            (topic.name, result.partition_index): question.error_for(result.partition_error_code)
            for topic in topics
            for result in topic.results_by_partition
            if result.partition_error_code
        }
        self._verifier.failure_count += len(errors)
        question.answer(errors)

    def _fail_all(self, questions: Mapping[str, Question], error: ErrorCode) -> None:
        for question in questions.values():
            self._fail(question, error)

    async def _exchange(self, questions: Iterable[Question]) -> AddPartitionsToTxnResponse | None:
        """The coordinator's answer; None if the broker cannot verify."""
        connection = self._connection
        if connection is not None and self._verifier.has_moved(self._broker_id, connection):
            connection.close()
            connection = None
        if connection is None:
            self._can_verify = False
            connection = self._connection = self._verifier.open_connection(self._broker_id)
        if connection is None:
            raise ChannelError("the broker has no endpoint for other brokers")
        try:
            if not self._can_verify and not await _can_verify(connection):
                return None
            self._can_verify = True
            response: Any = await connection.send(_request(questions), VERIFYING_VERSION)
        except ChannelError:
            self._can_verify = False  # it may come back as another version
            raise
        return response  # type: ignore[no-any-return]


async def _can_verify(connection: BrokerConnection) -> bool:
    response: Any = await connection.send(ApiVersionsRequest(), _API_VERSIONS_VERSION)
    return any(
        served.api_key == ApiKey.ADD_PARTITIONS_TO_TXN and served.max_version >= VERIFYING_VERSION
        for served in response.api_keys
    )


def _request(questions: Iterable[Question]) -> AddPartitionsToTxnRequest:
    transactions = []
    for question in questions:
        partitions: dict[str, list[int]] = {}
        for topic, partition in question.keys:
            partitions.setdefault(topic, []).append(partition)
        transactions.append(
            AddPartitionsToTxnTransaction(
                transactional_id=question.transactional_id,
                producer_id=question.producer_id,
                producer_epoch=question.producer_epoch,
                verify_only=not question.adds,
                topics=[
                    AddPartitionsToTxnTopic(name=topic, partitions=indexes)
                    for topic, indexes in partitions.items()
                ],
            )
        )
    return AddPartitionsToTxnRequest(transactions=transactions)
