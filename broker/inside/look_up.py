"""The steps by which a broker finds an offset or a timestamp in a log.

The steps are those of the reader: the segment by its name, an entry of its index by binary search,
then batch after batch from the entry's position on. This module repeats them beside the reader's
own code; a test checks that both find the same place.

Mirrors: LogSegment.translateOffset, LogSegment.findOffsetByTimestamp.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from ...storage.batch_scan import scan_headers

if TYPE_CHECKING:
    from ...storage.log import Log
    from ...storage.offset_index import OffsetIndex
    from ...storage.segment import Segment
    from ...storage.time_index import TimeIndex

AROUND = 3  # entries, segments and batches shown on each side of the found one
MOST_BATCHES = 200

Step = dict[str, Any]


def look_up_offset(log: Log, offset: int) -> list[Step]:
    """The steps to the batch that holds ``offset``, or is the next one behind it."""
    if not log.local_log_start_offset <= offset <= log.log_end_offset:
        return [_nowhere(log, f"Offset {offset}")]
    segment = log.segments.floor(offset) or log.segments.first
    steps = [
        _step(
            "Which segment",
            f"Files are named after their first offset. The last one at or below {offset}:",
            ("first offset", "file", "bytes"),
            [(one.base_offset, _file(one), one.size) for one in log.segments],
            list(log.segments).index(segment),
        )
    ]
    steps += _in_index(segment, offset)
    steps.append(_in_log(segment, segment.offset_index.look_up(offset)[1], offset=offset))
    return steps


def look_up_timestamp(log: Log, timestamp: int) -> list[Step]:
    """The steps to the first batch with a record at ``timestamp`` (ms) or later."""
    segments = list(log.segments)
    at = next((i for i, one in enumerate(segments) if one.max_timestamp >= timestamp), None)
    if at is None:
        return [_nowhere(log, f"A record at {timestamp} or later")]
    segment = segments[at]
    index = segment.time_index
    entry = _last(index, timestamp)
    offset = segment.base_offset if entry < 0 else index.entry(entry)[1]
    steps = [
        _step(
            "Which segment",
            f"The first one whose largest timestamp is at or above {timestamp}:",
            ("first offset", "file", "largest timestamp"),
            [(one.base_offset, _file(one), one.max_timestamp) for one in segments],
            at,
        ),
        _step(
            "The time index",
            f"{index.entries} entries, by binary search: the last one at or below {timestamp}"
            + (f" says that offset {offset} is not later." if entry >= 0 else ": none."),
            ("entry", "timestamp", "offset"),
            [(number, *index.entry(number)) for number in _near(entry, index.entries)],
            _place(entry, index.entries),
        ),
    ]
    steps += _in_index(segment, offset)
    start = segment.offset_index.look_up(offset)[1]
    steps.append(_in_log(segment, start, timestamp=timestamp))
    return steps


def _in_index(segment: Segment, offset: int) -> list[Step]:
    index = segment.offset_index
    entry = _last(index, offset)
    said = (
        f" has byte {index.entry(entry)[1]}." if entry >= 0 else ": none, so from byte 0 on."
    )  # fmt: skip
    return [
        _step(
            "The offset index",
            f"{index.entries} entries, one in about {segment.index_interval_bytes} bytes of the "
            f"log; by binary search the last one at or below {offset}{said}",
            ("entry", "offset", "position"),
            [(number, *index.entry(number)) for number in _near(entry, index.entries)],
            _place(entry, index.entries),
        )
    ]


def _in_log(
    segment: Segment, start: int, *, offset: int | None = None, timestamp: int | None = None
) -> Step:
    """Batch after batch, until one holds the offset, or is late enough."""
    rows: list[tuple[int, ...]] = []
    found = False
    for position, header in islice(
        scan_headers(segment.log_file, start, segment.size), MOST_BATCHES
    ):
        rows.append(
            (position, header.size_in_bytes, header.base_offset, header.last_offset,
             header.max_timestamp)
        )  # fmt: skip
        found = (
            header.last_offset >= offset if offset is not None
            else timestamp is not None and header.max_timestamp >= timestamp
        )  # fmt: skip
        if found:
            break
    read = len(rows)
    text = f"From byte {start} of {_file(segment)} on, the headers of {read} batches are read"
    if found:
        text += f": the batch at byte {rows[-1][0]} is the one."
    else:
        text += ": none of them; a fetch from here waits for records to come."
    columns = ("position", "bytes", "first offset", "last offset", "largest timestamp")
    kept = rows[-2 * AROUND :]
    return {
        "title": "The log",
        "text": text,
        "columns": columns,
        "rows": kept,
        "chosen": len(kept) - 1 if found else None,
        "position": rows[-1][0] if found else None,
    }


def _step(
    title: str, text: str, columns: tuple[str, ...], rows: list[tuple[Any, ...]], chosen: int
) -> Step:
    """``rows`` around the chosen one."""
    first = max(chosen - AROUND, 0)
    return {
        "title": title,
        "text": text,
        "columns": columns,
        "rows": rows[first : chosen + AROUND + 1] if chosen >= 0 else rows[:AROUND],
        "chosen": chosen - first if chosen >= 0 else None,
    }


def _nowhere(log: Log, what: str) -> Step:
    return {
        "title": "Nowhere",
        "text": f"{what} is not in this log: it has offsets {log.local_log_start_offset} to "
        f"{log.log_end_offset} (exclusive).",
        "columns": (),
        "rows": [],
        "chosen": None,
    }


def _last(index: OffsetIndex | TimeIndex, key: int) -> int:
    """The number of the last entry whose first column is at or below ``key``; -1 if none is."""
    low, high = 0, index.entries
    while low < high:
        middle = (low + high) // 2
        if index.entry(middle)[0] <= key:
            low = middle + 1
        else:
            high = middle
    return low - 1


def _near(entry: int, entries: int) -> range:
    return range(max(entry - AROUND, 0), min(max(entry, 0) + AROUND + 1, entries))


def _place(entry: int, entries: int) -> int:
    """The place of an entry among the entries near it."""
    return _near(entry, entries).index(entry) if entry >= 0 else -1


def _file(segment: Segment) -> str:
    return f"{segment.base_offset:020d}.log"
