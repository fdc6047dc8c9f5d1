"""Kafka Streams 4.3.1 with `group.protocol=streams` (KIP-1071): a word count, exactly once.

Instances share its tasks; one is killed and comes again; the counts are those of the words.
Internal topics are the broker's work. Kafka's own tool describes the group.
"""

from __future__ import annotations

import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pybroker_kafka.protocol.apis.delete_groups import DeleteGroupsRequest
from pybroker_kafka.protocol.apis.list_groups import ListGroupsRequest
from pybroker_kafka.protocol.apis.streams_group_describe import StreamsGroupDescribeRequest
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.features import Feature
from tests.support.commands import Commands
from tests.support.maven import compiled, maven_jars
from tests.support.patience import until
from tests.support.processes import BrokerProcess, running_broker
from tests.support.short_lived_java import JVM_OPTIONS
from tests.support.wire import WireClient, unique
from tests.wire.feature_steps import finalize

pytestmark = pytest.mark.nightly

confluent_kafka = pytest.importorskip("confluent_kafka")

VERSION = "4.3.1"
PARTITIONS = 2
SOURCE = Path(__file__).with_name("java") / "StreamsWordCount.java"
JARS = {
    "org.apache.kafka:kafka-streams": VERSION,
    "org.apache.kafka:kafka-tools": VERSION,
    "org.slf4j:slf4j-simple": "1.7.36",
}
TOOL = "org.apache.kafka.tools.streams.StreamsGroupCommand"
CONFIG = {
    "group.streams.heartbeat.interval.ms": "500",
    "group.streams.min.heartbeat.interval.ms": "500",
    "group.streams.session.timeout.ms": "6000",
    "group.streams.min.session.timeout.ms": "6000",
    "group.streams.initial.rebalance.delay.ms": "500",
}
LINES = ("the quick brown fox", "jumps over the lazy dog", "the end")


def class_path() -> str:
    return compiled(SOURCE, maven_jars(f"kafka-streams-{VERSION}", JARS))


class Instance:
    """One instance of the application, whose output a thread reads."""

    def __init__(self, *arguments: str, log: Path) -> None:
        self._log = log.open("w")
        self.process = subprocess.Popen(
            ["java", *JVM_OPTIONS, "-cp", class_path(), SOURCE.stem, *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True,
        )  # fmt: skip
        self.states: list[str] = []
        self.tasks: set[str] = set()
        self.failures: list[str] = []
        self._thread = threading.Thread(target=self._follow)
        self._thread.start()

    def _follow(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            word, *rest = line.split()
            if word == "state":
                self.states.append(rest[0])
            elif word == "tasks":
                self.tasks = set(rest)
            elif word == "failed":
                self.failures.append(line)

    def close(self) -> None:
        if self.process.poll() is None:
            assert self.process.stdin is not None
            self.process.stdin.close()
        self._end()

    def kill(self) -> None:
        self.process.kill()
        self._end()

    def _end(self) -> None:
        self.process.wait()
        self._thread.join()
        self._log.close()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with running_broker(tmp_path_factory.mktemp("streams-groups"), CONFIG) as broker:
        with WireClient(broker.bootstrap) as client:
            finalize(client, {Feature.GROUP: 1, Feature.STREAMS: 1})
        yield broker


@pytest.fixture
def kafka(broker: BrokerProcess) -> Iterator[WireClient]:
    with WireClient(broker.bootstrap) as client:
        yield client


class Application:
    """A word count with its topics, and the words that it was given."""

    def __init__(self, kafka: WireClient, broker: BrokerProcess, directory: Path) -> None:
        self.kafka, self.broker, self.directory = kafka, broker, directory
        self.name = unique("words")
        self.input = kafka.create_topic(PARTITIONS)
        self.output = kafka.create_topic(1)
        self.words: Counter[str] = Counter()
        self.instances: list[Instance] = []

    def start(self, state: str, *server: str) -> Instance:
        place = self.directory / state
        self.instances.append(
            Instance(
                self.broker.bootstrap, self.name, self.input.name, self.output.name, str(place),
                *server, log=self.directory / f"{state}-{len(self.instances)}.log",
            )
        )  # fmt: skip
        return self.instances[-1]

    def say(self) -> None:
        for n, line in enumerate(LINES * 10):
            self.kafka.append(self.input.name, line.encode(), partition=n % PARTITIONS)
            self.words.update(line.split())

    def counts(self) -> dict[str, int]:
        """The last count of each word in the output."""
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": self.broker.bootstrap,
                "group.id": unique("reader"),
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
            }
        )
        consumer.assign([confluent_kafka.TopicPartition(self.output.name, 0, 0)])
        found: dict[str, int] = {}
        try:
            while True:
                message = consumer.poll(5)
                if message is None or message.error():
                    return found
                found[message.key().decode()] = int(message.value())
        finally:
            consumer.close()

    def is_counted(self) -> bool:
        return self.counts() == dict(self.words)

    def end(self) -> None:
        for instance in self.instances:
            instance.kill()


