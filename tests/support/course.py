"""The course, read and answered as by a reader.

The answers to its questions are found by other ways than the course's own: the test kit's reader,
our commands, the files of the brokers, and ZooKeeper by kazoo.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from struct import Struct
from tempfile import TemporaryFile
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException

from pybroker_kafka.learn.chapter import Ask, Chapter
from pybroker_kafka.learn.course import CLUSTER_CONFIG
from pybroker_kafka.local.cluster_state import ClusterError
from pybroker_kafka.protocol.records.batch import iter_batch_headers
from pybroker_kafka.testing import KafkaCluster
from tests.support.commands import Commands
from tests.support.patience import until
from tests.support.processes import ROOT

WRONG = "4711"
# Lines of the terminal begin so.
RUN, ASK, SAYS = "runs it", "Your answer", "The cluster says"
RIGHT = "Right: the cluster says"

ENTRY = Struct(">ii")  # of an offset index: relative offset, position; zeros behind the last one

UNANSWERED = (AssertionError, LookupError, StopIteration, OSError, ClusterError, KazooException)


class Answers:
    """A method for each fact of the course, with its name and its words."""

    def __init__(self, kafka: KafkaCluster) -> None:
        self._kafka = kafka

    def now(self, fact: tuple[str, ...]) -> str | None:
        """The text that a reader types; None while the cluster has no answer."""
        name, *words = fact
        found: Callable[..., object] = getattr(self, name.replace("-", "_"))
        try:
            return str(found(*words))
        except UNANSWERED as error:
            print(f"{fact}: {error!r}")
            return None

    def _ask(self, *words: str) -> Any:
        return Commands(self._kafka._address().bootstrap).json(*words)

    # Records

    def records(self, topic: str) -> int:
        return len(self._kafka.records(topic))

    def committed_records(self, topic: str) -> int:
        return len(self._kafka.records(topic, committed=True))

    def records_in(self, topic: str, partition: str) -> int:
        return len(self._kafka.records(topic, partition=int(partition)))

    def partition_of_key(self, topic: str, key: str) -> int:
        found = [one for one in self._kafka.records(topic) if one.key == key.encode()]
        return sorted(found, key=lambda one: one.timestamp)[-1].partition

    def value_bytes(self, topic: str) -> int:
        newest = max(self._kafka.records(topic), key=lambda one: one.timestamp)
        assert newest.value is not None
        return len(newest.value)

    # Offsets, replicas and groups: by the commands

    def log_start(self, topic: str, partition: str) -> int:
        return int(self._ask("records", "offsets", f"{topic}:{partition}")[0]["first"])

    def high_watermark(self, topic: str, partition: str) -> int:
        return int(self._ask("records", "offsets", f"{topic}:{partition}")[0]["end"])

    def last_stable(self, topic: str, partition: str) -> int:
        place = f"{topic}:{partition}"
        return int(self._ask("records", "offsets", place, "--read-committed")[0]["end"])

    def committed(self, group: str, topic: str, partition: str) -> int:
        return int(self._of_group(group, topic, partition)["offset"])

    def lag(self, group: str, topic: str, partition: str) -> int:
        return int(self._of_group(group, topic, partition)["lag"])

    def _of_group(self, group: str, topic: str, partition: str) -> Any:
        for row in self._ask("groups", "describe", group):
            if row["partition"] == f"{topic}-{partition}":
                return row
        raise AssertionError(f"{group} has nothing of {topic}-{partition}")

    def _listed(self, group: str) -> Any:
        return next(row for row in self._ask("groups", "list") if row["group"] == group)

    def coordinator(self, group: str) -> int:
        return int(self._listed(group)["coordinator"])

    def group_state(self, group: str) -> str:
        return str(self._listed(group)["state"])

    def _members(self, group: str) -> Any:
        return self._ask("groups", "describe", group, "--members")

    def members(self, group: str) -> int:
        return len(self._members(group))

    def largest_share(self, group: str) -> int:
        return max(len(row["partitions"]) for row in self._members(group))

    # Transactions and configs

    def transaction_state(self, transactional_id: str) -> str:
        return str(self._ask("transactions", "describe", transactional_id)[0]["state"])

    def producer_epoch(self, transactional_id: str) -> int:
        return int(self._ask("transactions", "describe", transactional_id)[0]["epoch"])

    def broker_config(self, broker: str, key: str) -> str:
        rows = self._ask("configs", "describe", "--broker", broker, "--all")
        return str(next(row["value"] for row in rows if row["key"] == key))

    def topic_config(self, topic: str, key: str) -> str:
        rows = self._ask("configs", "describe", "--topic", topic, "--all")
        return str(next(row["value"] for row in rows if row["key"] == key))

    # Files

    def _logs(self, topic: str, partition: str, broker: str) -> list[Path]:
        folder = self._kafka.data_dir / f"broker-{broker}" / f"{topic}-{partition}"
        return sorted(folder.glob("*.log"))

    def segments(self, topic: str, partition: str, broker: str) -> int:
        return len(self._logs(topic, partition, broker))

    def segment_of(self, topic: str, partition: str, broker: str, offset: str) -> str:
        names = [one.name for one in self._logs(topic, partition, broker)]
        return [name for name in names if int(name[:20]) <= int(offset)][-1][:20]

    def index_entry(self, topic: str, partition: str, broker: str, offset: str) -> int:
        base = self.segment_of(topic, partition, broker, offset)
        file = self._logs(topic, partition, broker)[0].with_name(f"{base}.index")
        entries = [
            int(base) + relative
            for relative, place in ENTRY.iter_unpack(file.read_bytes())
            if place
        ]
        return max((one for one in entries if one <= int(offset)), default=int(base))

    def log_end(self, topic: str, partition: str, broker: str) -> int:
        newest = self._logs(topic, partition, broker)[-1]
        ends = [header.next_offset for _, header in iter_batch_headers(newest.read_bytes())]
        return ends[-1] if ends else int(newest.name[:20])

    # A broker's inside

    def waiting_fetches(self, broker: str) -> int:
        node = self._kafka.node(int(broker))
        address = f"http://{node.host}:{node.metrics_port}/inside/waiting"
        with urllib.request.urlopen(address) as answer:
            kinds = json.load(answer)
        (fetch,) = [one for one in kinds if one["kind"] == "Fetch"]
        return sum("follower" not in one["for"] for one in fetch["oldest"])

    # ZooKeeper

    def _znode(self, path: str) -> tuple[bytes, Any]:
        zookeeper = KazooClient(self._kafka.zookeeper)
        zookeeper.start(60)
        try:
            found: tuple[bytes, Any] = zookeeper.get(path)
            return found
        finally:
            zookeeper.stop()
            zookeeper.close()

    def leader(self, topic: str, partition: str) -> int:
        return int(self._partition(topic, partition)["leader"])

    def leader_epoch(self, topic: str, partition: str) -> int:
        return int(self._partition(topic, partition)["leader_epoch"])

    def isr(self, topic: str, partition: str) -> str:
        return " and ".join(map(str, self._partition(topic, partition)["isr"]))

    def offline(self, topic: str, partition: str) -> str:
        there = self.registered().split(",")
        return ",".join(str(one) for one in self._kafka.brokers if str(one) not in there)

    def _partition(self, topic: str, partition: str) -> Any:
        path = f"/brokers/topics/{topic}/partitions/{partition}/state"
        return json.loads(self._znode(path)[0])

    def registered(self) -> str:
        zookeeper = KazooClient(self._kafka.zookeeper)
        zookeeper.start(60)
        try:
            return ",".join(zookeeper.get_children("/brokers/ids"))
        finally:
            zookeeper.stop()
            zookeeper.close()

    def controller(self) -> int:
        return int(json.loads(self._znode("/controller")[0])["brokerid"])

    def controller_epoch(self) -> int:
        return int(self._znode("/controller_epoch")[0])

    def znode_version(self, path: str) -> int:
        return int(self._znode(path)[1].version)


def course_cluster() -> KafkaCluster:
    """As the course starts one."""
    return KafkaCluster(brokers=3, metrics_port=0, config=CLUSTER_CONFIG)


class Terminal:
    """`pybroker learn CHAPTER`, read and answered as by a reader."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.text = ""

    def read_until(self, *words: str) -> str:
        """The text up to a line with one of these."""
        assert self._process.stdout is not None
        begin = len(self.text)
        while line := self._process.stdout.readline():
            self.text += line
            assert "ended with an error" not in line, self.text[-3000:]
            if any(word in line for word in words):
                return self.text[begin:]
        raise AssertionError(f"none of {words}: {self.text[-3000:]}")

    def type(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait(60) == 0, self.text[-3000:]


@contextmanager
def learning(kafka: KafkaCluster, *words: str) -> Iterator[Terminal]:
    command = [sys.executable, "-m", "pybroker_kafka", "learn", *words]
    command += ["--data-dir", str(kafka.data_dir)]
    with TemporaryFile("w+") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            cwd=ROOT.parent,
            env=dict(os.environ, PYTHONUNBUFFERED="1"),
        )
        try:
            terminal = Terminal(process)
            yield terminal
            terminal.end()
        finally:
            process.kill()
            process.wait()
            log.seek(0)
            print(log.read(), end="")  # pytest shows it if this ends badly


def do_steps(terminal: Terminal, chapter: Chapter, answers: Answers, first: int, end: int) -> None:
    """Steps of a chapter whose text before the first one has not been read yet."""
    for number in range(first, end):
        step = chapter.steps[number]
        if isinstance(step, Ask):
            terminal.read_until(ASK)
            until(lambda: "something else" in said_to(terminal, WRONG))
            until(partial(is_right, terminal, answers, step))
        else:
            terminal.read_until(RUN)
            terminal.type("")


def said_to(terminal: Terminal, answer: str) -> str:
    """The text behind an answer: a verdict, or why the cluster has none at this moment."""
    terminal.type(answer)
    return terminal.read_until(RIGHT, ASK)


def is_right(terminal: Terminal, answers: Answers, step: Ask) -> bool:
    """What a reader sees may be otherwise a moment later: then they look again."""
    given = answers.now(step.fact)
    return given is not None and RIGHT in said_to(terminal, given)
