"""Metrics: plain numbers on the hot path, turned into Prometheus samples when scraped.

Names and labels are those of the JMX exporter's example configuration for Kafka with lower-case
names (`kafka_network_requestmetrics_totaltimems{request="Produce",quantile="0.99"}`), so dashboards
made for Apache Kafka show ours; `catalogue` has them all. The times of requests come from
`request_metrics`. The values of all partitions or topics are a table, which `exposition` writes by
itself: for 5 000 partitions the library takes thirty times as long.

Mirrors `BrokerTopicMetrics` and the gauges of `SocketServer` and
`RequestChannel`. Leaves out the one/five/fifteen minute rates: Prometheus derives them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from .catalogue import CATALOGUE
from .durations import Durations
from .request_metrics import RequestMetrics, request_metrics

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

PHASES = ("requestqueue", "local", "remote", "throttle", "responsequeue", "responsesend")
CONVERTING_APIS = ("Produce", "Fetch")
QUANTILES = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)

# Attribute of the replica manager's TopicStats -> the JMX exporter's name.
_TOPIC_COUNTERS = {
    "messages_in": "messagesin",
    "bytes_in": "bytesin",
    "bytes_out": "bytesout",
    "failed_produce_requests": "failedproducerequests",
    "failed_fetch_requests": "failedfetchrequests",
    "produce_requests": "totalproducerequests",
    "fetch_requests": "totalfetchrequests",
    "invalid_record_batches": "invalidmessagecrcrecords",
    "produce_message_conversions": "producemessageconversions",
    "fetch_message_conversions": "fetchmessageconversions",
    "replication_bytes_in": "replicationbytesin",
    "replication_bytes_out": "replicationbytesout",
}
# The same, of a broker with tiered storage.
_TIER_COUNTERS = {
    "remote_fetch_bytes": "remotefetchbytes",
    "remote_fetch_requests": "remotefetchrequests",
    "failed_remote_fetch_requests": "remotefetcherrors",
    "remote_copy_bytes": "remotecopybytes",
    "remote_copy_requests": "remotecopyrequests",
    "failed_remote_copy_requests": "remotecopyerrors",
    "remote_delete_requests": "remotedeleterequests",
    "failed_remote_delete_requests": "remotedeleteerrors",
    "build_remote_aux_requests": "buildremotelogauxstaterequests",
    "failed_build_remote_aux_requests": "buildremotelogauxstateerrors",
}

Gauge = Callable[[], float]
Row = tuple[tuple[str, ...], Any]  # label values, and what the columns read
Column = Callable[[Any], float]


@dataclass(frozen=True, slots=True)
class Table:
    """Metrics of the same objects: a column each, with the objects as rows.

    Other work of the loop comes while `rows` is iterated.
    """

    labels: tuple[str, ...]
    rows: Callable[[], Iterable[Row]]
    columns: Mapping[str, Column]
    kind: str = "gauge"


GaugeFamily = Callable[[], Iterable[tuple[tuple[str, ...], float]]]


class BrokerMetrics:
    """All metrics of one broker. Rooms keep their own numbers and register gauges on them."""

    __slots__ = (
        "_durations", "_families", "_gauges", "_requests", "before_scrape", "tables", "topic_stats",
    )  # fmt: skip

    def __init__(self) -> None:
        # By topic, objects with the counters of _TOPIC_COUNTERS; set once replicas exist.
        self.topic_stats: Mapping[str, object] = {}
        self._requests: list[RequestMetrics] = []
        self._gauges: list[tuple[str, dict[str, str], Gauge]] = []
        self._families: list[tuple[str, tuple[str, ...], GaugeFamily]] = []
        self._durations: list[tuple[str, Durations]] = []
        self.tables: list[Table] = []
        # Collected from other parts before a scrape; none of it may take long.
        self.before_scrape: list[Callable[[], Awaitable[None]]] = []
        self._count_by_topic(_TOPIC_COUNTERS)

    def with_tier(self) -> None:
        """Export the counters of tiered storage, too."""
        self._count_by_topic(_TIER_COUNTERS)

    def _count_by_topic(self, counters: Mapping[str, str]) -> None:
        columns = {
            f"kafka_server_brokertopicmetrics_{suffix}_total": attrgetter(attribute)
            for attribute, suffix in counters.items()
        }
        self.table(("topic",), self._topics, columns, kind="counter")

    def request(self, name: str, version: int) -> RequestMetrics:
        metrics = request_metrics(name, version)
        self._requests += (metrics, *metrics.parts)
        return metrics

    def gauge(self, name: str, read: Gauge, **labels: str) -> None:
        """Export `read()`: as a counter if the name ends in `_total`, else as a gauge."""
        assert name in CATALOGUE, f"{name} is not in the catalogue of metrics"
        self._gauges.append((name, labels, read))

    def gauge_family(self, name: str, labels: tuple[str, ...], read: GaugeFamily) -> None:
        """Export (label values, value) of each pair that `read()` gives: the members change."""
        assert name in CATALOGUE, f"{name} is not in the catalogue of metrics"
        self._families.append((name, labels, read))

    def durations(self, name: str, read: Durations) -> None:
        """Export how often work was done, and how long it took, in milliseconds."""
        assert name in CATALOGUE, f"{name} is not in the catalogue of metrics"
        self._durations.append((name, read))

    def table(
        self,
        labels: tuple[str, ...],
        rows: Callable[[], Iterable[Row]],
        columns: Mapping[str, Column],
        *,
        kind: str = "gauge",
    ) -> None:
        """Export one metric a column, with a sample of each row."""
        assert all(name in CATALOGUE for name in columns), "not in the catalogue of metrics"
        self.tables.append(Table(labels, rows, columns, kind))

    # Export

    def _topics(self) -> Iterator[Row]:
        """The sum of all topics first, with an empty label."""
        topics = list(self.topic_stats.items())
        yield ("",), Sums([stats for _, stats in topics])
        for topic, stats in topics:
            yield (topic,), stats

    def collect(self) -> Iterator[Metric]:
        """prometheus_client's collector interface; without the tables.

        Numbers are read as their family is reached: other work may come in between.
        """
        yield from self._collect_requests()
        yield from self._collect_gauges()
        yield from self._collect_durations()

    def _collect_requests(self) -> Iterator[Metric]:
        from prometheus_client.core import CounterMetricFamily, Metric

        prefix = "kafka_network_requestmetrics_"
        requests = CounterMetricFamily(
            prefix + "requests", _help(prefix + "requests_total"), labels=["request", "version"]
        )
        errors = CounterMetricFamily(
            prefix + "errors", _help(prefix + "errors_total"), labels=["request", "error"]
        )
        by_api: dict[str, list[RequestMetrics]] = {}
        for metrics in self._requests:
            by_api.setdefault(metrics.name, []).append(metrics)
            requests.add_metric([metrics.name, str(metrics.version)], metrics.count)
            for error, count in metrics.error_counts.items():
                errors.add_metric([metrics.name, error], count)
        yield requests
        yield errors
        times = {
            phase: Metric(f"{prefix}{phase}timems", _help(f"{prefix}{phase}timems"), "summary")
            for phase in ("total", *PHASES)
        }
        for name, versions in by_api.items():
            _add_times(times, name, versions)
        yield from times.values()
        yield from _conversions(by_api)

    def _collect_durations(self) -> Iterator[Metric]:
        from prometheus_client.core import Metric

        for name, read in self._durations:
            family = Metric(name, _help(name), "summary")
            family.add_sample(name + "_count", {}, read.count)
            family.add_sample(name + "_sum", {}, 1000 * read.total_seconds)
            found = quantiles(read.samples, QUANTILES) if read.samples else []
            for quantile, value in zip(QUANTILES, found, strict=False):
                family.add_sample(name, {"quantile": _shown(quantile)}, 1000 * value)
            yield family

    def _collect_gauges(self) -> Iterator[Metric]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        def empty(name: str, labels: Iterable[str]) -> CounterMetricFamily | GaugeMetricFamily:
            kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
            return kind(name, CATALOGUE[name].help, labels=list(labels))

        gauges: dict[str, list[tuple[dict[str, str], Gauge]]] = {}
        for name, labels, read in self._gauges:
            gauges.setdefault(name, []).append((labels, read))
        for name, readers in gauges.items():
            family = empty(name, readers[0][0])
            for labels, read in readers:
                family.add_metric(list(labels.values()), read())
            yield family
        groups: dict[str, list[tuple[tuple[str, ...], GaugeFamily]]] = {}
        for name, names, read_all in self._families:
            groups.setdefault(name, []).append((names, read_all))
        for name, members in groups.items():
            family = empty(name, members[0][0])
            for _, read_all in members:
                for values, value in read_all():
                    family.add_metric(values, value)
            yield family


def _add_times(times: Mapping[str, Metric], name: str, versions: list[RequestMetrics]) -> None:
    """Count, sum and quantiles of one API over its versions."""
    labels = {"request": name}
    total = times["total"]
    total.add_sample(total.name + "_count", labels, sum(m.count for m in versions))
    total.add_sample(total.name + "_sum", labels, 1000 * sum(m.total_seconds for m in versions))
    samples = [sample for m in versions for sample in m.samples]
    if not samples:
        return
    columns = [[sum(sample) for sample in samples], *map(list, zip(*samples, strict=True))]
    for family, column in zip(times.values(), columns, strict=True):
        for quantile, value in zip(QUANTILES, quantiles(column, QUANTILES), strict=True):
            family.add_sample(family.name, {**labels, "quantile": _shown(quantile)}, 1000 * value)


def _conversions(by_api: Mapping[str, list[RequestMetrics]]) -> Iterator[Metric]:
    """Over all requests of the two APIs, those included that had nothing converted."""
    from prometheus_client.core import Metric

    prefix = "kafka_network_requestmetrics_"
    times, sizes = (
        Metric(prefix + name, _help(prefix + name), "summary")
        for name in ("messageconversionstimems", "temporarymemorybytes")
    )
    for name in CONVERTING_APIS:
        labels = {"request": name}
        versions = by_api.get(name, [])
        count = sum(m.count for m in versions)
        found = [m.conversions for m in versions]
        samples = [sample for one in found for sample in one.samples]
        # An answer may have been counted as converted, and its request not yet as answered.
        share = min(1.0, sum(one.count for one in found) / max(count, 1))
        for family, total, values in (
            (times, sum(one.total_seconds for one in found) * 1000, [1000 * s for s, _ in samples]),
            (sizes, sum(one.total_bytes for one in found), [size for _, size in samples]),
        ):
            family.add_sample(family.name + "_count", labels, count)
            family.add_sample(family.name + "_sum", labels, total)
            for quantile in QUANTILES:
                value = 0.0
                if quantile >= 1 - share and values:
                    (value,) = quantiles(values, [(quantile - (1 - share)) / share])
                family.add_sample(family.name, {**labels, "quantile": _shown(quantile)}, value)
    yield times
    yield sizes


class Sums:
    """The sums of several objects: each attribute is the sum of theirs."""

    __slots__ = ("_parts",)

    def __init__(self, parts: list[object]) -> None:
        self._parts = parts

    def __getattr__(self, name: str) -> int:
        return sum(map(attrgetter(name), self._parts))


def _help(name: str) -> str:
    return CATALOGUE[name].help


def _shown(quantile: float) -> str:
    return f"{quantile:.2f}" if quantile < 0.999 else "0.999"


def quantiles(values: Iterable[float], shares: Iterable[float]) -> list[float]:
    """The nearest-rank quantiles of `values`, which must not be empty."""
    ordered = sorted(values)
    last = len(ordered) - 1
    return [ordered[min(last, int(share * len(ordered)))] for share in shares]
