"""The commands that look after a cluster, at ours and at Apache Kafka: the same words, one result.

Two brokers of ours with two log directories each, and one of Apache Kafka; about 12 s, most of it
the start of the latter.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import NamedTuple

import pytest
import trio
from click.testing import CliRunner
from confluent_kafka import Consumer, Producer

from pybroker_kafka import Admin, Cluster
from pybroker_kafka.cli.main import main
from pybroker_kafka.client.admin.config_types import ConfigResource, ConfigSource, ResourceKind
from pybroker_kafka.client.admin.records import LATEST
from pybroker_kafka.client.admin.topics import NewTopic
from pybroker_kafka.client.errors import Refused
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.records.builder import build_batch
from pybroker_kafka.protocol.records.record import SimpleRecord
from tests.support.apache_kafka import ApacheKafkaProcess, kafka_jars
from tests.support.commands import Commands
from tests.support.patience import until
from tests.support.processes import BrokerProcess, zookeeper_process
from tests.support.schema_registry import schema_registry
from tests.support.wire import WireClient

CONFIG = {
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "auto.create.topics.enable": "false",
    "delete.topic.enable": "true",
    "group.initial.rebalance.delay.ms": "0",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "offsets.topic.replication.factor": "1",
    # Or no transaction would hang: the leader would ask the coordinator.
    "transaction.partition.verification.enable": "false",
}
WAIT_SECONDS = 120.0


class Place(NamedTuple):
    """A cluster, its brokers' ids, and the log directories of the first one."""

    commands: Commands
    brokers: list[int]
    directories: list[str]


def started(directory: Path, kind: type[BrokerProcess], count: int) -> Iterator[Place]:
    with ExitStack() as stack:
        connect = stack.enter_context(zookeeper_process(directory / "zookeeper"))
        brokers, directories = [], []
        for number in range(1, count + 1):
            home = directory / f"broker-{number}"
            home.mkdir()
            paths = [str(home / name) for name in ("one", "two")]
            config = {**CONFIG, "log.dirs": ",".join(paths)}
            broker = kind(home, connect, config, number)
            stack.callback(broker.kill)
            broker.start()
            brokers.append(broker)
            directories.append(paths)
        bootstrap = ",".join(broker.bootstrap for broker in brokers)
        yield Place(Commands(bootstrap), list(range(1, count + 1)), directories[0])


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    yield from started(tmp_path_factory.mktemp("ours"), BrokerProcess, 2)


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    kafka_jars()  # or it is skipped
    yield from started(tmp_path_factory.mktemp("theirs"), ApacheKafkaProcess, 1)


@pytest.fixture(params=["ours", pytest.param("theirs", marks=pytest.mark.at_kafka)])
def place(request: pytest.FixtureRequest) -> Place:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Place)
    return found


@pytest.fixture
def topic(place: Place) -> str:
    """Two partitions with five records each, p0 and p1."""
    name = f"t-{uuid.uuid4().hex[:8]}"
    place.commands.text("topics", "create", name, "-p", "2", "-r", "1")
    producer = Producer({"bootstrap.servers": place.commands.bootstrap})
    for partition in (0, 1):
        for number in range(5):
            producer.produce(
                name, f"v{number}", partition=partition, timestamp=1_700_000_000_000 + number
            )
    assert producer.flush(WAIT_SECONDS) == 0
    return name


def test_topics(place: Place, topic: str) -> None:
    run = place.commands
    assert topic in run.text("topics", "list").splitlines()
    (listed,) = [one for one in run.json("topics", "list") if one["topic"] == topic]
    assert (listed["partitions"], listed["replicas"]) == (2, 1)
    (described,) = run.json("topics", "describe", topic)
    first = described["partitions"][0]
    assert (first["first"], first["next"]) == (0, 5)
    assert first["bytes"] > 0
    assert described["configs"]["retention.ms"]["source"] in ("default", "static_broker")
    assert "5" in run.text("topics", "describe", topic, "--configs")
    (done,) = run.json("topics", "alter", topic, "--set", "retention.ms=-1")
    assert done["done"]
    (described,) = run.json("topics", "describe", topic)
    assert described["configs"]["retention.ms"] == {"value": "-1", "source": "topic"}
    run.json("topics", "alter", topic, "--delete", "retention.ms")
    assert run.json("topics", "add-partitions", topic, "--total", "3")[0]["done"]
    assert len(run.json("topics", "describe", topic)[0]["partitions"]) == 3
    assert run.text("topics", "describe", "--leaderless") == "no such partition\n"
    assert run.json("topics", "describe", topic, "--under-replicated", "--below-min-isr") == []
    assert not run.json("topics", "create", topic, "--if-not-exists")["created"]
    assert "already" in run.refused("topics", "create", topic)
    assert run.json("topics", "create", f"{topic}-dry", "--dry-run") == {
        "topic": f"{topic}-dry", "created": False, "partitions": None,
    }  # fmt: skip
    assert run.json("topics", "delete", topic) == [{"topic": topic, "deleted": True}]


