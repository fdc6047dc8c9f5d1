"""One broker with 1, 100, 1 000 and 5 000 partitions: start-up after a clean stop, and memory.

Each partition holds a record. The clock runs from the command, with ZooKeeper, until records to the
first, the middle and the last partition are acknowledged.
"""

from __future__ import annotations

import time

from benchmarks.frames import create_topic, first_acknowledged, produce_error_at, produce_frame
from benchmarks.loads.base import Bench, Figure, Figures, Load
from benchmarks.loads.partitions import PARTITIONS
from benchmarks.machine import memory
from benchmarks.native import Lines, run_load

TOPIC = "restart"
LIMIT_SECONDS = 180.0
# Enough for one record to each partition.
RECORDS_A_SECOND = 2000.0


def _load(partitions: int) -> Load:
    def run(bench: Bench) -> Figures:
        cluster = bench.new_cluster(1)
        cluster.start()
        before = time.monotonic()
        leaders = create_topic(cluster.bootstrap, TOPIC, partitions)
        created = time.monotonic() - before
        run_load(
            [Lines(leaders[0], [produce_frame(TOPIC, number) for number in range(partitions)])],
            rate=RECORDS_A_SECOND,
            warm_up=0,
            seconds=(partitions + 1) / RECORDS_A_SECOND,
            error_at=produce_error_at(TOPIC),
        )
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
    )


LOADS = [_load(partitions) for partitions in PARTITIONS]
