"""`python -m tests.torture.table_kills --first N --seeds K`: SIGKILL of what writes tables.

Each seed has a producer of transactions, of which some are aborted, into a topic with a table.
At the same time, the writer of the table, the same in the midst of a commit, the broker that leads
the topic, or all brokers are killed at random moments. At the end the table has exactly the
committed records, each once; no record of an aborted transaction; and each snapshot as many rows as
there are committed records below the offsets in its summary, which never fall.

`--planted` plants faults in the writer of tables, one after the other, and counts the seeds until
this judge finds each (`planted_tables`).

A failing seed is told at once with its steps, and `--first SEED --seeds 1` makes the same choices
again (the machine's timing is its own). Two brokers, their ZooKeeper and the topic live over
several seeds; each seed checks all of the table.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path

import psutil
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from kafka.admin import KafkaAdminClient, NewTopic
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table

from pybroker_kafka.tables.iceberg import open_catalog
from pybroker_kafka.tables.place import Place
from tests.support.patience import WAIT_SECONDS, until
from tests.support.processes import BrokerProcess, ZooKeeperProcess, hear_signals
from tests.torture import planted_tables

TOPIC = "killed"
PARTITIONS = 2
MOST_RECORDS = 1_000_000  # of a seed
KINDS = ("writer", "committer", "broker", "cluster")
LOAD_SECONDS = 1.2
SEEDS_OF_A_CLUSTER = 10
PLANTED_SECONDS = 20.0  # for a table that has lost a record
KILLED_WRITERS = 2  # of one broker: after more of them it waits long before the next one
CONFIG = {
    "zookeeper.session.timeout.ms": "6000",
    "offsets.topic.num.partitions": "2",
    "offsets.topic.replication.factor": "2",
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.replication.factor": "2",
}
Records = dict[tuple[int, int], int]  # numbers by partition and offset


class Nodes:
    """A ZooKeeper and two brokers."""

    def __init__(self, home: Path, environment: Mapping[str, str]) -> None:
        self.place = Place(str(home / "warehouse"))
        self._zookeeper = ZooKeeperProcess(home / "zookeeper")
        self._zookeeper.start()
        config = {"pybroker.table.warehouse": self.place.warehouse, **CONFIG}
        self.brokers = [
            BrokerProcess(home / f"broker-{number}", self._zookeeper.connect, config, number)
            for number in (1, 2)
        ]
        for broker in self.brokers:
            broker.environment = environment
            broker.start()
        self.servers = ",".join(broker.bootstrap for broker in self.brokers)
        self._writers_killed: Counter[int] = Counter()
        config = {"pybroker.table": "iceberg", "pybroker.table.target.lag.ms": "100"}
        with closing(KafkaAdminClient(bootstrap_servers=self.servers)) as admin:
            assignments = {0: [1, 2], 1: [2, 1]}
            topic = NewTopic(TOPIC, replica_assignments=assignments, topic_configs=config)
            admin.create_topics([topic])

    @property
    def leader(self) -> int:
        """The place of the broker that leads partition 0."""
        client = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})
        leader: int = client.list_topics(TOPIC, timeout=30).topics[TOPIC].partitions[0].leader
        return max(leader, 1) - 1

    def kill(self, kind: str) -> None:
        """Brokers are started again."""
        leader = self.leader
        if kind in ("writer", "committer"):
            self._kill_writer(leader)
        else:
            self._kill_brokers(self.brokers if kind == "cluster" else [self.brokers[leader]])

    def _kill_brokers(self, killed: list[BrokerProcess]) -> None:
        for broker in killed:
            broker.kill()
        for broker in killed:
            self._writers_killed.pop(self.brokers.index(broker), None)
            broker.launch()
        for broker in killed:
            broker.wait_until_ready()

    def _kill_writer(self, number: int) -> None:
        with suppress(psutil.NoSuchProcess):
            for child in psutil.Process(self.brokers[number].pid).children(recursive=True):
                if "pybroker_kafka.tables.worker" in child.cmdline():
                    child.kill()
                    self._writers_killed[number] += 1

    def refresh(self) -> None:
        for number, count in list(self._writers_killed.items()):
            if count >= KILLED_WRITERS:
                self._kill_brokers([self.brokers[number]])

    def stop(self) -> None:
        for broker in self.brokers:
            broker.kill()
        self._zookeeper.kill()


class Load:
    """Transactions one after the other, in a thread; who may have been killed is asked again."""

    def __init__(self, servers: str, seed: int) -> None:
        self._settings = {
            "bootstrap.servers": servers,
            "transactional.id": TOPIC,
            "linger.ms": 0,
            "log_level": 0,
            "transaction.timeout.ms": 10_000,
        }
        self._random = random.Random(seed)
        self._end = threading.Event()
        self._next = seed * MOST_RECORDS
        self.committed: set[int] = set()
        self.aborted: set[int] = set()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        producer: Producer | None = None
        while not self._end.is_set() or producer is None:
            try:
                if producer is None:
                    fresh = Producer(self._settings)
                    fresh.init_transactions(30)
                    producer = fresh
                    continue
                self._transact(producer)
            except (KafkaException, BufferError):
                producer = None  # the next one's beginning ends the open transaction

    def _transact(self, producer: Producer) -> None:
        numbers = range(self._next, self._next + self._random.randint(1, 40))
        self._next = numbers.stop
        is_aborted = self._random.random() < 0.3
        if is_aborted:
            self.aborted.update(numbers)  # whatever comes: nobody commits it
        producer.begin_transaction()
        for number in numbers:
            producer.produce(TOPIC, b"%d" % number, partition=number % PARTITIONS)
        if is_aborted:
            producer.flush(10)
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
            self.committed.update(numbers)


class Seed:
    def __init__(self, nodes: Nodes, number: int, table_seconds: float = WAIT_SECONDS) -> None:
        self._nodes = nodes
        self._table_seconds = table_seconds
        self._random = random.Random(number)
        self._number = number
        self.trace: list[str] = []
        self.rows = 0
        self.snapshots = 0

    def run(self) -> None:
        """Raises AssertionError."""
        load = Load(self._nodes.servers, self._number)
        try:
            for _ in range(self._random.randint(1, 2)):
                kind = self._random.choice(KINDS)
                wait = self._random.uniform(0.1, LOAD_SECONDS)
                self.trace.append(f"{kind} after {wait:.2f} s")
                time.sleep(wait)
                if kind == "committer":
                    self._wait_for_a_file()
                self._nodes.kill(kind)
            time.sleep(0.2)
        finally:
            load.stop()
        found = self._read_committed()
        self._check_load(load, found)
        self._check_table(found)
        self.rows = len(load.committed)

    def _wait_for_a_file(self) -> None:
        """Until a commit has begun, if one comes soon."""
        place = Path(self._nodes.place.warehouse)
        before = set(place.glob("*/*/data/*"))
        limit = time.monotonic() + LOAD_SECONDS
        while time.monotonic() < limit:
            if set(place.glob("*/*/data/*")) != before:
                time.sleep(self._random.uniform(0, 0.05))
                return

    def _read_committed(self) -> Records:
        settings = {
            "bootstrap.servers": self._nodes.servers,
            "group.id": "judge",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "log_level": 0,
        }
        found: Records = {}
        # A consumer has no position where it was given no record: in an empty or aborted partition.
        read = [0] * PARTITIONS
        places = [TopicPartition(TOPIC, n, OFFSET_BEGINNING) for n in range(PARTITIONS)]
        with closing(Consumer(settings)) as consumer:
            consumer.assign(places)

            def is_whole() -> bool:
                for message in consumer.consume(1000, 0.05):
                    error = message.error()
                    if error is not None and error.code() != KafkaError._PARTITION_EOF:
                        continue
                    partition, offset = message.partition(), message.offset()
                    assert partition is not None
                    assert offset is not None
                    if error is not None:
                        read[partition] = offset
                    elif (value := message.value()) is not None:
                        found[partition, offset] = int(value)
                try:
                    ends = [consumer.get_watermark_offsets(place, 10)[1] for place in places]
                except KafkaException:  # a broker that was started a moment ago
                    return False
                return all(behind >= end for behind, end in zip(read, ends, strict=True))

            until(is_whole)
        return found

    def _check_load(self, load: Load, found: Records) -> None:
        numbers = sorted(found.values())
        assert len(set(numbers)) == len(numbers), "the topic has a record twice"
        assert load.committed <= set(numbers), "the topic has lost a committed record"
        assert not load.aborted & set(numbers), "the topic has an aborted record"

    def _table(self) -> Table | None:
        name = (self._nodes.place.namespace, self._nodes.place.table_name(TOPIC))
        try:
            return open_catalog(self._nodes.place).load_table(name)
        except NoSuchTableError:
            return None

    def _check_table(self, found: Records) -> None:
        if not found:
            return

        def has_all() -> bool:
            table = self._table()
            return table is not None and _count(table) >= len(found)

        until(has_all, "the table has as many rows as the topic", self._table_seconds)
        table = self._table()
        assert table is not None
        rows = table.scan(selected_fields=("partition", "offset", "value")).to_arrow().to_pylist()
        in_table = {(row["partition"], row["offset"]): int(row["value"]) for row in rows}
        assert len(rows) == len(in_table), "the table has a record twice"
        assert in_table == found, f"differing: {sorted(in_table.items() ^ found.items())[:10]}"
        before: dict[str, int] = {}
        for snapshot in table.snapshots():
            assert snapshot.summary is not None
            offsets: dict[str, int] = json.loads(snapshot.summary["pybroker.offsets"] or "{}")
            assert all(offsets[part] >= at for part, at in before.items()), (before, offsets)
            below = sum(offset < offsets.get(str(part), 0) for part, offset in found)
            total = int(snapshot.summary["total-records"] or 0)
            assert total == below, f"{total} rows, and {below} records below {offsets}"
            before = offsets
            self.snapshots += 1


def _count(table: Table) -> int:
    snapshot = table.current_snapshot()
    if snapshot is None or snapshot.summary is None:
        return 0
    return int(snapshot.summary["total-records"] or 0)


class Counts:
    """What the seeds have done."""

    def __init__(self) -> None:
        self.failed: list[int] = []
        self.rows = 0
        self.snapshots = 0
        self.kinds: Counter[str] = Counter()


def run(seeds: Sequence[int], planted: Mapping[str, str] | None = None) -> Counts:
    """With a planted fault, that is the brokers' environment, until the first failed seed."""
    counts = Counts()
    nodes: Nodes | None = None
    home = Path()
    for number in seeds:
        if nodes is None:
            home = Path(tempfile.mkdtemp(prefix="pybroker-table-kills-"))
            nodes = Nodes(home, planted or {})
        began = time.monotonic()
        seed = Seed(nodes, number, PLANTED_SECONDS if planted else WAIT_SECONDS)
        has_failed = False
        try:
            seed.run()
            nodes.refresh()
            verdict = f"{seed.rows} records, {seed.snapshots} snapshots"
        except Exception as error:
            has_failed = True
            counts.failed.append(number)
            verdict = f"FAILED: {type(error).__name__}: {error}; see {home}"
        told = time.monotonic() - began
        print(f"seed {number}: {', '.join(seed.trace)}: {verdict} ({told:.1f} s)", flush=True)
        counts.rows += seed.rows
        counts.snapshots += seed.snapshots
        counts.kinds.update(step.split()[0] for step in seed.trace)
        if has_failed or number == seeds[-1] or not (number + 1) % SEEDS_OF_A_CLUSTER:
            nodes.stop()
            nodes = None
            if planted or not has_failed:
                shutil.rmtree(home)
            if planted and has_failed:
                break
    return counts


