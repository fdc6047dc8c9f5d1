"""Records for a page: read from some place on, and filtered.

Limits: so many records, bytes and seconds a request; of a key or a value the first bytes. A browser
requests the records behind them by the positions that come with the answer, and the records before
them by `before`. A search is many requests: each says how far it came, and the browser goes on
until it has enough records, or the reader stops it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from starlette.responses import PlainTextResponse, Response

from ..client.admin.records import EARLIEST, LATEST
from ..client.consumer.received import Received
from ..protocol.topics import TopicPartition
from .asked import Wrong, number, optional_text, text, whole
from .collector import Collector
from .expressions import BadExpression, compiled
from .log_reader import SCANNED_MAX, Scan
from .rows import Row
from .schemas import Readable, Schemas

RECORDS_MAX: Final = 500
SHOWN_BYTES: Final = 16 * 1024
HEADERS_MAX: Final = 100
HEX_BYTES: Final = 512
WINDOW_GROWS: Final = 4  # a search that found too little looks at this much more

Filter = Callable[[Row], bool]


async def read_messages(collector: Collector, asked: Mapping[str, str]) -> dict[str, Any]:
    """`topic`; `partition` or all; `from`: beginning, end, offset, time, positions to continue at,
    or `before` to read the `window` of records in front of positions; `text` and `where` to filter
    by; `markers`: whether to show those of transactions, too.

    `before` of the answer is null where the beginning was reached, and otherwise the positions and
    the window to ask for next; a window that could not be read in time is answered with the same
    positions and a smaller window. Raises Wrong, ClientError.
    """
    topic = asked.get("topic", "")
    parts = await collector.partitions(topic)
    chosen = asked.get("partition", "")
    if chosen and not 0 <= whole(chosen) < len(parts):
        raise Wrong(f"{topic!r} has no partition {chosen}")
    numbers = [whole(chosen)] if chosen else range(len(parts))
    leaders = {(topic, n): one.leader for n in numbers if (one := parts[n]) and one.leader >= 0}
    limit = min(max(whole(asked.get("limit", "50")), 1), RECORDS_MAX)
    schemas = collector.schemas
    wanted = _filter(
        schemas, asked.get("text", ""), asked.get("where", ""), markers=bool(asked.get("markers"))
    )
    offsets = collector.admin.records.offsets
    ends = {p: f.offset for p, f in (await offsets(dict.fromkeys(leaders, LATEST))).all().items()}
    begins = {
        p: f.offset for p, f in (await offsets(dict.fromkeys(leaders, EARLIEST))).all().items()
    }
    stable = await offsets(dict.fromkeys(leaders, LATEST), read_committed=True)

    async def prepare(rows: list[Row]) -> None:
        await schemas.learn(part for row in rows for part in (row.record.key, row.record.value))

    window = min(max(whole(asked.get("window", "0")), limit), SCANNED_MAX)
    positions = await _positions(collector, asked, begins, ends, window)
    is_newest = asked.get("from", "end") in ("end", "before")
    last = ends
    if asked.get("from") == "before":
        last = {place: max(offset, begins[place]) for place, offset in _given(asked, ends).items()}
    scan = Scan(
        positions=positions,
        ends=last,
        open_from={place: one.offset for place, one in stable.all().items()},
        leaders=leaders,
        limit=window * len(positions) if is_newest else limit,
        wanted=wanted,
        prepare=prepare,
    )
    starts = dict(positions)
    await scan.run(collector.cluster)
    found = scan.found
    if is_newest and len(positions) > 1:
        found = sorted(found, key=lambda row: (row.record.timestamp, row.record.offset))
    if asked.get("from") == "before" and scan.unread:
        found, starts, window = [], dict(last), max(window // WINDOW_GROWS, 1)
    else:
        found, window = found[-limit:], window * WINDOW_GROWS
    is_beginning = all(starts[place] <= begins[place] for place in starts)
    return {
        "records": [_shown(schemas, row) for row in found],
        "positions": _by_number(scan.positions),
        "scanned": scan.scanned,
        "is_all": all(scan.positions[place] >= ends[place] for place in scan.positions),
        "before": None
        if is_beginning
        else {"at": _by_number(starts), "window": min(window, SCANNED_MAX // max(len(starts), 1))},
    }


def _by_number(positions: Mapping[TopicPartition, int]) -> dict[str, int]:
    return {str(place[1]): offset for place, offset in positions.items()}


async def read_content(collector: Collector, asked: Mapping[str, str]) -> Response:
    """All of `part`, the key or the value, of the record at `topic`, `partition` and `offset`: as
    text by its schema, or with `raw` as a file of the bytes that were written.

    Raises Wrong, ClientError.
    """
    place = (asked.get("topic", ""), whole(asked.get("partition", "")))
    offset, part = whole(asked.get("offset", "")), asked.get("part", "value")
    parts = await collector.partitions(place[0])
    one = parts[place[1]] if 0 <= place[1] < len(parts) else None
    if one is None or part not in ("key", "value"):
        raise Wrong("there is no such partition, or no such part of a record")
    scan = Scan(
        positions={place: offset},
        ends={place: offset + 1},
        open_from={place: offset + 1},
        leaders={place: one.leader},
        limit=1,
        wanted=lambda row: not row.is_marker,
        prepare=lambda rows: collector.schemas.learn(getattr(row.record, part) for row in rows),
        seconds=math.inf,  # as long as an answer may take
    )
    await scan.run(collector.cluster)
    content = getattr(scan.found[0].record, part) if scan.found else None
    if content is None:
        raise Wrong(f"there is no {part} at offset {offset}")
    if asked.get("raw"):
        name = f"{part}-{place[1]}-{offset}.bin"
        headers = {"content-disposition": f'attachment; filename="{name}"'}
        return Response(content, media_type="application/octet-stream", headers=headers)
    text_of = collector.schemas.read(content).content or b""
    return PlainTextResponse(text_of.decode(errors="replace"))


async def _positions(
    collector: Collector,
    asked: Mapping[str, str],
    begins: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    window: int,
) -> dict[TopicPartition, int]:
    """The offsets at which reading begins, within the logs."""
    start, value = asked.get("from", "end"), asked.get("at", "")
    found: dict[TopicPartition, int]
    if start == "beginning":
        found = dict(begins)
    elif start == "end":
        found = {place: end - window for place, end in ends.items()}
    elif start == "before":
        found = {place: offset - window for place, offset in _given(asked, ends).items()}
    elif start == "offset":
        found = dict.fromkeys(ends, whole(value))
    elif start == "time":
        at_time = await collector.admin.records.offsets(dict.fromkeys(ends, whole(value)))
        found = {p: one.offset if one.offset >= 0 else ends[p] for p, one in at_time.all().items()}
    elif start == "positions":
        found = _given(asked, ends)
    else:
        raise Wrong("reading begins at: beginning, end, offset, time, positions or before")
    return {place: min(max(offset, begins[place]), ends[place]) for place, offset in found.items()}


def _given(
    asked: Mapping[str, str], ends: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """The positions in `at`; partitions without one are at their ends."""
    try:
        given = {int(key): int(at) for key, at in json.loads(asked.get("at", "")).items()}
    except (ValueError, AttributeError, TypeError, OverflowError, RecursionError):
        raise Wrong("positions are an object of partitions and offsets") from None
    return {place: min(given.get(place[1], end), end) for place, end in ends.items()}


def _filter(schemas: Schemas, words: str, where: str, *, markers: bool) -> Filter:
    """Raises Wrong."""
    try:
        meant = compiled(where) if where.strip() else None
    except BadExpression as error:
        raise Wrong(str(error)) from None
    wanted = words.encode()

    def holds(row: Row) -> bool:
        one = row.record
        if row.is_marker:
            return markers and not wanted and meant is None
        if not wanted and meant is None:
            return True
        key, value = schemas.read(one.key).content, schemas.read(one.value).content
        if wanted:
            parts = [key, value, *(part for pair in one.headers for part in pair)]
            texts = (part.encode() if isinstance(part, str) else part for part in parts)
            if not any(part is not None and wanted in part for part in texts):
                return False
        return meant is None or meant(_fields(one, key, value))

    return holds


def _fields(one: Received, key: bytes | None, value: bytes | None) -> dict[str, Any]:
    """A record's fields under their names in expressions."""
    headers = {_name(name): _meant(content) for name, content in one.headers}
    return {
        "key": _meant(key),
        "value": _meant(value),
        "headers": headers,
        "offset": one.offset,
        "partition": one.partition,
        "timestamp": one.timestamp,
    }


