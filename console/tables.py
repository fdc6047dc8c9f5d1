"""The data of the pages about tables of topics: what their writers report, and refused records.

Invariant: all comes from the brokers, so the console needs neither the formats' libraries nor the
warehouse. Of the dead letters the newest are read.
"""

from __future__ import annotations

from typing import Any, Final

from ..client.admin.tables import TABLE_CONFIG, TableView
from .asked import Wrong
from .collector import Collector
from .messages import read_messages
from .topics import topic_configs

LIST_SECONDS: Final = 5.0
DETAILS_SECONDS: Final = 2.0
LETTERS_MAX: Final = 100  # of which those of the topic are shown
VALUE_LENGTH: Final = 500
DEAD_LETTERS: Final = f"{TABLE_CONFIG}.dead.letter.topic"
HEADERS: Final = "__connect.errors."


async def table_list(collector: Collector) -> list[dict[str, Any]]:
    """A row a table. Raises ClientError."""

    async def ask() -> list[dict[str, Any]]:
        return [_row(view) for view in await collector.admin.tables.list()]

    return await collector.shared.get("tables", LIST_SECONDS, ask)


async def table_details(collector: Collector, name: str) -> dict[str, Any]:
    """`table` is null for a topic without one. Raises Wrong, ClientError."""
    await collector.partitions(name)
    configs = {one["name"]: one["value"] for one in await topic_configs(collector, name)}
    if configs.get(TABLE_CONFIG, "none") == "none":
        return {"table": None}

    async def ask() -> dict[str, Any]:
        views = await collector.admin.tables.list([name])
        if not views:
            return {"table": None}
        letters = configs.get(DEAD_LETTERS) or ""
        return {"table": _whole(views[0]), "letters": await _letters(collector, letters, name)}

    return await collector.shared.get(f"table {name}", DETAILS_SECONDS, ask)


def _row(view: TableView) -> dict[str, Any]:
    report = view.report
    return {
        "topic": view.topic,
        "format": view.configs[TABLE_CONFIG],
        "state": view.state,
        "lag": view.lag,
        "lag_ms": view.lag_ms,
        "target_lag_ms": view.target_lag_ms,
        "rows": report and report.rows,
        "files": report and report.files,
        "bytes": report and report.size_bytes,
        "committed_ms": report and report.committed_ms,
        "dead_letters": report and report.dead_letters,
    }


def _whole(view: TableView) -> dict[str, Any]:
    report = view.report
    return {
        **_row(view),
        "name": report and report.name,
        "warehouse": report and report.warehouse,
        "writer": view.leader,
        "error": report and report.error,
        "advice": view.advice,
        "is_raw": view.configs.get(f"{TABLE_CONFIG}.schema") == "raw",
        "dead_letter_topic": view.configs.get(DEAD_LETTERS) or "",
        "partitions": [
            {"partition": number, "offset": one.offset, "end": one.end, "lag": one.lag}
            for number, one in view.places.items()
        ],
        "snapshots": [
            {**snapshot._asdict(), "offsets": offsets} for snapshot, offsets in view.snapshots
        ],
    }


async def _letters(collector: Collector, letters: str, topic: str) -> list[dict[str, Any]]:
    """The newest dead letters of this topic, the last one first."""
    if not letters:
        return []
    asked = {"topic": letters, "from": "end", "limit": str(LETTERS_MAX), "text": topic}
    try:
        found = (await read_messages(collector, asked))["records"]
    except Wrong:  # the topic is not there yet
        return []
    told = [(record, _headers(record)) for record in reversed(found)]
    return [
        {
            "partition": headers.get("partition"),
            "offset": headers.get("offset"),
            "reason": headers.get("exception.message"),
            "timestamp": record["timestamp"],
            "value": record["value"] and (record["value"]["text"] or "")[:VALUE_LENGTH],
        }
        for record, headers in told
        if headers.get("topic") == topic
    ]


def _headers(record: dict[str, Any]) -> dict[str, str | None]:
    return {
        name.removeprefix(HEADERS): content and content["text"]
        for name, content in record["headers"]
        if name.startswith(HEADERS)
    }
