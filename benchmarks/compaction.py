"""Compaction of one large topic, ours and Apache Kafka's: `python -m benchmarks.compaction`.

    python -m benchmarks.compaction                          1 GB, both brokers, about 6 minutes
    python -m benchmarks.compaction --megabytes 100          small
    python -m benchmarks.compaction --brokers pybroker       without Apache Kafka

A log of random keys is written once and copied into two topics of each broker. The first topic is
compacted on an idle broker. MB/s relate to the size of the log before the compaction, and to the
time from the config change that makes the log due until the cleaner's checkpoint shows it done. The
second topic is compacted while 2 000 records per second go from a producer to a consumer; their p99
is compared with the p99 without a compaction. If the load outlasts the compaction, the figure says
for how long.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import sys
import tempfile
import threading
import time
from contextlib import closing
from pathlib import Path

from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewTopic

from benchmarks.brokers import BROKERS, Cluster
from benchmarks.frames import (
    create_topic,
    fetch_frame,
    produce_error_at,
    produce_frame,
    topic_name,
)
from benchmarks.native import Answered, Lines, LoadError, run_load
from pybroker_kafka.protocol.records.batch import SimpleRecord
from pybroker_kafka.protocol.records.builder import build_batch
from pybroker_kafka.storage.append_info import Append
from pybroker_kafka.storage.checkpoints import CLEANER_FILE, PARTITION_METADATA_FILE, read_offsets
from pybroker_kafka.storage.files import Files
from pybroker_kafka.storage.log_config import LogConfig
from pybroker_kafka.storage.log_manager import LogManager

RATE = 2000.0
RECORDS_PER_BATCH = 16
VALUE_BYTES = 1000
SEGMENT_BYTES = 128 << 20
TOPICS = ("quiet", "busy")
NEVER, NOW = "1.0", "0.0"  # min.cleanable.dirty.ratio
PATIENCE_SECONDS = 1800
POLL_SECONDS = 0.02
# It did not end in time: the broker falls further and further behind.
OVERWHELMED = Answered(*[float("inf")] * len(Answered._fields))


def write_log(directory: Path, megabytes: int, keys: int) -> tuple[int, int]:
    """A log of `megabytes`; returns its bytes and where the part that can be compacted ends."""
    config = LogConfig.from_overrides({"segment.bytes": str(SEGMENT_BYTES)}, {})
    manager = LogManager([str(directory)], Files(), config, broker_id=1, cluster_id="benchmark")
    manager.load(0)
    log = manager.get_or_create_log("written", 0, None, None, 0)
    chance = random.Random(1)
    value = chance.randbytes(VALUE_BYTES)
    now_ms = time.time_ns() // 1_000_000
    while log.size_bytes < megabytes << 20:
        records = [
            SimpleRecord(now_ms, b"key-%08d" % chance.randrange(keys), value)
            for _ in range(RECORDS_PER_BATCH)
        ]
        log.append_as_leader(build_batch(records), 0, Append(now_ms))
    log.roll(now_ms)
    manager.clean_shutdown()
    return log.size_bytes, log.log_end_offset


class Compaction:
    """One broker with the log in two topics that wait for their compaction."""

    def __init__(self, cluster: Cluster, source: Path, end_offset: int) -> None:
        self.cluster = cluster
        self._end_offset = end_offset
        cluster.start()
        with closing(self._admin()) as admin:
            configs = {
                "cleanup.policy": "compact",
                "min.cleanable.dirty.ratio": NEVER,
                "segment.bytes": str(SEGMENT_BYTES),
            }
            admin.create_topics([NewTopic(t, 1, 1, topic_configs=configs) for t in TOPICS])
        create_topic(cluster.bootstrap, TOPICS[-1], 1)  # waits until they are there
        self._data = cluster.data_directories[0]
        cluster.stop()
        for topic in TOPICS:
            self._fill(self._data / f"{topic}-0", source / "written-0")
        cluster.start()
        for topic in TOPICS:
            create_topic(cluster.bootstrap, topic, 1)

    @staticmethod
    def _fill(target: Path, source: Path) -> None:
        for path in target.iterdir():
            if path.name != PARTITION_METADATA_FILE:
                path.unlink()
        for path in source.iterdir():
            if path.name != PARTITION_METADATA_FILE:
                shutil.copy(path, target)

    def _admin(self) -> KafkaAdminClient:
        return KafkaAdminClient(bootstrap_servers=self.cluster.bootstrap)

    def begin(self, topic: str) -> float:
        """Make the topic due; returns when."""
        with closing(self._admin()) as admin:
            backoff = {"log.cleaner.backoff.ms": "100"}
            for broker in admin.describe_cluster()["brokers"]:
                node = str(broker["broker_id"])
                admin.alter_configs([ConfigResource(ConfigResourceType.BROKER, node, backoff)])
            configs = {"min.cleanable.dirty.ratio": NOW}
            admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, configs)])
        return time.monotonic()

    def wait(self, topic: str, began: float) -> float:
        """Until the topic is compacted; returns the seconds that it took."""
        path = str(self._data / CLEANER_FILE)
        while read_offsets(Files(), path).get((topic, 0), 0) < self._end_offset:
            self.cluster.check_alive()
            if time.monotonic() - began > PATIENCE_SECONDS:
                raise TimeoutError(f"{topic} is not compacted after {PATIENCE_SECONDS} s")
            time.sleep(POLL_SECONDS)
        return time.monotonic() - began

    def load(self, seconds: float) -> Answered:
        topic = topic_name("latency")
        leaders = create_topic(self.cluster.bootstrap, topic, 1)
        try:
            return run_load(
                [Lines(leaders[0], [produce_frame(topic, 0)])],
                rate=RATE,
                warm_up=1.0,
                seconds=seconds,
                error_at=produce_error_at(topic),
                pids=self.cluster.broker_pids,
                fetch=fetch_frame(topic),
            )
        except LoadError:
            return OVERWHELMED

    def load_while_compacting(self, topic: str, seconds: float) -> tuple[Answered, float, float]:
        """The answers, the seconds of the compaction, and the share of the load it was there."""
        answers: list[tuple[Answered, float]] = []
        began = self.begin(topic)

        def send() -> None:
            answers.append((self.load(seconds), time.monotonic()))

        sender = threading.Thread(target=send)
        sender.start()
        took = self.wait(topic, began)
        sender.join()
        answered, ended = answers[0]
        late = max(ended - (began + took), 0.0)
        return answered, took, max(1 - late / (seconds + 1), 0.0)


def measure(
    name: str, source: Path, size: int, end_offset: int, options: argparse.Namespace
) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix=f"compaction-{name}-", dir=options.directory) as place:
        cluster = BROKERS[name](Path(place))
        try:
            compaction = Compaction(cluster, source, end_offset)
            took_quiet = compaction.wait("quiet", compaction.begin("quiet"))
            compaction.load(options.seconds)  # warms up
            idle = [compaction.load(options.seconds) for _ in range(options.rounds)]
            under_load, took_busy, share = compaction.load_while_compacting("busy", options.seconds)
            after = sum(p.stat().st_size for p in compaction._data.glob("quiet-0/*.log"))
        finally:
            cluster.kill()
    p99 = statistics.median(answered.p99_ms for answered in idle)
    return {
        "MB/s": size / 1e6 / took_quiet,
        "MB/s under load": size / 1e6 / took_busy,
        "MB left": after / 1e6,
        "idle p50 ms": statistics.median(answered.p50_ms for answered in idle),
        "p50 ms": under_load.p50_ms,
        "idle p99 ms": p99,
        "p99 ms": under_load.p99_ms,
        "p99 to idle": under_load.p99_ms / p99,
        "share of the load": share,
        "unanswered": under_load.unanswered,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--megabytes", type=int, default=1024)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=6.0, help="seconds of each load")
    parser.add_argument(
        "--rounds", type=int, default=3, help="loads without a compaction; the median counts"
    )
    parser.add_argument("--brokers", default="pybroker,kafka")
    parser.add_argument(
        "--directory", default=None, help="directory for the data [default: in memory]"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="compaction-", dir=options.directory) as place:
        size, end_offset = write_log(Path(place), options.megabytes, options.keys)
        print(f"{size / 1e6:.0f} MB, {end_offset} records, {os.cpu_count()} cores", flush=True)
        for name in options.brokers.split(","):
            figures = measure(name, Path(place), size, end_offset, options)
            print(json.dumps({"broker": name} | {k: round(v, 3) for k, v in figures.items()}))
            sys.stdout.flush()


if __name__ == "__main__":
    main()
