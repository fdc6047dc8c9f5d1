"""The records of `__transaction_state`: keys and values as Kafka writes them.

Mirrors Kafka's TransactionLog. Every key and value starts with an int16 version. Written: key v0,
value v0 (v1 belongs to transaction.version 1, which needs KRaft); the list of partitions is null
when the state is Empty. Read: all versions. A null value is a tombstone.
"""

from ...protocol.codec import decode_versioned, encode_versioned
from ...protocol.errors import ProtocolError
from ...protocol.messages.transaction_data import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)
from ...protocol.records.record import SimpleRecord
from .metadata import NO_PRODUCER_EPOCH, TransactionMetadata, Transition
from .states import TransactionState

KEY_VERSION = 0
VALUE_VERSION = 0
KEY_PREFIX = b"\x00\x00"

_NEVER_LOGGED = frozenset({TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE})


def transaction_key(transactional_id: str) -> bytes:
    return encode_versioned(TransactionLogKey(transactional_id=transactional_id), KEY_VERSION)


def transaction_value(transition: Transition) -> bytes:
    """The value of a transaction's record in the state that it goes to. Partitions are null only in
    Empty."""
    assert transition.state not in _NEVER_LOGGED
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(transition.partitions):
        by_topic.setdefault(topic, []).append(partition)
    partitions = None
    if transition.state is not TransactionState.EMPTY:
        partitions = [
            PartitionsSchema(topic=topic, partition_ids=ids) for topic, ids in by_topic.items()
        ]
    value = TransactionLogValue(
        producer_id=transition.producer_id,
        producer_epoch=transition.producer_epoch,
        transaction_timeout_ms=transition.timeout_ms,
        transaction_status=int(transition.state),
        transaction_partitions=partitions,
        transaction_last_update_timestamp_ms=transition.update_ms,
        transaction_start_timestamp_ms=transition.start_ms,
    )
    return encode_versioned(value, VALUE_VERSION)


def transaction_record(
    transactional_id: str, transition: Transition, stamp_ms: int
) -> SimpleRecord:
    return SimpleRecord(stamp_ms, transaction_key(transactional_id), transaction_value(transition))


def transaction_tombstone(transactional_id: str, stamp_ms: int) -> SimpleRecord:
    return SimpleRecord(stamp_ms, transaction_key(transactional_id), None)


# Reading: bytes from the log may be anything, so these raise only ProtocolError.


def decode_key(key: bytes) -> str:
    """The transactional id."""
    return decode_versioned(TransactionLogKey, key).transactional_id


def decode_value(transactional_id: str, data: bytes) -> TransactionMetadata:
    """A transactional id as it was logged. The producer's last id and epoch are not in the log."""
    value = decode_versioned(TransactionLogValue, data)
    try:
        state = TransactionState(value.transaction_status)
    except ValueError:
        raise ProtocolError(f"unknown transaction state {value.transaction_status}") from None
    if state in _NEVER_LOGGED:
        raise ProtocolError(f"{transactional_id} is logged as {state.label}")
    if value.producer_id < 0 or value.producer_epoch < NO_PRODUCER_EPOCH:
        raise ProtocolError(
            f"{transactional_id} is logged with producer {value.producer_id}/{value.producer_epoch}"
        )
    partitions = frozenset(
        (entry.topic, partition)
        for entry in value.transaction_partitions or ()
        for partition in entry.partition_ids
    )
    return TransactionMetadata(
        transactional_id,
        value.producer_id,
        value.producer_epoch,
        value.transaction_timeout_ms,
        value.transaction_last_update_timestamp_ms,
        state=state,
        partitions=frozenset() if state is TransactionState.EMPTY else partitions,
        start_ms=value.transaction_start_timestamp_ms,
    )
