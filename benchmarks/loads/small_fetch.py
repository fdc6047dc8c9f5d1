"""Fetches of a few records each (v4, 4 KB at most): connections x requests in flight on each.

Each connection goes through the offsets of one partition, so that most of them have to be looked
up. The records are in the page cache.
"""

from __future__ import annotations

from benchmarks.frames import (
    create_topic,
    delete_topic,
    entry_error_at,
    produce_error_at,
    produce_frame,
    small_fetch_frame,
    topic_name,
)
from benchmarks.loads.base import BOTH_WAYS, Bench, Figures, Load
from benchmarks.loads.requests import FIGURES, figures_of, send_requests
from benchmarks.native import Lines, run_load

SHAPES = ((1, 1), (64, 5))
MOST_PARTITIONS = 8
FETCH_BYTES = 4096
RECORDS = 500
FILL_RATE = 4000.0


def fetch(bench: Bench, connections: int, in_flight: int) -> Figures:
    cluster = bench.cluster
    topic = topic_name("fetch")
    partitions = min(connections, MOST_PARTITIONS)
    leaders = create_topic(cluster.bootstrap, topic, partitions)
    run_load(
        [Lines(leaders[index], [produce_frame(topic, index)]) for index in range(partitions)],
        connections=partitions,
        rate=FILL_RATE,
        warm_up=0.0,
        seconds=RECORDS * partitions / FILL_RATE,
        error_at=produce_error_at(topic),
    )
    lines = [
        Lines(
            leaders[index],
            [small_fetch_frame(topic, index, offset, FETCH_BYTES) for offset in range(RECORDS - 8)],
        )
        for index in range(partitions)
    ]
    answered = send_requests(
        bench,
        lines,
        connections=connections,
        in_flight=in_flight,
        error_at=entry_error_at(topic),
    )
    delete_topic(cluster.bootstrap, topic)
    return figures_of(answered)


def _load(connections: int, in_flight: int) -> Load:
    return Load(
        name=f"fetch-{connections}x{in_flight}",
        family="small-fetch",
        figures=FIGURES,
        run=lambda bench: fetch(bench, connections, in_flight),
        brokers=BOTH_WAYS,
    )


LOADS = [_load(*shape) for shape in SHAPES]
