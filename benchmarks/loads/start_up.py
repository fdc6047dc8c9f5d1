"""From the command to the first acknowledged record: a new cluster of one broker and of three.

The clock runs from the first command, so ZooKeeper counts for both. A client asks from then on, as
one that is started together with the cluster; the record goes to a new topic on all brokers, with
acks=all.
"""

from __future__ import annotations

import time

from benchmarks.frames import first_acknowledged
from benchmarks.loads.base import Bench, Figure, Figures, Load
from benchmarks.machine import cpu_seconds

LIMIT_SECONDS = 120.0


def _load(brokers: int) -> Load:
    def run(bench: Bench) -> Figures:
        cluster = bench.new_cluster(brokers)
        began = time.monotonic()
        cluster.launch()
        first_acknowledged(cluster.addresses, "first", [0], acks=-1, limit=LIMIT_SECONDS)
        seconds = time.monotonic() - began
        cluster.wait()
        return {"seconds": seconds, "CPU s, all processes": cpu_seconds(cluster.all_pids)}

    return Load(
        name=f"start-{brokers}",
        family="start-up",
        figures=(Figure("seconds"), Figure("CPU s, all processes")),
        run=run,
        nodes=0,
    )


LOADS = [_load(1), _load(3)]