def run_planted(first: int, most: int) -> int:
    missed = []
    for fault in planted_tables.FAULTS:
        with tempfile.TemporaryDirectory() as directory:
            planted = planted_tables.environment(fault, Path(directory))
            found = run(range(first, first + most), planted).failed
        print(f"{fault}: {found[0] - first + 1 if found else 'NOT FOUND'}", flush=True)
        if not found:
            missed.append(fault)
    return bool(missed)


def main() -> int:
    hear_signals()
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--first", type=int, default=random.randrange(1 << 30), metavar="N")
    parser.add_argument("--seeds", type=int, default=20, metavar="K")
    parser.add_argument("--planted", action="store_true", help="plant faults, and find each")
    arguments = parser.parse_args()
    if arguments.planted:
        return run_planted(arguments.first, arguments.seeds)
    began = time.monotonic()
    counts = run(range(arguments.first, arguments.first + arguments.seeds))
    print(
        f"{arguments.seeds} seeds in {time.monotonic() - began:.0f} s, {len(counts.failed)} failed;"
        f" {counts.rows} committed records, {counts.snapshots} snapshots looked at; "
        f"kills: {dict(counts.kinds)}"
    )
    if counts.failed:
        print(f"FAILED seeds: {' '.join(map(str, counts.failed))}")
    return bool(counts.failed)


if __name__ == "__main__":
    sys.exit(main())
