"""Offset commits, acknowledged one by one: eight consumers, each with its own group."""

from __future__ import annotations

from benchmarks.frames import (
    commit_error_at,
    commit_frame,
    create_topic,
    delete_topic,
    topic_name,
)
from benchmarks.loads.base import Bench, Figure, Figures, Load
from benchmarks.native import Lines, run_load
from tests.support.wire import WireClient

CONSUMERS = 8


def run(bench: Bench) -> Figures:
    cluster = bench.cluster
    topic = topic_name("commits")
    create_topic(cluster.bootstrap, topic, 1)
    groups = [f"{topic}-{number}" for number in range(CONSUMERS)]
    lines = []
    for group in groups:
        with WireClient(cluster.bootstrap.partition(",")[0]) as client:
            node = client.coordinator(group)
            lines.append(Lines((node.host, node.port), [commit_frame(group, topic, 0)]))
    answered = run_load(
        lines,
        connections=CONSUMERS,
        warm_up=bench.pace.warm_up,
        seconds=bench.pace.seconds,
        error_at=commit_error_at(topic),
        pids=cluster.broker_pids,
    )
    delete_topic(cluster.bootstrap, topic)
    return {
        "commits/s": answered.rate,
        "broker CPU us/commit": answered.broker_us,
        "p99 ms": answered.p99_ms,
    }


LOADS = [
    Load(
        name="offset-commits",
        family="groups",
        figures=(
            Figure("commits/s", more_is_better=True),
            Figure("broker CPU us/commit"),
            Figure("p99 ms"),
        ),
        run=run,
    )
]
