"""What the project promises, and whether a run kept it.

A target is a ratio of medians in one run, ours to Apache Kafka's unless it says to whose; those
about flatness are ratios within ours, a bound is a figure of ours alone, and clients are compared
by their CPU time a record at our broker.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.results import Results

OURS, KAFKA, BATCH_ONLY, YARDSTICK = "pybroker", "kafka", "pybroker-batch", "c-server"


@dataclass(slots=True, frozen=True)
class Verdict:
    ratio: float | None
    met: bool | None  # None: not measured


@dataclass(slots=True, frozen=True)
class Target:
    """`load`'s `figure`, ours to that of the broker `beside`, is at least or at most `limit`."""

    title: str
    load: str
    figure: str
    limit: float
    at_least: bool
    beside: str = KAFKA

    @property
    def demand(self) -> str:
        beside = "" if self.beside == KAFKA else f", beside {self.beside}"
        return f"{'at least' if self.at_least else 'at most'} {self.limit:g}{beside}"

    def judge(self, results: Results) -> Verdict:
        ratio = results.ratio(self.load, self.figure, OURS, self.beside)
        return Verdict(ratio, None if ratio is None else self._is_met(ratio))

    def _is_met(self, ratio: float) -> bool:
        return ratio >= self.limit if self.at_least else ratio <= self.limit


@dataclass(slots=True, frozen=True)
class Bound:
    """Our median itself is at most `limit`."""

    title: str
    load: str
    figure: str
    limit: float

    at_least = False
    beside = KAFKA

    @property
    def demand(self) -> str:
        return f"{self.figure} of ours at most {self.limit:g}"

    def judge(self, results: Results) -> Verdict:
        found = results.summary(self.load, OURS, self.figure)
        if found is None:
            return Verdict(None, None)
        ratio = results.ratio(self.load, self.figure, OURS, KAFKA)
        return Verdict(ratio, found.median <= self.limit)


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


@dataclass(slots=True, frozen=True)
class Client:
    """Our client's CPU a record, in a load that runs it beside others: theirs, of the best of
    `beside`, is at least `limit` times as much. `client` is ours, as the load calls it."""

    title: str
    load: str
    beside: Sequence[str]
    limit: float
    client: str = OURS

    at_least = True

    @property
    def figure(self) -> str:
        return client_figure(self.client)

    @property
    def demand(self) -> str:
        return f"at least {self.limit:g}, {' or '.join(self.beside)} to ours"

    def sides(self, results: Results) -> tuple[float | None, float | None]:
        """Ours and the best of theirs, CPU microseconds a record."""
        found = [
            results.summary(self.load, OURS, client_figure(one))
            for one in (self.client, *self.beside)
        ]
        medians = [None if one is None else one.median for one in found]
        return medians[0], min((one for one in medians[1:] if one is not None), default=None)

    def judge(self, results: Results) -> Verdict:
        ours, theirs = self.sides(results)
        if not ours or theirs is None:
            return Verdict(None, None)
        return Verdict(theirs / ours, theirs / ours >= self.limit)


def client_figure(client: str) -> str:
    """What a load of clients calls the CPU time of one of them."""
    return f"{client} CPU us a record"


def _clients(load: str) -> list[Client]:
    """Our client, in one of the loads that run Python's clients."""
    what = load.removeprefix("clients-").replace("-", ", ").removesuffix("b") + " B"
    python = ("aiokafka", "kafka-python")
    rows = [
        Client(f"client: {what}", load, python, 3.0),
        Client(f"client: {what}, pure Python", load, python, 1.5, "pybroker-pure"),
    ]
    if load.startswith("clients-produce"):
        return [
            *rows,
            Client(f"client: {what}, beside librdkafka", load, ("confluent-kafka",), 1.0),
        ]
    one_by_one, lists = ("confluent-kafka-poll",), ("confluent-kafka",)
    return [
        *rows,
        Client(f"client: {what}, one by one, beside librdkafka", load, one_by_one, 1.0),
        Client(
            f"client: {what}, in lists, beside librdkafka", load, lists, 1.0, "pybroker-records"
        ),
    ]


def _more(title: str, load: str, figure: str, limit: float, beside: str = KAFKA) -> Target:
    return Target(title, load, figure, limit, at_least=True, beside=beside)


def _less(title: str, load: str, figure: str, limit: float, beside: str = KAFKA) -> Target:
    return Target(title, load, figure, limit, at_least=False, beside=beside)


_REQUESTS, _COMMITS, _PRODUCE, _CONSUME = "requests/s", "commits/s", "produce MB/s", "consume MB/s"
_CPU = "broker CPU us/request"

