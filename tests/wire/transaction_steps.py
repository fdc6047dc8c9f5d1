"""Steps of transactional producers on the wire, one request each."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from pybroker_kafka.protocol.apis.add_offsets_to_txn import AddOffsetsToTxnRequest
from pybroker_kafka.protocol.apis.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from pybroker_kafka.protocol.apis.describe_transactions import DescribeTransactionsRequest
from pybroker_kafka.protocol.apis.end_txn import EndTxnRequest
from pybroker_kafka.protocol.apis.init_producer_id import InitProducerIdRequest
from pybroker_kafka.protocol.errors import ErrorCode
from tests.support.wire import TRANSACTION, WireClient, unique

WAIT_SECONDS = 120.0
TIMEOUT_MS = 60_000
FIRST_BATCHED_VERSION = 4

# What a client waits for, and asks again.
RETRIED = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)

Partitions = Iterable[tuple[str, int]]


class Producer(NamedTuple):
    """A transactional id with the producer id and epoch of one of its incarnations."""

    name: str
    id: int
    epoch: int


def again(ask: Callable[[], Any], error_of: Callable[[Any], int] = lambda r: r.error_code) -> Any:
    """The first answer that is not a request to wait."""
    deadline = time.monotonic() + WAIT_SECONDS
    while error_of(answer := ask()) in RETRIED:
        assert time.monotonic() < deadline, answer
        time.sleep(0.02)
    return answer


def new_name(kafka: WireClient) -> str:
    """A transactional id whose coordinator is there."""
    name = unique("txn")
    kafka.coordinator(name, TRANSACTION)
    return name


def init(
    kafka: WireClient,
    name: str | None,
    version: int | None = None,
    *,
    timeout_ms: int = TIMEOUT_MS,
    producer: tuple[int, int] = (-1, -1),
) -> Any:
    request = InitProducerIdRequest(
        transactional_id=name,
        transaction_timeout_ms=timeout_ms,
        producer_id=producer[0],
        producer_epoch=producer[1],
    )
    return kafka.call(request, version)


def start(kafka: WireClient, name: str | None = None, **options: Any) -> Producer:
    """A producer that has its id and epoch."""
    name = new_name(kafka) if name is None else name
    answer = again(lambda: init(kafka, name, **options))
    assert answer.error_code == 0, answer
    return Producer(name, answer.producer_id, answer.producer_epoch)


def topics_of(partitions: Partitions) -> list[AddPartitionsToTxnTopic]:
    return [AddPartitionsToTxnTopic(name=topic, partitions=[p]) for topic, p in partitions]


def transaction(
    producer: Producer, partitions: Partitions, *, verify_only: bool = False
) -> AddPartitionsToTxnTransaction:
    """One transaction of a batched request."""
    return AddPartitionsToTxnTransaction(
        transactional_id=producer.name,
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        verify_only=verify_only,
        topics=topics_of(partitions),
    )


def errors_of(topic_results: Iterable[Any]) -> dict[tuple[str, int], int]:
    return {
        (topic.name, entry.partition_index): entry.partition_error_code
        for topic in topic_results
        for entry in topic.results_by_partition
    }


def add(
    kafka: WireClient, producer: Producer, *partitions: tuple[str, int], version: int = 3
) -> dict[tuple[str, int], int]:
    """AddPartitionsToTxn of one transaction: the error of each partition."""
    if version < FIRST_BATCHED_VERSION:
        answer = kafka.call(
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=producer.name,
                v3_and_below_producer_id=producer.id,
                v3_and_below_producer_epoch=producer.epoch,
                v3_and_below_topics=topics_of(partitions),
            ),
            version,
        )
        return errors_of(answer.results_by_topic_v3_and_below)
    request = AddPartitionsToTxnRequest(transactions=[transaction(producer, partitions)])
    (result,) = kafka.call(request, version).results_by_transaction
    assert result.transactional_id == producer.name
    return errors_of(result.topic_results)


def add_offsets(
    kafka: WireClient, producer: Producer, group: str, version: int | None = None
) -> int:
    request = AddOffsetsToTxnRequest(
        transactional_id=producer.name,
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        group_id=group,
    )
    error: int = kafka.call(request, version).error_code
    return error


def end(
    kafka: WireClient, producer: Producer, *, committed: bool = True, version: int | None = None
) -> int:
    error: int = ended_with(kafka, producer, committed=committed, version=version).error_code
    return error


def ended_with(
    kafka: WireClient, producer: Producer, *, committed: bool = True, version: int | None = None
) -> Any:
    """The answer of EndTxn."""
    request = EndTxnRequest(
        transactional_id=producer.name,
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        committed=committed,
    )
    return kafka.call(request, version)


def describe(kafka: WireClient, name: str) -> Any:
    request = DescribeTransactionsRequest(transactional_ids=[name])
    (state,) = kafka.call(request).transaction_states
    assert state.transactional_id == name
    return state


def wait_for_state(kafka: WireClient, name: str, *labels: str) -> Any:
    """Wait until the transaction is in one of these states."""
    deadline = time.monotonic() + WAIT_SECONDS
    while (state := describe(kafka, name)).transaction_state not in labels:
        assert time.monotonic() < deadline, state
        time.sleep(0.02)
    return state
