"""Two sources, the same rows: `format("kafka")`, the official connector, and ours without a jar.

Each scenario is read through both, and what they return is compared row by row, with all columns.
Where the connector refuses, ours does. One set of topics serves the module.
`make test` runs some scenarios, `make spark` all. `make spark-newest` runs all with the newest
Spark, through ours alone: the connector of a new Spark may not be there yet.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Producer
from kafka import TopicPartition
from kafka.admin import KafkaAdminClient, NewPartitions, NewTopic

from pybroker_kafka.spark_jobs.schemas import parse_json
from pybroker_kafka.spark_jobs.source.data_source import FORMAT
from tests.spark_newest import CONNECTOR_VARIABLE, NO_CONNECTOR
from tests.support.nightly import nightly
from tests.support.processes import BrokerProcess
from tests.support.schema_registry import schema_registry

WAIT_SECONDS = 120.0
BASE_MS = int(time.time() * 1000) - 3_600_000  # of today, or retention deletes the records
COUNT = 60  # records of each partition
OFFICIAL = "kafka"
SOURCES = (FORMAT,) if os.environ.get(CONNECTOR_VARIABLE) == NO_CONNECTOR else (OFFICIAL, FORMAT)

pytestmark = pytest.mark.timeout(300)


class Topics(NamedTuple):
    """`plain` has keys, headers, nulls and all codecs in 2 partitions, `second` one partition;
    `late` begins at 20, `ended` has committed and aborted transactions, `empty` nothing."""

    servers: str
    prefix: str
    plain: str
    second: str
    late: str
    ended: str
    empty: str


def produce(servers: str, topic: str, partition: int, numbers: range, codec: str = "none") -> None:
    producer = Producer({"bootstrap.servers": servers, "compression.type": codec, "linger.ms": 50})
    for number in numbers:
        producer.produce(
            topic,
            None if number % 7 == 3 else f"value {number}".encode(),
            None if number % 5 == 2 else b"key %d" % number,
            partition,
            timestamp=BASE_MS + number * 1000,
            headers=[("a", b"%d" % number), ("b", None), ("a", b"")] if number % 3 == 0 else None,
        )
    assert producer.flush(WAIT_SECONDS) == 0


def produce_transactions(servers: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": servers, "transactional.id": f"tx-{topic}"})
    producer.init_transactions(WAIT_SECONDS)
    for number in range(6):
        producer.begin_transaction()
        for record in range(5):
            producer.produce(topic, b"%d-%d" % (number, record), partition=0)
        assert producer.flush(WAIT_SECONDS) == 0  # an abort drops what was not sent
        if number % 2:
            producer.abort_transaction(WAIT_SECONDS)
        else:
            producer.commit_transaction(WAIT_SECONDS)


@pytest.fixture(scope="module")
def topics(shared_broker: BrokerProcess) -> Topics:
    servers, prefix = shared_broker.bootstrap, f"t{uuid.uuid4().hex[:8]}"
    found = Topics(
        servers,
        prefix,
        *(f"{prefix}-{name}" for name in ("plain", "second", "late", "ended", "empty")),
    )
    with closing(KafkaAdminClient(bootstrap_servers=servers)) as admin:
        sizes = {found.plain: 2, found.second: 1, found.late: 1, found.ended: 1, found.empty: 2}
        admin.create_topics([NewTopic(name, count, 1) for name, count in sizes.items()])
        step = COUNT // 5
        for place, codec in enumerate(("none", "gzip", "snappy", "lz4", "zstd")):
            for partition in range(2):
                numbers = range(place * step, (place + 1) * step)
                produce(servers, found.plain, partition, numbers, codec)
        produce(servers, found.second, 0, range(COUNT))
        produce(servers, found.late, 0, range(COUNT))
        produce_transactions(servers, found.ended)
        admin.delete_records({TopicPartition(found.late, 0): 20})
    return found


def read(spark: Any, source: str, servers: str, **options: str) -> list[tuple[Any, ...]]:
    frame = (
        spark.read.format(source)
        .option("kafka.bootstrap.servers", servers)
        .options(**options)
        .load()
    )
    return rows_of(frame)


def rows_of(frame: Any) -> list[tuple[Any, ...]]:
    columns = [name for name in frame.columns if name != "headers"]
    found = [
        tuple(row[name] for name in columns)
        + ((tuple(map(tuple, row.headers or ())),) if "headers" in frame.columns else ())
        for row in frame.collect()
    ]
    return sorted(found, key=lambda row: (row[2], row[3], row[4]))


def times(seconds: int, *partitions: tuple[str, int]) -> str:
    found: dict[str, dict[str, int]] = {}
    for topic, partition in partitions:
        found.setdefault(topic, {})[str(partition)] = BASE_MS + seconds * 1000
    return json.dumps(found)


def batch_scenarios(topics: Topics) -> dict[str, tuple[dict[str, str], int]]:
    """Options of each read, and how many rows it has."""
    plain, second, late, ended = topics.plain, topics.second, topics.late, topics.ended
    both = (plain, 0), (plain, 1)

    def of_plain(**options: str) -> dict[str, str]:
        return {"subscribe": plain, **options}

    return {
        "one topic": (of_plain(), 2 * COUNT),
        "headers": (of_plain(includeHeaders="true"), 2 * COUNT),
        "two topics": ({"subscribe": f"{plain}, {second}"}, 3 * COUNT),
        "a pattern": ({"subscribePattern": f"{topics.prefix}-(plain|late)"}, 3 * COUNT - 20),
        "a pattern of none": ({"subscribePattern": f"{topics.prefix}-nothing.*"}, 0),
        "assigned partitions": ({"assign": json.dumps({plain: [1], second: [0]})}, 2 * COUNT),
        "from offsets": (
            of_plain(startingOffsets=json.dumps({plain: {"0": 50, "1": -2}})),
            COUNT + 10,
        ),
        "to offsets": (of_plain(endingOffsets=json.dumps({plain: {"0": 5, "1": -1}})), COUNT + 5),
        "from and to offsets": (
            of_plain(
                startingOffsets=json.dumps({plain: {"0": 5, "1": 7}}),
                endingOffsets=json.dumps({plain: {"0": 15, "1": 7}}),
            ),
            10,
        ),
        "from a time": (of_plain(startingTimestamp=str(BASE_MS + 30_500)), 2 * (COUNT - 31)),
        "from times": (of_plain(startingOffsetsByTimestamp=times(58, *both)), 4),
        "from a time that is not there yet": (
            of_plain(
                startingOffsetsByTimestamp=times(9999, *both),
                startingOffsetsByTimestampStrategy="latest",
            ),
            0,
        ),
        "to a time": (of_plain(endingTimestamp=str(BASE_MS + 30_500)), 62),
        "to times": (of_plain(endingOffsetsByTimestamp=times(9999, *both)), 2 * COUNT),
        "cut for tasks": (of_plain(minPartitions="7"), 2 * COUNT),
        "a log that begins late": ({"subscribe": late}, COUNT - 20),
        "an empty topic": ({"subscribe": topics.empty}, 0),
        "committed": ({"subscribe": ended, "kafka.isolation.level": "read_committed"}, 15),
        "uncommitted": ({"subscribe": ended}, 30),
        "the middle of a transaction": (
            {
                "subscribe": ended,
                "startingOffsets": json.dumps({ended: {"0": 8}}),
                "endingOffsets": json.dumps({ended: {"0": 14}}),
                "kafka.isolation.level": "read_committed",
            },
            2,
        ),
        "lost records are left out": (
            {
                "subscribe": late,
                "startingOffsets": json.dumps({late: {"0": 5}}),
                "failOnDataLoss": "false",
            },
            COUNT - 20,
        ),
    }


NAMES = list(batch_scenarios(Topics(*[""] * len(Topics._fields))))
IN_EVERY_RUN = ("headers",)


@pytest.mark.nightly
@pytest.mark.parametrize("scenario", [name for name in NAMES if name not in IN_EVERY_RUN])
def test_more_of_the_same_rows(spark: Any, topics: Topics, scenario: str) -> None:
    check_rows(spark, topics, scenario)


@pytest.mark.parametrize("scenario", IN_EVERY_RUN)
def test_the_same_rows(spark: Any, topics: Topics, scenario: str) -> None:
    check_rows(spark, topics, scenario)


def check_rows(spark: Any, topics: Topics, scenario: str) -> None:
    options, count = batch_scenarios(topics)[scenario]
    found = [read(spark, source, topics.servers, **options) for source in SOURCES]
    assert found[0] == found[-1]
    assert len(found[-1]) == count


def refusals(topics: Topics) -> dict[str, dict[str, str]]:
    plain, late = topics.plain, topics.late
    return {
        "no topic": {},
        "a missing topic": {"subscribe": f"{topics.prefix}-missing"},
        "not all partitions": {
            "subscribe": plain, "startingOffsets": json.dumps({plain: {"0": 1}})
        },
        "no record so late": {
            "subscribe": plain, "startingTimestamp": str(BASE_MS + 9_999_000)
        },
        "lost records": {"subscribe": late, "startingOffsets": json.dumps({late: {"0": 5}})},
    }  # fmt: skip


@pytest.mark.nightly
@pytest.mark.parametrize("scenario", list(refusals(Topics(*[""] * len(Topics._fields)))))
def test_the_same_refusals(spark: Any, topics: Topics, scenario: str) -> None:
    options = refusals(topics)[scenario]
    for source in SOURCES:
        with pytest.raises(Exception):  # noqa: B017 - each source has its own
            read(spark, source, topics.servers, **options)


def stream(spark: Any, source: str, servers: str, topic: str, out: Path, **options: str) -> None:
    """Read what there is, and end."""
    query = (
        spark.readStream.format(source)
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .options(**options)
        .load()
        .writeStream.format("parquet")
        .option("path", str(out / "data"))
        .option("checkpointLocation", str(out / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(int(WAIT_SECONDS))
    assert query.exception() is None


def new_topic(servers: str, partitions: int = 1) -> str:
    name = f"topic-{uuid.uuid4().hex[:8]}"
    with closing(KafkaAdminClient(bootstrap_servers=servers)) as admin:
        admin.create_topics([NewTopic(name, partitions, 1)])
    return name


def test_streams_grow_alike(spark: Any, topics: Topics, tmp_path: Path) -> None:
    """A partition is added while the query stands still, and its records are all read."""
    topic = new_topic(topics.servers)
    produce(topics.servers, topic, 0, range(10))
    for source in SOURCES:
        stream(spark, source, topics.servers, topic, tmp_path / source)
    with closing(KafkaAdminClient(bootstrap_servers=topics.servers)) as admin:
        admin.create_partitions({topic: NewPartitions(2)})
    for partition in range(2):
        produce(topics.servers, topic, partition, range(10, 20))
    found = []
    for source in SOURCES:
        stream(spark, source, topics.servers, topic, tmp_path / source)
        found.append(rows_of(spark.read.parquet(str(tmp_path / source / "data"))))
    assert found[0] == found[-1]
    assert len(found[-1]) == 30


@pytest.mark.nightly
@pytest.mark.parametrize("first", SOURCES)
def test_a_checkpoint_serves_the_other_source(
    spark: Any, topics: Topics, tmp_path: Path, first: str
) -> None:
    """What one has read, the other does not read again."""
    topic = new_topic(topics.servers)
    for known, source in ((0, first), (10, SOURCES[0] if first != SOURCES[0] else SOURCES[-1])):
        produce(topics.servers, topic, 0, range(known, known + 10))
        stream(spark, source, topics.servers, topic, tmp_path)
    read_rows = rows_of(spark.read.parquet(str(tmp_path / "data")))
    assert [row[4] for row in read_rows] == list(range(20))


WRITTEN = (
    "CASE WHEN id % 5 = 0 THEN NULL ELSE CAST(id % 7 AS STRING) END AS key",
    "CASE WHEN id % 11 = 0 THEN NULL ELSE encode(CAST(id AS STRING), 'UTF-8') END AS value",
    "CASE WHEN id % 3 = 0 THEN array(named_struct('key', 'a', 'value', encode('b', 'UTF-8'))) END"
    " AS headers",
    "CASE WHEN id % 2 = 0 THEN 1 END AS partition",
    "topic",
)


def contents(spark: Any, topics: Topics, topic: str) -> list[tuple[Any, ...]]:
    """Keys, values, headers and partitions, by partition in the order of the values."""
    found = read(spark, SOURCES[0], topics.servers, subscribe=topic, includeHeaders="true")
    return sorted(
        (
            (row[3], *(None if part is None else bytes(part) for part in row[:2]), row[-1])
            for row in found
        ),
        key=repr,
    )


def test_both_sinks_write_the_same(spark: Any, topics: Topics) -> None:
    """Keyed rows go to the partitions that Java's hash says, rows with a partition to that one."""
    written = {source: new_topic(topics.servers, 3) for source in SOURCES}
    for source, topic in written.items():
        (
            spark.range(COUNT)
            .selectExpr("id", f"'{topic}' AS topic")
            .where("id % 5 <> 0 OR id % 2 = 0")  # others choose a partition as they like
            .selectExpr(*WRITTEN)
            .write.format(source)
            .option("kafka.bootstrap.servers", topics.servers)
            .option("kafka.compression.type", "lz4")
            .option("kafka.linger.ms", "20")
            .mode("append")
            .save()
        )
    found = [contents(spark, topics, topic) for topic in written.values()]
    assert found[0] == found[-1]
    assert len(found[-1]) == COUNT - COUNT // 10


