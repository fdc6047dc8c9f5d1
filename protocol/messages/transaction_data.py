"""Keys and values in `__transaction_state`, each behind an int16 version.

Version 1 of the value is flexible.

Mirrors: the schemas of the same names in transaction-coordinator/src/main/resources/common/message.
"""

from __future__ import annotations

from ..schema import Message, Struct, array, int8, int16, int32, int64, message, string


@message(kind="data", valid="0")
class TransactionLogKey(Message):
    transactional_id: str = string("0")


class PartitionsSchema(Struct):
    topic: str = string()
    partition_ids: list[int] = array("int32")


@message(kind="data", valid="0-1", flexible="1+")
class TransactionLogValue(Message):
    producer_id: int = int64()
    previous_producer_id: int = int64("1+", default=-1, tag=0)
    next_producer_id: int = int64("1+", default=-1, tag=1)
    producer_epoch: int = int16()
    next_producer_epoch: int = int16("1+", default=-1, tag=3)
    transaction_timeout_ms: int = int32()
    transaction_status: int = int8()
    transaction_partitions: list[PartitionsSchema] | None = array(PartitionsSchema, nullable="0+")
    transaction_last_update_timestamp_ms: int = int64()
    transaction_start_timestamp_ms: int = int64()
    client_transaction_version: int = int16("1+", default=0, tag=2)
