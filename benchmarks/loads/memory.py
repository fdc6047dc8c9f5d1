"""Memory and CPU of a broker that has nothing to do, and its memory after work.

The work is small requests over 64 connections, then bulk produce and consume. Memory is the
proportional share (PSS) unless it says RSS; `all` counts ZooKeeper and a supervisor too.
"""

from __future__ import annotations

import time

from benchmarks.loads import bulk, small_produce
from benchmarks.loads.base import Bench, BrokerCpu, Figure, Figures, Load
from benchmarks.machine import memory

# What still follows on the start is not idle.
SETTLE_SECONDS = 3.0


def run(bench: Bench) -> Figures:
    cluster = bench.new_cluster(1)
    cluster.start()
    time.sleep(SETTLE_SECONDS)
    cpu = BrokerCpu(cluster)
    seconds = 2 * bench.pace.seconds
    time.sleep(seconds)
    idle_cpu = cpu.spent() / seconds * 100
    idle, idle_all = memory(cluster.broker_pids), memory(cluster.all_pids)
    inner = Bench(bench.pace, bench.new_cluster, cluster)
    small_produce.produce(inner, 64, 5)
    bulk.produce_and_consume(inner, "none", bench.pace.records())
    loaded, loaded_all = memory(cluster.broker_pids), memory(cluster.all_pids)
    return {
        "idle MB": idle.pss_mb,
        "idle MB, all": idle_all.pss_mb,
        "idle MB, RSS": idle.rss_mb,
        "idle CPU % of a core": idle_cpu,
        "loaded MB": loaded.pss_mb,
        "loaded MB, all": loaded_all.pss_mb,
        "loaded MB, RSS": loaded.rss_mb,
    }


LOADS = [
    Load(
        name="memory",
        family="memory",
        figures=(
            Figure("idle MB"),
            Figure("idle MB, all"),
            Figure("idle MB, RSS"),
            Figure("idle CPU % of a core"),
            Figure("loaded MB"),
            Figure("loaded MB, all"),
            Figure("loaded MB, RSS"),
        ),
        run=run,
        nodes=0,
        most_rounds=1,
    )
]