@pytest.mark.nightly
def test_a_stream_is_written(spark: Any, topics: Topics, tmp_path: Path) -> None:
    """From one topic to another, without a jar, stopped and started again in between."""
    target = new_topic(topics.servers)
    source = new_topic(topics.servers)
    for part in range(2):
        produce(topics.servers, source, 0, range(part * 20, part * 20 + 20))
        query = (
            spark.readStream.format(FORMAT)
            .option("kafka.bootstrap.servers", topics.servers)
            .option("subscribe", source)
            .option("startingOffsets", "earliest")
            .load()
            .selectExpr("key", "value")
            .writeStream.format(FORMAT)
            .option("kafka.bootstrap.servers", topics.servers)
            .option("topic", target)
            .option("checkpointLocation", str(tmp_path))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(int(WAIT_SECONDS))
    written, known = (
        [row[1:3] for row in contents(spark, topics, topic)] for topic in (target, source)
    )
    assert sorted(written, key=repr) == sorted(known, key=repr)
    assert len(written) == 40


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        nightly(["'x' AS key", "'t' AS topic"], "the column 'value' is missing"),
        (["'x' AS value"], "name a topic"),
        (["1 AS value", "'t' AS topic"], "is int, and must be string or binary"),
        nightly(["'x' AS value", "CAST(NULL AS STRING) AS topic"], "a row has no topic"),
    ],
)
def test_what_cannot_be_written(spark: Any, topics: Topics, columns: list[str], words: str) -> None:
    writer = spark.range(1).selectExpr(*columns).write.format(FORMAT)
    with pytest.raises(Exception, match=words):
        writer.option("kafka.bootstrap.servers", topics.servers).mode("append").save()


