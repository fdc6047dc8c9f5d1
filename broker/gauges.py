"""The broker's gauges under the JMX exporter's names; the rooms add their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import TypeVar

from ..replication.fetch_session import FetchSessions
from ..replication.partition import Partition
from ..replication.producers import partitions_with_late_transactions
from ..replication.replica_manager import ReplicaManager
from .coordinators.transaction_verifier import TransactionVerifier
from .observability.metrics import BrokerMetrics
from .quotas.client_quotas import ClientQuotas
from .quotas.limits import Limits, Meter, Metered
from .quotas.rates import LimitedRate, TokenBucket
from .zk.zookeeper_client import ZooKeeperClient

# Clients choose their names, and so how many there are.
MAX_QUOTAS_SHOWN = 500

M = TypeVar("M", bound=Meter)


def register_gauges(
    metrics: BrokerMetrics, manager: ReplicaManager, zookeeper: ZooKeeperClient
) -> None:
    """Register the gauges that read the replica manager and the ZooKeeper session."""
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
    gauge(replicas + "atminisrpartitioncount", lambda: sum(map(_is_at_min_isr, _led(manager))))
    gauge(
        replicas + "reassigningpartitions",
        lambda: sum(bool(p.adding_replicas or p.removing_replicas) for p in _led(manager)),
    )
    gauge(
        replicas + "produceridcount",
        lambda: sum(len(p.log.producers.known.entries) for p in manager.partitions.values()),
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
            delayedOperation=name,
        )
    gauge(
        "kafka_server_delayedproducemetrics_expires_total",
        lambda: manager.waiting.produces.expired_count,
    )
    register_partitions(metrics, manager)
    directories = manager.log_manager.directories
    gauge(
        "kafka_log_logmanager_offlinelogdirectorycount",
        lambda: sum(not directory.is_online for directory in directories),
    )
    metrics.gauge_family(
        "kafka_log_logmanager_logdirectoryoffline",
        ("logDirectory",),
        lambda: (((directory.path,), not directory.is_online) for directory in directories),
    )
    gauge(
        "kafka_server_sessionexpirelistener_zookeeperexpires_total",
        lambda: zookeeper.session_generation,
    )


def register_partitions(metrics: BrokerMetrics, manager: ReplicaManager) -> None:
    """Register the gauges of each replica: thousands of samples, so nothing here may take long."""
    log, partition = "kafka_log_log_", "kafka_cluster_partition_"
    metrics.table(
        ("topic", "partition"),
        lambda: (((p.topic, str(p.partition)), p) for p in list(manager.partitions.values())),
        {
            log + "size": lambda p: p.log.size_bytes,
            log + "logstartoffset": lambda p: p.log.log_start_offset,
            log + "logendoffset": lambda p: p.log.log_end_offset,
            log + "numlogsegments": lambda p: len(p.log.segments),
            partition + "underreplicated": lambda p: int(p.is_under_replicated),
            partition + "underminisr": lambda p: int(p.is_under_min_isr),
            partition + "atminisr": lambda p: int(_is_at_min_isr(p)),
            partition + "replicascount": lambda p: len(p.replicas) if p.is_leader else 0,
            partition + "insyncreplicascount": lambda p: len(p.isr.committed) if p.is_leader else 0,
            partition + "laststableoffsetlag": lambda p: (
                p.log.high_watermark - p.log.last_stable_offset
            ),
        },
    )


def _is_at_min_isr(partition: Partition) -> bool:
    return partition.is_leader and len(partition.isr.committed) == partition.effective_min_isr


def register_quota_gauges(
    metrics: BrokerMetrics, quotas: ClientQuotas, now_ms: Callable[[], float]
) -> None:
    """Register the usage and the throttle time of each user and client id with a quota."""

    def family(kind: str, name: str, limits: Limits[M], read: Callable[[M, float], float]) -> None:
        labels = ("resource", "user", "clientId")

        def shown() -> Iterator[tuple[tuple[str, str, str], Metered[M], float]]:
            for metered in islice(limits, MAX_QUOTAS_SHOWN):
                yield (kind, *metered.entity), metered, now_ms()

        metrics.gauge_family(
            f"kafka_server_quota_{name}",
            labels,
            lambda: ((who, read(metered.meter, now)) for who, metered, now in shown()),
        )
        metrics.gauge_family(
            "kafka_server_quota_throttle_time",
            labels,
            lambda: ((who, metered.average_wait_ms(now)) for who, metered, now in shown()),
        )

    family("Produce", "byte_rate", quotas.produce, LimitedRate.measure)
    family("Fetch", "byte_rate", quotas.fetch, LimitedRate.measure)
    family("Request", "request_time", quotas.request, LimitedRate.measure)
    metrics.gauge(
        "kafka_server_request_exempt_request_time", lambda: quotas.exempt.measure(now_ms())
    )
    family("ControllerMutation", "tokens", quotas.mutation, TokenBucket.tokens)


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
    """`max_timeout_ms`: transaction.max.timeout.ms; a transaction that is open for longer hangs."""
    metrics.gauge(
        "kafka_server_replicamanager_partitionswithlatetransactionscount",
        lambda: partitions_with_late_transactions(manager.hosted, clock(), max_timeout_ms),
    )
    metrics.gauge(
        "kafka_server_addpartitionstotxnmanager_verificationfailurerate_count",
        lambda: verifier.failure_count,
    )
