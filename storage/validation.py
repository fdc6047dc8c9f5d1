"""Validate a batch before a leader appends it, and rewrite it.

A v2 batch is validated by its header, its CRC and a scan of its records, unpacked if need be; base
offset and leader epoch are written in place. Without `full` validation the records are scanned only
if a rule concerns them: a compacted topic needs keys, timestamp bounds are set, the codec changes
(Apache Kafka always examines all records). The scan makes no objects; if it finds a broken rule,
the records are decoded to name the bad ones. The rules are in `append_rules`; old formats, sent or
stored, in `old_formats`.

A scan of all records can take seconds: `needs_record_scan` says whether one is needed,
`pre_validate` runs it in another thread before the batch has its turn, and `validate` takes the
result. Small batches are scanned at once, by `validate` itself or `pre_validate_quickly`.

Mirrors: UnifiedLog.analyzeAndValidateRecords, LogValidator, ProduceRequest.validateRecords.
"""

from __future__ import annotations

from typing import Final, final

from crc32c import crc32c

from ..protocol.errors import EndlessLength, ErrorCode, InvalidRecord, KafkaError, ProtocolError
from ..protocol.records.batch import (
    NO_TIMESTAMP,
    BatchHeader,
    Compression,
    SimpleRecord,
    TimestampType,
    assign_offset_and_epoch,
    crc_is_valid,
    iter_batch_headers,
    read_batch_header,
    records_block,
    set_max_timestamp,
)
from ..protocol.records.builder import assemble, build_batch
from ..protocol.records.compression import MAX_DECOMPRESSED_BYTES, UnpacksTooLarge
from ..protocol.records.layout import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    LOW_ATTRIBUTES_POSITION,
    MAGIC_POSITION,
    OLD_ATTRIBUTES_POSITION,
)
from ..protocol.records.loops import COMPILED
from ..protocol.records.loops.scan import RecordScan
from ..protocol.records.loops.small_batch import CHECKED_FROM, is_plain_and_whole
from ..protocol.records.scanning import scan_batch, scan_block
from .append_info import Append, AppendOrigin, AppendRules
from .append_rules import (
    CODEC_BITS,
    CONTROL_BIT,
    MAGIC_V2,
    TIMESTAMP_TYPE_BIT,
    AppendRequest,
    Records,
    breaks_a_rule,
    check_batch,
    check_client_batch,
    check_may_be_empty,
    check_records,
    check_times_to_write,
    check_timestamp_type,
    corrupt,
    records_of,
    too_large,
)
from .log_config import LogConfig
from .old_formats import validate_with_old_format

# Timestamp type, control, delete horizon: usually not set by producers.
_ODD_BITS: Final = 0x68

# Up to here a batch is checked in one call, for which it is copied.
_SMALL_BYTES: Final = 16 * 1024
# Plain batches up to this size are scanned at once, regardless of their content.
QUICK_BYTES: Final = 16 * 1024
# The same for batches whose records only need to be whole: a record takes
# 7 bytes or more, and 15 ns compiled, 1 us interpreted.
_SCAN_BYTES: Final = 2 * 1024 * 1024 if COMPILED else QUICK_BYTES
# Compressed batches are scanned at once up to these sizes, packed and unpacked.
_QUICK_PACKED_BYTES: Final = 2 * 1024 * 1024 if COMPILED else QUICK_BYTES
_QUICK_UNPACKED_BYTES: Final = 2 * 1024 * 1024 if COMPILED else QUICK_BYTES
_QUICK_GZIP_BYTES: Final = 512 * 1024 if COMPILED else QUICK_BYTES  # it is slow to unpack

# The batch as it goes to disk, its header, and how many records were built anew for it.
Validated = tuple[Records, BatchHeader, int]


@final
class PreValidatedBatch:
    """A client's batch, with all that could be found out about it before it had an offset."""

    __slots__ = ("config", "found", "source")

    def __init__(
        self, source: Records, config: LogConfig, found: Validated | KafkaError | None
    ) -> None:
        self.source = source
        self.config = config
        self.found = found

    def __len__(self) -> int:
        return len(self.source)


# The input of a leader's append.
AppendInput = Records | PreValidatedBatch


class _TakesLong(Exception):
    """A batch unpacks to more bytes than are scanned at once."""


def needs_record_scan(records: Records, rules: AppendRules) -> bool:
    """Whether each record of a client's batch must be examined, and there may be very many."""
    config = rules.config
    if len(records) < HEADER_SIZE or config.record_version < MAGIC_V2:
        return False
    if records[MAGIC_POSITION] == MAGIC_V2:
        attributes = records[LOW_ATTRIBUTES_POSITION]
        codec = attributes & CODEC_BITS
        if config.target_compression in (None, codec):
            if not _needs_records(config, rules.validate_fully):
                return False
            if not codec and not attributes & TIMESTAMP_TYPE_BIT and config.records_have_no_rules:
                return len(records) > _SCAN_BYTES
    else:
        codec = records[OLD_ATTRIBUTES_POSITION] & CODEC_BITS
    return bool(codec) or len(records) > QUICK_BYTES