def test_configs(place: Place, topic: str) -> None:
    run = place.commands
    of_topic = ("--topic", topic)
    assert run.json("configs", "describe", *of_topic) == []
    everything = {one["key"]: one for one in run.json("configs", "describe", *of_topic, "--all")}
    assert everything["cleanup.policy"]["value"] == "delete"
    assert everything["cleanup.policy"]["source"] in ("default", "static_broker")
    run.json("configs", "alter", *of_topic, "--set", "cleanup.policy=compact")
    run.json("configs", "alter", *of_topic, "--append", "cleanup.policy=delete")
    (own,) = run.json("configs", "describe", *of_topic)
    assert (own["value"], own["source"]) == ("compact,delete", "topic")
    assert own["else"] == ["log.cleanup.policy=delete (default)"]
    (dry,) = run.json("configs", "alter", *of_topic, "--delete", "cleanup.policy", "--dry-run")
    assert not dry["done"]
    assert run.json("configs", "describe", *of_topic) == [own]
    assert "nope" in run.refused("configs", "alter", *of_topic, "--set", "nope=1")
    key = "log.cleaner.backoff.ms"
    run.json("configs", "alter", "--broker-defaults", "--set", f"{key}=20000")
    until(lambda: run.json("configs", "describe", "--broker", "1"))
    (of_broker,) = run.json("configs", "describe", "--broker", "1")
    assert (of_broker["value"], of_broker["source"]) == ("20000", "dynamic_default_broker")
    run.json("configs", "alter", "--broker-defaults", "--delete", key)
    loggers = run.json("configs", "describe", "--broker-logger", "1", "--all")
    assert loggers


def test_groups(place: Place, topic: str, tmp_path: Path) -> None:
    run, group = place.commands, f"g-{topic}"
    reset = ("groups", "reset", group, "--topic", f"{topic}:0")
    (dry,) = run.json(*reset, "--to", "3", "--dry-run")
    assert dry == {
        "group": group,
        "partition": f"{topic}-0",
        "was": None,
        "offset": 3,
        "done": False,
    }
    assert run.refused("groups", "describe", group).startswith(
        f"Error: there is no group '{group}'"
    )
    run.json(*reset, "--to", "3")
    (row,) = run.json("groups", "describe", group)
    assert (row["offset"], row["end"], row["lag"], row["client"]) == (3, 5, 2, None)
    for where, expected in (
        ("earliest", 0), ("latest", 5), ("-2", 3), ("+1", 4), ("99", 5), ("@1700000000001", 1),
        ("-PT1H", 5), ("current", 5),
    ):  # fmt: skip
        assert run.json(*reset, "--to", where)[0]["offset"] == expected, where
    saved = tmp_path / "offsets.csv"
    run.json(*reset, "--to", "2")
    saved.write_text(run.text(*reset, "--to", "current", "--export"))
    assert saved.read_text() == f"{topic},0,2\n"
    run.json(*reset, "--to", "latest")
    assert run.json("groups", "reset", group, "--from-file", str(saved))[0]["offset"] == 2
    other = ("groups", "reset", f"{group}-2", "--to-group", group)
    (row,) = run.json(*other)
    assert (row["partition"], row["offset"], row["done"]) == (f"{topic}-0", 2, True)
    assert "has no offsets there" in run.refused(*other, "--topic", f"{topic}:1")
    run.json("groups", "delete", f"{group}-2")
    (listed,) = [one for one in run.json("groups", "list") if one["group"] == group]
    assert listed["state"] == "Empty"
    assert group not in str(run.json("groups", "list", "--state", "Stable"))
    assert run.json("groups", "delete-offsets", group, "--topic", f"{topic}:0")[0]["deleted"]
    run.json(*reset, "--to", "1")
    assert run.json("groups", "delete", group) == [{"group": group, "deleted": True}]
    assert group in run.refused("groups", "delete", group)


