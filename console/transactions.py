"""The data for the page about transactions: ids, open partitions, producers, hanging ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..client.admin.rows import (
    place_text,
    producer_row,
    transaction_row,
    transaction_rows,
)
from ..client.admin.transactions import OPEN_STATES, ActiveProducer
from ..protocol.topics import TopicPartition
from .asked import Wrong, number, text, whole
from .collector import Collector, now_ms

LIST_SECONDS: Final = 2.0
DETAILS_SECONDS: Final = 1.0
ROWS_MAX: Final = 1000
MINUTE_MS: Final = 60_000
DEFAULT_MINUTES: Final = "15"  # transaction.max.timeout.ms of brokers that have no other


async def transaction_list(collector: Collector) -> dict[str, Any]:
    """A row a transactional id, and brokers that did not answer. Raises ClientError."""

    async def ask() -> dict[str, Any]:
        found = await collector.admin.transactions.list()
        rows = transaction_rows(found)
        return {
            "rows": rows[:ROWS_MAX],
            "count": len(rows),
            "errors": [str(error) for error in found.errors.values()],
        }

    return await collector.shared.get("transactions", LIST_SECONDS, ask)


async def transaction_details(collector: Collector, name: str) -> dict[str, Any]:
    """The open partitions of a transactional id, and its age. Raises ClientError."""

    async def ask() -> dict[str, Any]:
        one = (await collector.admin.transactions.describe([name]))[name]
        row = transaction_row(one)
        row["open_ms"] = max(now_ms() - one.began_ms, 0) if one.state in OPEN_STATES else None
        row["partitions"] = sorted(one.partitions)
        return row

    return await collector.shared.get(f"transaction {name}", DETAILS_SECONDS, ask)


async def producers_of(collector: Collector, asked: Mapping[str, str]) -> list[dict[str, Any]]:
    """The producers of `topic` and `partition`, newest first. Raises Wrong, ClientError."""
    place = await _place(collector, asked.get("topic", ""), whole(asked.get("partition", "")))

    async def ask() -> list[dict[str, Any]]:
        found = (await collector.admin.transactions.producers([place]))[place]
        newest = sorted(found, key=lambda one: -one.last_timestamp_ms)
        return [_producer_row(place, one) for one in newest[:ROWS_MAX]]

    return await collector.shared.get(f"producers {place}", DETAILS_SECONDS, ask)


async def hanging_transactions(
    collector: Collector, asked: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Transactions open in partitions of `topic` (none: of all) that no coordinator knows, without
    a write for `minutes`. Raises Wrong, ClientError.
    """
    topic, minutes = asked.get("topic", ""), asked.get("minutes", DEFAULT_MINUTES)
    if topic:
        await collector.partitions(topic)
    places = [
        (name, index)
        for name, parts in collector.view.topics.items()
        if name == topic or not topic
        for index, one in enumerate(parts)
        if one is not None and one.leader >= 0
    ]
    before_ms = now_ms() - number({"minutes": whole(minutes)}, "minutes", bits=31) * MINUTE_MS
    found = await collector.admin.transactions.find_hanging(places, before_ms=before_ms)
    return [_producer_row(place, one) for place, one in found[:ROWS_MAX]]


async def _place(collector: Collector, topic: str, partition: int) -> TopicPartition:
    if not 0 <= partition < len(await collector.partitions(topic)):
        raise Wrong(f"{topic!r} has no partition {partition}")
    return topic, partition


def _producer_row(place: TopicPartition, one: ActiveProducer) -> dict[str, Any]:
    row = producer_row(place, one)
    row |= {"topic": place[0], "partition": place[1], "coordinator_epoch": one.coordinator_epoch}
    return row


async def order_transaction(collector: Collector, asked: dict[str, Any]) -> dict[str, str]:
    """`{"do": "abort", "topic", "partition", "first_offset"}`: a hanging transaction; or `{"do":
    "fence", "id"}`: shut out the producers of an id. Raises Wrong, ClientError.
    """
    what, api = text(asked, "do"), collector.admin.transactions
    if what == "fence":
        name = text(asked, "id")
        producer, epoch = (await api.fence([name]))[name]
        return {"done": f"{name} is producer {producer} from epoch {epoch} on; others are shut out"}
    if what != "abort":
        raise Wrong(f"{what!r} is no command for a transaction")
    place = await _place(collector, text(asked, "topic"), number(asked, "partition"))
    where, offset = place_text(place), number(asked, "first_offset")
    one = await api.open_at(place, offset)
    if one is not None:
        await api.abort(place, one)
        return {"done": f"aborted the transaction of producer {one.producer_id} in {where}"}
    raise Wrong(f"no transaction that is open in {where} begins at offset {offset}")
