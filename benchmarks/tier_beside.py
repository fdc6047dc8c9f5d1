"""What reads of history, and copies to the store, take from other clients: `python -m
benchmarks.tier_beside`.

One broker and the store of `benchmarks.tier`. Its rows:

- `log's end`: a record is due 2 000 times a second, and a consumer waits for it at the end of its
  log. The p99 of that, idle and while librdkafka reads `--gigabytes` of another topic's history.
- `produce`: the p99 of single records produced at that rate, idle and while the broker copies
  `--megabytes` of segments to the store.
- `copies`: broker CPU seconds a GB of such a copy on its own, less those of the broker that has the
  same tiered topics, is asked as often how far it is, and copies nothing; and those of the process
  that makes the copies for it. The cost depends on the number of segments, not on their bytes: the
  row is shown for small and for large segments, with the cost of one segment.

The store, the clients and the broker share the machine. So both p99s are measured a third time,
beside a process in which obstore alone does what the broker did: it reads the same objects at the
rate of the consumer, and stores the same files, giving way as the broker's process does. What is
lost there is the machine's; the consumer of the history has no part in it.

Each p99 is the median over windows of `--seconds`; the windows that a read or a copy only begins or
ends in count as well.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.pool import Pool
from pathlib import Path

import obstore
import psutil

from benchmarks.brokers import PyBroker
from benchmarks.frames import (
    RECORD_BYTES,
    create_topic,
    delete_topic,
    fetch_frame,
    produce_error_at,
    produce_frame,
    topic_name,
)
from benchmarks.loads import bulk
from benchmarks.loads.base import BrokerCpu
from benchmarks.machine import cpu_seconds
from benchmarks.native import Lines, LoadError, Moved, run_load
from benchmarks.tier import (
    COPY_SECONDS,
    SET,
    fill,
    opened,
    read_alone,
    store_of,
    tiered_cluster,
)
from pybroker_kafka.broker.remote.copy_process import MODULE
from pybroker_kafka.broker.resources.priority import give_way
from pybroker_kafka.storage.remote.object_store import MOST_PARTS_AT_ONCE, PART_BYTES
from tests.support.admin_requests.configs import incremental
from tests.support.wire import WireClient
from tests.wire.test_offsets import LATEST_TIERED, list_offsets

TOPIC = 2
RATE = 2000.0
IDLE_WINDOWS = 3
IDLE_SECONDS = 5.0
LOOK_SECONDS = 0.2
# An eighth of Kafka's default. The store of history has small ones: `moto` reads a whole object
# for each request of a range.
LARGE_SEGMENT_MEGABYTES = 128


def p99_ms(cluster: PyBroker, seconds: float, *, at_end: bool) -> float:
    """Of records produced to a new topic; `at_end`: until a consumer has them."""
    topic = topic_name("new")
    create_topic(cluster.bootstrap, topic, 1)
    answered = run_load(
        [Lines(cluster.addresses[0], [produce_frame(topic, 0)])],
        rate=RATE,
        warm_up=0.3,
        seconds=seconds,
        error_at=produce_error_at(topic),
        pids=cluster.broker_pids,
        fetch=fetch_frame(topic) if at_end else None,
    )
    delete_topic(cluster.bootstrap, topic)
    return answered.p99_ms


def beside(
    work: Callable[[], object], window: Callable[[], float], least_windows: int = 1
) -> list[float]:
    """The windows while the work goes on."""
    failed: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    found: list[float] = []
    while thread.is_alive() or len(found) < least_windows:
        found.append(window())
    thread.join()
    if failed:
        raise failed[0]
    return found


def show(name: str, idle: list[float], loaded: list[float], alone: list[float], what: str) -> None:
    before = statistics.median(idle)
    print(f"{name:10} p99 {before:7.2f} ms idle")
    for windows, beside_what in ((loaded, what), (alone, "obstore alone that does the same")):
        now = statistics.median(windows)
        print(
            f"{'':14} {now:7.2f} ms, {now / before:5.2f} of idle, beside {beside_what}"
            f"  ({len(windows)} windows, {min(windows):.2f} to {max(windows):.2f} ms)"
        )


@contextmanager
def another_process() -> Iterator[Pool]:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        pool.apply(float)  # it has begun
        yield pool


def show_log_end(
    cluster: PyBroker, asked: argparse.Namespace, url: str, configs: dict[str, str]
) -> None:
    history, records = fill(cluster, asked.megabytes, asked.segment_megabytes)
    bulk.consume(cluster, history, records)  # the indexes of all segments are cached from here on
    rates = []

    def read() -> None:
        left = asked.gigabytes * 1e3
        while left > 0:
            count = min(records, int(left * 1e6 / RECORD_BYTES) + 1)
            consumed = bulk.consume(cluster, history, count)
            rates.append(consumed.rate)
            left -= consumed.megabytes

    def window() -> float:
        return p99_ms(cluster, asked.seconds, at_end=True)

    idle = [window() for _ in range(IDLE_WINDOWS)]
    loaded = beside(read, window)
    rate = statistics.median(rates)

    def read_by_obstore() -> None:
        left = asked.gigabytes * 1e3
        while left > 0:
            left -= process.apply(read_alone, (url, configs, rate)).megabytes

    with another_process() as process:
        alone = beside(read_by_obstore, window)
    show("log's end", idle, loaded, alone, f"{asked.gigabytes:g} GB of history at {rate:.0f} MB/s")


def segments_to_copy(cluster: PyBroker, asked: argparse.Namespace, segment_megabytes: int) -> str:
    """A topic that may be copied, and is not yet."""
    configs = {"segment.bytes": str(segment_megabytes * 1_000_000), "retention.ms": "-1"}
    with WireClient(cluster.bootstrap) as kafka:
        topic = kafka.configured_topic(configs).name
    bulk.produce(cluster, topic, int(asked.megabytes * 1e6 / RECORD_BYTES), "none", "1")
    return topic


def copiers(cluster: PyBroker) -> list[int]:
    """The processes that copy for brokers."""
    return [
        child.pid
        for pid in cluster.broker_pids
        for child in psutil.Process(pid).children()
        if MODULE in child.cmdline()
    ]


def looks(kafka: WireClient, topic: str, seconds: float) -> Iterator[int]:
    """Look for so long how far the copies are. Each look costs the broker a request."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        time.sleep(LOOK_SECONDS)
        yield int(list_offsets(kafka, 9, topic, LATEST_TIERED).offset)


