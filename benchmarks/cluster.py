"""Three brokers, replication factor 3, acks=all, beside three Apache Kafka brokers.

    .venv/bin/python -m benchmarks.cluster                ours and Apache Kafka 3.9.1
    .venv/bin/python -m benchmarks.cluster --ours-only

Both clusters run at once, idle while the other is under load, and take their rounds in turn. Kafka
runs over a ZooKeeper of ours, which is not counted for it; ours is counted with its own. With
`--real-time` (as root) client and loaded cluster run ahead of whatever else the machine does.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from confluent_kafka.admin import AdminClient
from rich.console import Console
from rich.table import Table

from benchmarks import bulk_load
from benchmarks.bulk_load import RECORD_BYTES, gigabytes
from benchmarks.machine import memory_mb, real_time, total_cpu_seconds
from benchmarks.paced_load import run_paced_load
from benchmarks.raw_load import produce_frame
from broker import cluster_state
from tests.support.processes import PYBROKER, ROOT, BrokerProcess, ZooKeeperProcess

BROKERS = 3
PARTITIONS = 6
LEADERS_WAIT_SECONDS = 30.0
READY_WAIT_SECONDS = 60.0
# The latency load has this many connections for each partition.
LINES = 8
CONFIG = {
    "offsets.topic.replication.factor": "3",
    "num.replica.fetchers": "1",
    "log.segment.delete.delay.ms": "100",
}
HEAP = ("-Xms1g", "-Xmx1g")  # what kafka-server-start.sh gives


@dataclass(slots=True)
class ClusterTarget:
    name: str
    bootstrap: str
    broker_pids: list[int]
    all_pids: list[int]
    figures: dict[str, list[float]] = field(default_factory=dict)

    def note(self, figure: str, value: float) -> None:
        self.figures.setdefault(figure, []).append(value)

    def leaders(self, topic: str) -> dict[int, tuple[str, int]]:
        """The address of each partition's leader, once all replicas are in sync."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        deadline = time.monotonic() + LEADERS_WAIT_SECONDS
        while time.monotonic() < deadline:
            metadata = admin.list_topics(topic, timeout=10)
            partitions = metadata.topics[topic].partitions
            if partitions and all(
                len(partition.isrs) == BROKERS and partition.leader in metadata.brokers
                for partition in partitions.values()
            ):
                brokers = metadata.brokers
                return {
                    index: (brokers[partition.leader].host, brokers[partition.leader].port)
                    for index, partition in partitions.items()
                }
            time.sleep(0.1)
        raise AssertionError(f"{self.name}: the replicas of {topic} do not get in sync")


def bulk(target: ClusterTarget, megabytes: int, *, ahead: bool) -> None:
    records = megabytes * 1_000_000 // RECORD_BYTES
    topic = bulk_load.new_topic(target.bootstrap, PARTITIONS, BROKERS)
    target.leaders(topic)
    with real_time(target.all_pids, wanted=ahead):
        before = total_cpu_seconds(target.broker_pids)
        seconds = bulk_load.produce(target.bootstrap, topic, records, "all")
        cost = total_cpu_seconds(target.broker_pids) - before
    target.note("bulk MB/s", gigabytes(records) * 1000 / seconds)
    target.note("bulk CPU s/GB", cost / gigabytes(records))
    bulk_load.delete_topic(target.bootstrap, topic)


def paced(target: ClusterTarget, rate: float, seconds: float, *, ahead: bool) -> None:
    topic = bulk_load.new_topic(target.bootstrap, PARTITIONS, BROKERS)
    leaders = target.leaders(topic)
    frames = [
        (address, produce_frame(topic, partition, RECORD_BYTES, acks=-1))
        for partition, address in leaders.items()
        for _ in range(LINES)
    ]
    with real_time(target.all_pids, wanted=ahead):
        run_paced_load(frames, rate=rate, seconds=seconds / 4)
        before = total_cpu_seconds(target.broker_pids)
        result = run_paced_load(frames, rate=rate, seconds=seconds)
        cost = total_cpu_seconds(target.broker_pids) - before
    for percent in (50, 99, 99.9):
        target.note(f"{rate:.0f}/s, p{percent} ms", result.percentile(percent))
    target.note(f"{rate:.0f}/s, CPU us a request", cost / (rate * seconds) * 1e6)
    bulk_load.delete_topic(target.bootstrap, topic)