LINES = (b'{"id": 1, "name": "a"}', b'{"id": "x"}', b'{"id": 2, "more": [1]}', b"{", b"", None)


@pytest.mark.nightly
@pytest.mark.parametrize("source", SOURCES)
def test_dead_letters(spark: Any, topics: Topics, source: str) -> None:
    """What does not parse comes to a topic, as it was, and says where it stood and why."""
    origin, target = (new_topic(topics.servers) for _ in range(2))
    producer = Producer({"bootstrap.servers": topics.servers})
    for line in LINES:
        producer.produce(origin, line, b"key", headers=[("a", b"b")])
    assert producer.flush(WAIT_SECONDS) == 0
    connect = {"kafka.bootstrap.servers": topics.servers, "includeHeaders": "true"}
    records = spark.read.format(source).options(subscribe=origin, **connect).load()
    parts = parse_json(records, "id BIGINT, name STRING")
    good = parts.good.select("parsed.*", "offset").orderBy("offset").collect()
    assert [tuple(row) for row in good] == [(1, "a", 0), (2, None, 2)]
    parts.dead.write.format(source).options(topic=target, **connect).mode("append").save()
    dead = sorted(contents(spark, topics, target), key=lambda row: bytes(row[-1][3][1]))
    assert [row[2] for row in dead] == [LINES[1], *LINES[3:]]
    assert {row[1] for row in dead} == {b"key"}
    for row, offset in zip(dead, (1, 3, 4, 5), strict=True):
        told = {name: bytes(value).decode() for name, value in row[-1]}
        assert told.pop("__connect.errors.exception.message")
        assert told == {
            "a": "b",
            "__connect.errors.topic": origin,
            "__connect.errors.partition": "0",
            "__connect.errors.offset": str(offset),
            "__connect.errors.stage": "VALUE_CONVERTER",
        }