def copy(cluster: PyBroker, topic: str, asked: argparse.Namespace, segment_megabytes: int) -> float:
    """The megabytes that are in the store when this returns."""
    least = (asked.megabytes - 2 * segment_megabytes) * 1e6 / RECORD_BYTES
    with WireClient(cluster.bootstrap) as kafka:
        change = SET, "remote.storage.enable", "true"
        answer = kafka.call(incremental(TOPIC, topic, change, validate_only=False))
        assert [one.error_code for one in answer.responses] == [0], answer

        for offset in looks(kafka, topic, COPY_SECONDS):
            if offset > least:
                return offset * RECORD_BYTES / 1e6
    raise LoadError(f"{topic} is not copied after {COPY_SECONDS:.0f} s")


def put_alone(url: str, configs: dict[str, str], directory: Path) -> Moved:
    """The files of a partition, by obstore in this process, which gives way from now on."""
    give_way()
    store = opened(url, configs)
    began, began_cpu = time.perf_counter(), time.process_time()
    total = 0
    for path in sorted(directory.iterdir()):
        name = f"alone/{path.name}"
        obstore.put(store, name, path, chunk_size=PART_BYTES, max_concurrency=MOST_PARTS_AT_ONCE)
        total += path.stat().st_size
    seconds, cpu = time.perf_counter() - began, time.process_time() - began_cpu
    return Moved(seconds, cpu, total / 1e6)


def show_copies(cluster: PyBroker, asked: argparse.Namespace, segment_megabytes: int) -> None:
    topic = segments_to_copy(cluster, asked, segment_megabytes)
    before = cpu_seconds(copiers(cluster))
    cpu, began = BrokerCpu(cluster), time.perf_counter()
    megabytes = copy(cluster, topic, asked, segment_megabytes)
    seconds = time.perf_counter() - began
    spent, gigabytes = cpu.spent(), megabytes / 1e3
    beside_it = (cpu_seconds(copiers(cluster)) - before) / gigabytes
    cpu = BrokerCpu(cluster)
    with WireClient(cluster.bootstrap) as kafka:
        for _ in looks(kafka, topic, IDLE_SECONDS):
            pass
    cost = max(0.0, spent - cpu.spent() / IDLE_SECONDS * seconds) / gigabytes
    print(
        f"copies     {cost:.2f} broker CPU s/GB at {megabytes / seconds:.0f} MB/s, "
        f"{cost * segment_megabytes:.1f} ms a segment of {segment_megabytes} MB; "
        f"{beside_it:.2f} of its process that copies"
    )


def show_produce(
    cluster: PyBroker, asked: argparse.Namespace, url: str, configs: dict[str, str]
) -> None:
    topic = segments_to_copy(cluster, asked, asked.segment_megabytes)

    def window() -> float:
        return p99_ms(cluster, asked.seconds, at_end=False)

    idle = [window() for _ in range(IDLE_WINDOWS)]
    directory = cluster.data_directories[0] / f"{topic}-0"
    with another_process() as process:
        alone = beside(lambda: process.apply(put_alone, (url, configs, directory)), window)
    loaded = beside(lambda: copy(cluster, topic, asked, asked.segment_megabytes), window)
    show("produce", idle, loaded, alone, f"copies of {asked.megabytes} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--gigabytes", type=float, default=5.0)
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--segment-megabytes", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--store", choices=["moto", "folder"], default="moto")
    asked = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as directory,
        store_of(asked.store, Path(directory)) as (url, configs),
    ):
        cluster = tiered_cluster(Path(directory), url, configs)
        cluster.start()
        try:
            show_log_end(cluster, asked, url, configs)
            for segment_megabytes in (asked.segment_megabytes, LARGE_SEGMENT_MEGABYTES):
                show_copies(cluster, asked, segment_megabytes)
            show_produce(cluster, asked, url, configs)
        finally:
            cluster.discard()


if __name__ == "__main__":
    main()