def pre_validate(records: Records, rules: AppendRules, append: Append) -> PreValidatedBatch:
    """The slow part of `validate`, for a client's batch; in any thread.

    `records` are written to, and have to stay as they are until they are appended.
    """
    # The time of the append takes the place of the producer's, which another config may want back.
    examined = bytearray(records) if rules.config.log_append_time else records
    batch = _pre_validate(examined, AppendRequest(rules, append))
    batch.source = records
    return batch


def pre_validate_quickly(
    records: Records, rules: AppendRules, append: Append
) -> PreValidatedBatch | None:
    """Like `pre_validate`, for a compressed batch that is small, packed and unpacked; None for
    others.

    `records` are written to, and have to stay as they are until they are appended.
    """
    config = rules.config
    if (
        len(records) > _QUICK_PACKED_BYTES
        or records[MAGIC_POSITION] != MAGIC_V2
        or config.target_compression is not None
        or not config.records_have_no_rules
    ):
        return None
    request = AppendRequest(rules, append)
    is_gzip = records[LOW_ATTRIBUTES_POSITION] & CODEC_BITS == Compression.GZIP
    request.max_unpacked_bytes = _QUICK_GZIP_BYTES if is_gzip else _QUICK_UNPACKED_BYTES
    try:
        return _pre_validate(records, request)
    except _TakesLong:
        return None


def _pre_validate(source: Records, request: AppendRequest) -> PreValidatedBatch:
    found: Validated | KafkaError | None
    try:
        found = _validate_any(source, request)
    except KafkaError as error:
        found = error
    return PreValidatedBatch(source, request.config, found)


def validate(
    records: AppendInput,
    rules: AppendRules,
    append: Append,
    next_offset: int,
    leader_epoch: int,
) -> Validated | None:
    """One batch for a log of v2, with its offsets assigned.

    None if `records` holds no complete batch. Raises KafkaError with the code of 3.9. The first
    lines let the plain good batch through; all others are examined below.
    """
    if type(records) is PreValidatedBatch:
        return _take(records, AppendRequest(rules, append, next_offset, leader_epoch))
    try:
        header = read_batch_header(records)
    except ProtocolError:
        return _validate_any(records, AppendRequest(rules, append, next_offset, leader_epoch))
    config, full = rules.config, rules.validate_fully
    base_offset, length, _, magic, crc, _, _, _, _, _, _, _, _ = header
    if (
        magic == MAGIC_V2
        and length + LOG_OVERHEAD == len(records) <= config.max_message_bytes
        and base_offset == 0
        and config.batches_stay_opaque
        and (type(records) is not memoryview or not records.readonly)
        and (
            crc32c(checked := bytes(records[CHECKED_FROM:])) == crc and is_plain_and_whole(checked)
            if full and length <= _SMALL_BYTES
            else _is_good(records, header, full)
        )
    ):
        assign_offset_and_epoch(records, 0, next_offset, leader_epoch)
        return records, header, 0
    return _validate_any(records, AppendRequest(rules, append, next_offset, leader_epoch))


def _is_good(records: Records, header: BatchHeader, full: bool) -> bool:
    """Whether a batch only needs its offset assigned; with `full`, its records are examined too."""
    _, _, _, _, _, attributes, delta, _, _, producer_id, _, sequence, count = header
    return (
        delta + 1 == count > 0
        and attributes & _ODD_BITS == 0
        and attributes & CODEC_BITS <= Compression.LZ4
        and (sequence >= 0 or producer_id < 0)
        and crc_is_valid(records, 0, header)
        and (not full or _are_plain_and_whole(records, header))
    )


def _are_plain_and_whole(records: Records, header: BatchHeader) -> bool:
    """Whether the records are uncompressed and complete, and the header has their largest
    timestamp."""
    if header.is_compressed:
        return False
    try:
        scan = scan_block(
            memoryview(records)[HEADER_SIZE:], header.record_count, header.base_timestamp
        )
    except InvalidRecord:
        return False
    return scan.highest == header.max_timestamp


def _take(batch: PreValidatedBatch, request: AppendRequest) -> Validated | None:
    """The result of the pre-validation; if the topic's config has changed since, validate again."""
    found = batch.found
    if batch.config is not request.config:
        return _validate_any(batch.source, request)
    if isinstance(found, KafkaError):
        raise found
    if found is None:
        return None
    records, header, built = found
    return records, _stamp(records, header.max_timestamp, request), built


