"""The files of one partition, and their next change: rolled, deleted, compacted.

Mirrors: LogSegment, LocalLog.deletableSegments, LogCleanerManager.cleanableOffsets, seen from
outside.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ...storage.cleaner.manager import consider
from ...storage.retention import age_text, why_deleted

if TYPE_CHECKING:
    from ...storage.log import Log
    from ...storage.log_config import LogConfig
    from ...storage.segment import Segment

MOST_SEGMENTS = 50

Row = dict[str, Any]


def partition_files(log: Log, now_ms: int) -> Row:
    """Offsets, configs, the last MOST_SEGMENTS segments with their files, and their next change."""
    segments = list(log.segments)
    fates = dict(why_deleted(log, now_ms))
    ends = [segment.base_offset for segment in segments[1:]] + [log.log_end_offset]
    shown = list(zip(segments, ends, strict=True))[-MOST_SEGMENTS:]
    config = log.config
    return {
        "directory": log.directory,
        "offsets": {
            "log start": log.log_start_offset,
            "recovery point": log.recovery_point,
            "last stable": log.last_stable_offset,
            "high watermark": log.high_watermark,
            "log end": log.log_end_offset,
        },
        "bytes": log.size_bytes,
        "segment_count": len(segments),
        "segments": [
            _segment(segment, end, fates.get(segment), config, log.wall.at_ms(now_ms))
            for segment, end in shown
        ],
        "rules": _rules(config),
        "cleaner": _cleaning(log, now_ms),
    }


def _segment(segment: Segment, end: int, fate: str | None, config: LogConfig, wall_ms: int) -> Row:
    return {
        "base_offset": segment.base_offset,
        "next_offset": end,
        "bytes": segment.size,
        "is_active": segment.is_active,
        "largest_timestamp": segment.largest_timestamp,
        "files": [
            {"name": os.path.basename(name), **_contents(segment, name)}
            for name in segment.file_names()
        ],
        "next": _next(segment, fate, config, wall_ms),
    }


def _contents(segment: Segment, name: str) -> Row:
    for index in (segment.offset_index, segment.time_index):
        if name == index.path:
            return {"bytes": index.entries * index.entry_size, "entries": index.entries}
    if name == segment.path:
        return {"bytes": segment.size, "entries": None}
    return {"bytes": None, "entries": None}


def _next(segment: Segment, fate: str | None, config: LogConfig, wall_ms: int) -> str:
    """The next change of a segment, in words."""
    if fate is not None:
        return f"deleted at the next check: {fate}"
    if segment.is_active:
        room = max(config.segment_bytes - segment.size, 0)
        return f"rolled after {room} more bytes, or when it is {age_text(config.segment_ms)} old"
    if config.delete and config.retention_ms >= 0:
        left_ms = segment.largest_timestamp + config.retention_ms - wall_ms
        return f"deleted in {age_text(max(left_ms, 0))} (retention.ms)"
    if config.compact:
        return "stays, compacted"
    return "stays"


def _rules(config: LogConfig) -> Row:
    policies = [name for name, on in (("compact", config.compact), ("delete", config.delete)) if on]
    return {
        "cleanup.policy": ",".join(policies),
        "segment.bytes": config.segment_bytes,
        "segment.ms": config.segment_ms,
        "index.interval.bytes": config.index_interval_bytes,
        "retention.ms": config.retention_ms,
        "retention.bytes": config.retention_bytes,
    }


def _cleaning(log: Log, now_ms: int) -> Row | None:
    """The part of a compacted log that the cleaner could take, and whether it will."""
    if not log.config.compact:
        return None
    candidate = consider(log, now_ms)
    if candidate is None:
        return {"text": "there is nothing to clean yet: only the active segment has records"}
    wanted = log.config.min_cleanable_dirty_ratio
    verdict = "due" if candidate.is_due else f"not due: it has to be above {wanted}"
    return {
        "first_dirty_offset": candidate.first_dirty_offset,
        "end_offset": candidate.end_offset,
        "clean_bytes": candidate.clean_bytes,
        "dirty_bytes": candidate.cleanable_bytes,
        "text": f"{candidate.ratio:.0%} of what can be cleaned is dirty: {verdict}",
    }
