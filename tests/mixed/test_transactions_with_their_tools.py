"""Transactions as Kafka's own programs use them: kafka-transactions, and Kafka Streams.

kafka-transactions finds a transaction that nobody will ever end, and ends it (KIP-664). Kafka
Streams counts words with exactly_once_v2 while it is killed, loses its state, is stopped and
started, and a broker dies: each word of the input is counted once, so the counts of a word in the
output are 1, 2, 3 and so on, without a gap or a repetition.
"""

from __future__ import annotations

import contextlib
import random
import shutil
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.support.bank import BankClient
from tests.support.cluster import Cluster, cluster
from tests.support.consumed import consumed
from tests.support.kafka_tools import kafka_tool
from tests.support.ledger import librdkafka
from tests.support.maven import compiled, maven_jars
from tests.support.processes import BrokerProcess, running_broker
from tests.support.short_lived_java import JVM_OPTIONS
from tests.support.wire import WireClient, batch
from tests.wire.transaction_steps import start

TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"
STREAMS = {"org.apache.kafka:kafka-streams": "3.9.1", "org.slf4j:slf4j-nop": "1.7.36"}
SOURCE = Path(__file__).parent.parent / "support" / "java" / "WordCount.java"
HOUR_MS = 3_600_000
READ_COMMITTED = 1
WORDS = [f"word{number}" for number in range(15)]
LINE_SECONDS = 0.02
PARTITIONS = 3
STATE_LOST = "state lost"
COUNTED_BETWEEN = 150


# Hanging transactions


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """Without verification, as before KIP-890: then a transaction may hang."""
    config = {"transaction.partition.verification.enable": "false"}
    with running_broker(tmp_path, config) as running:
        yield running


def tool(broker: BrokerProcess, *words: str) -> list[list[str]]:
    """The rows of the table that it prints."""
    printed = kafka_tool(TRANSACTIONS, "--bootstrap-server", broker.bootstrap, *words)
    return [row for line in printed.splitlines() if (row := line.split())]


def test_a_hanging_transaction_is_found_and_aborted(broker: BrokerProcess) -> None:
    with WireClient(broker.bootstrap) as kafka:
        topic = kafka.create_topic()
        kafka.append(topic.name, b"before", timestamp=int(time.time() * 1000) - HOUR_MS)
        producer = start(kafka)
        records = batch(
            b"hangs",
            timestamp=int(time.time() * 1000) - HOUR_MS,
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            base_sequence=0,
            is_transactional=True,
        )
        # Never added to the transaction: the coordinator does not know that there is one to end.
        answer = kafka.produce(topic.name, records, transactional_id=producer.name)
        assert (answer.error_code, answer.base_offset) == (0, 1)
        assert kafka.fetch(topic, isolation_level=READ_COMMITTED).last_stable_offset == 1

        where = ("--topic", topic.name, "--partition", "0")
        hanging = ("find-hanging", *where, "--max-transaction-timeout", "15")
        header, row = tool(broker, *hanging)
        assert header[:2] == ["Topic", "Partition"]
        assert row[:5] == [topic.name, "0", str(producer.id), str(producer.epoch), "-1"]
        assert row[5] == "1"  # where it began
        _, active = tool(broker, "describe-producers", *where)
        assert active[:2] == [str(producer.id), str(producer.epoch)]
        _, known = tool(broker, "list")
        assert known[0] == producer.name
        assert "Empty" in known
        _, described = tool(broker, "describe", "--transactional-id", producer.name)
        assert producer.name in described

        assert tool(broker, "abort", *where, "--start-offset", "1") == []
        answer = kafka.fetch(topic, isolation_level=READ_COMMITTED)
        assert answer.last_stable_offset == 3
        aborted = [(a.producer_id, a.first_offset) for a in answer.aborted_transactions]
        assert aborted == [(producer.id, 1)]
        assert len(tool(broker, *hanging)) == 1  # only the header


# Kafka Streams


