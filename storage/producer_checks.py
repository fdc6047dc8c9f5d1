"""Whether a leader may append a batch: its producer's epoch, sequences, coordinator, verification.

Each check raises KafkaError, and changes nothing; `where` names the partition in its message.

Rules: SEMANTICS 14. Mirrors: ProducerAppendInfo (KIP-98, KIP-360, KIP-890).
"""

from __future__ import annotations

from typing import Final

from ..protocol.errors import ErrorCode, KafkaError
from ..protocol.primitives import Buffer
from ..protocol.records.batch import BatchHeader
from ..protocol.records.record import increment_sequence
from .end_markers import end_txn_marker
from .producer_entry import NO_EPOCH, NO_SEQUENCE, ProducerEntry
from .verification import Verification, VerificationGuard

MAX_EPOCH: Final = 2**15 - 1


def check_verified(
    producer_id: int, verification: Verification | None, guard: VerificationGuard, where: str
) -> None:
    """The batch begins a transaction that was verified for it."""
    if verification is None or verification.guard is not guard:
        raise KafkaError(
            ErrorCode.INVALID_TXN_STATE,
            f"Record of producer {producer_id} was not part of an ongoing transaction in {where}",
        )


def check_lowest_sequence(
    entry: ProducerEntry | None, verification: Verification, header: BatchHeader, where: str
) -> None:
    """No batch before this one came meanwhile, while its producer was being verified."""
    is_unknown = entry is None or not entry.batches
    if verification.guard.adds and header.base_sequence != 0 and is_unknown:
        raise KafkaError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"Invalid sequence number for producer {header.producer_id} in {where}: "
            f"{header.base_sequence} (incoming seq. number). Expected sequence 0 for "
            f"transactions v2 idempotent producer with no existing state.",
        )
    if header.base_sequence > verification.lowest_sequence:
        raise KafkaError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"Out of order sequence number for producer {header.producer_id} in {where}: "
            f"{header.base_sequence} (incoming seq. number), {verification.lowest_sequence} "
            f"(earliest seen sequence)",
        )


def check_epoch(entry: ProducerEntry, header: BatchHeader, where: str) -> None:
    """The producer is not fenced by a later epoch."""
    if header.producer_epoch < entry.epoch:
        raise KafkaError(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"Epoch of producer {entry.producer_id} in {where} is {header.producer_epoch}, "
            f"which is smaller than the last seen epoch {entry.epoch}",
        )


def check_raised_epoch(entry: ProducerEntry, header: BatchHeader, where: str) -> None:
    """A marker of version 2 has a higher epoch than all batches of its transaction, so one that
    is late ends nothing. A marker that comes again may be written again."""
    epoch = header.producer_epoch
    if epoch > entry.epoch:
        return
    has_ended = entry.current_txn_first_offset < 0 or epoch == MAX_EPOCH
    if epoch < entry.epoch or not has_ended:
        raise KafkaError(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"Epoch of producer {entry.producer_id} in {where} is {epoch}, which is <= the "
            f"last seen epoch {entry.epoch} (TV2)",
        )


def check_sequence(entry: ProducerEntry, header: BatchHeader, where: str) -> None:
    """The batch follows the last one of its epoch, or is the first of a new one."""
    first = header.base_sequence
    if entry.epoch == NO_EPOCH:
        return
    if header.producer_epoch != entry.epoch:
        if first != 0:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Invalid sequence number for new epoch of producer {entry.producer_id} in "
                f"{where}: {header.producer_epoch} (request epoch), {first} (seq. number), "
                f"{entry.epoch} (current producer epoch)",
            )
        return
    last = entry.last_sequence
    expected = 0 if last == NO_SEQUENCE else increment_sequence(last, 1)
    if first != expected:
        raise KafkaError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"Out of order sequence number for producer {entry.producer_id} in {where}: "
            f"{first} (incoming seq. number), {last} (current end sequence number)",
        )


def check_coordinator_epoch(entry: ProducerEntry, buffer: Buffer, where: str) -> None:
    """No later coordinator has written a marker already."""
    marker = end_txn_marker(buffer)
    if marker is not None and marker.coordinator_epoch < entry.coordinator_epoch:
        raise KafkaError(
            ErrorCode.TRANSACTION_COORDINATOR_FENCED,
            f"Invalid coordinator epoch for producer {entry.producer_id} in {where}: "
            f"{marker.coordinator_epoch} (zombie), {entry.coordinator_epoch} (current)",
        )
