"""What a leader checks before it appends, and how it rewrites a batch.

A v2 batch is judged by its header and CRC; base offset and leader epoch are written in place. Its
records are looked at only where a rule is about records: a compacted topic needs keys, timestamp
bounds are set, the codec changes, v0/v1 input becomes v2, or `full` validation is on (Apache
Kafka always looks at all records).

Mirrors: UnifiedLog.analyzeAndValidateRecords, LogValidator, ProduceRequest.validateRecords.
Leaves out: writing formats older than v2, which 3.9 does only for inter-broker protocols < 3.0.
"""

from __future__ import annotations

from collections.abc import Iterable

from protocol.errors import ErrorCode, KafkaError, ProtocolError
from protocol.records.batch import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    BatchHeader,
    Compression,
    InvalidRecord,
    Record,
    SimpleRecord,
    TimestampType,
    assign_offset_and_epoch,
    crc_is_valid,
    iter_batch_headers,
    iter_records,
    read_batch_header,
    set_max_timestamp,
)
from protocol.records.builder import build_batch
from protocol.records.convert import recompress
from protocol.records.message_set import read_message
from storage.append_info import AppendOrigin, InvalidRecords, RecordError
from storage.config_def import LONG_MAX
from storage.log_config import LogConfig

MAGIC_V2 = 2
_MAGIC_OFFSET = 16
_CODEC_BITS = 0x07
_TIMESTAMP_TYPE_BIT = 0x08
_CONTROL_BIT = 0x20
# Timestamp type, control, delete horizon: not in what a producer usually sends.
_ODD_BITS = 0x68
_FIRST_PRODUCE_VERSION_OF_V2 = 3
_FIRST_PRODUCE_VERSION_OF_ZSTD = 7

NO_TIMESTAMP = -1

Records = bytearray | memoryview


class AppendRequest:
    """The circumstances of one append."""

    __slots__ = (
        "config",
        "full",
        "leader_epoch",
        "name",
        "next_offset",
        "now_ms",
        "origin",
        "request_version",
    )

    def __init__(
        self,
        config: LogConfig,
        next_offset: int,
        leader_epoch: int,
        now_ms: int,
        origin: AppendOrigin,
        request_version: int | None,
        name: str,
        full: bool,
    ) -> None:
        self.config = config
        self.next_offset = next_offset
        self.leader_epoch = leader_epoch
        self.now_ms = now_ms
        self.origin = origin
        self.request_version = request_version
        self.name = name
        self.full = full


def validate(
    records: Records,
    config: LogConfig,
    next_offset: int,
    leader_epoch: int,
    now_ms: int,
    origin: AppendOrigin,
    request_version: int | None,
    name: str,
    full: bool,
) -> tuple[Records, BatchHeader] | None:
    """The batch as it goes to disk, with its offsets assigned, and its header.

    None if `records` holds no complete batch. Raises KafkaError with the code of 3.9. The first
    lines let the plain good batch through; whatever is odd about it is found out below.
    """
    try:
        header = read_batch_header(records)
    except ProtocolError:
        return _validate_any(
            records,
            AppendRequest(
                config, next_offset, leader_epoch, now_ms, origin, request_version, name, full
            ),
        )
    (base_offset, length, _, magic, _, attributes, delta, _, _, producer_id, _, sequence, count) = (
        header
    )
    if (
        magic == MAGIC_V2
        and length + LOG_OVERHEAD == len(records) <= config.max_message_bytes
        and base_offset == 0
        and delta + 1 == count > 0
        and attributes & _ODD_BITS == 0
        and attributes & _CODEC_BITS <= Compression.LZ4
        and (sequence >= 0 or producer_id < 0)
        and config.batches_stay_opaque
        and not full
        and (type(records) is bytearray or not memoryview(records).readonly)
        and crc_is_valid(records, 0, header)
    ):
        assign_offset_and_epoch(records, 0, next_offset, leader_epoch)
        return records, header
    return _validate_any(
        records,
        AppendRequest(
            config, next_offset, leader_epoch, now_ms, origin, request_version, name, full
        ),
    )


