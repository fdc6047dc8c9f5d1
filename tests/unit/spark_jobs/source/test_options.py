"""Options of the source and the sink: what is read, and what is refused with which words."""

from __future__ import annotations

import pytest

from pybroker_kafka.spark_jobs.source.limits import (
    EARLIEST,
    LATEST,
    AtOffsets,
    AtTimestamps,
    Everywhere,
    NoMatch,
    OptionError,
    offsets_from_json,
    offsets_to_json,
)
from pybroker_kafka.spark_jobs.source.options import SinkOptions, SourceOptions

SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}
TOPIC = SERVERS | {"subscribe": "t"}


def source(streaming: bool = False, **options: str) -> SourceOptions:
    return SourceOptions.parse(TOPIC | options, streaming=streaming)


def test_defaults() -> None:
    batch = source()
    assert batch.topics == ("t",)
    assert (batch.start, batch.end) == (Everywhere(EARLIEST), Everywhere(LATEST))
    assert batch.fail_on_data_loss
    assert not batch.include_headers
    assert not batch.is_read_committed
    assert source(streaming=True).start == Everywhere(LATEST)


def test_names_are_not_case_sensitive() -> None:
    found = SourceOptions.parse(
        {
            "KAFKA.BOOTSTRAP.SERVERS": "h:1",
            "SUBSCRIBEPATTERN": "a.*",
            "INCLUDEHEADERS": "TRUE",
            "Kafka.Isolation.Level": "read_committed",
        },
        streaming=False,
    )
    assert found.pattern == "a.*"
    assert found.include_headers
    assert found.is_read_committed
    assert found.bootstrap_servers == "h:1"


def test_what_is_read() -> None:
    assert source(subscribe=" a, b ,,a").topics == ("a", "b")
    assigned = SourceOptions.parse(SERVERS | {"assign": '{"a":[0,2]}'}, streaming=True)
    assert assigned.assigned == {("a", 0), ("a", 2)}


def test_where_it_begins_and_ends() -> None:
    assert source(startingOffsets='{"t":{"0":5,"1":-2}}').start == AtOffsets(
        {("t", 0): 5, ("t", 1): EARLIEST}
    )
    assert source(startingOffsets=" Earliest ").start == Everywhere(EARLIEST)
    assert source(endingTimestamp="7").end == AtTimestamps(7, NoMatch.LATEST)
    by_partition = source(
        startingOffsetsByTimestamp='{"t":{"0":5}}', startingOffsetsByTimestampStrategy="latest"
    )
    assert by_partition.start == AtTimestamps({("t", 0): 5}, NoMatch.LATEST)
    both = source(startingTimestamp="9", startingOffsetsByTimestamp="{}", startingOffsets="latest")
    assert both.start == AtTimestamps(9, NoMatch.ERROR)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "give one of the options subscribe, subscribePattern, assign"),
        ({"subscribe": "t", "assign": "{}"}, "only one"),
        ({"subscribe": " , "}, "names no topic"),
        ({"subscribePattern": "("}, "subscribePattern"),
        ({"assign": "[1]"}, 'expected e.g. {"topicA":[0,1]'),
        ({"assign": '{"t":[true]}'}, "expected"),
        ({"assign": "{}"}, "names no partition"),
        ({"subscribe": "t", "startingOffsets": '{"t":5}'}, 'expected e.g. {"topicA":{"0":23'),
        ({"subscribe": "t", "startingOffsets": "latest"}, "cannot start at the latest"),
        ({"subscribe": "t", "startingOffsets": '{"t":{"0":-1}}'}, "cannot start at the latest"),
        ({"subscribe": "t", "endingOffsets": "earliest"}, "cannot end at the earliest"),
        ({"subscribe": "t", "startingTimestamp": "now"}, "a time in ms"),
        ({"subscribe": "t", "startingOffsetsByTimestampStrategy": "x"}, "error or latest"),
        ({"subscribe": "t", "failOnDataLoss": "yes"}, "true or false"),
        ({"subscribe": "t", "minPartitions": "0"}, "positive"),
        ({"subscribe": "t", "maxTriggerDelay": "soon"}, "a time such as"),
        ({"subscribe": "t", "maxOffsetsPerTriger": "5"}, "there is no option"),
        ({"subscribe": "t", "kafka.auto.offset.reset": "earliest"}, "startingOffsets"),
        ({"subscribe": "t", "kafka.isolation.level": "none"}, "isolation.level"),
        ({"subscribe": "t", "history": "files"}, "table or brokers"),
        (
            {"subscribe": "t", "history": "table", "kafka.isolation.level": "read_uncommitted"},
            "committed records alone",
        ),
        (
            {"subscribe": "t", "minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"},
            "higher than",
        ),
        (
            {
                "subscribe": "t",
                "startingOffsets": '{"t":{"0":5}}',
                "endingOffsets": '{"t":{"0":4}}',
            },
            "above the ending",
        ),
        (
            {
                "subscribe": "t",
                "startingOffsets": '{"t":{"0":5}}',
                "endingOffsets": '{"t":{"1":6}}',
            },
            "different partitions",
        ),
    ],
)
def test_refused(options: dict[str, str], words: str) -> None:
    with pytest.raises(OptionError) as refused:
        SourceOptions.parse(SERVERS | options, streaming=False)
    assert words in str(refused.value)


def test_servers_are_needed() -> None:
    with pytest.raises(OptionError, match=r"kafka\.bootstrap\.servers"):
        SourceOptions.parse({"subscribe": "t"}, streaming=True)
    with pytest.raises(OptionError, match=r"kafka\.bootstrap\.servers"):
        SinkOptions.parse({"topic": "t"})


def test_a_stream_has_no_end() -> None:
    for name in ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"):
        with pytest.raises(OptionError, match=name):
            SourceOptions.parse(TOPIC | {name: "latest"}, streaming=True)


def test_secrets_are_not_shown() -> None:
    secret = SourceOptions.parse(TOPIC | {"kafka.sasl.jaas.config": "hush"}, streaming=True)
    assert secret.kafka["sasl.jaas.config"] == "hush"
    assert "hush" not in repr(secret)


def test_the_sink() -> None:
    assert SinkOptions.parse(SERVERS | {"topic": " t "}).topic == "t"
    found = SinkOptions.parse(
        SERVERS
        | {"checkpointLocation": "/x", "kafka.linger.ms": "7", "kafka.ssl.key.password": "hush"}
    )
    assert found.topic is None
    assert "hush" not in repr(found)
    assert found.producer() == {
        "acks": "all", "compression": "none", "idempotence": True, "linger_ms": 7
    }  # fmt: skip
    weak = SinkOptions.parse(SERVERS | {"kafka.acks": "1"})
    assert not weak.producer()["idempotence"]
    for key, value in (("value.serializer", "x"), ("linger.ms", "soon")):
        with pytest.raises(OptionError, match=key):
            SinkOptions.parse(SERVERS | {f"kafka.{key}": value})


def test_offsets_as_the_connector_writes_them() -> None:
    offsets = {("b", 1): 3, ("a", 10): 1, ("a", 2): 0}
    found = offsets_to_json(offsets)
    assert found == {"a": {"2": 0, "10": 1}, "b": {"1": 3}}
    assert offsets_from_json(found) == offsets
