"""Ten connections at work, one request in flight on each, among 1, 100 and 1 000 idle ones."""

from __future__ import annotations

from benchmarks.frames import (
    create_topic,
    delete_topic,
    produce_error_at,
    produce_frame,
    topic_name,
)
from benchmarks.loads.base import Bench, Figure, Figures, Load
from benchmarks.native import Lines, run_load

IDLE = (1, 100, 1000)
ACTIVE = 10


def _load(idle: int) -> Load:
    def run(bench: Bench) -> Figures:
        cluster = bench.cluster
        topic = topic_name("connections")
        leaders = create_topic(cluster.bootstrap, topic, 1)
        answered = run_load(
            [Lines(leaders[0], [produce_frame(topic, 0)])],
            connections=ACTIVE,
            idle=idle,
            warm_up=bench.pace.warm_up,
            seconds=bench.pace.seconds,
            error_at=produce_error_at(topic),
            pids=cluster.broker_pids,
        )
        delete_topic(cluster.bootstrap, topic)
        return {"requests/s": answered.rate, "broker CPU us/request": answered.broker_us}

    return Load(
        name=f"connections-{idle}",
        family="connections",
        figures=(Figure("requests/s", more_is_better=True), Figure("broker CPU us/request")),
        run=run,
        most_rounds=2,
    )


LOADS = [_load(idle) for idle in IDLE]