def test_a_group_with_members(place: Place, topic: str) -> None:
    run, group = place.commands, f"g-{topic}"
    settings = {
        "bootstrap.servers": run.bootstrap, "group.id": group, "auto.offset.reset": "earliest",
        "client.id": "reader", "enable.auto.commit": False,
    }  # fmt: skip
    with closing(Consumer(settings)) as consumer:
        consumer.subscribe([topic])
        messages = consumer.consume(10, WAIT_SECONDS)
        assert len(messages) == 10
        consumer.commit(message=messages[-1], asynchronous=False)
        (member,) = run.json("groups", "describe", group, "--members")
        assert member["client"] == "reader"
        assert member["partitions"] == [f"{topic}-0", f"{topic}-1"]
        rows = run.json("groups", "describe", group)
        assert {row["client"] for row in rows} == {"reader"}
        assert sorted(str(row["lag"]) for row in rows) == ["0", "None"]
        told = run.refused("groups", "reset", group, "--topic", topic, "--to", "earliest")
        assert "is in use (Stable, 1 member): stop its consumers first" in told
        assert "NON_EMPTY_GROUP" in run.refused("groups", "delete", group)
        (removed,) = run.json("groups", "remove-members", group, "--member", member["member"])
        assert removed["removed"]


def test_records(place: Place, topic: str) -> None:
    run = place.commands
    rows = run.json("records", "offsets", topic, "--at", "@1700000000003")
    assert [(row["first"], row["end"], row["records"], row["at"]) for row in rows] == [
        (0, 5, 5, 3)
    ] * 2
    assert rows[0]["newest_ms"] == 1_700_000_000_004
    (dry,) = run.json("records", "delete", f"{topic}:0", "--before", "2", "--dry-run")
    assert (dry["first_left"], dry["done"]) == (2, False)
    assert run.json("records", "delete", f"{topic}:0", "--before", "2")[0]["first_left"] == 2
    assert run.json("records", "delete", f"{topic}:1", "--all")[0]["first_left"] == 5
    rows = run.json("records", "offsets", topic)
    assert [row["first"] for row in rows] == [2, 5]
    assert "OFFSET_OUT_OF_RANGE" in run.refused("records", "delete", topic, "--before", "99")


def test_partitions(place: Place, topic: str) -> None:
    run = place.commands
    rows = run.json("partitions", "elect", topic)
    assert rows == [{"partition": f"{topic}-{n}", "elected": False} for n in (0, 1)]
    told = run.text("partitions", "elect", "--all")
    assert told == "every partition has its preferred leader already\n"
    assert run.json("partitions", "moves") == []
    assert "there is no broker 77" in run.refused("partitions", "reassign", f"{topic}:0=77")
    (now,) = run.json("topics", "describe", topic)
    leader = now["partitions"][0]["leader"]
    assert run.json("partitions", "reassign", f"{topic}:0={leader}") == []
    if leader == 1:
        here = [
            one["directory"]
            for one in run.json("logdirs", f"{topic}:0", "--broker", "1", "--replicas")
        ]
        (other,) = set(place.directories) - set(here)
        move = ("partitions", "move-log-dir", f"{topic}:0", "--broker", "1", "--to")
        assert run.json(*move, other)[0]["to"] == other
        (moved,) = run.json("logdirs", f"{topic}:0", "--broker", "1", "--replicas")
        assert moved["directory"] == other
        assert "it has: " in run.refused(*move, "/nowhere")


def test_a_move_between_brokers(ours: Place) -> None:
    run, name = ours.commands, f"t-{uuid.uuid4().hex[:8]}"
    run.text("topics", "create", name, "--replicas", "1/1")
    words = ("partitions", "reassign", name, "--to-brokers", "2")
    (first, _) = run.json(*words, "--dry-run")
    assert first == {"partition": f"{name}-0", "from": [1], "to": [2]}
    run.json(*words, "--throttle", "10000000")
    (described,) = run.json("topics", "describe", name)
    assert [part["replicas"] for part in described["partitions"]] == [[2], [2]]
    assert run.json("configs", "describe", "--topic", name) == []  # the throttle is gone
    of_brokers = ("configs", "describe", "--broker", "1", "--broker", "2")
    until(lambda: run.json(*of_brokers) == [])  # a broker says what it has heard of
    assert run.json("partitions", "reassign", name, "--cancel") == []