REGISTERED = {  # as tests.support.schema_registry describes them, and what they say
    b"\0\0\0\0\1\x02\x04ab": (1, "ab"),
    b'\0\0\0\0\2{"id": 7}': (7, None),
    b"\0\0\0\0\3\0\x08\x96\x01": (150, None),
    b"\0\0\0\0\1\x02": "does not match schema 1",
    b"\0\0\0\0\7\x02": "there is no schema 7",
    b'{"id": 1}': "does not begin with the id of a schema",
}


@pytest.mark.nightly
def test_values_that_a_registry_describes(spark: Any, topics: Topics) -> None:
    pytest.importorskip("fastavro")
    pytest.importorskip("google.protobuf")
    topic = new_topic(topics.servers)
    producer = Producer({"bootstrap.servers": topics.servers})
    for value in REGISTERED:
        producer.produce(topic, value)
    assert producer.flush(WAIT_SECONDS) == 0
    source = spark.read.format(FORMAT).option("kafka.bootstrap.servers", topics.servers)
    records = source.option("subscribe", topic).load()
    with schema_registry() as url:
        parts = parse_json(records, "id BIGINT, name STRING", registry=url)
        good = {bytes(row.value): tuple(row.parsed) for row in parts.good.collect()}
        dead = {bytes(row.value): bytes(row.headers[-1].value) for row in parts.dead.collect()}
    assert good == {value: told for value, told in REGISTERED.items() if isinstance(told, tuple)}
    assert dead.keys() == REGISTERED.keys() - good.keys()
    for value, reason in dead.items():
        assert str(REGISTERED[value]) in reason.decode()
        assert b"u:p" not in reason


def test_workers_import_the_installed_pyspark(spark: Any) -> None:
    """And not Spark's zip, which each of them would compile anew."""
    import pyspark

    numbers = spark.sparkContext.parallelize([0], 1)
    (found,) = numbers.map(lambda _: __import__("pyspark").__file__).collect()
    assert Path(found).resolve() == Path(pyspark.__file__).resolve()
