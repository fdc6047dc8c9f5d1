"""Bulk produce and consume with librdkafka: records of 1 KiB, batches of up to 1 MB, acks=1.

`bulk-100-bytes` has records of 100 bytes. One partition. What was just produced is consumed from
its start, so it comes out of the page cache.
"""

from __future__ import annotations

from benchmarks.brokers import Cluster
from benchmarks.frames import RECORD_BYTES, create_topic, delete_topic, topic_name
from benchmarks.loads.base import BOTH_WAYS, Bench, BrokerCpu, Figure, Figures, Load
from benchmarks.native import Moved, bulk_consume, bulk_produce

PRODUCER = {
    "batch.size": "1000000",
    "batch.num.messages": "100000",
    "linger.ms": "20",
    "message.max.bytes": "1048000",
    "queue.buffering.max.kbytes": "262144",
    "queue.buffering.max.messages": "500000",
}
CONSUMER = {
    "fetch.message.max.bytes": "1048576",
    "queued.max.messages.kbytes": "262144",
    "queued.min.messages": "1000000",
}
# By codec, how much of a bulk load's size: the client packs slowly.
CODECS = {"none": 1.0, "lz4": 0.5, "zstd": 0.3}
SMALL_RECORD_BYTES = 100
# Of as many megabytes, ten times as many records.
SMALL_RECORDS_SHARE = 2.0


def produce(
    cluster: Cluster,
    topic: str,
    records: int,
    codec: str,
    acks: str,
    record_bytes: int = RECORD_BYTES,
) -> Moved:
    settings = PRODUCER | {"compression.codec": codec, "acks": acks}
    return bulk_produce(cluster.bootstrap, topic, records, record_bytes, settings)


def consume(
    cluster: Cluster,
    topic: str,
    records: int,
    partitions: int = 1,
    record_bytes: int = RECORD_BYTES,
) -> Moved:
    return bulk_consume(cluster.bootstrap, topic, records, record_bytes, partitions, CONSUMER)


def produce_and_consume(
    bench: Bench, codec: str, records: int, record_bytes: int = RECORD_BYTES
) -> Figures:
    cluster = bench.cluster
    topic = topic_name("bulk")
    create_topic(cluster.bootstrap, topic, 1)
    cpu = BrokerCpu(cluster)
    produced = produce(cluster, topic, records, codec, "1", record_bytes)
    produce_cpu = cpu.spent()
    cpu = BrokerCpu(cluster)
    consumed = consume(cluster, topic, records, record_bytes=record_bytes)
    consume_cpu = cpu.spent()
    delete_topic(cluster.bootstrap, topic)
    return {
        "produce MB/s": produced.rate,
        "produce broker CPU s/GB": produced.cost(produce_cpu),
        "produce client CPU s/GB": produced.cost(produced.client_cpu),
        "consume MB/s": consumed.rate,
        "consume broker CPU s/GB": consumed.cost(consume_cpu),
        "consume client CPU s/GB": consumed.cost(consumed.client_cpu),
    }


def _load(name: str, codec: str, share: float, record_bytes: int = RECORD_BYTES) -> Load:
    return Load(
        name=name,
        family="bulk",
        figures=(
            Figure("produce MB/s", more_is_better=True),
            Figure("produce broker CPU s/GB"),
            Figure("produce client CPU s/GB"),
            Figure("consume MB/s", more_is_better=True),
            Figure("consume broker CPU s/GB"),
            Figure("consume client CPU s/GB"),
        ),
        run=lambda bench: produce_and_consume(
            bench, codec, bench.pace.records(share), record_bytes
        ),
        brokers=(*BOTH_WAYS, "pybroker-batch"),
    )


LOADS = [
    *(_load(f"bulk-{codec}", codec, share) for codec, share in CODECS.items()),
    _load("bulk-100-bytes", "none", SMALL_RECORDS_SHARE, SMALL_RECORD_BYTES),
]