def test_log_directories(place: Place, topic: str) -> None:
    rows = place.commands.json("logdirs", "--broker", "1")
    assert sorted(row["directory"] for row in rows) == sorted(place.directories)
    assert all(row["total_bytes"] > row["usable_bytes"] > 0 for row in rows)
    replicas = place.commands.json("logdirs", topic, "--replicas")
    assert {row["partition"] for row in replicas} == {f"{topic}-0", f"{topic}-1"}


def test_the_cluster(place: Place) -> None:
    run = place.commands
    info = run.json("cluster", "info")
    assert [one["broker"] for one in info["brokers"]] == place.brokers
    assert info["controller"] in place.brokers
    assert info["cluster_id"] in run.text("cluster", "info")
    apis = {one["api"]: one for one in run.json("cluster", "apis", "--broker", "1")}
    assert apis["Produce"]["ours"] == apis["Produce"]["last"]
    assert isinstance(run.json("features", "describe")["features"], list)
    assert "nope" in run.refused("features", "upgrade", "nope=1")


def test_transactions(place: Place, topic: str) -> None:
    run, name = place.commands, f"x-{topic}"
    producer = Producer({"bootstrap.servers": run.bootstrap, "transactional.id": name})
    producer.init_transactions(WAIT_SECONDS)
    producer.begin_transaction()
    producer.produce(topic, "open", partition=0)
    assert producer.flush(WAIT_SECONDS) == 0
    (listed,) = [
        one
        for one in run.json("transactions", "list", "--state", "Ongoing")
        if one["transactional_id"] == name
    ]
    (described,) = run.json("transactions", "describe", name)
    assert described["partitions"] == [f"{topic}-0"]
    assert described["producer_id"] == listed["producer_id"]
    writers = run.json("producers", f"{topic}:0")
    (writer,) = [one for one in writers if one["producer_id"] == listed["producer_id"]]
    assert writer["open_since_offset"] == 5
    assert run.json("transactions", "find-hanging", topic, "--minutes", "0") == []
    told = run.refused("transactions", "abort", f"{topic}:0", "--first-offset", "1")
    assert "begins at offset 1; see: pybroker producers" in told
    # What the coordinator does not take part in: it would hang if the coordinator forgot it.
    run.json("transactions", "abort", f"{topic}:0", "--first-offset", "5")
    (fenced,) = run.json("transactions", "fence", name)
    assert fenced["fenced"]
    assert "does-not-exist" in run.refused("transactions", "describe", "does-not-exist")


def test_completion(place: Place, topic: str) -> None:
    group = f"g-{topic}"
    transactional_id = f"x-{topic}"
    place.commands.text("groups", "reset", group, "--topic", topic, "--to", "0")
    place.commands.text(
        "produce", topic, "--transactional-id", transactional_id, stdin="in a transaction\n"
    )
    for words, begin, expected in (
        ("topics describe", "t-", topic),
        ("groups describe", "g-", group),
        ("configs describe --broker", "", "1"),
        ("partitions reassign", "t-", topic),
        ("producers", "t-", topic),
        ("acls add --topic", "t-", topic),
        ("acls add --group", "g-", group),
        ("transactions describe", "x-", transactional_id),
    ):
        environment = {
            "_PYBROKER_COMPLETE": "bash_complete",
            "COMP_WORDS": f"pybroker {words} {begin}",
            "COMP_CWORD": str(len(words.split()) + 1),
            "PYBROKER_BOOTSTRAP": place.commands.bootstrap,
            "PYBROKER_DATA_DIR": "/nowhere",
        }
        done = CliRunner(env=environment).invoke(main, prog_name="pybroker")
        assert f"plain,{expected}" in done.stdout.splitlines(), (words, done.stdout)
    assert (
        "_PYBROKER_COMPLETE=zsh_complete" in CliRunner().invoke(main, ["completion", "zsh"]).stdout
    )


