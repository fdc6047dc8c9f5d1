"""From when a record is due to when a consumer has it, at 2 000 and 20 000 single records a second.

One producer connection with acks=1, one consumer that fetches with a long poll, one partition. The
load is open: a record is due at its time, whatever became of those before it.
"""

from __future__ import annotations

from benchmarks.frames import (
    create_topic,
    delete_topic,
    fetch_frame,
    produce_error_at,
    produce_frame,
    topic_name,
)
from benchmarks.loads.base import BOTH_WAYS, Bench, Figure, Figures, Load
from benchmarks.native import Lines, LoadError, run_load

RATE = 2000.0
FAST_RATE = 20_000.0


def run(bench: Bench, rate: float) -> Figures:
    cluster = bench.cluster
    topic = topic_name("latency")
    leaders = create_topic(cluster.bootstrap, topic, 1)
    answered = run_load(
        [Lines(leaders[0], [produce_frame(topic, 0)])],
        rate=rate,
        warm_up=2 * bench.pace.warm_up,
        seconds=2 * bench.pace.seconds,
        error_at=produce_error_at(topic),
        pids=cluster.broker_pids,
        fetch=fetch_frame(topic),
    )
    delete_topic(cluster.bootstrap, topic)
    if answered.unanswered:
        raise LoadError(f"{answered.unanswered} records did not arrive")
    return {
        "p50 ms": answered.p50_ms,
        "p99 ms": answered.p99_ms,
        "p99.9 ms": answered.p999_ms,
        "broker CPU us/record": answered.broker_us,
        "client CPU us/record": answered.client_us,
    }


def _load(name: str, rate: float, brokers: tuple[str, ...]) -> Load:
    return Load(
        name=name,
        family="latency",
        figures=(
            Figure("p50 ms"),
            Figure("p99 ms"),
            Figure("p99.9 ms"),
            Figure("broker CPU us/record"),
            Figure("client CPU us/record"),
        ),
        run=lambda bench: run(bench, rate),
        brokers=brokers,
    )


LOADS = [
    _load("latency", RATE, (*BOTH_WAYS, "tansu")),
    _load("latency-20000", FAST_RATE, BOTH_WAYS),
]
