"""Looking at producers and transactions (KIP-664).

DescribeProducers asks leaders, DescribeTransactions and ListTransactions ask coordinators;
version 1 of the last filters by duration (KIP-994).

Mirrors: the schemas of the same names in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from ..schema import Message, Struct, array, int16, int32, int64, message, string


class TopicRequest(Struct):
    name: str = string()
    partition_indexes: list[int] = array("int32")


@message(api_key=61, kind="request", valid="0", flexible="0+")
class DescribeProducersRequest(Message):
    topics: list[TopicRequest] = array(TopicRequest)


class ProducerState(Struct):
    producer_id: int = int64()
    producer_epoch: int = int32()
    last_sequence: int = int32(default=-1)
    last_timestamp: int = int64(default=-1)
    coordinator_epoch: int = int32()
    current_txn_start_offset: int = int64(default=-1)


class PartitionResponse(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    active_producers: list[ProducerState] = array(ProducerState)


class TopicResponse(Struct):
    name: str = string()
    partitions: list[PartitionResponse] = array(PartitionResponse)


@message(api_key=61, kind="response", valid="0", flexible="0+")
class DescribeProducersResponse(Message):
    throttle_time_ms: int = int32()
    topics: list[TopicResponse] = array(TopicResponse)


@message(api_key=65, kind="request", valid="0", flexible="0+")
class DescribeTransactionsRequest(Message):
    transactional_ids: list[str] = array("string")


class DescribeTransactionsResponseTopicData(Struct):
    topic: str = string()
    partitions: list[int] = array("int32")


class DescribeTransactionsResponseTransactionState(Struct):
    error_code: int = int16()
    transactional_id: str = string()
    transaction_state: str = string()
    transaction_timeout_ms: int = int32()
    transaction_start_time_ms: int = int64()
    producer_id: int = int64()
    producer_epoch: int = int16()
    topics: list[DescribeTransactionsResponseTopicData] = array(
        DescribeTransactionsResponseTopicData
    )


@message(api_key=65, kind="response", valid="0", flexible="0+")
class DescribeTransactionsResponse(Message):
    throttle_time_ms: int = int32()
    transaction_states: list[DescribeTransactionsResponseTransactionState] = array(
        DescribeTransactionsResponseTransactionState
    )


@message(api_key=66, kind="request", valid="0-1", flexible="0+")
class ListTransactionsRequest(Message):
    state_filters: list[str] = array("string")
    producer_id_filters: list[int] = array("int64")
    duration_filter: int = int64("1+", default=-1)


class ListTransactionsResponseTransactionState(Struct):
    transactional_id: str = string()
    producer_id: int = int64()
    transaction_state: str = string()


@message(api_key=66, kind="response", valid="0-1", flexible="0+")
class ListTransactionsResponse(Message):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    unknown_state_filters: list[str] = array("string")
    transaction_states: list[ListTransactionsResponseTransactionState] = array(
        ListTransactionsResponseTransactionState
    )
