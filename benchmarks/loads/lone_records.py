"""Consuming records of 1 KiB, each of which lies in a batch of its own, from eight partitions.

So producers leave them that wait for nothing. librdkafka consumes, with the settings of `bulk`;
what was just produced comes out of the page cache.
"""

from __future__ import annotations

from benchmarks.brokers import Cluster
from benchmarks.frames import (
    RECORD_BYTES,
    create_topic,
    delete_topic,
    lone_records_frame,
    produce_error_at,
    topic_name,
)
from benchmarks.loads.base import BOTH_WAYS, Bench, BrokerCpu, Figure, Figures, Load
from benchmarks.loads.bulk import consume
from benchmarks.native import Lines, run_load

PARTITIONS = 8
# Of the size of a bulk load.
SHARE = 0.5
FILL_RATE = 6000.0  # requests a second, of a record for each partition


def fill(cluster: Cluster, records: int) -> tuple[str, int]:
    """A new topic of about so many lone records; how many they are at least."""
    topic = topic_name("lone")
    leaders = create_topic(cluster.bootstrap, topic, PARTITIONS)
    filled = run_load(
        [Lines(leaders[0], [lone_records_frame(topic, PARTITIONS)])],
        connections=4,
        in_flight=2,
        rate=FILL_RATE,
        warm_up=0.0,
        seconds=records / PARTITIONS / FILL_RATE,
        error_at=produce_error_at(topic),
    )
    return topic, int(filled.requests) * PARTITIONS  # of the partitions none has less


def consume_lone_records(bench: Bench) -> Figures:
    cluster = bench.cluster
    topic, records = fill(cluster, bench.pace.records(SHARE))
    cpu = BrokerCpu(cluster)
    consumed = consume(cluster, topic, records, PARTITIONS, RECORD_BYTES)
    consume_cpu = cpu.spent()
    delete_topic(cluster.bootstrap, topic)
    return {
        "consume broker CPU s/GB": consumed.cost(consume_cpu),
        "consume MB/s": consumed.rate,
        "consume client CPU s/GB": consumed.cost(consumed.client_cpu),
    }


LOADS = [
    Load(
        name="lone-records",
        family="lone-records",
        figures=(
            Figure("consume broker CPU s/GB"),
            Figure("consume MB/s", more_is_better=True),
            Figure("consume client CPU s/GB"),
        ),
        run=consume_lone_records,
        brokers=BOTH_WAYS,
    )
]
