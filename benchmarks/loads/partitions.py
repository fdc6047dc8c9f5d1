"""Small produce requests that go round 1, 100, 1 000 and 5 000 partitions of a topic.

Ten connections, one request in flight on each; each connection sends to the next partition with
every request. Before the first round each partition gets one record, which opens its files and (in
Kafka) writes its first checkpoint; the topic stays for the later rounds.
"""

from __future__ import annotations

from benchmarks.frames import create_topic, produce_error_at, produce_frame
from benchmarks.loads.base import Bench, Figure, Figures, Load
from benchmarks.native import Lines, run_load

PARTITIONS = (1, 100, 1000, 5000)
CONNECTIONS = 10
FIRST_RECORDS_A_SECOND = 500.0


def fill(line: Lines, topic: str) -> None:
    """One record to each partition; `line` has a frame for each."""
    run_load(
        [line],
        connections=CONNECTIONS,
        rate=FIRST_RECORDS_A_SECOND,
        warm_up=0,
        seconds=(len(line.frames) + CONNECTIONS) / FIRST_RECORDS_A_SECOND,
        error_at=produce_error_at(topic),
    )


def _load(partitions: int) -> Load:
    def run(bench: Bench) -> Figures:
        cluster = bench.cluster
        topic = f"partitions-{partitions}"
        leaders = create_topic(cluster.bootstrap, topic, partitions)
        line = Lines(leaders[0], [produce_frame(topic, number) for number in range(partitions)])
        if topic not in cluster.filled:
            fill(line, topic)
            cluster.filled.add(topic)
        answered = run_load(
            [line],
            connections=CONNECTIONS,
            warm_up=bench.pace.warm_up,
            seconds=bench.pace.seconds,
            error_at=produce_error_at(topic),
            pids=cluster.broker_pids,
        )
        return {"requests/s": answered.rate, "broker CPU us/request": answered.broker_us}

    return Load(
        name=f"partitions-{partitions}",
        family="partitions",
        figures=(Figure("requests/s", more_is_better=True), Figure("broker CPU us/request")),
        run=run,
        warms_up=False,
        most_rounds=2,
    )


LOADS = [_load(partitions) for partitions in PARTITIONS]
