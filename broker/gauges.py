"""The broker's gauges under the JMX exporter's names; the reactor and the rooms add their own."""

from __future__ import annotations

from broker.metrics import BrokerMetrics
from broker.zookeeper_client import ZooKeeperClient
from replication.partition import Partition
from replication.replica_manager import ReplicaManager


def register_gauges(
    metrics: BrokerMetrics, manager: ReplicaManager, zookeeper: ZooKeeperClient
) -> None:
    gauge = metrics.gauge
    replicas = "kafka_server_replicamanager_"
    gauge(replicas + "partitioncount", lambda: len(manager.partitions))
    gauge(replicas + "leadercount", lambda: len(_led(manager)))
    gauge(replicas + "offlinereplicacount", lambda: len(manager.offline))
    gauge(
        replicas + "underreplicatedpartitions",
        lambda: sum(len(p.isr.committed) < len(p.remotes) + 1 for p in _led(manager)),
    )
    gauge(
        replicas + "underminisrpartitioncount",
        lambda: sum(len(p.isr.committed) < p.effective_min_isr for p in _led(manager)),
    )
    for name, purgatory in (
        ("Produce", manager.produces),
        ("Fetch", manager.fetches),
        ("DeleteRecords", manager.deletes),
    ):
        gauge(
            "kafka_server_delayedoperationpurgatory_purgatorysize",
            purgatory.__len__,
            delayedoperation=name,
        )
    gauge("kafka_log_log_size", lambda: sum(p.log.size_bytes for p in manager.partitions.values()))
    gauge(
        "kafka_server_sessionexpirelistener_zookeeperexpires_total",
        lambda: zookeeper.session_generation,
    )


def _led(manager: ReplicaManager) -> list[Partition]:
    return [partition for partition in manager.partitions.values() if partition.is_leader]
