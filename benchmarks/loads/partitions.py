"""Small produce requests that go round 1, 100, 1 000 and 5 000 partitions of a topic.

Ten connections, one request in flight on each; each connection sends to the next partition with
every request. The topic stays for the later rounds.
"""

from __future__ import annotations

from benchmarks.frames import create_topic, produce_error_at, produce_frame
from benchmarks.loads.base import Bench, Figure, Figures, Load
from benchmarks.native import Lines, run_load

PARTITIONS = (1, 100, 1000, 5000)
CONNECTIONS = 10
# The first record to a partition opens its files; that is not what is measured.
FIRST_RECORDS_A_SECOND = 1000.0


def _load(partitions: int) -> Load:
    def run(bench: Bench) -> Figures:
        cluster = bench.cluster
        topic = f"partitions-{partitions}"
        leaders = create_topic(cluster.bootstrap, topic, partitions)
        frames = [produce_frame(topic, partition) for partition in range(partitions)]
        answered = run_load(
            [Lines(leaders[0], frames)],
            connections=CONNECTIONS,
            warm_up=2 * bench.pace.warm_up + partitions / FIRST_RECORDS_A_SECOND,
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
    )


LOADS = [_load(partitions) for partitions in PARTITIONS]
