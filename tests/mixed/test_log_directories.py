"""A log directory written by one broker, opened by the other, after clean and unclean stops.

Apache Kafka and pybroker take turns on the same directory: each must answer what the other has
answered, about a topic that holds all that clients can write and about one that every turn adds
to, leave the bytes that are there as they are, and files that Kafka's own tool has no complaint
about, and prints as ours does.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

import click.testing
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from pybroker_kafka.cli.log import log
from tests.mixed.one_directory import (
    CONFIG,
    EVERYTHING,
    WAIT_SECONDS,
    Seen,
    check_same,
    end_open_transaction,
    forget_registration,
    observe,
    write_everything,
)
from tests.support.apache_kafka import ApacheKafkaProcess, kafka_jars
from tests.support.consumed import collect_errors, consumed
from tests.support.kafka_tools import kafka_tool
from tests.support.processes import BrokerProcess, zookeeper_process
from tests.support.wire import WireClient

NUMBERS = "numbers"
A_TURN = 1500
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
DUMP = "kafka.tools.DumpLogSegments"
SUFFIXES = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
COMPLAINTS = ("Mismatches in", "Found timestamp mismatch", "out of order", "isvalid: false")

pytestmark = pytest.mark.timeout(900)


def produce(broker: BrokerProcess, numbers: range) -> None:
    """A share of the numbers with each codec, idempotently."""
    errors: list[KafkaError] = []
    for index, codec in enumerate(CODECS):
        producer = Producer(
            {
                "bootstrap.servers": broker.bootstrap,
                "compression.type": codec,
                "enable.idempotence": True,
                "linger.ms": 2,
                "batch.num.messages": 50,
            }
        )
        for number in numbers:
            if number % len(CODECS) == index:
                producer.produce(
                    NUMBERS,
                    b"value %d " % number * 20,
                    key=b"%d" % number,
                    on_delivery=collect_errors(errors),
                )
        assert producer.flush(WAIT_SECONDS) == 0
    assert errors == []


def read_keys(broker: BrokerProcess) -> list[int]:
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": "reader"}
    with closing(Consumer(settings)) as consumer:
        partition = TopicPartition(NUMBERS, 0, 0)
        end = end_offset(consumer, partition)
        consumer.assign([partition])
        keys: list[int] = []
        deadline = time.monotonic() + WAIT_SECONDS
        while len(keys) < end:
            # librdkafka tells of errors in the place of messages, also of those that it retries.
            found = consumer.consume(end - len(keys), 1.0)
            messages = [message for message in found if message.error() is None]
            assert messages or time.monotonic() < deadline, f"{len(keys)} of {end}"
            assert [message.offset() for message in messages] == list(
                range(len(keys), len(keys) + len(messages))
            )
            keys += [int(consumed(message).key or b"") for message in messages]
    return keys


def end_offset(consumer: Consumer, partition: TopicPartition) -> int:
    """The high watermark, once the broker that was just started knows its partition."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            end: int = consumer.get_watermark_offsets(partition, WAIT_SECONDS)[1]
            return end
        except KafkaException:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def end_cleanly(broker: BrokerProcess) -> None:
    broker.stop()


def end_by_kill(broker: BrokerProcess) -> None:
    broker.kill()


@pytest.mark.parametrize("end", [end_cleanly, end_by_kill])
@pytest.mark.parametrize(
    "first", [ApacheKafkaProcess, BrokerProcess], ids=["theirs-first", "ours-first"]
)
def test_brokers_take_turns(
    tmp_path: Path, first: type[BrokerProcess], end: Callable[[BrokerProcess], None]
) -> None:
    kafka_jars()
    second = BrokerProcess if first is ApacheKafkaProcess else ApacheKafkaProcess
    expected: Seen = {}
    logs: Mapping[Path, bytes] = {}
    with zookeeper_process(tmp_path) as connect:
        for turn, kind in enumerate((first, second, first)):
            broker = kind(tmp_path / "broker", connect, CONFIG)
            try:
                broker.start()
                with WireClient(broker.bootstrap) as client:
                    expected = take_turn(turn, broker, client, expected)
                end(broker)
            finally:
                broker.kill()
            before, logs = logs, logs_of(broker)
            for path, data in before.items():
                assert logs[path].startswith(data), f"{path} changed in turn {turn}"
            check_with_kafkas_tool(broker, (turn + 1) * A_TURN, clean=end is end_cleanly)
            forget_registration(connect)


def take_turn(turn: int, broker: BrokerProcess, client: WireClient, expected: Seen) -> Seen:
    """Everything is as it was left; then more is written. Returns what the next must answer."""
    if turn == 0:
        written = write_everything(broker)
        assert observe(client)["end"] > written
        client.create_topic(name=NUMBERS, segment_bytes="60000", index_interval_bytes="500")
    else:
        check_same(observe(client), expected)
    if turn == 1:
        end_open_transaction(client, expected["end"])
    numbers = turn * A_TURN
    if turn:
        assert sorted(read_keys(broker)) == list(range(numbers)), f"turn {turn}"
    produce(broker, range(numbers, numbers + A_TURN))
    assert sorted(read_keys(broker)) == list(range(numbers + A_TURN)), f"turn {turn}"
    return observe(client)


def logs_of(broker: BrokerProcess) -> dict[Path, bytes]:
    logs = {
        path: path.read_bytes()
        for topic in (EVERYTHING, NUMBERS)
        for path in (broker.log_dir / f"{topic}-0").glob("*.log")
    }
    assert len(logs) >= 7
    return logs


def check_with_kafkas_tool(broker: BrokerProcess, numbers: int, *, clean: bool) -> None:
    """It reads every file, checks the indexes, and finds all offsets; ours prints the same.

    After a kill an index may have space at its end that was never written to.
    """
    suffixes = SUFFIXES if clean else (".log",)
    for partition, option in (
        (f"{NUMBERS}-0", "--deep-iteration"),
        (f"{EVERYTHING}-0", "--print-data-log"),
        ("__consumer_offsets-0", "--offsets-decoder"),
        ("__transaction_state-0", "--transaction-log-decoder"),
    ):
        directory = broker.log_dir / partition
        files = sorted(str(path) for path in directory.iterdir() if path.suffix in suffixes)
        printed = kafka_tool(DUMP, option, "--files", ",".join(files))
        for complaint in COMPLAINTS:
            assert complaint not in printed, printed[-3000:]
        done = click.testing.CliRunner().invoke(log, ["dump", option, *files])
        assert (done.exit_code, done.stderr) == (0, ""), done.output[-2000:] + repr(done.exception)
        assert done.stdout.splitlines() == printed.splitlines()
        if option == "--deep-iteration":
            offsets = [int(found) for found in re.findall(r"^\| offset: (\d+)", printed, re.M)]
            assert sorted(offsets) == list(range(numbers))
