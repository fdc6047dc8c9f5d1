"""Appends with message format v0 or v1, as the sent or as the stored format.

| sent | stored | what happens |
|---|---|---|
| v0, v1 | the same, no codec | offsets (and the time, under LogAppendTime) are written in place |
| v1 wrapper | v1, same codec, inner offsets 0, 1, ... | so are those of the wrapper |
| any | any other | the records are built anew; without a codec each is an entry of its own |

Before 3.0 `message.format.version` decides the stored format; see `storage.log_config`. Records of
producers with an id, and control records, need v2: UNSUPPORTED_FOR_MESSAGE_FORMAT. Kafka has no
error code of its own for headers, nor for a topic whose `compression.type` is zstd.

Mirrors: LogValidator for everything that is not v2 both before and after.
"""

from __future__ import annotations

from ..protocol.errors import ErrorCode, KafkaError, ProtocolError
from ..protocol.records.batch import (
    NO_TIMESTAMP,
    BatchHeader,
    Compression,
    InvalidRecord,
    TimestampType,
    iter_batch_headers,
)
from ..protocol.records.convert import Entry, convert_produced, read_produced
from ..protocol.records.message_set import set_message_timestamp, set_offset
from .append_info import AppendOrigin
from .append_rules import (
    MAGIC_V2,
    AppendRequest,
    Records,
    check_batch,
    check_client_batch,
    check_may_be_empty,
    check_records,
    check_times_to_write,
    corrupt,
    max_records,
    too_large,
)


def validate_with_old_format(
    records: Records, request: AppendRequest
) -> tuple[Records, int] | None:
    """The entries as they go to disk, and how many records were built anew.

    None if there is no complete entry.
    """
    name = request.name
    try:
        for position, header in iter_batch_headers(records):
            check_batch(records, position, header, request)
        entries = read_produced(records, max_records=max_records(request))
    except InvalidRecord as error:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"{error} in topic partition {name}") from None
    except ProtocolError as error:
        raise corrupt(error, name) from None
    if not entries:
        check_may_be_empty(request)
        return None
    stored_magic = request.config.record_version
    for header, found in entries:
        _check_entry(header, stored_magic, request)
        check_records(found, header, request)
    source = entries[0][0].compression
    wanted = request.config.target_compression
    target = source if wanted is None else wanted
    if target is Compression.ZSTD and request.config.zstd_forbidden:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            "Produce requests to inter.broker.protocol.version < 2.1 broker are not allowed to "
            "use ZStandard compression",
        )
    if source is target and _stays(entries, stored_magic):
        return _stamped(records, entries, request), 0
    return _converted(entries, target, request)


def _check_entry(header: BatchHeader, stored_magic: int, request: AppendRequest) -> None:
    if header.magic == MAGIC_V2 and request.origin is AppendOrigin.CLIENT:
        check_client_batch(header, request)
    if stored_magic == MAGIC_V2:
        return
    if header.is_transactional or header.has_producer_id:
        what = "Transactional" if header.is_transactional else "Idempotent"
        raise KafkaError(
            ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
            f"{what} records cannot be used with magic version {stored_magic}",
        )


def _stays(entries: list[Entry], stored_magic: int) -> bool:
    """Whether the entries can be stored as they are, save for offsets and times."""
    first, found = entries[0]
    if first.magic != stored_magic:
        return False
    if not first.is_compressed:
        return True
    # The offsets inside of a v0 wrapper are absolute. Some old producers of v1 get theirs wrong.
    return stored_magic == 1 and all(record.offset == i for i, record in enumerate(found))


def _stamped(records: Records, entries: list[Entry], request: AppendRequest) -> Records:
    """Write offsets, and times of v1, in place."""
    end = sum(header.size_in_bytes for header, _ in entries)
    readonly = isinstance(records, memoryview) and records.readonly
    data = bytearray(records[:end]) if readonly else memoryview(records)[:end]
    append_time = request.stamp_ms if request.config.log_append_time else None
    position, offset = 0, request.next_offset
    for header, found in entries:
        offset += len(found)
        set_offset(data, position, offset - 1)
        if header.magic == 1:
            if append_time is not None:
                set_message_timestamp(data, position, TimestampType.LOG_APPEND_TIME, append_time)
            else:
                latest = max(NO_TIMESTAMP, *(record.timestamp for record in found))
                set_message_timestamp(data, position, TimestampType.CREATE_TIME, latest)
        position += header.size_in_bytes
    return data


def _converted(
    entries: list[Entry], target: Compression, request: AppendRequest
) -> tuple[Records, int]:
    config = request.config
    for _, found in entries:
        check_times_to_write(found)
    built = convert_produced(
        entries,
        magic=config.record_version,
        base_offset=request.next_offset,
        compression=target,
        level=config.compression_level(target),
        partition_leader_epoch=request.leader_epoch,
        log_append_time=request.stamp_ms if config.log_append_time else None,
    )
    for _, header in iter_batch_headers(built):
        if header.size_in_bytes > config.max_message_bytes:
            raise too_large(header.size_in_bytes, request)
    return built, sum(len(found) for _, found in entries)
