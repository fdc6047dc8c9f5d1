"""Topics as tables: a real broker, a producer, and readers of the formats."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing

import duckdb
import psutil
import pyarrow as pa
import pytest
from click.testing import CliRunner
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from deltalake import DeltaTable
from kafka import KafkaConsumer, KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic
from pyiceberg.exceptions import NoSuchTableError

from pybroker_kafka.cli.main import main
from pybroker_kafka.tables.iceberg import open_catalog
from pybroker_kafka.tables.place import Place
from tests.support.nightly import chosen
from tests.support.patience import until
from tests.support.processes import BrokerProcess, free_port, running_broker, zookeeper_process
from tests.support.registry import registry_process

LAG = {"pybroker.table.target.lag.ms": "200"}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(str(tmp_path_factory.mktemp("warehouse")))


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, place: Place) -> Iterator[BrokerProcess]:
    config = {"pybroker.table.warehouse": place.warehouse}
    with running_broker(tmp_path_factory.mktemp("broker"), config) as running:
        yield running


def create(broker: BrokerProcess, topic: str, partitions: int = 1, **configs: str) -> None:
    named = {name.replace("_", "."): text for name, text in configs.items()}
    with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap)) as admin:
        admin.create_topics([NewTopic(topic, partitions, 1, topic_configs={**LAG, **named})])


def iceberg_rows(place: Place, topic: str) -> pa.Table | None:
    try:
        table = open_catalog(place).load_table((place.namespace, place.table_name(topic)))
    except NoSuchTableError:
        return None
    return table.scan().to_arrow()


def test_each_record_of_a_topic_is_a_row_of_its_table(broker: BrokerProcess, place: Place) -> None:
    create(broker, "plain.raw", 3, pybroker_table="iceberg")
    sent = []
    with closing(KafkaProducer(bootstrap_servers=broker.bootstrap)) as producer:
        for number in range(300):
            key, value = b"k%d" % (number % 7), b"v%d" % number
            headers = [("n", b"%d" % number)] if number % 3 == 0 else []
            answer = producer.send(
                "plain.raw", value, key, headers, partition=number % 3, timestamp_ms=1000 + number
            )
            sent.append((number % 3, answer, key, value, headers))
        expected = [
            (
                partition,
                answer.get(timeout=60).offset,
                key,
                value,
                [{"key": name, "value": content} for name, content in headers],
            )
            for partition, answer, key, value, headers in sent
        ]

    def is_there() -> bool:
        rows = iceberg_rows(place, "plain.raw")
        return rows is not None and rows.num_rows >= len(expected)

    until(is_there)
    rows = iceberg_rows(place, "plain.raw")
    assert rows is not None
    found = [
        (row["partition"], row["offset"], row["key"], row["value"], row["headers"])
        for row in rows.to_pylist()
    ]
    assert sorted(found, key=lambda row: row[:2]) == sorted(expected, key=lambda row: row[:2])
    table = open_catalog(place).load_table((place.namespace, "plain_raw"))
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    offsets = json.loads(snapshot.summary["pybroker.offsets"] or "")
    assert offsets == {"0": 100, "1": 100, "2": 100}
    con = duckdb.connect()
    table_rows = table.scan().to_arrow()  # what DuckDB calls a replacement scan
    assert con.sql("from table_rows").limit(1000).fetchall()
    assert table_rows.num_rows == len(table.scan().to_pandas())


def kill_writer(broker: BrokerProcess) -> None:
    for child in psutil.Process(broker.pid).children(recursive=True):
        if "pybroker_kafka.tables.worker" in child.cmdline():
            child.kill()


# One log for all generations of brokers: records by number, exactly once in the table


@pytest.mark.nightly
def test_a_killed_broker_and_a_killed_writer_repeat_and_lose_nothing(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    place = Place(str(tmp_path_factory.mktemp("warehouse")))
    config = {"pybroker.table.warehouse": place.warehouse}
    topic = "killed"
    count = 0
    with (
        running_broker(tmp_path_factory.mktemp("broker"), config) as broker,
    ):
        create(broker, topic, 2, pybroker_table="iceberg")
        for kill in ("writer", "broker", "writer", "none"):
            with closing(KafkaProducer(bootstrap_servers=broker.bootstrap, acks="all")) as producer:
                futures = []
                for _ in range(2000):
                    futures.append(producer.send(topic, b"%d" % count, partition=count % 2))
                    count += 1
                    if count % 500 == 0:
                        producer.flush()
                for future in futures:
                    future.get(timeout=60)
            if kill == "writer":
                kill_writer(broker)
            elif kill == "broker":
                broker.kill()
                broker.start()

        def is_whole() -> bool:
            rows = iceberg_rows(place, topic)
            return rows is not None and rows.num_rows >= count

        until(is_whole)
    rows = iceberg_rows(place, topic)
    assert rows is not None
    assert sorted(int(value) for value in rows["value"].to_pylist()) == list(range(count))
    check_summaries(place, topic)


def check_summaries(place: Place, topic: str) -> None:
    """The offsets of snapshots only grow, and the last ones are those of the rows."""
    table = open_catalog(place).load_table((place.namespace, place.table_name(topic)))
    before: dict[str, int] = {}
    for snapshot in table.snapshots():
        assert snapshot.summary is not None
        offsets = json.loads(snapshot.summary["pybroker.offsets"] or "")
        assert all(offsets[name] >= offset for name, offset in before.items())
        before = offsets
    rows = table.scan(selected_fields=("partition", "offset")).to_arrow()
    for partition, end in before.items():
        ours = [row["offset"] for row in rows.to_pylist() if row["partition"] == int(partition)]
        assert sorted(ours) == list(range(end))


SCHEMA = {
    "type": "object",
    "required": ["id"],
    "properties": {
        "id": {"type": "integer"},
        "name": {"type": "string"},
        "at": {"type": "string", "format": "date-time"},
    },
}


@pytest.mark.parametrize("kind", chosen(["iceberg", "delta"], ["iceberg"]))
def test_values_become_columns_and_others_dead_letters(
    broker: BrokerProcess, place: Place, kind: str
) -> None:
    topic, dead = f"shaped-{kind}", f"dead-{kind}"
    create(broker, dead)
    create(
        broker,
        topic,
        pybroker_table=kind,
        pybroker_table_schema=json.dumps(SCHEMA),
        pybroker_table_dead_letter_topic=dead,
    )
    values = [
        b'{"id": 1, "name": "Ada", "at": "2026-01-02T03:04:05Z"}',
        b'{"id": "one"}',
        b'{"id": 2, "colour": "red"}',
        b"no JSON",
        b'{"name": "without id"}',
        None,
        b'{"id": 3}',
    ]
    with closing(KafkaProducer(bootstrap_servers=broker.bootstrap)) as producer:
        for value in values:
            producer.send(topic, value, b"k").get(timeout=60)

    def found() -> list[dict[str, object]]:
        rows = rows_of(kind, place, topic)
        return [] if rows is None else rows.sort_by("kafka_offset").to_pylist()

    until(lambda: len(found()) >= 4)
    assert [(row["kafka_offset"], row["id"], row["name"]) for row in found()] == [
        (0, 1, "Ada"),
        (2, 2, None),
        (5, None, None),
        (6, 3, None),
    ]
    with closing(
        KafkaConsumer(dead, bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest")
    ) as consumer:
        letters = [next(consumer) for _ in range(3)]
    assert [letter.value for letter in letters] == [values[1], values[3], values[4]]
    headers = dict(letters[0].headers)
    assert headers["__connect.errors.offset"] == b"1"
    assert headers["__connect.errors.topic"] == topic.encode()


def rows_of(kind: str, place: Place, topic: str) -> pa.Table | None:
    if kind == "iceberg":
        return iceberg_rows(place, topic)
    url = place.delta_url(topic)
    return DeltaTable(url).to_pyarrow_table() if DeltaTable.is_deltatable(url) else None


@pytest.mark.parametrize("kind", chosen(["iceberg", "delta"], ["delta"]))
def test_a_compacted_topic_is_one_row_for_each_key(
    broker: BrokerProcess, place: Place, kind: str
) -> None:
    topic = f"compacted-{kind}"
    create(
        broker, topic, cleanup_policy="compact", pybroker_table=kind, pybroker_table_mode="upsert"
    )
    expected: dict[bytes, bytes | None] = {}
    with closing(KafkaProducer(bootstrap_servers=broker.bootstrap)) as producer:
        for number in range(200):
            key, value = b"k%d" % (number * 7 % 13), None if number % 5 == 0 else b"%d" % number
            producer.send(topic, value, key).get(timeout=60)
            expected[key] = value

    def found() -> dict[bytes, bytes]:
        rows = rows_of(kind, place, topic)
        pairs = [] if rows is None else rows.select(["key", "value"]).to_pylist()
        return {row["key"]: row["value"] for row in pairs}

    until(lambda: found() == {key: value for key, value in expected.items() if value is not None})


def told(broker: BrokerProcess, *words: str, status: int = 0) -> str:
    """The output of `pybroker tables`."""
    command = ["tables", *words, "--bootstrap-server", broker.bootstrap]
    done = CliRunner().invoke(main, command)
    assert done.exit_code == status, done.output
    return done.output if status else done.stdout


def test_the_commands_tell_of_lag_dead_letters_and_errors(
    broker: BrokerProcess, place: Place
) -> None:
    letters, schema = "told-letters", json.dumps(SCHEMA)
    for topic in (letters, "told-plain"):
        create(broker, topic)
    create(broker, "told-raw", 2, pybroker_table="iceberg")
    create(broker, "told-late", pybroker_table="delta", pybroker_table_target_lag_ms="3600000")
    create(broker, "told-stopped", pybroker_table="delta", pybroker_table_schema=schema)
    create(
        broker,
        "told-shaped",
        pybroker_table="delta",
        pybroker_table_schema=schema,
        pybroker_table_dead_letter_topic=letters,
    )
    with closing(KafkaProducer(bootstrap_servers=broker.bootstrap)) as producer:
        for topic in ("told-raw", "told-late", "told-stopped", "told-shaped"):
            for value in (b'{"id": 1}', b"no JSON", b'{"id": 2}'):
                producer.send(topic, value, partition=0).get(timeout=60)

    def found(topic: str) -> dict[str, object]:
        (row,) = json.loads(told(broker, "describe", topic, "--json"))
        assert isinstance(row, dict)
        return {
            name: row[name] for name in ("state", "lag", "rows", "files", "dead_letters", "writer")
        }

    where = {"writer": 1}
    raw = {"state": "current", "lag": 0, "rows": 3, "files": 1, "dead_letters": 0, **where}
    until(lambda: found("told-raw") == raw)
    until(lambda: found("told-shaped") == {**raw, "rows": 2, "dead_letters": 1})
    late = {**raw, "lag": 3, "rows": 0, "files": 0}
    until(lambda: found("told-late") == late)
    until(lambda: found("told-stopped") == {**late, "state": "failed"})

    (whole,) = json.loads(told(broker, "describe", "told-raw", "--json"))
    (snapshot,) = whole["snapshots"]
    assert snapshot["offsets"] == {"0": 3}
    assert (snapshot["operation"], snapshot["rows"]) == ("append", 3)
    (whole,) = json.loads(told(broker, "describe", "told-shaped", "--json"))
    assert whole["snapshots"][0]["offsets"] == {"0": 3}

    text = told(broker, "describe", "told-stopped")
    assert "3 records are not in the table" in text
    assert "offset 1 of partition 0 does not fit the schema" in text
    assert "told-stopped --set pybroker.table.dead.letter.topic=TOPIC" in text
    assert "told-raw" in told(broker, "list")
    rows = json.loads(told(broker, "list", "--failed", "--json"))
    assert "told-stopped" in [row["topic"] for row in rows]
    assert "told-raw" not in [row["topic"] for row in rows]
    refused = told(broker, "describe", "told-plain", status=2)
    assert "has no table; make one with: pybroker topics alter told-plain" in refused


@pytest.mark.nightly
def test_tables_are_merged_and_written_anew_upon_request(
    broker: BrokerProcess, place: Place
) -> None:
    create(broker, "anew", pybroker_table="iceberg")
    create(broker, "anew-delta", pybroker_table="delta")
    with closing(KafkaProducer(bootstrap_servers=broker.bootstrap)) as producer:
        for number in range(3):
            producer.send("anew", b'{"id": %d, "name": "n"}' % number).get(timeout=60)

            def is_there(number: int = number) -> bool:
                rows = iceberg_rows(place, "anew")
                return rows is not None and rows.num_rows == number + 1

            until(is_there)
    (row,) = json.loads(told(broker, "compact", "anew", "--json"))
    assert row == {"topic": "anew", "compaction": 1, "rows": 3, "files": 1}
    schema = f"pybroker.table.schema={json.dumps(SCHEMA)}"
    command = ["topics", "alter", "anew", "--set", schema, "--bootstrap-server", broker.bootstrap]
    assert CliRunner().invoke(main, command).exit_code == 0
    assert json.loads(told(broker, "rebuild", "anew", "--no-wait", "--json"))[0]["generation"] == 1
    kill_writer(broker)
    (row,) = json.loads(told(broker, "rebuild", "anew", "--json"))
    assert (row["generation"], row["rows"]) == (2, 3)
    rows = iceberg_rows(place, "anew")
    assert rows is not None
    assert rows.schema.names[:3] == ["id", "name", "at"]
    assert "value" not in rows.schema.names
    assert sorted(rows["id"].to_pylist()) == [0, 1, 2]
    (row,) = json.loads(told(broker, "compact", "anew-delta", "--json"))
    assert (row["compaction"], row["rows"]) == (1, 0)
    assert "is not rebuilt" in told(broker, "rebuild", "anew-delta", status=2)


def test_columns_follow_the_subject_of_the_registry(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    place = Place(str(tmp_path_factory.mktemp("warehouse")))
    port = free_port()
    config = {
        "pybroker.table.warehouse": place.warehouse,
        "pybroker.table.registry": f"http://127.0.0.1:{port}",
    }
    directory = tmp_path_factory.mktemp("broker")
    with (
        running_broker(directory, config) as broker,
        registry_process(broker.bootstrap, directory / "registry", "--port", str(port)) as (url, _),
        closing(KafkaProducer(bootstrap_servers=broker.bootstrap)) as producer,
    ):
        registry = SchemaRegistryClient({"url": url})
        context = SerializationContext("users", MessageField.VALUE)

        def produce(fields: list[dict[str, object]], value: dict[str, object]) -> None:
            text = json.dumps({"type": "record", "name": "User", "fields": fields})
            producer.send("users", AvroSerializer(registry, text)(value, context)).get(timeout=60)

        def found() -> list[dict[str, object]]:
            rows = iceberg_rows(place, "users")
            return [] if rows is None else rows.sort_by("kafka_offset").to_pylist()

        identity: dict[str, object] = {"name": "id", "type": "int"}
        mail: dict[str, object] = {"name": "mail", "type": ["null", "string"], "default": None}
        # The subject is not there yet, and the table waits for it.
        create(broker, "users", pybroker_table="iceberg", pybroker_table_schema="users-value")
        produce([identity], {"id": 1})
        until(lambda: len(found()) == 1)
        produce([identity, mail], {"id": 2, "mail": "ada@example.org"})
        produce([{"name": "id", "type": "long"}, mail], {"id": 2**40, "mail": None})
        until(lambda: len(found()) == 3)
        assert [(row["id"], row["mail"]) for row in found()] == [
            (1, None),
            (2, "ada@example.org"),
            (2**40, None),
        ]


@pytest.mark.nightly
def test_another_leader_continues_the_table(tmp_path_factory: pytest.TempPathFactory) -> None:
    place = Place(str(tmp_path_factory.mktemp("warehouse")))
    directory = tmp_path_factory.mktemp("brokers")
    config = {"pybroker.table.warehouse": place.warehouse, "zookeeper.session.timeout.ms": "6000"}
    with zookeeper_process(directory) as connect, ExitStack() as stack:
        brokers = []
        for number in (1, 2):
            broker = BrokerProcess(directory / str(number), connect, config, number)
            stack.callback(broker.kill)
            broker.start()
            brokers.append(broker)
        servers = [broker.bootstrap for broker in brokers]
        configs = {**LAG, "pybroker.table": "iceberg"}
        with closing(KafkaAdminClient(bootstrap_servers=servers)) as admin:
            topic = NewTopic(
                "led", replica_assignments={0: [1, 2], 1: [2, 1]}, topic_configs=configs
            )
            admin.create_topics([topic])
        count = 1000
        with closing(
            KafkaProducer(bootstrap_servers=servers, acks="all", retries=1000, linger_ms=5)
        ) as producer:
            futures = []
            for number in range(count):
                futures.append(producer.send("led", b"%d" % number, partition=number % 2))
                if number == count // 2:
                    until(lambda: iceberg_rows(place, "led") is not None)
                    brokers[0].kill()  # it leads partition 0
            for future in futures:
                future.get(timeout=120)

        def is_whole() -> bool:
            rows = iceberg_rows(place, "led")
            return rows is not None and rows.num_rows >= count

        until(is_whole)
    rows = iceberg_rows(place, "led")
    assert rows is not None
    assert sorted(int(value) for value in rows["value"].to_pylist()) == list(range(count))
    check_summaries(place, "led")


@pytest.mark.nightly
def test_a_table_goes_with_its_topic_if_it_is_told_to(broker: BrokerProcess, place: Place) -> None:
    """The writer is killed as the topics are deleted; topics of the same names begin anew."""
    kinds = {f"{fate}-{kind}": kind for fate in ("kept", "gone") for kind in ("iceberg", "delta")}
    gone = {topic for topic in kinds if topic.startswith("gone")}

    def begin(topics: Iterable[str], value: bytes) -> None:
        with closing(KafkaProducer(bootstrap_servers=broker.bootstrap)) as producer:
            for topic in topics:
                fate = "drop" if topic in gone else "keep"
                create(broker, topic, pybroker_table=kinds[topic], pybroker_table_on_delete=fate)
                producer.send(topic, value).get(timeout=60)
        until(lambda: all(values(topic) == [value] for topic in topics))

    def values(topic: str) -> list[bytes] | None:
        rows = rows_of(kinds[topic], place, topic)
        return None if rows is None else rows["value"].to_pylist()

    begin(kinds, b"old")
    with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap)) as admin:
        admin.delete_topics(list(kinds))
    kill_writer(broker)
    until(lambda: all(values(topic) is None for topic in gone))
    assert all(values(topic) == [b"old"] for topic in set(kinds) - gone)
    begin(gone, b"new")