TARGETS: Sequence[Target | Bound | Flat | Client] = (
    _more("small produce 1x1, requests/s", "small-1x1", _REQUESTS, 1.1),
    _more("small produce 8x1, requests/s", "small-8x1", _REQUESTS, 1.2),
    _more("small produce 64x5, requests/s", "small-64x5", _REQUESTS, 1.5),
    _less("small produce 64x5, broker CPU", "small-64x5", _CPU, 2.0, YARDSTICK),
    _more("small fetch 1x1, requests/s", "fetch-1x1", _REQUESTS, 1.2),
    _more("small fetch 64x5, requests/s", "fetch-64x5", _REQUESTS, 1.2),
    _more("offset commits, 8 groups, 8x1", "offset-commits", _COMMITS, 1.2),
    _more("offset commits, 16 groups, 16x4", "offset-commits-16x4", _COMMITS, 1.2),
    _more("offset commits, one group, 8x1", "offset-commits-one-group", _COMMITS, 1.2),
    _more("offset commits, one group, 16x4", "offset-commits-one-group-16x4", _COMMITS, 1.2),
    _more("bulk produce, 1 KiB, MB/s", "bulk-none", _PRODUCE, 1.5),
    _more("bulk produce, 100 B, MB/s", "bulk-100-bytes", _PRODUCE, 1.2),
    _more("bulk produce, lz4, MB/s", "bulk-lz4", _PRODUCE, 1.2),
    _more("bulk produce, zstd, MB/s", "bulk-zstd", _PRODUCE, 1.2),
    _more("packed beforehand, lz4, MB/s", "packed-lz4", _PRODUCE, 1.2),
    _more("packed beforehand, zstd, MB/s", "packed-zstd", _PRODUCE, 1.2),
    _more("all records checked, 1 KiB, MB/s", "bulk-none", _PRODUCE, 0.95, BATCH_ONLY),
    _more("all records checked, 100 B, MB/s", "bulk-100-bytes", _PRODUCE, 0.85, BATCH_ONLY),
    _more("bulk consume, warm, MB/s", "bulk-none", _CONSUME, 1.3),
    _more("bulk consume, cold from disk, MB/s", "cold-consume", _CONSUME, 1.0),
    _more("small produce over TLS 1x1", "tls-1x1", _REQUESTS, 1.0),
    _more("small produce over TLS 8x1", "tls-8x1", _REQUESTS, 1.2),
    _more("small produce over TLS 64x5", "tls-64x5", _REQUESTS, 1.3),
    _more("bulk produce over TLS, MB/s", "tls-bulk", _PRODUCE, 1.3),
    _more("bulk consume over TLS, MB/s", "tls-bulk", _CONSUME, 1.3),
    _less("produce to consume at 2 000/s, p99", "latency", "p99 ms", 0.2),
    _less("produce to consume at 20 000/s, p99", "latency-20000", "p99 ms", 0.5),
    _more("three brokers, acks=all, bulk MB/s", "three-bulk", _PRODUCE, 4.0),
    Bound("three brokers, 5 000 requests/s, p99", "three-latency-5000", "p99 ms", 10.0),
    _more("transactions/s, one producer", "transactions-1", "transactions/s", 1.2),
    _more("transactions/s, eight producers", "transactions-8", "transactions/s", 1.2),
    _less("a group of 1 000 rebalances, ms", "groups-1000", "rebalance ms", 0.5),
    _less("failover of 5 000 partitions, first led", "failover-5000", "first led s", 0.3),
    _less("failover of 5 000 partitions, last led", "failover-5000", "last led s", 0.3),
    _less("command to first record, one broker", "start-1", "seconds", 0.35),
    _less("command to first record, three brokers", "start-3", "seconds", 0.3),
    _less("memory idle", "memory", "idle MB, all", 0.2),
    _less("memory loaded", "memory", "loaded MB, all", 0.15),
    Flat(
        "broker CPU a request, 1 to 1 000 partitions",
        ("partitions-1", "partitions-100", "partitions-1000"),
        _CPU,
        1.25,
    ),
    Flat(
        "broker CPU a request, 1 to 1 000 idle connections",
        ("connections-1", "connections-100", "connections-1000"),
        _CPU,
        1.25,
    ),
    _less("start-up with 5 000 partitions", "restart-5000", "start-up s", 2.0),
    *_clients("clients-produce-100b"),
    *_clients("clients-produce-1024b"),
    *_clients("clients-consume-100b"),
    *_clients("clients-consume-1024b"),
)