def lines(place: Place, *words: str) -> list[str]:
    return place.commands.text("consume", *words).splitlines()


def test_where_reading_begins_and_ends(place: Place, topic: str) -> None:
    whole = [f"{p} {o} v{o}" for p in (0, 1) for o in range(5)]
    form = ("--format", "%p %o %v")

    def read(*words: str) -> list[str]:
        return sorted(lines(place, topic, *words, *form))

    until = ("--until", "end")
    assert read("-o", "beginning", *until) == whole
    assert read("-o", "-2", *until) == [whole[at] for at in (3, 4, 8, 9)]
    assert read("-o", "3", "--partition", "1", *until) == whole[8:]
    assert read("-o", "@1700000000003", *until) == [whole[at] for at in (3, 4, 8, 9)]
    assert read("-o", "-1", "--until", "@1700000000004") == []
    assert read("-o", "1", "--until", "@1700000000003") == [whole[at] for at in (1, 2, 6, 7)]
    assert read("-o", "end", *until) == []
    assert len(read("--from-beginning", "--max-records", "3")) == 3
    assert "topic '" in place.commands.refused("consume", topic, "--partition", "7", *until)


def test_several_topics_and_patterns(place: Place, topic: str) -> None:
    place.commands.text("topics", "create", f"{topic}-more", "-p", "1")
    until = ("-o", "beginning", "--until", "end", "--format", "%t")
    assert set(lines(place, topic, f"{topic}-more", *until)) == {topic}
    assert set(lines(place, f"^{topic}.*", *until)) == {topic}
    assert "no topic matches ^nothing" in place.commands.refused("consume", "^nothing")
    assert "there is no topic 'nothing'" in place.commands.refused("consume", "nothing")


def test_a_group_goes_on_where_it_was(place: Place, topic: str) -> None:
    words = (topic, "--group", f"g-{topic}", "-o", "beginning")
    assert len(lines(place, *words, "--until", "end")) == 10
    assert lines(place, *words, "--until", "end") == []
    rows = place.commands.json("groups", "describe", f"g-{topic}")
    assert [row["lag"] for row in rows] == [0, 0]


def test_a_group_goes_on_with_what_was_not_printed(place: Place, topic: str) -> None:
    """Although it was fetched: more was there than was asked for."""
    words = (topic, "--group", f"g-{topic}", "-o", "beginning", "--format", "%p %o")
    first = lines(place, *words, "--max-records", "3")
    rows = place.commands.json("groups", "describe", f"g-{topic}")
    # A partition whose first offset was not known by then is not committed.
    assert sum(5 - row["lag"] for row in rows) == 3
    left = lines(place, *words, "--until", "end")
    assert len(first) == 3
    assert len(set(first + left)) == len(first + left) == 10


def test_json_and_forms(place: Place, topic: str) -> None:
    producer = Producer({"bootstrap.servers": place.commands.bootstrap})
    producer.produce(
        topic, b"\xff\x00", b"k", 0, timestamp=1_700_000_000_123, headers=[("a", b"1"), ("b", None)]
    )
    producer.produce(topic, None, b"gone", 0)
    assert producer.flush(WAIT_SECONDS) == 0
    words = (topic, "--partition", "0", "-o", "5", "--until", "end")
    first, second = map(json.loads, lines(place, *words, "--json"))
    assert first == {
        "topic": topic, "partition": 0, "offset": 5, "timestamp": 1_700_000_000_123, "key": "k",
        "value_base64": "/wA=", "headers": [["a", "1"], ["b", None]],
    }  # fmt: skip
    assert (second["key"], second["value"]) == ("gone", None)
    form = "%{v:hex} %{k:base64} %K %V %h %d"
    assert lines(place, *words, "--format", form, "--max-records", "1") == [
        "ff00 aw== 1 2 a=1,b= 2023-11-14T22:13:20.123Z"
    ]