@contextlib.contextmanager
def our_cluster() -> Iterator[ClusterTarget]:
    """What `pybroker start` starts."""
    with tempfile.TemporaryDirectory(prefix="pybroker-bench-") as name:
        directory = Path(name) / "cluster"
        command = [*PYBROKER, "start", "--brokers", str(BROKERS), "--port", "0"]
        command += ["--zookeeper-port", "0", "--data-dir", str(directory)]
        for key, value in CONFIG.items():
            command += ["--config", f"{key}={value}"]
        supervisor = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + READY_WAIT_SECONDS
            while not (directory / cluster_state.STATE_FILE).exists():
                if supervisor.poll() is not None or time.monotonic() > deadline:
                    raise AssertionError("the cluster did not start")
                time.sleep(0.02)
            state = cluster_state.load(directory)
            brokers = [node.pid for node in state.brokers]
            everybody = [supervisor.pid, *(node.pid for node in state.nodes)]
            yield ClusterTarget("pybroker", state.bootstrap, brokers, everybody)
        finally:
            supervisor.send_signal(signal.SIGTERM)
            supervisor.wait()


class _ApacheKafka(BrokerProcess):
    """An Apache Kafka broker with the heap and the compilers of its own start script."""

    def command_for(self, properties: Path) -> list[str]:
        from tests.support.apache_kafka import kafka_jars

        jars = kafka_jars()
        logging = f"-Dlog4j.configuration=file:{jars / 'log4j.properties'}"
        collector = ("-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")
        return ["java", "-server", *HEAP, *collector, logging, "-cp", f"{jars}/*", "kafka.Kafka",
                str(properties)]  # fmt: skip

    def is_ready(self) -> bool:
        from tests.support.apache_kafka import ApacheKafkaProcess

        return ApacheKafkaProcess.is_ready(self)  # type: ignore[arg-type]


@contextlib.contextmanager
def kafka_cluster() -> Iterator[ClusterTarget]:
    with (
        tempfile.TemporaryDirectory(prefix="kafka-bench-") as name,
        contextlib.ExitStack() as stack,
    ):
        directory = Path(name)
        zookeeper = ZooKeeperProcess(directory)
        stack.callback(zookeeper.kill)
        zookeeper.start()
        brokers = [
            _ApacheKafka(directory / f"broker-{node}", zookeeper.connect, CONFIG, node)
            for node in range(1, BROKERS + 1)
        ]
        for broker in brokers:
            stack.callback(broker.kill)
            broker.launch()
        for broker in brokers:
            broker.wait_until_ready()
        pids = [broker.pid for broker in brokers]
        bootstrap = ",".join(broker.bootstrap for broker in brokers)
        yield ClusterTarget("Apache Kafka", bootstrap, pids, pids)


def report(targets: Sequence[ClusterTarget]) -> Table:
    table = Table("figure", title="medians, (min .. max) of the rounds")
    for target in targets:
        table.add_column(target.name, justify="right")
    if len(targets) == 2:
        table.add_column("ratio", justify="right")
    for figure in targets[0].figures:
        cells = []
        for target in targets:
            values = target.figures[figure]
            cells.append(f"{median(values):,.2f} ({min(values):,.2f} .. {max(values):,.2f})")
        if len(targets) == 2:
            ours, theirs = (median(target.figures[figure]) for target in targets)
            cells.append(f"{ours / theirs:.3f}" if theirs else "")
        table.add_row(figure, *cells)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--megabytes", type=int, default=300, help="of one bulk load")
    parser.add_argument("--rate", type=float, default=2000.0, help="single-record requests/s")
    parser.add_argument("--seconds", type=float, default=5.0, help="length of a latency load")
    parser.add_argument("--ours-only", action="store_true")
    parser.add_argument("--real-time", action="store_true", help="run ahead of all else")
    arguments = parser.parse_args()
    ahead = arguments.real_time
    console = Console(highlight=False)
    loads: list[Callable[[ClusterTarget], None]] = [
        lambda target: bulk(target, arguments.megabytes, ahead=ahead),
        lambda target: paced(target, arguments.rate, arguments.seconds, ahead=ahead),
    ]
    with contextlib.ExitStack() as stack:
        targets = [stack.enter_context(our_cluster())]
        if not arguments.ours_only:
            targets.append(stack.enter_context(kafka_cluster()))
        for target in targets:
            target.note("memory at start, MB", memory_mb(target.all_pids))
            bulk(target, arguments.megabytes // 2, ahead=ahead)  # to warm up
            target.figures = {key: target.figures[key] for key in ("memory at start, MB",)}
        for _ in range(arguments.rounds):
            for load in loads:
                for target in targets:
                    load(target)
                    print(f"{target.name}: {_latest(target)}", file=sys.stderr)
        for target in targets:
            target.note("memory at the end, MB", memory_mb(target.all_pids))
        console.print(report(targets))


def _latest(target: ClusterTarget) -> str:
    return ", ".join(f"{key} {values[-1]:,.2f}" for key, values in target.figures.items())


if __name__ == "__main__":
    main()
