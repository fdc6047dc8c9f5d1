"""Records as a page shows them: read from some place on, and filtered.

Limits: so many records, bytes and seconds a request; of a key or a value the first bytes. What
lies behind them a browser asks for by the positions that come with the answer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import trio

from ...client.admin.records import EARLIEST, LATEST
from ...client.consumer.consumer import Consumer
from ...client.consumer.received import Received
from ...client.producer.producer import Producer
from ...protocol.topics import TopicPartition
from .asked import Wrong, number, optional_text, text, whole
from .collector import Collector
from .expressions import BadExpression, compiled

RECORDS_MAX: Final = 500
SCANNED_MAX: Final = 200_000
READ_SECONDS: Final = 5.0
SHOWN_BYTES: Final = 16 * 1024
HEADERS_MAX: Final = 100
HEX_BYTES: Final = 512

Filter = Callable[[Received], bool]


async def read_messages(collector: Collector, asked: Mapping[str, str]) -> dict[str, Any]:
    """`topic`; `partition` or all; `from`: beginning, end, offset, time, or positions to go on at;
    `text` and `where` to filter by. Raises Wrong, ClientError.
    """
    topic = asked.get("topic", "")
    parts = collector.view.topics.get(topic)
    if parts is None:
        raise Wrong(f"there is no topic {topic!r}")
    chosen = asked.get("partition", "")
    if chosen and not (chosen.isdecimal() and int(chosen) < len(parts)):
        raise Wrong(f"{topic!r} has no partition {chosen}")
    places = [(topic, int(chosen))] if chosen else [(topic, n) for n in range(len(parts))]
    limit = min(max(whole(asked.get("limit", "50")), 1), RECORDS_MAX)
    wanted = _filter(asked.get("text", ""), asked.get("where", ""))
    offsets = collector.admin.records.offsets
    led = [place for place in places if (one := parts[place[1]]) and one.leader >= 0]
    ends = {p: f.offset for p, f in (await offsets(dict.fromkeys(led, LATEST))).all().items()}
    begins = {p: f.offset for p, f in (await offsets(dict.fromkeys(led, EARLIEST))).all().items()}
    positions = await _positions(collector, asked, begins, ends, limit)
    is_newest = asked.get("from", "end") == "end"
    most = limit * len(positions) if is_newest else limit
    found, positions, scanned = await _scan(collector, positions, ends, most, wanted)
    if is_newest:
        found = sorted(found, key=lambda one: (one.timestamp, one.offset))[-limit:]
    open_from = {
        p: one.offset
        for p, one in (await offsets(dict.fromkeys(led, LATEST), read_committed=True)).all().items()
    }
    aborted = await _aborted(collector, found, open_from)
    return {
        "records": [_shown(one, _state(one, open_from, aborted)) for one in found],
        "positions": {str(place[1]): offset for place, offset in positions.items()},
        "scanned": scanned,
        "is_all": all(positions[place] >= ends[place] for place in positions),
    }


async def _positions(
    collector: Collector,
    asked: Mapping[str, str],
    begins: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    limit: int,
) -> dict[TopicPartition, int]:
    """Where reading begins, within what there is."""
    start, value = asked.get("from", "end"), asked.get("at", "")
    found: dict[TopicPartition, int]
    if start == "beginning":
        found = dict(begins)
    elif start == "end":
        found = {place: end - limit for place, end in ends.items()}
    elif start == "offset":
        found = dict.fromkeys(ends, whole(value))
    elif start == "time":
        at_time = await collector.admin.records.offsets(dict.fromkeys(ends, whole(value)))
        found = {p: one.offset if one.offset >= 0 else ends[p] for p, one in at_time.all().items()}
    elif start == "positions":
        try:
            given = {int(key): int(offset) for key, offset in json.loads(value).items()}
        except (ValueError, AttributeError, TypeError):
            raise Wrong("positions are an object of partitions and offsets") from None
        found = {place: given.get(place[1], end) for place, end in ends.items()}
    else:
        raise Wrong("reading begins at: beginning, end, offset, time or positions")
    return {place: min(max(offset, begins[place]), ends[place]) for place, offset in found.items()}


async def _scan(
    collector: Collector,
    positions: dict[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    limit: int,
    wanted: Filter,
) -> tuple[list[Received], dict[TopicPartition, int], int]:
    """Those that are wanted, where to go on, and how many were looked at."""
    found: list[Received] = []
    scanned = 0
    positions = dict(positions)
    unread = {place for place, offset in positions.items() if offset < ends[place]}
    if not unread:
        return found, positions, scanned
    consumer = Consumer(collector.bootstrap, security=collector.security, auto_commit=False)
    with trio.move_on_after(READ_SECONDS):
        async with consumer:
            await consumer.assign(unread)
            for place in unread:
                consumer.seek(place, positions[place])
            while unread and len(found) < limit and scanned < SCANNED_MAX:
                for one in await consumer.poll(0.5):
                    place = (one.topic, one.partition)
                    if len(found) >= limit or one.offset >= ends[place]:
                        break
                    scanned += 1
                    positions[place] = one.offset + 1
                    if wanted(one):
                        found.append(one)
                else:
                    for place in unread:  # past what has no records: markers, compacted ones
                        positions[place] = max(positions[place], consumer.position(place) or 0)
                unread = {place for place in unread if positions[place] < ends[place]}
    return found, positions, scanned


async def _aborted(
    collector: Collector, found: list[Received], open_from: Mapping[TopicPartition, int]
) -> set[tuple[int, int]]:
    """Those of the found that a reader of committed records does not see: partition, offset."""
    below = {
        (one.partition, one.offset)
        for one in found
        if one.offset < open_from.get((one.topic, one.partition), 0)
    }
    if not below or not collector.has_transactions:
        return set()
    first: dict[TopicPartition, int] = {}
    last: dict[TopicPartition, int] = {}
    for one in found:
        place = (one.topic, one.partition)
        first[place] = min(first.get(place, one.offset), one.offset)
        last[place] = max(last.get(place, -1), one.offset)
    seen: set[tuple[int, int]] = set()
    consumer = Consumer(
        collector.bootstrap,
        security=collector.security,
        auto_commit=False,
        isolation_level="read_committed",
    )
    with trio.move_on_after(READ_SECONDS):
        async with consumer:
            unread = {p for p in first if first[p] < open_from.get(p, 0)}
            await consumer.assign(unread)
            for place in unread:
                consumer.seek(place, first[place])
            while unread:
                seen |= {(one.partition, one.offset) for one in await consumer.poll(0.5)}
                unread = {
                    place
                    for place in unread
                    if (consumer.position(place) or 0) <= min(last[place], open_from[place] - 1)
                }
            return below - seen
    return set()


def _state(
    one: Received, open_from: Mapping[TopicPartition, int], aborted: set[tuple[int, int]]
) -> str:
    if one.offset >= open_from.get((one.topic, one.partition), 0):
        return "open"
    return "aborted" if (one.partition, one.offset) in aborted else ""


def _filter(words: str, where: str) -> Filter:
    """Raises Wrong."""
    try:
        meant = compiled(where) if where.strip() else None
    except BadExpression as error:
        raise Wrong(str(error)) from None
    wanted = words.encode()

    def holds(one: Received) -> bool:
        if wanted:
            parts = [one.key, one.value, *(part for pair in one.headers for part in pair)]
            texts = (part.encode() if isinstance(part, str) else part for part in parts)
            if not any(part is not None and wanted in part for part in texts):
                return False
        return meant is None or meant(_fields(one))

    return holds


def _fields(one: Received) -> dict[str, Any]:
    """As expressions name them."""
    headers = {_name(name): _meant(content) for name, content in one.headers}
    return {
        "key": _meant(one.key),
        "value": _meant(one.value),
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


def _shown(one: Received, state: str) -> dict[str, Any]:
    return {
        "partition": one.partition,
        "offset": one.offset,
        "timestamp": one.timestamp,
        "key": shown_bytes(one.key),
        "value": shown_bytes(one.value),
        "headers": [
            [_name(name)[:SHOWN_BYTES], shown_bytes(content)]
            for name, content in one.headers[:HEADERS_MAX]
        ],
        "state": state,
    }


def shown_bytes(content: bytes | None) -> dict[str, Any] | None:
    """Its size, its text if it is one, else its first bytes in hex; None is a tombstone."""
    if content is None:
        return None
    found: dict[str, Any] = {"size": len(content), "hex": content[:HEX_BYTES].hex(" ")}
    cut = content[:SHOWN_BYTES]
    try:
        found["text"] = cut.decode()
    except UnicodeDecodeError as error:
        is_cut_short = len(cut) < len(content) and error.start > len(cut) - 4
        found["text"] = cut[: error.start].decode() if is_cut_short else None
    return found


async def produce_message(collector: Collector, asked: dict[str, Any]) -> dict[str, str]:
    """`topic`, `key` and `value` (null: none), `headers`, `partition`.

    Raises Wrong, ClientError.
    """
    topic = text(asked, "topic")
    if topic not in collector.view.topics:
        raise Wrong(f"there is no topic {topic!r}")
    key, value = optional_text(asked, "key"), optional_text(asked, "value")
    headers = asked.get("headers") or {}
    if not isinstance(headers, dict):
        raise Wrong("headers is an object")
    partition = None if asked.get("partition") is None else number(asked, "partition")
    async with Producer(collector.bootstrap, security=collector.security) as producer:
        told = await producer.send(
            topic,
            None if value is None else value.encode(),
            key=None if key is None else key.encode(),
            partition=partition,
            headers=[(str(name), str(content).encode()) for name, content in headers.items()],
        )
    return {"done": f"written to {topic}-{told.partition} at offset {told.offset}"}