def _name(name: str | bytes) -> str:
    return name if isinstance(name, str) else name.decode(errors="replace")


def _meant(content: bytes | None) -> Any:
    if content is None:
        return None
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return content.decode(errors="replace")


def _shown(schemas: Schemas, row: Row) -> dict[str, Any]:
    one = row.record
    return {
        "partition": one.partition,
        "offset": one.offset,
        "timestamp": one.timestamp,
        "key": _content(schemas.read(one.key), one.key),
        "value": _content(schemas.read(one.value), one.value),
        "headers": [
            [_name(name)[:SHOWN_BYTES], shown_bytes(content)]
            for name, content in one.headers[:HEADERS_MAX]
        ],
        "producer": row.producer,
        "state": row.state,
        "is_marker": row.is_marker,
    }


def _content(readable: Readable, written: bytes | None) -> dict[str, Any] | None:
    found = shown_bytes(readable.content)
    if found is None or written is None:
        return None
    if readable.schema is not None:
        found |= {"schema": readable.schema, "hex": written[:HEX_BYTES].hex(" ")}
    return found | {"problem": readable.problem}


def shown_bytes(content: bytes | None) -> dict[str, Any] | None:
    """The size, and the text if it is one, else the first bytes in hex; None is a tombstone."""
    if content is None:
        return None
    cut = content[:SHOWN_BYTES]
    found: dict[str, Any] = {
        "size": len(content),
        "hex": content[:HEX_BYTES].hex(" "),
        "is_cut": len(cut) < len(content),
    }
    try:
        found["text"] = cut.decode()
    except UnicodeDecodeError as error:
        is_cut_short = len(cut) < len(content) and error.start > len(cut) - 4
        found["text"] = cut[: error.start].decode() if is_cut_short else None
    return found


