"""One broker with 1, 100, 1 000 and 5 000 partitions: start-up after a clean stop, and memory.

Each partition holds a record. The clock runs from the command, with ZooKeeper, until records to the
first, the middle and the last partition are acknowledged.
"""

from __future__ import annotations

import time

from benchmarks.frames import create_topic, first_acknowledged, produce_frame
from benchmarks.loads.base import Bench, Figure, Figures, Load
from benchmarks.loads.partitions import PARTITIONS, fill
from benchmarks.machine import memory
from benchmarks.native import Lines

TOPIC = "restart"
LIMIT_SECONDS = 180.0


def _load(partitions: int) -> Load:
    def run(bench: Bench) -> Figures:
        cluster = bench.new_cluster(1)
        cluster.start()
        before = time.monotonic()
        leaders = create_topic(cluster.bootstrap, TOPIC, partitions)
        created = time.monotonic() - before
        frames = [produce_frame(TOPIC, number) for number in range(partitions)]
        fill(Lines(leaders[0], frames), TOPIC)
        before = time.monotonic()
        cluster.stop()
        stopped = time.monotonic() - before
        began = time.monotonic()
        cluster.launch()
        probes = sorted({0, partitions // 2, partitions - 1})
        first_acknowledged(cluster.addresses, TOPIC, probes, acks=-1, limit=LIMIT_SECONDS)
        seconds = time.monotonic() - began
        cluster.wait()
        return {
            "start-up s": seconds,
            "topic created s": created,
            "clean stop s": stopped,
            "broker memory MB": memory(cluster.broker_pids).pss_mb,
        }

    return Load(
        name=f"restart-{partitions}",
        family="restart",
        figures=(
            Figure("start-up s"),
            Figure("topic created s"),
            Figure("clean stop s"),
            Figure("broker memory MB"),
        ),
        run=run,
        nodes=0,
        most_rounds=1 if partitions >= 1000 else 2,
    )


LOADS = [_load(partitions) for partitions in PARTITIONS]
