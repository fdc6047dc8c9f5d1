"""How flows of a mirror go: a live table for people, lines of JSON for programs, metrics."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import click
import trio

from .meter import RECENT
from .target import bytes_text

if TYPE_CHECKING:
    from prometheus_client.core import Metric
    from rich.table import Table as ShownTable

    from ..broker.observability.metrics import Table
    from ..client.mirror.stats import FlowStats

LOOK_SECONDS = 1.0
PREFIX = "kafka_connect_mirror_mirrorsourceconnector"
OURS = "pybroker_mirror"


class FlowRates:
    """Records and bytes a second of one flow, evened out; `now` is of a monotonic clock."""

    def __init__(self, stats: FlowStats, now: float) -> None:
        self.stats = stats
        self.records = self.bytes = 0.0
        self._at = now
        self._seen = (stats.records, stats.bytes)

    def look(self, now: float) -> None:
        elapsed = max(now - self._at, 1e-9)
        records, size = self.stats.records, self.stats.bytes
        before_records, before_size = self._seen
        self.records += RECENT * ((records - before_records) / elapsed - self.records)
        self.bytes += RECENT * ((size - before_size) / elapsed - self.bytes)
        self._at, self._seen = now, (records, size)

    def row(self) -> dict[str, object]:
        """The shown values of the flow; sizes in bytes, times in ms."""
        stats = self.stats
        ages = [one.age_ms for one in stats.partitions.values()]
        return {
            "flow": stats.name,
            "state": stats.state,
            "topics": stats.topics,
            "partitions": stats.partition_count,
            "records": stats.records,
            "bytes": stats.bytes,
            "records_per_second": round(self.records, 1),
            "bytes_per_second": round(self.bytes, 1),
            "lag": stats.lag,
            "newest_age_ms": min(ages, default=None),
            "checkpoints": stats.checkpoints,
            "restarts": stats.restarts,
            "trouble": stats.trouble,
        }


async def show_lines(flows: Sequence[FlowStats]) -> None:
    """Print a line of JSON for each flow, every second, until cancelled."""
    rates = [FlowRates(flow, time.monotonic()) for flow in flows]
    while True:
        await trio.sleep(LOOK_SECONDS)
        for each in rates:
            each.look(time.monotonic())
            click.echo(json.dumps(each.row()))


async def show_table(flows: Sequence[FlowStats]) -> None:
    """Show a table on a terminal, until cancelled."""
    from rich.live import Live

    rates = [FlowRates(flow, time.monotonic()) for flow in flows]
    with Live(flows_table(rates), auto_refresh=False, transient=True) as live:
        while True:
            await trio.sleep(LOOK_SECONDS)
            for each in rates:
                each.look(time.monotonic())
            live.update(flows_table(rates), refresh=True)


def flows_table(rates: Sequence[FlowRates]) -> ShownTable:
    """A line a flow."""
    from .options import table

    made = table("flow", "state", "topics", "records", "records/s", "MB/s", "lag", "copied")
    for each in rates:
        stats = each.stats
        made.add_row(
            stats.name,
            stats.state,
            f"{stats.topics:,}",
            f"{stats.records:,}",
            f"{each.records:,.0f}",
            f"{each.bytes / 1e6:,.2f}",
            f"{stats.lag:,}",
            bytes_text(stats.bytes),
        )
    return made


class MirrorMetrics:
    """Metrics for Prometheus: MirrorMaker 2's counters under the JMX exporter's names, and ours."""

    tables: tuple[Table, ...] = ()  # as a broker's metrics have them: here all is in `collect`
    before_scrape: tuple[Callable[[], Awaitable[None]], ...] = ()

    def __init__(self, flows: Sequence[FlowStats]) -> None:
        self._flows = flows

    def collect(self) -> Iterator[Metric]:
        """prometheus_client's collector interface."""
        yield from self._partitions()
        yield from self._ours()

    def _partitions(self) -> Iterator[Metric]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        labels = ["source", "target", "topic", "partition"]
        records = CounterMetricFamily(f"{PREFIX}_record_count", "Records copied.", labels=labels)
        sizes = CounterMetricFamily(
            f"{PREFIX}_byte_count", "Bytes copied, of batches as they are sent.", labels=labels
        )
        ages = GaugeMetricFamily(
            f"{PREFIX}_replication_latency_ms",
            "From the last record's timestamp to its arrival.",
            labels=labels,
        )
        for flow in self._flows:
            ends = [flow.source, flow.target]
            for (topic, partition), stats in flow.partitions.items():
                place = [*ends, topic, str(partition)]
                records.add_metric(place, stats.records)
                sizes.add_metric(place, stats.bytes)
                ages.add_metric(place, stats.age_ms)
        yield from (records, sizes, ages)

    def _ours(self) -> Iterator[Metric]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        counters = {
            "batches": "Batches copied.",
            "passed_batches": "Batches copied that were not unpacked.",
            "offset_syncs": "Pairs of offsets written.",
            "checkpoints": "Checkpoints written.",
            "heartbeats": "Heartbeats written.",
            "transactions": "Transactions committed at the target.",
            "restarts": "How often the flow began anew after trouble.",
        }
        gauges = {
            "lag": "Records of the source that are not copied, as of the last fetches.",
            "topics": "Topics that are copied.",
            "partition_count": "Partitions that are copied.",
            "checkpoint_ms": "How long the last round of checkpoints took; -1 before it.",
        }
        for name, words in counters.items():
            counter = CounterMetricFamily(f"{OURS}_{name}", words, labels=["flow"])
            for flow in self._flows:
                counter.add_metric([flow.name], getattr(flow, name))
            yield counter
        for name, words in gauges.items():
            gauge = GaugeMetricFamily(f"{OURS}_{name}", words, labels=["flow"])
            for flow in self._flows:
                gauge.add_metric([flow.name], getattr(flow, name))
            yield gauge
        running = GaugeMetricFamily(f"{OURS}_running", "1 while a flow copies.", labels=["flow"])
        for flow in self._flows:
            running.add_metric([flow.name], float(flow.state == "running"))
        yield running
