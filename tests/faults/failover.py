"""How long producers get no acknowledgement after a leader is killed, with five clients.

    python -m tests.faults.failover [--kills 20] [--clients librdkafka,java] [--as-lost]
                                    [--zookeepers 3]

For each client the program starts a local cluster of three brokers and a producer with default
settings and acks=all, which sends to six partitions. It kills a broker that leads some of them with
SIGKILL, `--kills` times; every second kill hits the controller. The gap of a partition is the time
from SIGKILL to the acknowledgement that ends the longest silence that the kill can have caused.
After each kill the broker is restarted, and the next kill waits until all replicas are in sync and
the leaders are the same as before.

With `--zookeepers 3` the cluster is on an ensemble, and the ZooKeeper that leads it dies in the
same moment as the broker; it comes back with the broker.

At the end every acknowledged record must be in the log once, at its offset. A client without
idempotence (librdkafka and aiokafka by default) may have duplicated some; they are counted.

New leaders are there after a tenth of a second. Then the gap depends on the pause of 100 ms between
retries of each client, `retry.backoff.ms` (with 20 ms aiokafka's median falls from 216 to 88 ms;
kafka-python's stays at 130). librdkafka also has a timer of one second that no setting changes:
when a connection breaks without a request in flight, librdkafka 2.16 asks for Metadata once, at
once, when no new leader is elected yet. It asks again when that timer finds partitions whose leader
is down.
"""

from __future__ import annotations

import argparse
import itertools
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from pybroker_kafka.testing import KafkaCluster
from tests.support.apache_kafka import java_command
from tests.support.consumed import consumed
from tests.support.gap_client import CLIENTS
from tests.support.patience import WAIT_SECONDS, until
from tests.support.processes import ROOT
from tests.support.terminated import clean_up_when_terminated

BROKERS = 3
PARTITIONS = 6
LEADER_MOVES = (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE)
QUIET_SECONDS = 1.0  # before each kill, and after all went on
END_SECONDS = 90.0
BEGINS_NS = 300_000_000  # a silence that begins later has another reason


class Sender:
    """A gap client: its process and its journal."""

    def __init__(
        self, client: str, bootstrap: str, topic: str, directory: Path, settings: Sequence[str]
    ) -> None:
        self.client = client
        self.topic = topic
        self._journal = directory / f"{client}.journal"
        self._position = 0  # behind the lines of the journal that are read
        self._acknowledged: list[tuple[int, int, int, int]] = []
        self._failures: list[str] = []
        arguments = [bootstrap, topic, str(PARTITIONS), *settings]
        if client == "java":
            command = java_command("GapProducer", *arguments, source="GapProducer.java")
        else:
            command = [sys.executable, "-m", "tests.support.gap_client", client, *arguments]
        with (
            self._journal.open("wb") as output,
            (directory / f"{client}.stderr").open("wb") as complaints,
        ):
            self._process = subprocess.Popen(
                command, cwd=ROOT, stdin=subprocess.PIPE, stdout=output, stderr=complaints
            )

    def acknowledged(self) -> list[tuple[int, int, int, int]]:
        """(nanoseconds, partition, number, offset) of each acknowledgement."""
        self._read()
        return self._acknowledged

    def failures(self) -> list[str]:
        self._read()
        return self._failures

    def _read(self) -> None:
        """The lines that are new."""
        with self._journal.open("rb") as journal:
            journal.seek(self._position)
            text = journal.read()
        whole = text[: text.rfind(b"\n") + 1]
        self._position += len(whole)
        for line in whole.decode().splitlines():
            if line.startswith("x"):
                self._failures.append(line)
            else:
                time_ns, partition, number, offset = map(int, line.split())
                self._acknowledged.append((time_ns, partition, number, offset))

    def reaches_all(self, since_ns: int) -> bool:
        """Whether each partition has acknowledged something after that."""
        assert self._process.poll() is None, f"{self.client} has ended"
        newest = itertools.takewhile(lambda one: one[0] > since_ns, reversed(self.acknowledged()))
        return len({partition for _, partition, _, _ in newest}) == PARTITIONS

    def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(END_SECONDS)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


def gaps_ms(
    acknowledged: Sequence[tuple[int, int, int, int]], killed_ns: int, until_ns: int
) -> dict[int, float]:
    """Partition -> milliseconds from the kill to the end of the silence that it began."""
    found = {}
    for partition in range(PARTITIONS):
        times = sorted(t for t, where, *_ in acknowledged if where == partition)
        before = [t for t in times if t <= killed_ns][-1:]
        after = [t for t in times if killed_ns < t <= until_ns]
        silences = [
            (later - earlier, later)
            for earlier, later in zip([*before, *after], after, strict=False)
            if earlier <= killed_ns + BEGINS_NS
        ]
        _, ended_ns = max(silences)
        found[partition] = (ended_ns - killed_ns) / 1e6
    return found


