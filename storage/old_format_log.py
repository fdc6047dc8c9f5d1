"""Append to a log whose messages are stored in format v0 or v1.

Such a log knows no leader epochs and no producers, and each entry of a set is indexed for itself.

Mirrors: UnifiedLog.append with RecordVersion.V0 and V1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..protocol.records.batch import iter_batch_headers
from .append_info import AppendInfo, AppendOrigin
from .append_rules import AppendRequest
from .old_formats import validate_with_old_format
from .validation import Examined, Sent

if TYPE_CHECKING:
    from .log import Log


def append_old_format(
    log: Log,
    records: Sent,
    leader_epoch: int,
    now_ms: int,
    origin: AppendOrigin,
    request_version: int | None,
) -> AppendInfo:
    config, first_offset = log.config, log.log_end_offset
    if isinstance(records, Examined):
        records = records.source
    request = AppendRequest(
        config, first_offset, leader_epoch, now_ms, origin, request_version, log.name, True
    )
    valid = validate_with_old_format(records, request)
    if valid is None:
        return AppendInfo(-1, -1, -1, -1, -1, log.log_start_offset, 0, 0)
    data, converted = valid
    if len(data) > config.segment_bytes:
        raise log.larger_than_segment(len(data))
    batches = list(iter_batch_headers(data))
    rolled = log.append_group(memoryview(data), batches, now_ms)
    info = log.info_of(batches, first_offset, len(data))
    info.log_append_time = now_ms if config.log_append_time else -1
    info.rolled = rolled
    info.converted_count = converted
    if config.flushes_itself:
        log.note_unflushed(info, now_ms)
    return info