def _validate_any(records: Records, request: AppendRequest) -> tuple[Records, BatchHeader] | None:
    """Every rule, in the order in which 3.9 applies them."""
    if len(records) < HEADER_SIZE or records[_MAGIC_OFFSET] != MAGIC_V2:
        return _validate_old_format(records, request)
    header = _read_header(records, request.name)
    size = header.size_in_bytes
    if size > len(records):
        _check_may_be_empty(request)
        return None
    _check_batch(records, 0, header, request)
    if size < len(records):
        records = _only_batch(records, size, request.name)
    if isinstance(records, memoryview) and records.readonly:
        records = bytearray(records)
    attributes = header.attributes
    if request.origin is AppendOrigin.CLIENT:
        _check_client_batch(header, request)
    config = request.config
    source = attributes & _CODEC_BITS
    target = config.target_compression
    if target is not None and target != source and (source or not attributes & _CONTROL_BIT):
        return _recompressed(records, header, target, request)
    max_timestamp = header.max_timestamp
    if _needs_records(config, request.full) and not attributes & _CONTROL_BIT:
        found = _records_of(records, request.name)
        _check_records(found, header, request)
        max_timestamp = max((record.timestamp for record in found), default=max_timestamp)
        if source and any(r.offset != i for i, r in enumerate(found, header.base_offset)):
            records = _renumbered(header, found, request)
    elif attributes & _TIMESTAMP_TYPE_BIT:
        _check_timestamp_type(header, request)
    return records, _stamp(records, max_timestamp, request)


def _stamp(records: Records, max_timestamp: int, request: AppendRequest) -> BatchHeader:
    """Write offsets, epoch, timestamp type and largest timestamp in place; returns the header."""
    assign_offset_and_epoch(records, 0, request.next_offset, request.leader_epoch)
    if request.config.log_append_time:
        set_max_timestamp(records, 0, TimestampType.LOG_APPEND_TIME, request.now_ms)
    else:
        set_max_timestamp(records, 0, TimestampType.CREATE_TIME, max_timestamp)
    return read_batch_header(records)


def _renumbered(header: BatchHeader, found: list[Record], request: AppendRequest) -> bytearray:
    """A compressed batch whose inner offsets do not count up: built anew, as Kafka does."""
    codec = header.compression
    return build_batch(
        (SimpleRecord(r.timestamp, r.key, r.value, r.headers) for r in found),
        compression=codec,
        level=request.config.compression_level(codec),
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        is_transactional=header.is_transactional,
    )


def _read_header(records: Records, name: str) -> BatchHeader:
    try:
        return read_batch_header(records)
    except ProtocolError as error:
        raise _corrupt(error, name) from None


def _check_may_be_empty(request: AppendRequest) -> None:
    if (request.request_version or 0) >= _FIRST_PRODUCE_VERSION_OF_V2:
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            "Produce requests with version "
            f"{request.request_version} must have at least one record batch per partition",
        )


def _only_batch(records: Records, size: int, name: str) -> Records:
    """Cut off a partial tail; a second batch is not allowed."""
    try:
        second = next(iter_batch_headers(records, size), None)
    except ProtocolError as error:
        raise _corrupt(error, name) from None
    if second is not None:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"More than one record batch for {name}")
    return memoryview(records)[:size]


def _check_batch(
    records: Records, position: int, header: BatchHeader, request: AppendRequest
) -> None:
    """What holds for a batch of any format and origin."""
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
        raise _too_large(header.size_in_bytes, request)
    if not crc_is_valid(records, position, header):
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE,
            f"Record is corrupt (stored crc = {header.crc}) in topic partition {request.name}.",
        )
    codec = header.attributes & _CODEC_BITS
    if codec == Compression.ZSTD and version is not None:
        if version < _FIRST_PRODUCE_VERSION_OF_ZSTD:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
                f"Produce requests with version {version} are not allowed to use ZStandard "
                "compression",
            )
    elif codec > Compression.ZSTD:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE, f"Unknown compression type id {codec} in {request.name}"
        )


def _check_client_batch(header: BatchHeader, request: AppendRequest) -> None:
    """What a client may write, for v2 batches."""
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
    elif header.attributes & _CONTROL_BIT:
        what = "Clients are not allowed to write control records"
    elif header.producer_id >= 0 and header.base_sequence < 0:
        what = (
            f"Invalid sequence number {header.base_sequence} in record batch with producerId "
            f"{header.producer_id}"
        )
    else:
        return
    raise KafkaError(ErrorCode.INVALID_RECORD, f"{what} in topic partition {request.name}")


