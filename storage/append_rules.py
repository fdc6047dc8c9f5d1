"""The rules that a leader applies to batches and to single records, whatever their format.

Mirrors: UnifiedLog.analyzeAndValidateRecords, LogValidator.validateBatch and validateRecord,
ProduceRequest.validateRecords.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..protocol.errors import ErrorCode, KafkaError, ProtocolError
from ..protocol.records.batch import (
    NO_TIMESTAMP,
    BatchHeader,
    Compression,
    InvalidRecord,
    Record,
    crc_is_valid,
    iter_records,
)
from ..protocol.records.compression import (
    MAX_DECOMPRESSED_BYTES,
    DamagedBlock,
    UnpacksTooLarge,
)
from ..protocol.records.convert import MAX_RECORDS, check_record_count
from ..protocol.records.loops.scan import RecordScan
from .append_info import Append, AppendOrigin, AppendRules, InvalidRecords, RecordError

MAGIC_V2 = 2
CODEC_BITS = 0x07
TIMESTAMP_TYPE_BIT = 0x08
CONTROL_BIT = 0x20
_FIRST_PRODUCE_VERSION_OF_V2 = 3
_FIRST_PRODUCE_VERSION_OF_ZSTD = 7

Records = bytearray | memoryview


class AppendRequest:
    """The arguments of one append and the state of its log; `stamp_ms` is the time in terms of
    timestamps."""

    __slots__ = (
        "config",
        "full",
        "leader_epoch",
        "max_unpacked_bytes",
        "name",
        "next_offset",
        "origin",
        "request_version",
        "stamp_ms",
    )

    def __init__(
        self, rules: AppendRules, append: Append, next_offset: int = 0, leader_epoch: int = 0
    ) -> None:
        """Without an offset and an epoch: for a batch that is examined before its append."""
        self.config = rules.config
        self.name = rules.name
        self.full = rules.validate_fully
        self.stamp_ms = rules.wall.stamp_ms(append.now_ms)
        self.origin = append.origin
        self.request_version = append.request_version
        self.next_offset = next_offset
        self.leader_epoch = leader_epoch
        self.max_unpacked_bytes = MAX_DECOMPRESSED_BYTES


def check_may_be_empty(request: AppendRequest) -> None:
    if (request.request_version or 0) >= _FIRST_PRODUCE_VERSION_OF_V2:
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            "Produce requests with version "
            f"{request.request_version} must have at least one record batch per partition",
        )


def check_batch(
    records: Records, position: int, header: BatchHeader, request: AppendRequest
) -> None:
    """Check the rules for a batch of any format and origin."""
    magic = header.magic
    version = request.request_version
    client = request.origin is AppendOrigin.CLIENT
    if version is not None and version >= _FIRST_PRODUCE_VERSION_OF_V2 and magic != MAGIC_V2:
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"Produce requests with version {version} are only allowed to contain record "
            f"batches with magic version 2",
        )
    if magic == MAGIC_V2 and client and header.base_offset != 0:
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"The baseOffset of the record batch in the append to {request.name} should be 0, "
            f"but it is {header.base_offset}",
        )
    if header.size_in_bytes > request.config.max_message_bytes:
        raise too_large(header.size_in_bytes, request)
    if not crc_is_valid(records, position, header):
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE,
            f"Record is corrupt (stored crc = {header.crc}) in topic partition {request.name}.",
        )
    codec = header.attributes & CODEC_BITS
    if codec == Compression.ZSTD and version is not None:
        # Message sets have no such rule: with such a codec they are unreadable.
        if _FIRST_PRODUCE_VERSION_OF_V2 <= version < _FIRST_PRODUCE_VERSION_OF_ZSTD:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
                f"Produce requests with version {version} are not allowed to use ZStandard "
                "compression",
            )
    elif codec > Compression.ZSTD:
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"Unknown compression type id {codec} in {request.name}",
        )


def check_client_batch(header: BatchHeader, request: AppendRequest) -> None:
    """Check the rules for a v2 batch of a client."""
    count = header.record_count
    if header.last_offset_delta < 0:
        what = f"Batch has an invalid offset range: [{header.base_offset}, {header.last_offset}]"
    elif count <= 0:
        what = f"Invalid reported count for record batch: {count}"
    elif header.last_offset_delta + 1 != count:
        what = (
            f"Inconsistent batch offset range [{header.base_offset}, {header.last_offset}] "
            f"and count of records {count}"
        )
    elif header.attributes & CONTROL_BIT:
        what = "Clients are not allowed to write control records"
    elif header.producer_id >= 0 and header.base_sequence < 0:
        what = (
            f"Invalid sequence number {header.base_sequence} in record batch with producerId "
            f"{header.producer_id}"
        )
    else:
        return
    raise KafkaError(ErrorCode.INVALID_RECORD, f"{what} in topic partition {request.name}")


def check_timestamp_type(header: BatchHeader, request: AppendRequest) -> None:
    """A producer must not claim LogAppendTime; where it does no harm Kafka lets it pass."""
    if request.config.log_append_time or header.max_timestamp == NO_TIMESTAMP:
        raise _rejected(
            [
                (ErrorCode.INVALID_TIMESTAMP, RecordError(index, _CLAIMED_APPEND_TIME))
                for index in range(max(header.record_count, 0))
            ]
        )


_CLAIMED_APPEND_TIME = "Producer should not set timestamp type to LogAppendTime."


def max_records(request: AppendRequest) -> int:
    """The number of records of a batch that are examined: more than an uncompressed batch can hold.
    Kafka unpacks one after the other and has no limit."""
    return max(request.config.max_message_bytes, MAX_RECORDS)


def records_of(records: Records, header: BatchHeader, request: AppendRequest) -> list[Record]:
    name = request.name
    try:
        check_record_count(header, max_records(request))
        return list(iter_records(records))
    except InvalidRecord as error:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"{error} in topic partition {name}") from None
    except ProtocolError as error:
        raise corrupt(error, name) from None


def breaks_a_rule(scan: RecordScan, header: BatchHeader, request: AppendRequest) -> bool:
    """Whether `check_records` would refuse the records of this scan."""
    config = request.config
    if config.compact and scan.keyless:
        return True
    lowest, highest = scan.lowest, scan.highest
    if header.attributes & TIMESTAMP_TYPE_BIT:
        if config.log_append_time or header.max_timestamp == NO_TIMESTAMP:
            return True
        lowest = highest = header.max_timestamp
    return not config.log_append_time and (
        lowest < request.stamp_ms - config.message_timestamp_before_max_ms
        or highest > request.stamp_ms + config.message_timestamp_after_max_ms
    )


def check_records(found: Iterable[Record], header: BatchHeader, request: AppendRequest) -> None:
    """Keys and timestamps of single records; all that fail are reported."""
    config = request.config
    claimed = bool(header.attributes & TIMESTAMP_TYPE_BIT)
    earliest = request.stamp_ms - config.message_timestamp_before_max_ms
    latest = request.stamp_ms + config.message_timestamp_after_max_ms
    failures: list[tuple[ErrorCode, RecordError]] = []
    for index, record in enumerate(found):
        if config.compact and record.key is None:
            failures.append(
                (
                    ErrorCode.INVALID_RECORD,
                    RecordError(
                        index,
                        "Compacted topic cannot accept message without key in topic "
                        f"partition {request.name}",
                    ),
                )
            )
        elif not config.log_append_time and record.timestamp != NO_TIMESTAMP:
            if not earliest <= record.timestamp <= latest:
                failures.append(
                    (
                        ErrorCode.INVALID_TIMESTAMP,
                        RecordError(
                            index,
                            f"Timestamp {record.timestamp} of message with offset "
                            f"{record.offset} is out of range. The timestamp should "
                            f"be within [{earliest}, {latest}]",
                        ),
                    )
                )
        elif claimed:
            failures.append((ErrorCode.INVALID_TIMESTAMP, RecordError(index, _CLAIMED_APPEND_TIME)))
    if failures:
        raise _rejected(failures)


def _rejected(failures: list[tuple[ErrorCode, RecordError]]) -> InvalidRecords:
    errors = [error for _, error in failures]
    if any(code is ErrorCode.INVALID_TIMESTAMP for code, _ in failures):
        return InvalidRecords(
            ErrorCode.INVALID_TIMESTAMP,
            "One or more records have been rejected due to invalid timestamp",
            errors,
        )
    shown = "; ".join(error.message for error in errors[:3])
    return InvalidRecords(
        ErrorCode.INVALID_RECORD,
        f"One or more records have been rejected due to {len(errors)} record errors in total, "
        f"and only showing the first three errors at most: {shown}",
        errors,
    )


def check_times_to_write(found: Iterable[Record]) -> None:
    """Records that are built anew must have times that Kafka's builder takes."""
    for record in found:
        if record.timestamp < NO_TIMESTAMP:
            raise KafkaError(
                ErrorCode.UNKNOWN_SERVER_ERROR, f"Invalid negative timestamp {record.timestamp}"
            )


def corrupt(error: ProtocolError, name: str) -> KafkaError:
    """The error for records that cannot be unpacked: not retriable. Kafka has no code of its own
    for it."""
    code = ErrorCode.CORRUPT_MESSAGE
    if isinstance(error, DamagedBlock):
        code = ErrorCode.UNKNOWN_SERVER_ERROR
    elif isinstance(error, UnpacksTooLarge):
        code = ErrorCode.INVALID_RECORD
    return KafkaError(code, f"{error} in topic partition {name}")


def too_large(size: int, request: AppendRequest) -> KafkaError:
    return KafkaError(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"The record batch size in the append to {request.name} is {size} bytes which exceeds "
        f"the maximum configured value of {request.config.max_message_bytes}.",
    )