class Writer(threading.Thread):
    """Writes lines of random words, each once, and counts them."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self.words: Counter[str] = Counter()
        self.errors: list[object] = []
        self._chance = random.Random(1)
        self._ending = threading.Event()
        settings = librdkafka(bootstrap, enable_idempotence=True, message_timeout_ms=300_000)
        self._producer = Producer({**settings, "linger.ms": 0})

    def end(self) -> None:
        self._ending.set()
        self.join()

    def run(self) -> None:
        while not self._ending.wait(LINE_SECONDS):
            line = self._chance.choices(WORDS, k=self._chance.randint(1, 4))
            partition = self._chance.randrange(PARTITIONS)
            self._producer.produce(
                "text", " ".join(line).encode(), partition=partition, on_delivery=self._delivered
            )
            self.words.update(line)
            self._producer.poll(0)
        self._producer.flush(120)

    def _delivered(self, error: object, _: object) -> None:
        if error is not None:
            self.errors.append(error)


class Reader:
    """What was counted and committed so far."""

    def __init__(self, bootstrap: str) -> None:
        self.counts: dict[str, list[int]] = {word: [] for word in WORDS}
        self._consumer = Consumer(
            librdkafka(
                bootstrap,
                group_id="reader",
                isolation_level="read_committed",
                auto_offset_reset="earliest",
                enable_auto_commit=False,
            )
        )
        self._consumer.assign([TopicPartition("counts", p, 0) for p in range(PARTITIONS)])

    def total(self) -> int:
        for message in self._consumer.consume(1_000, 0.5):
            if message.error() is None:
                found = consumed(message)
                self.counts[(found.key or b"").decode()].append(int(found.value))
        return sum(len(numbers) for numbers in self.counts.values())

    def close(self) -> None:
        self._consumer.close()


@contextlib.contextmanager
def word_count(running: Cluster, life: int) -> Iterator[BankClient]:
    jars = maven_jars("kafka-streams-3.9.1", STREAMS)
    options = ["-Xmx192m", *JVM_OPTIONS]
    classes = compiled(SOURCE, jars)
    state = str(running.directory / "state")
    command = ["java", *options, "-cp", classes, "WordCount", running.bootstrap, state]
    client = BankClient(command, running.directory / f"streams-{life}.log", "streams")
    client.launch()
    try:
        yield client
    finally:
        client.kill()


def run_for(running: Cluster, reader: Reader, client: BankClient, count: int) -> None:
    """Until so many more words are counted."""
    target = reader.total() + count

    def counted() -> bool:
        assert client.is_running, client.log_text[-2000:]
        return reader.total() >= target

    running.wait_for(counted, f"{count} more words are counted")


@pytest.mark.timeout(600)
def test_streams_counts_exactly_once(tmp_path: Path) -> None:
    config = {
        "transaction.state.log.min.isr": "2",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
        "group.min.session.timeout.ms": "1000",
    }
    with cluster(tmp_path, config=config) as running:
        for topic in ("text", "counts"):
            running.create_topic(topic, PARTITIONS)
        writer, reader = Writer(running.bootstrap), Reader(running.bootstrap)
        running.at_close(reader.close)
        writer.start()
        for life, how in enumerate(("killed", STATE_LOST, "stopped")):
            with word_count(running, life) as client:
                run_for(running, reader, client, COUNTED_BETWEEN)
                if how == "stopped":
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        client.stop()
                client.kill()
                running.tell(f"Streams: {how}")
            if how == STATE_LOST:
                shutil.rmtree(tmp_path / "state")
        with word_count(running, 3) as client:
            run_for(running, reader, client, COUNTED_BETWEEN)
            node = running.coordinator("word-count")
            running.kill(node)
            run_for(running, reader, client, COUNTED_BETWEEN)
            running.start(node)
            writer.end()
            assert writer.errors == []
            total = sum(writer.words.values())
            running.wait_for(lambda: reader.total() >= total, f"all {total} words are counted")
            time.sleep(1)  # for what is there once too often
            reader.total()
        expected = {word: list(range(1, writer.words[word] + 1)) for word in WORDS}
        assert reader.counts == expected, "\n".join(running.story)
        print(f"{total} words, counted once each; {len(running.story)} events")