def test_committed_records_alone(place: Place, topic: str) -> None:
    settings = {"bootstrap.servers": place.commands.bootstrap, "transactional.id": f"y-{topic}"}
    producer = Producer(settings)
    producer.init_transactions(WAIT_SECONDS)
    producer.begin_transaction()
    producer.produce(topic, "aborted", partition=0)
    assert producer.flush(WAIT_SECONDS) == 0
    words = (topic, "--partition", "0", "-o", "5", "--until", "end")
    assert lines(place, *words) == ["aborted"]
    assert lines(place, *words, "--committed") == []
    waiting = ("consume", topic, "--partition", "0", "-o", "5", "--committed")
    done = place.commands.run(*waiting, "--timeout-ms", "1500")
    assert f"{topic}-0: a transaction is open since offset 5, which hides 1 offsets" in done.stderr
    producer.abort_transaction()
    assert lines(place, *words, "--committed") == []


def test_what_is_written(place: Place, topic: str, tmp_path: Path) -> None:
    run = place.commands
    of_p0 = ("--partition", "0")

    def read(*words: str) -> list[str]:
        return lines(place, topic, *of_p0, "-o", "5", "--until", "end", *words)

    words = ("produce", topic, *of_p0, "--key", "k", "--header", "a=1", "--null", "-")
    assert run.text(*words, "--show", stdin="one\n-\n").splitlines() == ["0 5", "0 6"]
    assert read("--format", "%k %v %h") == ["k one a=1", "k null a=1"]
    files = [tmp_path / "a", tmp_path / "b"]
    for file in files:
        file.write_bytes(file.name.encode() * 3 + b"\n")
    run.text("produce", topic, *map(str, files), *of_p0, "--input", "whole")
    run.text("produce", topic, *of_p0, "--input", "hex", "--compression", "zstd", stdin="00ff\n")
    run.text("produce", topic, *of_p0, "--record-separator", ";", "--acks", "1", stdin="x;y")
    assert read("--format", "%{v:hex}")[2:] == ["6161610a", "6262620a", "00ff", "78", "79"]
    printed = run.text("consume", topic, *of_p0, "-o", "5", "--until", "end", "--json")
    run.text("topics", "create", f"{topic}-copy")
    run.text("produce", f"{topic}-copy", "--input", "json", stdin=printed)
    copy = run.text("consume", f"{topic}-copy", "-o", "beginning", "--until", "end", "--json")
    again = [json.loads(line) | {"offset": at + 5} for at, line in enumerate(copy.splitlines())]
    copied = [json.loads(line) | {"topic": f"{topic}-copy"} for line in printed.splitlines()]
    assert again == copied


def test_schemas_of_a_registry(place: Place) -> None:
    """Avro, JSON Schema and Protobuf, both ways; what is not as its schema says ends it."""
    run = place.commands
    with schema_registry() as url:
        for schema, value in ((1, '{"id": 1, "name": "a"}'), (2, '{"id": 7}'), (3, '{"id": "9"}')):
            topic = f"schema-{schema}-{uuid.uuid4().hex[:8]}"
            run.text("topics", "create", topic)
            words = ("produce", topic, "--registry", url, "--schema", str(schema))
            run.text(*words, stdin=value + "\n")
            read = (topic, "-o", "beginning", "--until", "end")
            assert lines(place, *read, "--registry", url) == [value]
            assert lines(place, *read) != [value]
            (told,) = run.run(*words, text='{"id": "many"}\n').stderr.splitlines()
            assert f"does not match schema {schema}" in told
        (told,) = run.run(
            "consume", *read, "--registry", url.replace("u:p@", "")
        ).stderr.splitlines()
        assert "a login goes into http://USER:PASSWORD@HOST" in told


def test_a_wrong_line_ends_it(place: Place, topic: str) -> None:
    done = place.commands.run("produce", topic, "--input", "json", text='{"value": "a"}\n{\n')
    assert done.exit_code == 2
    assert "line 2 is not JSON" in done.stderr
    assert "; the lines before it are written" in done.stderr
    words = (topic, "-o", "-1", "--until", "end")
    assert "a" in lines(place, *words)


def test_a_transaction_of_lines(place: Place, topic: str) -> None:
    run, name = place.commands, f"z-{topic}"
    words = ("produce", topic, "--partition", "0", "--transactional-id", name)
    run.text(*words, stdin="one\ntwo\n")
    # A commit is answered when it is decided; where its end is for readers, its markers say.
    until(lambda: run.json("transactions", "describe", name)[0]["state"] == "CompleteCommit")
    read = (topic, "--partition", "0", "-o", "5", "--until", "end", "--committed")
    assert lines(place, *read) == ["one", "two"]


