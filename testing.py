"""Kafka in a test: `KafkaCluster`, and the fixtures of the pytest plugin; docs/TESTING.md shows it.

KafkaCluster       a cluster in a temporary directory, ready in a fraction of a second
AsyncKafkaCluster  its methods as coroutines, under asyncio and trio
Command            a `pybroker` command in a process of its own, started in a moment, too
KafkaRecord        what `KafkaCluster.records` returns
Snapshot           what `KafkaCluster.snapshot` returns
ClusterError       no cluster can be started, or it is not as asked for; the message says more
Fault              something that was done to a cluster, and its undoing
Network            a network between servers of your own, for faults like those of a cluster's
NetworkFaults      `KafkaCluster.network`
RequestFaults      `KafkaCluster.requests`: requests that are failed, dropped or delayed
RequestFault       one of them
KafkaContainer     a cluster with the methods of testcontainers' class, without Docker
RedpandaContainer  the same
"""

from .local.cluster_state import ClusterError
from .testkit.cleaning import Snapshot
from .testkit.cluster import KafkaCluster
from .testkit.commands import Command
from .testkit.containers import KafkaContainer, RedpandaContainer
from .testkit.coroutines import AsyncKafkaCluster
from .testkit.faults import Fault
from .testkit.network import Network, NetworkFaults
from .testkit.records import KafkaRecord
from .testkit.request_faults import RequestFault, RequestFaults

__all__ = [
    "AsyncKafkaCluster",
    "ClusterError",
    "Command",
    "Fault",
    "KafkaCluster",
    "KafkaContainer",
    "KafkaRecord",
    "Network",
    "NetworkFaults",
    "RedpandaContainer",
    "RequestFault",
    "RequestFaults",
    "Snapshot",
]
