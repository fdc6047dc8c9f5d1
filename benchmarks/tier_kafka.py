"""Tiered storage beside Apache Kafka 3.9.1, both with the folders of LocalTieredStorage: `python -m
benchmarks.tier_kafka`.

Each broker in turn has one topic of `--megabytes`, written while it is not tiered. Then:

- `copies`: from `remote.storage.enable=true` until all but the newest segment are in the tier and
  no longer in the log directory: MB/s, and the CPU seconds a GB of the broker and its processes.
- `history`: librdkafka consumes it from its first record, `--rounds` times and once before, which
  does not count: the medians of MB/s and of the broker's CPU seconds a GB.
- `by time`: ListOffsets at random times of the history, of which each looks into an index and a
  segment of the tier: the median and the longest of 200, in milliseconds.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from pathlib import Path

import psutil

from benchmarks.brokers import ApacheKafka, Cluster, PyBroker
from benchmarks.frames import RECORD_BYTES
from benchmarks.loads import bulk
from benchmarks.machine import cpu_seconds
from benchmarks.native import Moved
from benchmarks.tier import COPY_SECONDS, SET
from pybroker_kafka.storage.remote.loading import LOCAL_TIERED_STORAGE
from tests.support.admin_requests.configs import incremental
from tests.support.apache_kafka import tiered_storage_jar
from tests.support.patience import until
from tests.support.wire import WireClient
from tests.wire.test_offsets import EARLIEST_LOCAL, LATEST_TIERED, list_offsets

TOPIC = 2
LOOK_UPS = 200


def tiered(kind: type[Cluster], directory: Path) -> Cluster:
    cluster = kind(directory / kind.name)
    cluster.extra = {
        "remote.log.storage.system.enable": "true",
        "remote.log.storage.manager.class.name": LOCAL_TIERED_STORAGE,
        "rsm.config.dir": str(directory / f"{kind.name}-tier"),
        "remote.log.metadata.manager.listener.name": "PLAINTEXT",
        "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
        "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
        "remote.log.manager.task.interval.ms": "200",
        "log.retention.check.interval.ms": "500",
        "log.initial.task.delay.ms": "0",
    }
    if isinstance(cluster, ApacheKafka):
        cluster.more_jars = [tiered_storage_jar()]
    return cluster


def spent(cluster: Cluster) -> float:
    """CPU seconds of the brokers and of the processes that they have started."""
    found = [psutil.Process(pid) for pid in cluster.broker_pids]
    processes = [*found, *(child for one in found for child in one.children(recursive=True))]
    return cpu_seconds([one.pid for one in processes])


def copies(cluster: Cluster, topic: str, records: int, segment_records: int) -> Moved:
    began, began_cpu = time.perf_counter(), spent(cluster)
    with WireClient(cluster.bootstrap) as kafka:
        change = SET, "remote.storage.enable", "true"
        answer = kafka.call(incremental(TOPIC, topic, change, validate_only=False), 1)
        assert [one.error_code for one in answer.responses] == [0], answer

        def copied() -> int:
            local = list_offsets(kafka, 9, topic, EARLIEST_LOCAL).offset
            last = list_offsets(kafka, 9, topic, LATEST_TIERED).offset
            return int(local) if last == local - 1 and local > records - 2 * segment_records else 0

        found = until(copied, seconds=COPY_SECONDS)
    seconds, cpu = time.perf_counter() - began, spent(cluster) - began_cpu
    return Moved(seconds, cpu, found * RECORD_BYTES / 1e6)


def by_time_ms(cluster: Cluster, topic: str, first: int, last: int) -> list[float]:
    """What each look-up took; `first` and `last` are timestamps of the history."""
    times, found = random.Random(0), []
    with WireClient(cluster.bootstrap) as kafka:
        for _ in range(LOOK_UPS):
            began = time.perf_counter()
            answer = list_offsets(kafka, 9, topic, times.randint(first, last))
            assert answer.error_code == 0, answer
            found.append((time.perf_counter() - began) * 1000)
    return found


def measure(kind: type[Cluster], directory: Path, asked: argparse.Namespace) -> None:
    cluster = tiered(kind, directory)
    cluster.start()
    try:
        segment_bytes = asked.segment_megabytes * 1_000_000
        records = int(asked.megabytes * 1e6 / RECORD_BYTES)
        began_ms = int(time.time() * 1000)
        with WireClient(cluster.bootstrap) as kafka:
            topic = kafka.configured_topic(
                {
                    "segment.bytes": str(segment_bytes),
                    "local.retention.bytes": "1",
                    "retention.ms": "-1",
                    "file.delete.delay.ms": "100",
                }
            ).name
        bulk.produce(cluster, topic, records, "none", "1")
        ended_ms = int(time.time() * 1000)
        copied = copies(cluster, topic, records, segment_bytes // RECORD_BYTES)
        cost = copied.cost(copied.client_cpu)
        print(f"{kind.name:9} copies   {copied.rate:6.0f} MB/s  {cost:5.2f} CPU s/GB", flush=True)
        rates, costs = [], []
        for round_ in range(asked.rounds + 1):
            before = spent(cluster)
            consumed = bulk.consume(cluster, topic, records)
            if round_:
                rates.append(consumed.rate)
                costs.append(consumed.cost(spent(cluster) - before))
        rounds = ", ".join(f"{one:.0f}" for one in rates)
        rate, cost = statistics.median(rates), statistics.median(costs)
        print(f"{kind.name:9} history  {rate:6.0f} MB/s  {cost:5.2f} CPU s/GB  ({rounds})")
        # The last tenth may be of the segment that is not in the tier.
        looked = by_time_ms(cluster, topic, began_ms, began_ms + (ended_ms - began_ms) * 9 // 10)
        median, longest = statistics.median(looked), max(looked)
        print(f"{kind.name:9} by time  {median:6.1f} ms, at most {longest:.1f}", flush=True)
    finally:
        cluster.discard()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--segment-megabytes", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    for kind in (PyBroker, ApacheKafka):
        with tempfile.TemporaryDirectory() as directory:
            measure(kind, Path(directory), asked)


if __name__ == "__main__":
    main()
