"""A broker that leads 100, or 5 000, partitions is killed: when the other replica leads them.

Two brokers, two replicas of each partition, all led by the one that is not the controller. The
clock runs from SIGKILL; the other broker is asked again and again to take a record, for the first,
the middle and the last partition. Sessions in ZooKeeper have each broker's default timeout.
"""

from __future__ import annotations

import os
import signal
import time

from benchmarks.frames import create_assigned_topic, first_acknowledged_by, nodes_of
from benchmarks.loads.base import Bench, Figure, Figures, Load

BROKERS = 2
PARTITIONS = (100, 5000)
TOPIC = "failover"
LIMIT_SECONDS = 120.0


def _load(partitions: int) -> Load:
    def run(bench: Bench) -> Figures:
        cluster = bench.new_cluster(BROKERS)
        cluster.start()
        addresses, controller = nodes_of(cluster.bootstrap, BROKERS)
        victim = next(node for node in addresses if node != controller)
        create_assigned_topic(cluster.bootstrap, TOPIC, partitions, [victim, controller])
        pids = dict(zip(cluster.addresses, cluster.broker_pids, strict=True))
        probes = [0, partitions // 2, partitions - 1]
        began = time.monotonic()
        os.kill(pids[addresses[victim]], signal.SIGKILL)
        led = first_acknowledged_by(addresses[controller], TOPIC, probes, limit=LIMIT_SECONDS)
        return {"first led s": min(led) - began, "last led s": max(led) - began}

    return Load(
        name=f"failover-{partitions}",
        family="failover",
        figures=(Figure("first led s"), Figure("last led s")),
        run=run,
        nodes=0,
        most_rounds=1 if partitions >= 1000 else 2,
        about_seconds=150.0 if partitions >= 1000 else 15.0,
    )


LOADS = [_load(partitions) for partitions in PARTITIONS]