def _check_timestamp_type(header: BatchHeader, request: AppendRequest) -> None:
    """A producer must not claim LogAppendTime; where it does no harm Kafka lets it pass."""
    if request.config.log_append_time or header.max_timestamp == NO_TIMESTAMP:
        raise _rejected(
            [
                (ErrorCode.INVALID_TIMESTAMP, RecordError(index, _CLAIMED_APPEND_TIME))
                for index in range(max(header.record_count, 0))
            ]
        )


_CLAIMED_APPEND_TIME = "Producer should not set timestamp type to LogAppendTime."


def _needs_records(config: LogConfig, full: bool) -> bool:
    return (
        full
        or config.compact
        or (
            not config.log_append_time
            and (
                config.message_timestamp_before_max_ms != LONG_MAX
                or config.message_timestamp_after_max_ms != LONG_MAX
            )
        )
    )


def _records_of(records: Records, name: str) -> list[Record]:
    try:
        return list(iter_records(records))
    except InvalidRecord as error:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"{error} in topic partition {name}") from None
    except ProtocolError as error:
        raise _corrupt(error, name) from None


def _check_records(found: Iterable[Record], header: BatchHeader, request: AppendRequest) -> None:
    """Keys and timestamps of single records; all that fail are reported."""
    config = request.config
    claimed = bool(header.attributes & _TIMESTAMP_TYPE_BIT)
    earliest = request.now_ms - config.message_timestamp_before_max_ms
    latest = request.now_ms + config.message_timestamp_after_max_ms
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


def _recompressed(
    records: Records, header: BatchHeader, target: Compression, request: AppendRequest
) -> tuple[Records, BatchHeader]:
    """The same batch under the topic's codec."""
    name = request.name
    _check_records(_records_of(records, name), header, request)
    try:
        rebuilt = recompress(records, target, request.config.compression_level(target))
    except InvalidRecord as error:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"{error} in topic partition {name}") from None
    except ProtocolError as error:
        raise _corrupt(error, name) from None
    if len(rebuilt) > request.config.max_message_bytes:
        raise _too_large(len(rebuilt), request)
    header = read_batch_header(rebuilt)
    return rebuilt, _stamp(rebuilt, header.max_timestamp, request)


def _validate_old_format(
    records: Records, request: AppendRequest
) -> tuple[Records, BatchHeader] | None:
    """Message sets v0/v1: checked record by record and made into one v2 batch."""
    name = request.name
    found: list[Record] = []
    first: BatchHeader | None = None
    codec = Compression.NONE
    entries = 0
    try:
        for position, header in iter_batch_headers(records):
            _check_batch(records, position, header, request)
            first = first or header
            if header.magic != first.magic:
                raise KafkaError(
                    ErrorCode.INVALID_RECORD,
                    f"Batch magic {header.magic} is not the same as the first batch's magic "
                    f"byte {first.magic} in topic partition {name}",
                )
            entries += 1
            codec = header.compression or codec
            inner = read_message(records, position, check_inner_crc=True)
            _check_records(inner, header, request)
            found.extend(inner)
    except InvalidRecord as error:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"{error} in topic partition {name}") from None
    except ProtocolError as error:
        raise _corrupt(error, name) from None
    if first is None or not found:
        _check_may_be_empty(request)
        return None
    if codec and entries > 1:
        raise KafkaError(
            ErrorCode.INVALID_RECORD, "Compressed outer record has more than one batch"
        )
    return _converted(found, codec, request)


def _converted(
    found: list[Record], codec: Compression, request: AppendRequest
) -> tuple[Records, BatchHeader]:
    config = request.config
    target = codec if config.target_compression is None else config.target_compression
    batch = build_batch(
        (SimpleRecord(record.timestamp, record.key, record.value) for record in found),
        base_offset=request.next_offset,
        compression=target,
        level=config.compression_level(target),
        partition_leader_epoch=request.leader_epoch,
        log_append_time=request.now_ms if config.log_append_time else None,
    )
    if len(batch) > config.max_message_bytes:
        raise _too_large(len(batch), request)
    return batch, read_batch_header(batch)


def _corrupt(error: ProtocolError, name: str) -> KafkaError:
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{error} in topic partition {name}")


def _too_large(size: int, request: AppendRequest) -> KafkaError:
    return KafkaError(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"The record batch size in the append to {request.name} is {size} bytes which exceeds "
        f"the maximum configured value of {request.config.max_message_bytes}.",
    )