def test_perf(place: Place, topic: str, tmp_path: Path) -> None:
    run = place.commands
    plot = tmp_path / "plot.png"
    words = ("perf", "produce", topic, "--records", "2000", "--plot", str(plot))
    (row,) = run.json(*words)
    assert row["records"] == 2000
    assert 0 < row["p50_ms"] <= row["p99_ms"] <= row["max_ms"] * 1.02
    assert plot.read_bytes()[:4] == b"\x89PNG"
    assert "2,000 records written, " in run.text(*words[:-2], "--rate", "100000", "--acks", "1")
    (row,) = run.json("perf", "consume", topic, "--records", "4010")
    assert row["records"] >= 4010
    (row,) = run.json("perf", "e2e", topic, "--records", "5")
    assert row["records"] == 5
    joined, commits = run.json(
        *("perf", "groups", topic, "--members", "2", "--commits", "3", "--group", f"g-{topic}")
    )
    assert (joined["count"], commits["count"]) == (2, 6)


def test_verify(place: Place, topic: str) -> None:
    found = place.commands.json("verify", topic, "--records", "500")
    assert found == {"acknowledged": 500, "read": 500, "failed": 0, "missing": 0, "faults": []}
    assert "every one came back once" in place.commands.text("verify", topic, "--records", "5")


def test_a_hanging_transaction_is_found_and_ended(place: Place, topic: str) -> None:
    """Its coordinator was never told of the partition."""
    run, name = place.commands, f"h-{topic}"
    Producer({"bootstrap.servers": run.bootstrap, "transactional.id": name}).init_transactions(
        WAIT_SECONDS
    )
    (owner,) = run.json("transactions", "describe", name)
    (described,) = run.json("topics", "describe", topic)
    leader = described["partitions"][0]["leader"]
    (at,) = [one for one in run.json("cluster", "info")["brokers"] if one["broker"] == leader]
    batch = build_batch(
        [SimpleRecord(int(time.time() * 1000), None, b"hangs")],
        producer_id=owner["producer_id"],
        producer_epoch=owner["epoch"],
        base_sequence=0,
        is_transactional=True,
    )
    with closing(WireClient(f"{at['host']}:{at['port']}")) as kafka:
        answer = kafka.produce(topic, bytes(batch), transactional_id=name)
        assert answer.error_code == 0
    (found,) = run.json("transactions", "find-hanging", topic, "--minutes", "0")
    assert (found["partition"], found["first_offset"]) == (f"{topic}-0", 5)
    assert found["producer_id"] == owner["producer_id"]
    assert run.json("transactions", "find-hanging", topic) == []  # not for so long
    run.json("transactions", "abort", f"{topic}:0", "--first-offset", "5")
    assert run.json("transactions", "find-hanging", topic, "--minutes", "0") == []
    (writer,) = run.json("producers", f"{topic}:0")
    assert writer["open_since_offset"] is None


def test_admin_has_an_error_an_item(place: Place, topic: str) -> None:
    """As Java's Admin has it; and what no command does: all configs of a topic at once."""

    async def main() -> None:
        async with Cluster(place.commands.bootstrap) as cluster:
            admin = Admin(cluster)
            there, nowhere = (topic, 0), ("nowhere", 0)
            found = await admin.records.offsets({there: LATEST, nowhere: LATEST})
            assert found[there].offset == 5
            with pytest.raises(Refused, match="there are no offsets of nowhere-0") as told:
                found.all()
            assert told.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert found.errors == {nowhere: told.value}
            resource = ConfigResource(ResourceKind.TOPIC, topic)
            (await admin.configs.replace({resource: {"retention.ms": "-1"}})).all()
            entries = (await admin.configs.describe([resource], documentation=True))[resource]
            own = {one.name: one.value for one in entries if one.source is ConfigSource.TOPIC}
            assert own == {"retention.ms": "-1"}
            made = await admin.topics.create([NewTopic(topic), NewTopic(f"{topic}-b", 3, 1)])
            assert made[f"{topic}-b"].partitions == 3
            assert made.errors[topic].code == ErrorCode.TOPIC_ALREADY_EXISTS
            deleted = await admin.topics.delete([f"{topic}-b", "nowhere"])
            assert list(deleted.values) == [f"{topic}-b"]
            assert list(deleted.errors) == ["nowhere"]

    trio.run(main)