@pytest.fixture
def application(
    kafka: WireClient, broker: BrokerProcess, tmp_path: Path
) -> Iterator[Callable[[], Application]]:
    made: list[Application] = []

    def make() -> Application:
        made.append(Application(kafka, broker, tmp_path))
        return made[-1]

    yield make
    for one in made:
        one.end()


ALL_TASKS = {f"{subtopology}_{n}" for subtopology in (0, 1) for n in range(PARTITIONS)}


def test_instances_share_tasks_and_survive_a_kill(
    kafka: WireClient, application: Callable[[], Application]
) -> None:
    words = application()
    words.say()
    first = words.start("first")
    until(lambda: first.tasks == ALL_TASKS)
    until(words.is_counted)
    second = words.start("second")
    until(lambda: len(first.tasks) == len(second.tasks) == PARTITIONS)
    assert first.tasks | second.tasks == ALL_TASKS
    words.say()
    until(words.is_counted)
    first.kill()
    words.say()
    until(lambda: second.tasks == ALL_TASKS)
    until(words.is_counted)
    again = words.start("first")
    until(lambda: len(again.tasks) == len(second.tasks) == PARTITIONS)
    words.say()
    until(words.is_counted)
    assert not [failure for one in words.instances for failure in one.failures]
    again.close()
    second.close()
    asked = StreamsGroupDescribeRequest(group_ids=[words.name])
    until(lambda: kafka.call(asked, 0).groups[0].group_state == "Empty")
    (deleted,) = kafka.call(DeleteGroupsRequest(groups_names=[words.name]), 2).results
    assert deleted.error_code == ErrorCode.NONE
    (described,) = kafka.call(asked, 0).groups
    assert described.error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_kafkas_tool_shows_the_group(
    broker: BrokerProcess, kafka: WireClient, application: Callable[[], Application]
) -> None:
    words = application()
    words.say()
    instance = words.start("only", "here.example:7070")
    until(lambda: instance.tasks == ALL_TASKS)
    until(words.is_counted)
    listed = kafka.call(ListGroupsRequest(types_filter=["Streams"]), 5).groups
    assert [
        (one.protocol_type, one.group_type) for one in listed if one.group_id == words.name
    ] == [("streams", "streams")]

    def told(*arguments: str) -> str:
        done = subprocess.run(
            [
                "java", *JVM_OPTIONS, "-cp", class_path(), TOOL,
                "--bootstrap-server", broker.bootstrap, *arguments,
            ],
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert words.name in told("--list")
    described = told("--describe", "--group", words.name, "--state", "--verbose")
    assert "Stable" in described, described
    members = told("--describe", "--group", words.name, "--members", "--verbose")
    assert "ACTIVE" in members.upper(), members
    offsets = told("--describe", "--group", words.name, "--offsets")
    assert words.input.name in offsets, offsets
    commands = Commands(broker.bootstrap)
    (row,) = commands.json("groups", "describe", words.name, "--members")
    assert (set(row["tasks"]), row["to come"]) == (ALL_TASKS, [])
    rows = commands.json("groups", "describe", words.name)
    assert all(one["host"] == "/127.0.0.1" for one in rows), rows
    listed = commands.json("groups", "list", "--type", "streams")
    assert words.name in [one["group"] for one in listed]