def _validate_any(records: Records, request: AppendRequest) -> Validated | None:
    """Every rule, in the order in which 3.9 applies them."""
    if len(records) < HEADER_SIZE or records[MAGIC_POSITION] != MAGIC_V2:
        converted = validate_with_old_format(records, request)
        if converted is None:
            return None
        batch, count = converted
        return batch, read_batch_header(batch), count
    header = _read_header(records, request.name)
    size = header.size_in_bytes
    if size > len(records):
        check_may_be_empty(request)
        return None
    check_batch(records, 0, header, request)
    if size < len(records):
        records = _only_batch(records, size, request.name)
    if isinstance(records, memoryview) and records.readonly:
        records = bytearray(records)
    attributes = header.attributes
    if request.origin is AppendOrigin.CLIENT:
        check_client_batch(header, request)
    config = request.config
    source = attributes & CODEC_BITS
    target = config.target_compression
    if target is not None and target != source and (source or not attributes & CONTROL_BIT):
        return _recompressed(records, header, target, request)
    max_timestamp = header.max_timestamp
    if _needs_records(config, request.full) and not attributes & CONTROL_BIT:
        scan = _scanned(records, header, request)
        if header.record_count and not attributes & TIMESTAMP_TYPE_BIT:
            max_timestamp = scan.highest
        if source and not scan.in_order:
            raise KafkaError(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                f"The offsets inside of a compressed batch do not count up in {request.name}",
            )
    elif attributes & TIMESTAMP_TYPE_BIT:
        check_timestamp_type(header, request)
    return records, _stamp(records, max_timestamp, request), 0


def _stamp(records: Records, max_timestamp: int, request: AppendRequest) -> BatchHeader:
    """Write offsets, epoch, timestamp type and largest timestamp in place; returns the header."""
    assign_offset_and_epoch(records, 0, request.next_offset, request.leader_epoch)
    if request.config.log_append_time:
        set_max_timestamp(records, 0, TimestampType.LOG_APPEND_TIME, request.stamp_ms)
    else:
        set_max_timestamp(records, 0, TimestampType.CREATE_TIME, max_timestamp)
    return read_batch_header(records)


def _scanned(records: Records, header: BatchHeader, request: AppendRequest) -> RecordScan:
    """The result of a scan, after checking that no rule about records is broken."""
    name = request.name
    try:
        scan = scan_batch(records, 0, header, max_decompressed_bytes=request.max_unpacked_bytes)
    except InvalidRecord as error:
        code = ErrorCode.INVALID_RECORD
        if isinstance(error, EndlessLength) and not header.is_compressed:
            code = ErrorCode.UNKNOWN_SERVER_ERROR
        raise KafkaError(code, f"{error} in topic partition {name}") from None
    except UnpacksTooLarge as error:
        if request.max_unpacked_bytes < MAX_DECOMPRESSED_BYTES:
            raise _TakesLong from None
        raise corrupt(error, name) from None
    except ProtocolError as error:
        raise corrupt(error, name) from None
    if breaks_a_rule(scan, header, request):
        check_records(records_of(records, header, request), header, request)
    return scan


def _renumbered(
    records: Records, header: BatchHeader, codec: Compression, request: AppendRequest
) -> bytearray:
    """A batch whose offsets do not count up and whose codec changes: built anew."""
    found = records_of(records, header, request)
    check_times_to_write(found)
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
        raise corrupt(error, name) from None


def _only_batch(records: Records, size: int, name: str) -> Records:
    """Cut off a partial tail; a second batch is not allowed."""
    try:
        second = next(iter_batch_headers(records, size), None)
    except ProtocolError as error:
        raise corrupt(error, name) from None
    if second is not None:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"More than one record batch for {name}")
    return memoryview(records)[:size]


def _needs_records(config: LogConfig, full: bool) -> bool:
    return full or not config.records_have_no_rules


def _recompressed(
    records: Records, header: BatchHeader, target: Compression, request: AppendRequest
) -> Validated:
    """The same batch under the topic's codec."""
    scan = _scanned(records, header, request)
    if scan.lowest < NO_TIMESTAMP:
        check_times_to_write(records_of(records, header, request))
    if scan.in_order:
        attributes = header.attributes & ~CODEC_BITS | target
        block = records_block(records, 0, header, max_decompressed_bytes=MAX_DECOMPRESSED_BYTES)
        level = request.config.compression_level(target)
        rebuilt = assemble(header._replace(attributes=attributes), block, level)
    else:
        rebuilt = _renumbered(records, header, target, request)
    if len(rebuilt) > request.config.max_message_bytes:
        raise too_large(len(rebuilt), request)
    header = read_batch_header(rebuilt)
    return rebuilt, _stamp(rebuilt, header.max_timestamp, request), header.record_count
