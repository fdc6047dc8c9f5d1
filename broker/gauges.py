"""The broker's gauges under the JMX exporter's names; the rooms add their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import TypeVar

from ..replication.fetch_session import FetchSessions
from ..replication.partition import Partition
from ..replication.producers import partitions_with_late_transactions
from ..replication.replica_manager import ReplicaManager
from .cluster.zookeeper_client import ZooKeeperClient
from .coordinators.transaction_verifier import TransactionVerifier
from .observability.metrics import BrokerMetrics
from .quotas.client_quotas import ClientQuotas
from .quotas.limits import Limits, Meter, Metered
from .quotas.rates import LimitedRate, TokenBucket

# Clients choose their names, and so how many there are.
MAX_QUOTAS_SHOWN = 500

M = TypeVar("M", bound=Meter)


def register_gauges(
    metrics: BrokerMetrics, manager: ReplicaManager, zookeeper: ZooKeeperClient
) -> None:
    """What the replica manager and the ZooKeeper session are asked for when metrics are read."""
    gauge = metrics.gauge
    replicas = "kafka_server_replicamanager_"
    gauge(replicas + "partitioncount", lambda: len(manager.partitions))
    gauge(replicas + "leadercount", lambda: len(_led(manager)))
    gauge(replicas + "offlinereplicacount", lambda: len(manager.hosted.offline))
    gauge(
        replicas + "underreplicatedpartitions",
        lambda: sum(p.is_under_replicated for p in _led(manager)),
    )
    gauge(
        replicas + "underminisrpartitioncount",
        lambda: sum(p.is_under_min_isr for p in _led(manager)),
    )
    changes = manager.isr_changes
    gauge(replicas + "isrexpands_total", lambda: changes.expands)
    gauge(replicas + "isrshrinks_total", lambda: changes.shrinks)
    gauge(replicas + "failedisrupdates_total", lambda: changes.failed)
    for name, purgatory in (
        ("Produce", manager.waiting.produces),
        ("Fetch", manager.waiting.fetches),
        ("DeleteRecords", manager.waiting.deletes),
    ):
        gauge(
            "kafka_server_delayedoperationpurgatory_purgatorysize",
            purgatory.__len__,
            delayedoperation=name,
        )
    gauge(
        "kafka_server_delayedproducemetrics_expires_total",
        lambda: manager.waiting.produces.expired_count,
    )
    gauge("kafka_log_log_size", lambda: sum(p.log.size_bytes for p in manager.partitions.values()))
    directories = manager.log_manager.directories
    gauge(
        "kafka_log_logmanager_offlinelogdirectorycount",
        lambda: sum(not directory.is_online for directory in directories),
    )
    metrics.gauge_family(
        "kafka_log_logmanager_logdirectoryoffline",
        ("logdirectory",),
        lambda: (((directory.path,), not directory.is_online) for directory in directories),
    )
    gauge(
        "kafka_server_sessionexpirelistener_zookeeperexpires_total",
        lambda: zookeeper.session_generation,
    )


def register_quota_gauges(
    metrics: BrokerMetrics, quotas: ClientQuotas, now_ms: Callable[[], float]
) -> None:
    """What each user and client id with a quota takes, and how long it has to wait."""

    def family(kind: str, name: str, limits: Limits[M], read: Callable[[M, float], float]) -> None:
        labels = ("user", "client_id")

        def shown() -> Iterator[tuple[tuple[str, str], Metered[M], float]]:
            for metered in islice(limits, MAX_QUOTAS_SHOWN):
                yield metered.entity, metered, now_ms()

        metrics.gauge_family(
            f"kafka_server_{kind}_{name}",
            labels,
            lambda: ((who, read(metered.meter, now)) for who, metered, now in shown()),
        )
        metrics.gauge_family(
            f"kafka_server_{kind}_throttle_time",
            labels,
            lambda: ((who, metered.average_wait_ms(now)) for who, metered, now in shown()),
        )

    family("produce", "byte_rate", quotas.produce, LimitedRate.measure)
    family("fetch", "byte_rate", quotas.fetch, LimitedRate.measure)
    family("request", "request_time", quotas.request, LimitedRate.measure)
    family("controllermutation", "tokens", quotas.mutation, TokenBucket.tokens)


def register_session_gauges(metrics: BrokerMetrics, sessions: FetchSessions) -> None:
    cache = "kafka_server_fetchsessioncache_"
    metrics.gauge(cache + "numincrementalfetchsessions", sessions.__len__)
    metrics.gauge(cache + "numincrementalfetchpartitionscached", lambda: sessions.partition_count)
    metrics.gauge(cache + "incrementalfetchsessionevictions_total", lambda: sessions.eviction_count)


def _led(manager: ReplicaManager) -> list[Partition]:
    return [partition for partition in manager.partitions.values() if partition.is_leader]


def register_transaction_gauges(
    metrics: BrokerMetrics,
    manager: ReplicaManager,
    verifier: TransactionVerifier,
    clock: Callable[[], int],
    max_timeout_ms: int,
) -> None:
    """`max_timeout_ms`: transaction.max.timeout.ms; what is open for longer hangs."""
    metrics.gauge(
        "kafka_server_replicamanager_partitionswithlatetransactionscount",
        lambda: partitions_with_late_transactions(manager.hosted, clock(), max_timeout_ms),
    )
    metrics.gauge(
        "kafka_server_addpartitionstotxnmanager_verificationfailures_total",
        lambda: verifier.failure_count,
    )
