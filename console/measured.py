"""The values in the text of brokers' metrics ports; pure.

Only the lines that are wanted are parsed: a broker with thousands of partitions writes tens of
thousands of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

_TOPICS = "kafka_server_brokertopicmetrics_"
_REQUESTS = "kafka_network_requestmetrics_"
SEGMENTS: Final = "kafka_log_log_numlogsegments{"
SEGMENT_LINES_MAX: Final = 5000  # of all brokers: with more the rolls are not reported
LOG_END: Final = "kafka_log_log_logendoffset{"

# Exact names of the plotted metrics, and their names in the console.
TOTALS: Final = {
    _TOPICS + "bytesin_total": "bytes in",
    _TOPICS + "bytesout_total": "bytes out",
    _TOPICS + "messagesin_total": "records in",
    _REQUESTS + "requests_total": "requests",
}
GAUGES: Final = {
    "process_resident_memory_bytes": "memory",
    "kafka_server_replicamanager_underreplicatedpartitions": "under-replicated",
    "kafka_server_socketservermetrics_connection_count": "connections",
    "kafka_network_socketserver_networkprocessoravgidlepercent": "idle",
    "kafka_network_requestchannel_requestqueuesize": "request queue",
    "kafka_network_requestchannel_responsequeuesize": "response queue",
}
GROUP_LAG: Final = "kafka_consumergroup_lag_sum"  # of a group and a topic, from its coordinator
PURGATORY: Final = "kafka_server_delayedoperationpurgatory_purgatorysize"
STAGES: Final = {
    _REQUESTS + f"{name}timems": name
    for name in (
        "requestqueue", "local", "remote", "throttle", "responsequeue", "responsesend", "total",
    )
}  # fmt: skip
COUNTED_AS_FETCH: Final = ("FetchConsumer", "FetchFollower")  # each is a Fetch besides
QUANTILES: Final = {"0.50": "p50", "0.99": "p99"}
_WANTED: Final = tuple(
    name + end for name in (*TOTALS, *GAUGES, PURGATORY, GROUP_LAG, *STAGES) for end in ("{", " ")
)
PLOTTED: Final = (*_WANTED, SEGMENTS)  # the lines of which `measured` and `Rolls` make use


class Measured(NamedTuple):
    """The values of one broker: totals that grow, and gauges.

    `stages`: by API and stage the 50th and the 99th percentile in ms. `lags`: by group, records.
    """

    totals: Mapping[str, float]
    gauges: Mapping[str, float]
    purgatory: Mapping[str, float]
    stages: Mapping[str, Mapping[str, Mapping[str, float]]]
    lags: Mapping[str, float]


def measured(text: str) -> Measured:
    """Totals are sums over APIs and versions; metrics that also exist by topic are not counted
    twice.

    Raises ValueError for text that no broker writes.
    """
    totals: defaultdict[str, float] = defaultdict(float)
    gauges: dict[str, float] = {}
    purgatory: dict[str, float] = {}
    lags: defaultdict[str, float] = defaultdict(float)
    stages: defaultdict[str, defaultdict[str, dict[str, float]]] = defaultdict(
        lambda: defaultdict(dict)
    )
    for name, labels, value in _samples(text, _WANTED):
        if labels.get("request") in COUNTED_AS_FETCH:
            continue
        if name in TOTALS and not labels.get("topic"):
            totals[TOTALS[name]] += value
        elif name in GAUGES:
            gauges[GAUGES[name]] = value
        elif name == PURGATORY:
            purgatory[labels["delayedOperation"]] = value
        elif name == GROUP_LAG:
            lags[labels["consumergroup"]] += value
        elif name in STAGES and labels.get("quantile") in QUANTILES:
            quantile = QUANTILES[labels["quantile"]]
            stages[labels["request"]][STAGES[name]][quantile] = value
    return Measured(totals, gauges, purgatory, stages, lags)


def log_ends(text: str, topic: str) -> dict[int, int]:
    """The end offsets of the broker's replicas of a topic, by partition."""
    return {
        int(labels["partition"]): int(value)
        for _, labels, value in _samples(text, (LOG_END,))
        if labels["topic"] == topic
    }


class Rolls:
    """The logs that have begun another segment between two looks; only new lines are parsed."""

    def __init__(self) -> None:
        self._before: dict[int, frozenset[str]] = {}

    def look(self, texts: Mapping[int, str]) -> dict[int, list[str]]:
        """By broker, the partitions whose log has more segments than at the last look."""
        lines = {
            broker: frozenset(line for line in text.splitlines() if line.startswith(SEGMENTS))
            for broker, text in texts.items()
        }
        if sum(map(len, lines.values())) > SEGMENT_LINES_MAX:
            self._before = {}
            return {}
        found = {}
        for broker, now in lines.items():
            before = self._before.get(broker)
            if before is None:
                continue
            counts = _segments(before - now)
            after = _segments(now - before)
            grown = [place for place, count in after.items() if count > counts.get(place, 1)]
            if grown:
                found[broker] = sorted(grown)
        self._before = lines
        return found


def _segments(lines: Iterable[str]) -> dict[str, float]:
    return {
        f"{labels['topic']}-{labels['partition']}": value
        for _, labels, value in _samples("\n".join(lines), (SEGMENTS,))
    }


def _samples(text: str, wanted: tuple[str, ...]) -> Iterator[tuple[str, Mapping[str, str], float]]:
    # The first page has no metrics yet, and does not wait for the import.
    from prometheus_client.parser import text_string_to_metric_families

    lines: Iterable[str] = (line for line in text.splitlines() if line.startswith(wanted))
    for family in text_string_to_metric_families("\n".join(lines) + "\n"):
        for sample in family.samples:
            yield sample.name, sample.labels, sample.value