@dataclass
class Kill:
    node: int
    was_controller: bool
    led: list[float]  # the gaps of the partitions that it led
    followed: list[float]

    def __str__(self) -> str:
        role = ", the controller" if self.was_controller else ""
        led = " ".join(f"{gap:.0f}" for gap in sorted(self.led))
        return f"broker {self.node}{role}: led {led} ms; others at most {max(self.followed):.0f} ms"


@dataclass
class Result:
    client: str
    kills: list[Kill] = field(default_factory=list)
    acknowledged: int = 0
    broken: list[str] = field(default_factory=list)
    doubled: int = 0

    @property
    def gaps(self) -> list[float]:
        return sorted(gap for kill in self.kills for gap in kill.led)

    @property
    def worst(self) -> float:
        return self.gaps[-1]

    def summary(self) -> str:
        gaps = self.gaps
        tenths = statistics.quantiles(gaps, n=10) if len(gaps) > 1 else gaps * 9
        of_controller = [gap for kill in self.kills if kill.was_controller for gap in kill.led]
        others = max(gap for kill in self.kills for gap in kill.followed)
        return (
            f"{self.client:12} {len(self.kills):3} kills {len(gaps):4} gaps   "
            f"least {gaps[0]:5.0f}  median {statistics.median(gaps):5.0f}  "
            f"p90 {tenths[8]:5.0f}  worst {gaps[-1]:5.0f} ms   "
            f"controller's worst {max(of_controller, default=0):5.0f}   "
            f"partitions led by others at most {others:5.0f}   "
            f"{self.acknowledged} acknowledged, {len(self.broken)} broken, {self.doubled} doubled"
        )