async def produce_message(collector: Collector, asked: dict[str, Any]) -> dict[str, str]:
    """`topic`, `key` and `value` (null: none), `headers`, `partition`; `key_schema` and
    `value_schema` are ids of the registry's.

    Raises Wrong, ClientError.
    """
    topic = text(asked, "topic")
    await collector.partitions(topic)
    key, value = optional_text(asked, "key"), optional_text(asked, "value")
    headers = asked.get("headers") or {}
    if not isinstance(headers, dict):
        raise Wrong("headers is an object")
    partition = None if asked.get("partition") is None else number(asked, "partition", bits=31)
    contents = {"key": key, "value": value}
    packed: dict[str, bytes | None] = {}
    for part, written in contents.items():
        packed[part] = None if written is None else written.encode()
        if asked.get(f"{part}_schema") is not None:
            schema = number(asked, f"{part}_schema", bits=31)
            packed[part] = await collector.schemas.write(schema, packed[part])
    from ..client.producer.producer import Producer  # who only reads records needs none

    async with Producer(collector.bootstrap, security=collector.security) as producer:
        told = await producer.send(
            topic,
            packed["value"],
            key=packed["key"],
            partition=partition,
            headers=[(str(name), str(content).encode()) for name, content in headers.items()],
        )
    return {"done": f"written to {topic}-{told.partition} at offset {told.offset}"}
