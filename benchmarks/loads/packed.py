"""Bulk produce of batches that were packed beforehand: the broker is measured, and no client.

Produce requests with one batch of 1 MB in records of 1 KiB, acks=1, four connections to a partition
each, two requests in flight on each. librdkafka needs two to five CPU seconds to pack a gigabyte,
so that in `bulk` it is the limit on a machine with two cores. Rates and costs are of unpacked
records.
"""

from __future__ import annotations

import random
import string
import time

from benchmarks.frames import (
    RECORD_BYTES,
    batch_frame,
    create_topic,
    delete_topic,
    produce_error_at,
    topic_name,
)
from benchmarks.loads.base import BOTH_WAYS, Bench, Figure, Figures, Load
from benchmarks.native import Lines, run_load
from pybroker_kafka.protocol.records.batch import Compression
from pybroker_kafka.protocol.records.builder import build_batch
from pybroker_kafka.protocol.records.record import SimpleRecord

CODECS = (Compression.NONE, Compression.LZ4, Compression.ZSTD)
CONNECTIONS, IN_FLIGHT = 4, 2
RECORDS = 970  # a batch of a little less than 1 MB
WORDS = 512


def records() -> list[SimpleRecord]:
    """Text of random words, as `bulk.c` makes it."""
    chance = random.Random(1)
    words = ["".join(chance.choices(string.ascii_lowercase, k=3 + n % 8)) for n in range(WORDS)]
    text = " ".join(chance.choices(words, k=RECORDS * RECORD_BYTES // 6)).encode()
    now_ms = int(time.time() * 1000)
    return [
        SimpleRecord(now_ms, None, text[at : at + RECORD_BYTES])
        for at in range(0, RECORDS * RECORD_BYTES, RECORD_BYTES)
    ]


def produce(bench: Bench, codec: Compression) -> Figures:
    cluster = bench.cluster
    topic = topic_name("packed")
    leaders = create_topic(cluster.bootstrap, topic, CONNECTIONS)
    batch = build_batch(records(), compression=codec)
    answered = run_load(
        [Lines(leaders[index], [batch_frame(topic, index, batch)]) for index in leaders],
        connections=CONNECTIONS,
        in_flight=IN_FLIGHT,
        warm_up=bench.pace.warm_up,
        seconds=bench.pace.seconds,
        error_at=produce_error_at(topic),
        pids=cluster.broker_pids,
    )
    delete_topic(cluster.bootstrap, topic)
    megabytes = RECORDS * RECORD_BYTES / 1e6
    return {
        "produce MB/s": answered.rate * megabytes,
        "broker CPU s/GB": answered.broker_us / megabytes / 1e3,
        "client CPU s/GB": answered.client_us / megabytes / 1e3,
        "p99 ms": answered.p99_ms,
    }


def _load(codec: Compression) -> Load:
    return Load(
        name=f"packed-{codec.name.lower()}",
        family="packed",
        figures=(
            Figure("produce MB/s", more_is_better=True),
            Figure("broker CPU s/GB"),
            Figure("client CPU s/GB"),
            Figure("p99 ms"),
        ),
        run=lambda bench: produce(bench, codec),
        brokers=BOTH_WAYS,
        most_rounds=2,
    )


LOADS = [_load(codec) for codec in CODECS]
