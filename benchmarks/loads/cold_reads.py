"""A consumer reads old data from the disk, alone and while a producer sends 1 000 records a second.

What was produced is written back and dropped from the page cache first. The figures are what the
consumer gets, and what becomes of the producer's latency meanwhile.
"""

from __future__ import annotations

import os

from benchmarks.brokers import Cluster
from benchmarks.frames import (
    create_topic,
    delete_topic,
    produce_error_at,
    produce_frame,
    topic_name,
)
from benchmarks.loads import bulk
from benchmarks.loads.base import Bench, BrokerCpu, Figure, Figures, Load
from benchmarks.native import Lines, finish_load, started_load

RATE = 1000.0


def run(bench: Bench) -> Figures:
    cluster = bench.cluster
    old, fresh = topic_name("old"), topic_name("new")
    create_topic(cluster.bootstrap, old, 1)
    leaders = create_topic(cluster.bootstrap, fresh, 1)
    records = bench.pace.records()
    bulk.produce(cluster, old, records, "none", "1")
    drop_from_cache(cluster, old)
    warm_up, seconds = bench.pace.warm_up, 2 * bench.pace.seconds
    with started_load(
        [Lines(leaders[0], [produce_frame(fresh, 0)])],
        rate=RATE,
        warm_up=warm_up,
        seconds=seconds,
        error_at=produce_error_at(fresh),
        pids=cluster.broker_pids,
    ) as process:
        consumed = bulk.consume(cluster, old, records)
        answered = finish_load(process, warm_up + seconds)
    delete_topic(cluster.bootstrap, old)
    delete_topic(cluster.bootstrap, fresh)
    return {
        "consume MB/s": consumed.rate,
        "produce p50 ms": answered.p50_ms,
        "produce p99 ms": answered.p99_ms,
    }


def run_alone(bench: Bench) -> Figures:
    cluster = bench.cluster
    topic = topic_name("old")
    create_topic(cluster.bootstrap, topic, 1)
    records = bench.pace.records()
    bulk.produce(cluster, topic, records, "none", "1")
    drop_from_cache(cluster, topic)
    cpu = BrokerCpu(cluster)
    consumed = bulk.consume(cluster, topic, records)
    spent = cpu.spent()
    delete_topic(cluster.bootstrap, topic)
    return {"consume MB/s": consumed.rate, "consume broker CPU s/GB": consumed.cost(spent)}


def drop_from_cache(cluster: Cluster, topic: str) -> None:
    for directory in cluster.data_directories:
        for path in directory.glob(f"{topic}-*/*.log"):
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)


LOADS = [
    Load(
        name="cold-reads",
        family="cold-reads",
        figures=(
            Figure("consume MB/s", more_is_better=True),
            Figure("produce p50 ms"),
            Figure("produce p99 ms"),
        ),
        run=run,
        warms_up=False,
        most_rounds=2,
    ),
    Load(
        name="cold-consume",
        family="cold-reads",
        figures=(Figure("consume MB/s", more_is_better=True), Figure("consume broker CPU s/GB")),
        run=run_alone,
        warms_up=False,
        most_rounds=2,
    ),
]
