"""Three brokers, replication factor 3, acks=all, six partitions.

`three-bulk` is librdkafka as in `bulk`; `three-latency` 2 000 and `three-latency-5000` 5 000
requests/s of one record each over 48 connections, each counted from when it was due to its
acknowledgement.
"""

from __future__ import annotations

from collections import defaultdict

from benchmarks.frames import (
    Address,
    create_topic,
    delete_topic,
    produce_error_at,
    produce_frame,
    topic_name,
)
from benchmarks.loads import bulk
from benchmarks.loads.base import Bench, BrokerCpu, Figure, Figures, Load
from benchmarks.native import Lines, run_load

BROKERS = 3
PARTITIONS = 6
RATE = 2000.0
FAST_RATE = 5000.0
CONNECTIONS = 48
BULK_SHARE = 0.3


def run_bulk(bench: Bench) -> Figures:
    cluster = bench.cluster
    topic = topic_name("three")
    create_topic(cluster.bootstrap, topic, PARTITIONS, BROKERS)
    cpu = BrokerCpu(cluster)
    produced = bulk.produce(cluster, topic, bench.pace.records(BULK_SHARE), "none", "all")
    spent = cpu.spent()
    delete_topic(cluster.bootstrap, topic)
    return {"produce MB/s": produced.rate, "brokers CPU s/GB": produced.cost(spent)}


def run_latency(bench: Bench, rate: float) -> Figures:
    cluster = bench.cluster
    topic = topic_name("three")
    leaders = create_topic(cluster.bootstrap, topic, PARTITIONS, BROKERS)
    frames: dict[Address, list[bytes]] = defaultdict(list)
    for partition, address in leaders.items():
        frames[address].append(produce_frame(topic, partition, acks=-1))
    answered = run_load(
        [Lines(address, each) for address, each in frames.items()],
        connections=CONNECTIONS,
        rate=rate,
        warm_up=2 * bench.pace.warm_up,
        seconds=2 * bench.pace.seconds,
        error_at=produce_error_at(topic),
        pids=cluster.broker_pids,
    )
    delete_topic(cluster.bootstrap, topic)
    return {
        "p50 ms": answered.p50_ms,
        "p99 ms": answered.p99_ms,
        "p99.9 ms": answered.p999_ms,
        "unanswered": float(answered.unanswered),
        "brokers CPU us/request": answered.broker_us,
    }


def _latency(name: str, rate: float) -> Load:
    return Load(
        name=name,
        family="three-brokers",
        figures=(
            Figure("p50 ms"),
            Figure("p99 ms"),
            Figure("p99.9 ms"),
            Figure("unanswered"),
            Figure("brokers CPU us/request"),
        ),
        run=lambda bench: run_latency(bench, rate),
        nodes=BROKERS,
    )


LOADS = [
    Load(
        name="three-bulk",
        family="three-brokers",
        figures=(Figure("produce MB/s", more_is_better=True), Figure("brokers CPU s/GB")),
        run=run_bulk,
        nodes=BROKERS,
    ),
    _latency("three-latency", RATE),
    _latency("three-latency-5000", FAST_RATE),
]
