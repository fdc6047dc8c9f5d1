"""What the project promises, and whether a run kept it.

A target is a ratio of medians, ours to Apache Kafka's in the same run; the two about flatness are
ratios within ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.results import Results

OURS, KAFKA = "pybroker", "kafka"


@dataclass(slots=True, frozen=True)
class Verdict:
    ratio: float | None
    met: bool | None  # None: not measured


@dataclass(slots=True, frozen=True)
class Target:
    """`load`'s `figure`, ours to Kafka's, must be at least or at most `limit`."""

    title: str
    load: str
    figure: str
    limit: float
    at_least: bool

    @property
    def demand(self) -> str:
        return f"{'at least' if self.at_least else 'at most'} {self.limit:g}"

    def judge(self, results: Results) -> Verdict:
        ratio = results.ratio(self.load, self.figure, OURS, KAFKA)
        return Verdict(ratio, None if ratio is None else self._is_met(ratio))

    def _is_met(self, ratio: float) -> bool:
        return ratio >= self.limit if self.at_least else ratio <= self.limit


@dataclass(slots=True, frozen=True)
class Flat:
    """The largest of our medians over `loads`, to the one of the first, is at most `limit`."""

    title: str
    loads: Sequence[str]
    figure: str
    limit: float

    at_least = False

    @property
    def load(self) -> str:
        return self.loads[-1]

    @property
    def demand(self) -> str:
        return f"at most {self.limit:g}, within ours"

    def judge(self, results: Results) -> Verdict:
        found = [results.summary(load, OURS, self.figure) for load in self.loads]
        medians = [summary.median for summary in found if summary is not None]
        if len(medians) < len(self.loads) or not medians[0]:
            return Verdict(None, None)
        ratio = max(medians) / medians[0]
        return Verdict(ratio, ratio <= self.limit)


TARGETS: Sequence[Target | Flat] = (
    Target("small produce 1x1, requests/s", "small-1x1", "requests/s", 1.0, at_least=True),
    Target("small produce 8x1, requests/s", "small-8x1", "requests/s", 1.2, at_least=True),
    Target("small produce 64x5, requests/s", "small-64x5", "requests/s", 1.3, at_least=True),
    Target("bulk produce, MB/s", "bulk-none", "produce MB/s", 1.5, at_least=True),
    Target("bulk consume, warm, MB/s", "bulk-none", "consume MB/s", 1.0, at_least=True),
    Target("small produce over TLS 1x1", "tls-1x1", "requests/s", 1.0, at_least=True),
    Target("small produce over TLS 8x1", "tls-8x1", "requests/s", 1.2, at_least=True),
    Target("small produce over TLS 64x5", "tls-64x5", "requests/s", 1.3, at_least=True),
    Target("bulk produce over TLS, MB/s", "tls-bulk", "produce MB/s", 1.3, at_least=True),
    Target("bulk consume over TLS, MB/s", "tls-bulk", "consume MB/s", 1.3, at_least=True),
    Target("produce to consume at 2 000/s, p99", "latency", "p99 ms", 0.5, at_least=False),
    Target("three brokers, acks=all, bulk MB/s", "three-bulk", "produce MB/s", 2.0, at_least=True),
    Target("command to first record, one broker", "start-1", "seconds", 0.35, at_least=False),
    Target("command to first record, three brokers", "start-3", "seconds", 0.3, at_least=False),
    Target("memory idle", "memory", "idle MB, all", 0.2, at_least=False),
    Target("memory loaded", "memory", "loaded MB, all", 0.15, at_least=False),
    Flat(
        "broker CPU a request, 1 to 1 000 partitions",
        ("partitions-1", "partitions-100", "partitions-1000"),
        "broker CPU us/request",
        1.25,
    ),
    Flat(
        "broker CPU a request, 1 to 1 000 idle connections",
        ("connections-1", "connections-100", "connections-1000"),
        "broker CPU us/request",
        1.25,
    ),
    Target("start-up with 5 000 partitions", "restart-5000", "start-up s", 2.0, at_least=False),
)
