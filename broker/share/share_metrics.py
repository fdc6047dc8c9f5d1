"""Metrics of the leader's side of share groups, under Kafka's names.

Mirrors ShareGroupMetrics, SharePartitionMetrics, the metrics of ShareSessionCache and of
DelayedShareFetch, and the share part of BrokerTopicMetrics. Leaves out the histograms: a fetch is
one step here, without a lock to wait for or to hold (FetchLockTimeMs, FetchLockRatio,
TopicPartitionsAcquireTimeMs, RequestTopicPartitionsFetchRatio); and PartitionLoadTimeMs and
InFlightBatchMessageCount.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from typing import Final

from ..observability.metrics import BrokerMetrics, Sums
from .share_counts import KINDS
from .share_leader import Served, ShareLeader

_TOPIC_COLUMNS: Final = {
    "totalsharefetchrequests": "fetch_requests",
    "failedsharefetchrequests": "failed_fetch_requests",
    "totalshareacknowledgementrequests": "acknowledge_requests",
    "failedshareacknowledgementrequests": "failed_acknowledge_requests",
}


def register_share_metrics(metrics: BrokerMetrics, leader: ShareLeader) -> None:
    """Register the gauges and counters of the leader, its sessions and its share partitions."""
    counts, sessions = leader.counts, leader.sessions

    def by_kind() -> Iterator[tuple[tuple[str, ...], float]]:
        for kind, name in KINDS.items():
            yield (name,), counts.acknowledged_records[kind]

    def of_partitions(
        read: Callable[[Served], float],
    ) -> Callable[[], Iterable[tuple[tuple[str, ...], float]]]:
        def found() -> Iterator[tuple[tuple[str, ...], float]]:
            for (group_id, _, index), served in list(leader.served.items()):
                yield (group_id, served.topic, str(index)), read(served)

        return found

    def topics() -> Iterator[tuple[tuple[str, ...], object]]:
        yield ("",), Sums(list(counts.topics.values()))
        for topic, found in list(counts.topics.items()):
            yield (topic,), found

    metrics.table(
        ("topic",),
        topics,
        {
            f"kafka_server_brokertopicmetrics_{name}_total": attrgetter(attribute)
            for name, attribute in _TOPIC_COLUMNS.items()
        },
        kind="counter",
    )
    metrics.gauge_family(
        "kafka_server_sharegroupmetrics_recordacknowledgements_total", ("ackType",), by_kind
    )
    cache = "kafka_server_sharesessioncache_"
    metrics.gauge(cache + "sharesessionscount", lambda: len(sessions.sessions))
    metrics.gauge(cache + "sharepartitionscount", lambda: sessions.partition_count)
    metrics.gauge(cache + "sharesessionevictions_total", lambda: sessions.evictions)
    metrics.gauge(
        "kafka_server_delayedsharefetchmetrics_expires_total", lambda: counts.expired_fetches
    )
    labels = ("group", "topic", "partition")
    of_partition = "kafka_server_sharepartitionmetrics_"
    for name, read in (
        ("inflightmessagecount", lambda served: served.machine.in_flight_count),
        ("inflightbatchcount", lambda served: len(served.machine.batches)),
        ("acquisitionlocktimeout_total", lambda served: served.lock_timeouts),
    ):
        metrics.gauge_family(of_partition + name, labels, of_partitions(read))
    metrics.gauge(
        "kafka_server_delayedoperationpurgatory_purgatorysize",
        lambda: len(leader.waiting),
        delayedOperation="ShareFetch",
    )
