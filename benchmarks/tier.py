"""Reading history out of a tiered topic, beside what the store alone gives: `python -m
benchmarks.tier`.

One broker copies a topic to the S3 server of `moto`, a process of its own (`--store folder`: to
files on this disk, through obstore as well), and keeps nothing of it locally but the newest
segment. Then, round by round: obstore reads the segments' objects alone, one after the other, in
ranges of 4 MiB of which four are under way; librdkafka consumes the same records from the broker,
with ranges read ahead and without. The figures are the medians, in MB/s and CPU seconds a GB: of
the reading process where obstore is alone, which is the least that a broker can need, and of the
broker. The ratio is that of the consumer to obstore alone.

That server reads a whole object for each request of a range, so that segments of its store are
small.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from multiprocessing.connection import Connection
from multiprocessing.pool import AsyncResult, ThreadPool
from pathlib import Path
from typing import Any

import obstore
from obstore.store import from_url

from benchmarks.brokers import PyBroker
from benchmarks.frames import RECORD_BYTES
from benchmarks.loads import bulk
from benchmarks.loads.base import BrokerCpu
from benchmarks.native import Moved
from pybroker_kafka.local.tier import tier_keys
from pybroker_kafka.replication.remote.prefetch import MOST_AHEAD, RANGE_BYTES
from tests.support.admin_requests.configs import incremental
from tests.support.moto_s3 import BUCKET, MotoS3
from tests.support.patience import until
from tests.support.wire import WireClient
from tests.wire.test_offsets import EARLIEST_LOCAL, LATEST_TIERED, list_offsets

BROKER, SET = 4, 0
PREFETCH = "pybroker.remote.prefetch.max.bytes"
COPY_SECONDS = 600.0


def serve(pipe: Connection) -> None:
    with MotoS3().running() as server:
        pipe.send((server.url, server.configs()))
        pipe.recv()


@contextmanager
def store_of(kind: str, directory: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """(URL, configs) of a store."""
    if kind == "folder":
        yield f"file://{directory / 'tier'}", {}
        return
    ours, its = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(its,), daemon=True)
    process.start()
    try:
        _, configs = ours.recv()
        yield f"s3://{BUCKET}/tier", configs
        ours.send("end")
    finally:
        process.kill()


def opened(url: str, configs: dict[str, str]) -> Any:
    """The store for calls of obstore."""
    options = {key: text for key, text in configs.items() if key != "retry.max"}
    client = {"allow_http": True} if options.pop("client.allow_http", None) else {}
    arguments: dict[str, Any] = {"config": options, "client_options": client} if options else {}
    return from_url(url, **arguments)


def read_alone(url: str, configs: dict[str, str], most_rate: float = inf) -> Moved:
    """By obstore in this process, at most so many MB/s."""
    store = opened(url, configs)
    objects = sorted(
        (one["path"], one["size"])
        for some in obstore.list(store)
        for one in some
        if one["path"].endswith(".log")
    )
    began, began_cpu = time.perf_counter(), time.process_time()
    with ThreadPool(MOST_AHEAD) as threads:
        under_way: deque[AsyncResult[int]] = deque()
        total = asked = 0
        for path, size in objects:
            for start in range(0, size, RANGE_BYTES):
                time.sleep(max(0.0, began + asked / 1e6 / most_rate - time.perf_counter()))
                if len(under_way) == MOST_AHEAD:
                    total += under_way.popleft().get()
                end = min(start + RANGE_BYTES, size)
                asked += end - start
                under_way.append(threads.apply_async(_length, (store, path, start, end)))
        total += sum(one.get() for one in under_way)
    seconds, cpu = time.perf_counter() - began, time.process_time() - began_cpu
    return Moved(seconds, cpu, total / 1e6)


def _length(store: object, path: str, start: int, end: int) -> int:
    return len(obstore.get_range(store, path, start=start, end=end))  # type: ignore[arg-type]


def fill(cluster: PyBroker, megabytes: int, segment_megabytes: int) -> tuple[str, int]:
    """A topic whose history is in the store: its name, and the records that are only there."""
    configs = {
        "remote.storage.enable": "true",
        "segment.bytes": str(segment_megabytes * 1_000_000),
        "local.retention.bytes": "1",
        "retention.ms": "-1",
    }
    with WireClient(cluster.bootstrap) as kafka:
        topic = kafka.configured_topic(configs).name
        records = int(megabytes * 1e6 / RECORD_BYTES)
        bulk.produce(cluster, topic, records, "none", "1")
        least = records - 2 * segment_megabytes * 1_000_000 // RECORD_BYTES

        def is_copied() -> int:
            local = list_offsets(kafka, 9, topic, EARLIEST_LOCAL).offset
            tiered = list_offsets(kafka, 9, topic, LATEST_TIERED).offset
            return int(local) if tiered == local - 1 and local > least else 0

        return topic, until(is_copied, seconds=COPY_SECONDS)


def prefetch(cluster: PyBroker, max_bytes: int) -> None:
    with WireClient(cluster.bootstrap) as kafka:
        change = SET, PREFETCH, str(max_bytes)
        answer = kafka.call(incremental(BROKER, "", change, validate_only=False))
        assert [one.error_code for one in answer.responses] == [0], answer


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--segment-megabytes", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--store", choices=["moto", "folder"], default="moto")
    asked = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as directory,
        store_of(asked.store, Path(directory)) as (url, configs),
    ):
        measure(asked, Path(directory), url, configs)


def tiered_cluster(directory: Path, url: str, configs: dict[str, str]) -> PyBroker:
    cluster = PyBroker(directory / "broker")
    cluster.extra = {
        **tier_keys(url, 1, {}),
        **{f"rsm.config.{name}": text for name, text in configs.items()},
        "remote.log.manager.task.interval.ms": "200",
        "log.retention.check.interval.ms": "500",
        "log.initial.task.delay.ms": "0",
    }
    return cluster


def measure(asked: argparse.Namespace, directory: Path, url: str, configs: dict[str, str]) -> None:
    cluster = tiered_cluster(directory, url, configs)
    cluster.start()
    try:
        topic, records = fill(cluster, asked.megabytes, asked.segment_megabytes)
        bulk.consume(cluster, topic, records)  # the indexes of all segments are cached from here on
        rates: dict[str, list[float]] = {"obstore alone": [], "prefetched": [], "each fetch": []}
        costs: dict[str, list[float]] = {way: [] for way in rates}
        for _ in range(asked.rounds):
            alone = read_alone(url, configs)
            rates["obstore alone"].append(alone.rate)
            costs["obstore alone"].append(alone.cost(alone.client_cpu))
            for way, max_bytes in (("prefetched", 64 * 1024 * 1024), ("each fetch", 0)):
                prefetch(cluster, max_bytes)
                cpu = BrokerCpu(cluster)
                consumed = bulk.consume(cluster, topic, records)
                rates[way].append(consumed.rate)
                costs[way].append(consumed.cost(cpu.spent()))
    finally:
        cluster.discard()
    least = statistics.median(rates["obstore alone"])
    for way, found in rates.items():
        rate, cost = statistics.median(found), statistics.median(costs[way])
        rounds = ", ".join(f"{one:.0f}" for one in found)
        print(
            f"{way:14} {rate:8.0f} MB/s  {rate / least:5.2f} of obstore alone"
            f"  {cost:5.2f} CPU s/GB  ({rounds})"
        )


if __name__ == "__main__":
    main()