def values_of(bootstrap: str, topic: str) -> dict[tuple[int, int], int]:
    """(partition, offset) -> number of every record in the log."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "audit", "enable.auto.commit": False}
    reader = Consumer({**settings, "auto.offset.reset": "earliest"})
    found: dict[tuple[int, int], int] = {}
    try:
        places = [TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)]
        deadline = time.monotonic() + END_SECONDS
        ends = {p.partition: _end_of(reader, p, deadline) for p in places}
        reader.assign(places)
        # The position is below 0 in a partition from which no record was given.
        while any(max(reader.position([p])[0].offset, 0) < ends[p.partition] for p in places):
            assert time.monotonic() < deadline, f"cannot read {topic} to its end"
            for message in reader.consume(1000, 0.2):
                assert message.error() is None, message.error()
                record = consumed(message)
                found[record.partition, record.offset] = int(record.value)
    finally:
        reader.close()
    return found


def _end_of(reader: Consumer, place: TopicPartition, deadline: float) -> int:
    """The high watermark. Leaders still move: a broker that came back takes its place again."""
    while True:
        try:
            end: int = reader.get_watermark_offsets(place, 10)[1]
            return end
        except KafkaException as error:
            if error.args[0].code() not in LEADER_MOVES or time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def audit(
    acknowledged: Sequence[tuple[int, int, int, int]],
    log: Mapping[tuple[int, int], int],
    result: Result,
) -> None:
    """What was acknowledged is where it was said to be; what is there twice is counted."""
    result.acknowledged = len(acknowledged)
    for _, partition, number, offset in acknowledged:
        if log.get((partition, offset)) != number:
            what = f"{number} was acknowledged at {partition}/{offset} and is not there"
            result.broken.append(f"{result.client}: {what}")
    times = Counter((partition, number) for (partition, _), number in log.items())
    result.doubled = sum(count - 1 for count in times.values())


class Play:
    """A cluster, one sender for each client, and kills."""

    def __init__(
        self,
        directory: Path,
        settings: Mapping[str, Sequence[str]],
        *,
        as_lost: bool = False,
        quiet_seconds: float = QUIET_SECONDS,
        zookeepers: int = 1,
    ) -> None:
        """`settings`: of each client, as KEY=VALUE. The leader of several `zookeepers` dies with
        each broker."""
        self.cluster = KafkaCluster(
            brokers=BROKERS, zookeepers=zookeepers, data_dir=directory / "data"
        )
        self._directory = directory
        self._as_lost = as_lost
        self._quiet_seconds = quiet_seconds
        self._settings = settings
        self.senders: list[Sender] = []
        self.results = {client: Result(client) for client in settings}

    def __enter__(self) -> Play:
        self.cluster.start()
        try:
            for client, settings in self._settings.items():
                topic = f"gaps-{client}"
                self.cluster.topic(topic, PARTITIONS)
                self.cluster.wait_for_isr(topic)
                self.senders.append(
                    Sender(client, self.cluster.bootstrap, topic, self._directory, settings)
                )
            self.await_progress()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for sender in self.senders:
            sender.kill()
        self.cluster.stop()

    def await_progress(self, since: int | None = None) -> None:
        """Until every sender has been answered by every partition since then, or from now on."""
        since = time.monotonic_ns() if since is None else since
        for sender in self.senders:
            until(
                lambda s=sender: s.reaches_all(since),  # type: ignore[misc]
                f"{sender.client} goes on",
            )

    def kill(self, number: int) -> list[Kill]:
        """Kill a leader, wait until all go on, and mend; what each sender saw."""
        cluster = self.cluster
        topics = [sender.topic for sender in self.senders]
        cluster.balance_leaders()
        self.await_progress()
        time.sleep(self._quiet_seconds)
        controller = cluster.controller()
        others = [one for one in cluster.brokers if one != controller]
        victim = controller if number % 2 else others[number // 2 % len(others)]
        led = {
            topic: {part: cluster.leader(topic, part) for part in range(PARTITIONS)}
            for topic in topics
        }
        pid = cluster.node(victim).pid
        of_ensemble = [cluster.zookeeper_leader()] if len(cluster.zookeepers) > 1 else []
        pids = [cluster.node(member).pid for member in of_ensemble]
        killed_ns = time.monotonic_ns()
        for member_pid in pids:
            os.kill(member_pid, signal.SIGKILL)
        if self._as_lost:
            cluster.kill(victim, as_lost=True)
        else:
            os.kill(pid, signal.SIGKILL)  # from outside: nobody tells the supervisor
        # What comes before was on its way when the leader died.
        self.await_progress(killed_ns + BEGINS_NS)
        time.sleep(self._quiet_seconds)
        until_ns = time.monotonic_ns()
        for member in of_ensemble:
            cluster.restart(member)
        cluster.restart(victim)
        cluster.wait_for_zookeepers()
        cluster.wait_for_brokers()
        for topic in topics:
            cluster.wait_for_isr(topic, timeout=WAIT_SECONDS)
        seen = []
        for sender in self.senders:
            gaps = gaps_ms(sender.acknowledged(), killed_ns, until_ns)
            of_victim = {p for p, leader in led[sender.topic].items() if leader == victim}
            kill = Kill(
                victim,
                victim == controller,
                [gap for partition, gap in gaps.items() if partition in of_victim],
                [gap for partition, gap in gaps.items() if partition not in of_victim],
            )
            self.results[sender.client].kills.append(kill)
            seen.append(kill)
        return seen

    def end(self) -> None:
        """Let the senders finish, and compare their journals with the log."""
        for sender in self.senders:
            sender.end()
        for sender in self.senders:
            result = self.results[sender.client]
            log = values_of(self.cluster.bootstrap, sender.topic)
            audit(sender.acknowledged(), log, result)
            result.broken += [f"{sender.client}: {failure}" for failure in sender.failures()]


def play(
    directory: Path,
    settings: Mapping[str, Sequence[str]],
    kills: int,
    *,
    as_lost: bool = False,
    quiet_seconds: float = QUIET_SECONDS,
    tell: Callable[[str], None] = lambda _: None,
    zookeepers: int = 1,
) -> dict[str, Result]:
    with Play(
        directory,
        settings,
        as_lost=as_lost,
        quiet_seconds=quiet_seconds,
        zookeepers=zookeepers,
    ) as running:
        for number in range(kills):
            for sender, kill in zip(running.senders, running.kill(number), strict=True):
                tell(f"{sender.client:12} {number + 1:3}: {kill}")
        running.end()
        return running.results


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.faults.failover",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--clients", default=",".join(CLIENTS))
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting of the client, by the client's own name; may be repeated",
    )
    parser.add_argument(
        "--keep", action="store_true", help="keep the directory with logs and journals"
    )
    parser.add_argument(
        "--as-lost",
        action="store_true",
        help="simulate a lost machine, whose ZooKeeper session expires",
    )
    parser.add_argument("--zookeepers", type=int, default=1, help="1, or members of an ensemble")
    arguments = parser.parse_args()
    clean_up_when_terminated()
    print(f"load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", flush=True)
    results: list[Result] = []
    for client in arguments.clients.split(","):
        directory = Path(tempfile.mkdtemp(prefix="failover-"))
        try:
            results += play(
                directory,
                {client: arguments.set},
                arguments.kills,
                as_lost=arguments.as_lost,
                tell=lambda what: print(f"  {what}", flush=True),
                zookeepers=arguments.zookeepers,
            ).values()
        finally:
            if arguments.keep:
                print(f"kept in {directory}")
            else:
                shutil.rmtree(directory, ignore_errors=True)
    broken = [what for result in results for what in result.broken]
    for result in results:
        print(result.summary())
    print("\n".join(broken[:20]))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
