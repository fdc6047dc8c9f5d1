"""Produce requests with one record of 1 KiB, acks=1: connections x requests in flight on each.

The C server (`server.c`) checks the CRC of a batch, writes it with one `pwrite` and answers; it is
what the CPU of a request can be compared with.
"""

from __future__ import annotations

from benchmarks.frames import (
    create_topic,
    delete_topic,
    produce_error_at,
    produce_frame,
    topic_name,
)
from benchmarks.loads.base import BOTH_WAYS, Bench, Load
from benchmarks.loads.requests import FIGURES, figures_of, send_requests
from benchmarks.native import Answered, Lines

SHAPES = ((1, 1), (8, 1), (64, 5))
MOST_PARTITIONS = 8


def produce(bench: Bench, connections: int, in_flight: int) -> Answered:
    cluster = bench.cluster
    topic = topic_name("small")
    partitions = min(connections, MOST_PARTITIONS)
    if cluster.has_topics:
        leaders = create_topic(cluster.bootstrap, topic, partitions)
    else:
        leaders = dict.fromkeys(range(partitions), cluster.addresses[0])
    # Each connection stays with one partition, as a producer with one sticky partition does.
    lines = [
        Lines(leaders[partition], [produce_frame(topic, partition)])
        for partition in range(partitions)
    ]
    answered = send_requests(
        bench,
        lines,
        connections=connections,
        in_flight=in_flight,
        error_at=produce_error_at(topic),
    )
    if cluster.has_topics:
        delete_topic(cluster.bootstrap, topic)
    return answered


def _load(connections: int, in_flight: int) -> Load:
    return Load(
        name=f"small-{connections}x{in_flight}",
        family="small-produce",
        figures=FIGURES,
        run=lambda bench: figures_of(produce(bench, connections, in_flight)),
        brokers=(*BOTH_WAYS, "c-server", "tansu"),
    )


LOADS = [_load(*shape) for shape in SHAPES]
