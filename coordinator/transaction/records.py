"""The records of `__transaction_state`: keys and values as Kafka writes them.

Mirrors Kafka's TransactionLog. Every key and value starts with an int16 version. Written: key v0;
value v0, or v1 with transaction.version 1 (`value_version`); the list of partitions is null when
the state is Empty. Read: all versions. A null value is a tombstone.
"""

from ...protocol.codec import decode_versioned, encode_versioned
from ...protocol.errors import ProtocolError
from ...protocol.messages.transaction_data import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)
from ...protocol.records.record import SimpleRecord
from .metadata import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    RAISES_EPOCHS,
    TransactionMetadata,
    Transition,
)
from .states import TransactionState

KEY_VERSION = 0
KEY_PREFIX = b"\x00\x00"

_NEVER_LOGGED = frozenset({TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE})


def transaction_key(transactional_id: str) -> bytes:
    return encode_versioned(TransactionLogKey(transactional_id=transactional_id), KEY_VERSION)


def value_version(server_version: int, transition: Transition) -> int:
    """The version of a value under the finalized transaction.version.

    Under version 0 a client that began with version 2 may still end its transaction (Kafka refuses
    it): its next producer id is only in version 1, which 3.9 can read.
    """
    return 1 if server_version >= 1 or transition.raises_epoch else 0


def transaction_value(transition: Transition, server_version: int = 0) -> bytes:
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
    version = value_version(server_version, transition)
    if version >= 1:
        value.previous_producer_id = transition.last_producer_id
        value.next_producer_id = transition.next_producer_id
        value.client_transaction_version = transition.client_version
    return encode_versioned(value, version)


def transaction_record(
    transactional_id: str, transition: Transition, stamp_ms: int, server_version: int = 0
) -> SimpleRecord:
    value = transaction_value(transition, server_version)
    return SimpleRecord(stamp_ms, transaction_key(transactional_id), value)


def transaction_tombstone(transactional_id: str, stamp_ms: int) -> SimpleRecord:
    return SimpleRecord(stamp_ms, transaction_key(transactional_id), None)


# Reading: bytes from the log may be anything, so these raise only ProtocolError.


def decode_key(key: bytes) -> str:
    """The transactional id."""
    return decode_versioned(TransactionLogKey, key).transactional_id


def decode_value(transactional_id: str, data: bytes) -> TransactionMetadata:
    """A transactional id as it was logged. The producer's last epoch is not in the log."""
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
    if not 0 <= value.client_transaction_version <= RAISES_EPOCHS or (
        value.next_producer_id < NO_PRODUCER_ID
    ):
        raise ProtocolError(
            f"{transactional_id} is logged with transaction version "
            f"{value.client_transaction_version} and next producer {value.next_producer_id}"
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
        last_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        client_version=value.client_transaction_version,
    )
