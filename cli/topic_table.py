"""The output of `pybroker topics describe` for a topic."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import NamedTuple

from ..client.admin.config_types import ConfigEntry, ConfigSource
from ..local.tier_costs import Prices, TierPart, dollars_text, month_dollars, total, write_dollars
from ..protocol.apis.metadata import MetadataResponsePartition, MetadataResponseTopic
from ..protocol.uuids import uuid_to_text
from ..storage.retention import age_text, date_text

COLUMNS = ("partition", "leader", "epoch", "replicas", "ISR", "first", "next", "records", "bytes")
# In 80 columns; the other columns are in the table without rates, and in the JSON.
WITH_RATES = ("partition", "leader", "replicas", "ISR", "records", "bytes", "rec/s", "bytes/s")
UNKNOWN = "-"  # of a partition without a leader


class Problem(Enum):
    """A possible problem of a partition."""

    UNDER_REPLICATED = "under-replicated"
    LEADERLESS = "leaderless"
    BELOW_MIN_ISR = "below-min-isr"


def is_problem(problem: Problem, part: MetadataResponsePartition, min_isr: int) -> bool:
    """Whether a partition has the problem."""
    match problem:
        case Problem.UNDER_REPLICATED:
            return len(part.isr_nodes) < len(part.replica_nodes)
        case Problem.LEADERLESS:
            return part.leader_id < 0
        case Problem.BELOW_MIN_ISR:
            return len(part.isr_nodes) < min_isr


class TopicView(NamedTuple):
    """A topic; offsets and newest timestamps (-1: no records) of the partitions with a leader.

    `configs` is empty if the brokers do not send them.
    `sizes`: bytes of the largest replica; `rates`: records a second, if asked for, and `byte_rates`
    bytes.
    """

    topic: MetadataResponseTopic
    configs: tuple[ConfigEntry, ...]
    first: Mapping[int, int]
    following: Mapping[int, int]
    newest_ms: Mapping[int, int]
    sizes: Mapping[int, int]
    rates: Mapping[int, float]
    byte_rates: Mapping[int, float]
    tier: Mapping[int, TierPart] | None = None  # of a tiered topic
    local_first: Mapping[int, int] = {}  # the first offset on the leader's disk, of a tiered topic

    @property
    def is_tiered(self) -> bool:
        return self.effective("remote.storage.enable") == "true"

    def effective(self, key: str) -> str:
        """The value of a config in effect for the topic."""
        return next((one.value or "" for one in self.configs if one.name == key), "")

    def overrides(self) -> dict[str, str]:
        """The configs set on the topic itself."""
        return {
            one.name: one.value or "" for one in self.configs if one.source is ConfigSource.TOPIC
        }

    def outlived(self, now_ms: int) -> dict[int, int]:
        """Partitions whose newest record is older than retention allows, with its timestamp."""
        retention_ms = int(self.effective("retention.ms") or -1)
        if retention_ms < 0 or "delete" not in self.effective("cleanup.policy").split(","):
            return {}
        return {
            partition: newest_ms
            for partition, newest_ms in sorted(self.newest_ms.items())
            if newest_ms >= 0 and now_ms - newest_ms > retention_ms
        }


def show_topic(view: TopicView, now_ms: int, prices: Prices) -> None:
    """Print one topic: its settings, then each partition with its leader, ISR and offsets."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from .options import PIPE_COLUMNS, escape
    from .target import bytes_text, show_rows

    topic = view.topic
    width = None if sys.stdout.isatty() else PIPE_COLUMNS
    console = Console(highlight=False, soft_wrap=True, width=width)
    settings = ", ".join(f"{key}={value}" for key, value in sorted(view.overrides().items()))
    if not settings:
        settings = "all at their defaults" if view.configs else "not told by brokers before 0.11"
    topic_id = _id_text(topic)
    named = f"id {topic_id}  " if topic_id else ""
    console.print(f"[bold]{escape(topic.name or '')}[/]  {named}configs: {escape(settings)}")
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    columns = WITH_RATES if view.rates else COLUMNS
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    for part in sorted(topic.partitions, key=lambda part: part.partition_index):
        index = part.partition_index
        first, following = view.first.get(index), view.following.get(index)
        count = UNKNOWN
        if first is not None and following is not None:
            count = f"{following - first:,}"
        cells = {
            "partition": str(index),
            "leader": str(part.leader_id) if part.leader_id >= 0 else "none",
            "epoch": str(part.leader_epoch),
            "replicas": ",".join(map(str, part.replica_nodes)),
            "ISR": ",".join(map(str, part.isr_nodes)),
            "first": UNKNOWN if first is None else str(first),
            "next": UNKNOWN if following is None else str(following),
            "records": count,
            "bytes": bytes_text(view.sizes[index]) if index in view.sizes else UNKNOWN,
            **_rate_texts(view, index),
        }
        table.add_row(*(cells[column] for column in columns))
    console.print(table)
    if view.tier is not None:
        show_rows(tier_rows(view))
        console.print(tier_cost(view.tier.values(), prices))
    outlived = view.outlived(now_ms)
    if outlived:
        newest_ms = max(outlived.values())
        retention_ms = int(view.effective("retention.ms"))
        some = "partition" if len(outlived) == 1 else "partitions"
        console.print(
            f"[yellow]past retention: the newest record of {some} "
            f"{', '.join(map(str, outlived))} is of {date_text(newest_ms)}, "
            f"{age_text(now_ms - newest_ms)} old, and retention.ms is {retention_ms} "
            f"({age_text(retention_ms)}): the next check deletes all records there. "
            "Set retention.ms=-1 to keep them.[/]"
        )


