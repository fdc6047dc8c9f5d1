"""Our mirror and MirrorMaker 2 compared, between two clusters: `python -m benchmarks.mirror`.

    python -m benchmarks.mirror                              1 GB over 200 topics, about 5 minutes
    python -m benchmarks.mirror --megabytes 100 --topics 20  small
    python -m benchmarks.mirror --brokers kafka              between clusters of Apache Kafka

A source cluster is filled once with records of 1 KiB in batches of 64 KiB. Each mirror copies all
records into a new cluster in each round. Seconds count from the start of the mirror's command, to
the first record and to the last record at the target; MB/s are measured between these two. Memory
is the maximum. At the end the targets are read: keys, values, headers and timestamps must be those
of the source, in the same order.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import trio

from benchmarks.brokers import BROKERS, JVM, Cluster
from benchmarks.machine import cpu_seconds, memory
from benchmarks.native import LoadError
from pybroker_kafka import Cluster as Reached
from pybroker_kafka import Consumer, Producer
from pybroker_kafka.client.admin.admin import Admin
from pybroker_kafka.client.admin.topics import NewTopic
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.records.batch import SimpleRecord
from pybroker_kafka.protocol.records.builder import build_batch
from tests.support.mirror_maker import mirror_maker_command
from tests.support.processes import PYBROKER, ROOT

VALUE_BYTES = 1000
BATCH_RECORDS = 64
PATIENCE_SECONDS = 600.0
POLL_SECONDS = 0.05
TOPICS_AT_ONCE = 50
ALIAS = "A"
HEAP = ("-Xms256M", "-Xmx2G")  # those of connect-mirror-maker.sh


class Figures(NamedTuple):
    first_seconds: float
    all_seconds: float
    mb_per_second: float
    cpu_seconds_per_gb: float
    most_rss_mb: float


def names(topics: int) -> list[str]:
    return [f"topic-{number:03}" for number in range(topics)]


async def fill(bootstrap: str, topics: int, megabytes: int) -> int:
    """The records of each topic."""
    rng = random.Random(7)
    began_ms = int(time.time() * 1000)  # older ones would be beyond retention
    wanted = megabytes * 1_000_000 // topics // VALUE_BYTES // BATCH_RECORDS + 1
    async with Reached(bootstrap) as cluster:
        for at in range(0, topics, TOPICS_AT_ONCE):
            made = [NewTopic(name, 1, 1) for name in names(topics)[at : at + TOPICS_AT_ONCE]]
            (await Admin(cluster).topics.create(made)).all()
    async with Producer(bootstrap) as producer:
        for topic in names(topics):
            for number in range(wanted):
                records = [
                    SimpleRecord(
                        began_ms + number * BATCH_RECORDS + n,
                        b"%s-%d" % (topic.encode(), number * BATCH_RECORDS + n),
                        rng.randbytes(VALUE_BYTES),
                        [("n", b"%d" % n)],
                    )
                    for n in range(BATCH_RECORDS)
                ]
                await producer.enqueue_batch(topic, 0, build_batch(records), BATCH_RECORDS)
    return wanted * BATCH_RECORDS


class Counter:
    """How many records the topics of a cluster have, asked over connections that stay open."""

    def __init__(self, cluster: Reached, consumer: Consumer, topics: list[str]) -> None:
        self._cluster, self._consumer = cluster, consumer
        self._missing = topics
        self._there: list[tuple[str, int]] = []

    async def count(self) -> int:
        if self._missing:
            found = (await self._cluster.metadata(self._missing)).topics
            new = [one.name or "" for one in found if one.error_code == ErrorCode.NONE]
            self._there += [(name, 0) for name in new]
            self._missing = sorted({*self._missing} - {*new})
        if not self._there:
            return 0
        return sum((await self._consumer.end_offsets(self._there)).values())


async def digests(bootstrap: str, topics: list[str]) -> dict[str, str]:
    """Of all that is in each topic."""
    found = {topic: hashlib.sha256() for topic in topics}
    async with Consumer(
        bootstrap, auto_offset_reset="earliest", isolation_level="read_committed", auto_commit=False
    ) as consumer:
        places = [(topic, 0) for topic in topics]
        await consumer.assign(places)
        ends = await consumer.end_offsets(places)
        async for batch in consumer.batches():
            digest = found[batch.topic]
            for timestamp, key, value, headers in zip(
                batch.timestamps, batch.keys(), batch.values(), batch.headers(), strict=True
            ):
                digest.update(b"%d %s " % (timestamp, key or b"") + (value or b""))
                digest.update(repr(headers).encode())
            if all((consumer.position(place) or 0) >= end for place, end in ends.items()):
                break
    return {topic: digest.hexdigest() for topic, digest in found.items()}


def properties(source: str, target: str, support: str) -> str:
    given = {
        "clusters": f"{ALIAS},B",
        f"{ALIAS}.bootstrap.servers": source,
        "B.bootstrap.servers": target,
        f"{ALIAS}->B.enabled": "true",
        f"{ALIAS}->B.topics": "topic-.*",
        "replication.factor": "1",
        "checkpoints.topic.replication.factor": "1",
        "heartbeats.topic.replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "offset.storage.replication.factor": "1",
        "status.storage.replication.factor": "1",
        "config.storage.replication.factor": "1",
        "B.exactly.once.source.support": support,
        f"{ALIAS}.consumer.isolation.level": "read_committed",
        "tasks.max": str(os.cpu_count()),
    }
    return "".join(f"{key} = {value}\n" for key, value in given.items())


def ours(file: Path) -> list[str]:
    return [*PYBROKER, "mirror", str(file)]


def mirror_maker(file: Path) -> list[str]:
    return mirror_maker_command(file, *HEAP, *JVM)


MIRRORS: dict[str, Callable[[Path], list[str]]] = {"pybroker": ours, "mirrormaker2": mirror_maker}


@contextlib.contextmanager
def cluster(kind: str, place: Path) -> Iterator[Cluster]:
    made = BROKERS[kind](place)
    try:
        made.start()
        yield made
    finally:
        made.discard()


async def watch(
    process: subprocess.Popen[bytes], began: float, target: str, topics: list[str], records: int
) -> tuple[float, float, float]:
    """Seconds until the first record and until all are at the target, and the most memory (MB)."""
    first, most = 0.0, 0.0
    async with Reached(target) as cluster, Consumer(cluster) as consumer:
        counter = Counter(cluster, consumer, topics)
        while True:
            there = await counter.count()
            elapsed = time.monotonic() - began
            first = first or (elapsed if there else 0.0)
            most = max(most, memory([process.pid]).rss_mb)
            if there >= records:
                return first, elapsed, most
            if process.poll() is not None or elapsed > PATIENCE_SECONDS:
                raise LoadError(f"{there} of {records} records")
            await trio.sleep(POLL_SECONDS)


def measure(
    command: list[str], log: Path, target: str, topics: list[str], records: int, size: int
) -> Figures:
    """Until all records are at the target."""
    with log.open("ab") as output:
        began = time.monotonic()
        process = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=output)
    try:
        first, took, most = trio.run(watch, process, began, target, topics, records)
        cpu = cpu_seconds([process.pid])
    except LoadError as error:
        raise LoadError(f"{error}: {log.read_text()[-800:]}") from None
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    return Figures(first, took, size / 1e6 / max(took - first, 1e-3), cpu / (size / 1e9), most)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--topics", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--brokers", default="pybroker", choices=sorted(BROKERS))
    parser.add_argument("--mirrors", default="pybroker,mirrormaker2")
    parser.add_argument("--exactly-once", action="store_true")
    parser.add_argument(
        "--directory", default=None, help="directory for the data [default: in memory]"
    )
    options = parser.parse_args()
    support = "enabled" if options.exactly_once else "disabled"
    at_source = names(options.topics)
    at_target = [f"{ALIAS}.{topic}" for topic in at_source]
    with (
        tempfile.TemporaryDirectory(prefix="mirror-", dir=options.directory) as place,
        cluster(options.brokers, Path(place) / "source") as source,
    ):
        each = trio.run(fill, source.bootstrap, options.topics, options.megabytes)
        records = each * options.topics
        size = records * VALUE_BYTES
        wanted = list(trio.run(digests, source.bootstrap, at_source).values())
        print(f"{size / 1e6:.0f} MB, {records} records, {os.cpu_count()} cores", flush=True)
        for number in range(options.rounds):
            for name in options.mirrors.split(","):
                directory = Path(place) / f"{name}-{number}"
                with cluster(options.brokers, directory) as target:
                    file = directory / "mirror.properties"
                    file.write_text(properties(source.bootstrap, target.bootstrap, support))
                    log = directory / "mirror.log"
                    command = MIRRORS[name](file)
                    figures = measure(command, log, target.bootstrap, at_target, records, size)
                    found = list(trio.run(digests, target.bootstrap, at_target).values())
                told = {key: round(value, 2) for key, value in figures._asdict().items()}
                is_same = found == wanted
                print(json.dumps({"mirror": name, **told, "is_same": is_same}), flush=True)
                if not is_same:
                    sys.exit(f"{name}: what arrived is not what was sent")


if __name__ == "__main__":
    main()