def _rate_texts(view: TopicView, index: int) -> dict[str, str]:
    from .target import bytes_text

    size = view.byte_rates.get(index)
    return {
        "rec/s": f"{view.rates.get(index, 0.0):,.1f}",
        "bytes/s": UNKNOWN if size is None else bytes_text(round(size)),
    }


def tier_rows(view: TopicView) -> list[dict[str, object]]:
    """What lies where, and what is under way, by partition."""
    from .target import bytes_text

    rows: list[dict[str, object]] = []
    for part in sorted(view.topic.partitions, key=lambda part: part.partition_index):
        index = part.partition_index
        there = (view.tier or {}).get(index, TierPart())
        copying = bytes_text(there.copying_bytes) if there.copying else None
        deleting = bytes_text(there.deleting_bytes) if there.deleting else None
        rows.append(
            {
                "partition": index,
                "in tier": _range(there.first, there.last),
                "segments": there.segments,
                "stored": bytes_text(there.bytes),
                "local from": view.local_first.get(index),
                "local": bytes_text(view.sizes[index]) if index in view.sizes else UNKNOWN,
                "copying": copying,
                "deleting": deleting,
            }
        )
    return rows


def _range(first: int | None, last: int | None) -> str:
    return UNKNOWN if first is None or last is None else f"{first} to {last}"


def tier_cost(parts: Iterable[TierPart], prices: Prices) -> str:
    whole = total(parts)
    return (
        f"the tier costs {dollars_text(month_dollars(whole, prices))} a month, and "
        f"{dollars_text(write_dollars(whole, prices))} once for {whole.writes:,} writes, at "
        f"${prices.gb_month:g} a GB and month and ${prices.thousand_writes:g} for 1,000 writes"
    )


def _id_text(topic: MetadataResponseTopic) -> str | None:
    """The topic's id; None: brokers before 2.8 give topics no ids."""
    return uuid_to_text(topic.topic_id) if any(topic.topic_id) else None


def topic_json(view: TopicView, prices: Prices) -> dict[str, object]:
    """All fields of the topic, for programs."""
    topic = view.topic
    return {
        "topic": topic.name,
        "id": _id_text(topic),
        "internal": topic.is_internal,
        "configs": {
            one.name: {"value": one.value, "source": one.source.name.lower()}
            for one in view.configs
        },
        "partitions": [
            {
                "partition": part.partition_index,
                "leader": part.leader_id if part.leader_id >= 0 else None,
                "epoch": part.leader_epoch,
                "replicas": list(part.replica_nodes),
                "isr": list(part.isr_nodes),
                "first": view.first.get(part.partition_index),
                "next": view.following.get(part.partition_index),
                "bytes": view.sizes.get(part.partition_index),
                "records_per_second": view.rates.get(part.partition_index),
                "bytes_per_second": view.byte_rates.get(part.partition_index),
            }
            for part in sorted(topic.partitions, key=lambda part: part.partition_index)
        ],
        "tier": None if view.tier is None else _tier_json(view, view.tier, prices),
    }


def _tier_json(view: TopicView, tier: Mapping[int, TierPart], prices: Prices) -> dict[str, object]:
    return {
        "prices_dollars": prices._asdict(),
        "partitions": [
            {
                "partition": index,
                "local_first": view.local_first.get(index),
                **part._asdict(),
                "dollars_a_month": month_dollars(part, prices),
                "dollars_once": write_dollars(part, prices),
            }
            for index, part in sorted(tier.items())
        ],
    }
