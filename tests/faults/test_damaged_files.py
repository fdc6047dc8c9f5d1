"""A real broker on a damaged log directory: it starts, says what is wrong, and serves the rest."""

from __future__ import annotations

import subprocess
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.consumed import collect_errors, error_of, value_of
from tests.support.processes import PYBROKER, ROOT, BrokerProcess, zookeeper_process

WAIT_SECONDS = 120.0
RECORDS = 200
FIRST = "00000000000000000000"
LAST = "99999999999999999999999"
# What is damaged of each topic, and how.
DAMAGED = {
    "epochs": ("leader-epoch-checkpoint", b"garbage \xff\xfe"),
    "topic-id": ("partition.metadata", b"garbage"),
    "stranger": (f"{LAST}.log", b"garbage"),
    "index": (f"{FIRST}.index", b"garbage" * 9),
    "time-index": (f"{FIRST}.timeindex", b"garbage" * 9),
    "lost": (f"{FIRST}.log", b"garbage" * 99),
    "whole": None,
}
SESSION_FILE = ".zookeeper-session"
IN_THE_ROOT = {
    "replication-offset-checkpoint": b"garbage",
    "recovery-point-offset-checkpoint": b"0\n3\nepochs 0 1\n",
    "log-start-offset-checkpoint": b"0\n1\nwhole 0 17000\n",
    "cleaner-offset-checkpoint": b"\xff\xff",
    SESSION_FILE: b"{garbage",
}


CONFIG = {"log.initial.task.delay.ms": "0", "offsets.topic.num.partitions": "1"}

pytestmark = pytest.mark.timeout(300)


def write(broker: BrokerProcess) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    created = admin.create_topics([NewTopic(topic, 1, 1) for topic in DAMAGED])
    for future in created.values():
        future.result(WAIT_SECONDS)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all"})
    errors: list[KafkaError] = []
    for number in range(RECORDS):
        for topic in DAMAGED:
            producer.produce(topic, b"%d" % number, partition=0, callback=collect_errors(errors))
    assert producer.flush(WAIT_SECONDS) == 0
    assert not errors


def read(broker: BrokerProcess, topic: str) -> list[bytes]:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "none",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    found: list[bytes] = []
    with closing(consumer):
        consumer.assign([TopicPartition(topic, 0, 0)])
        while True:
            message = consumer.poll(WAIT_SECONDS)
            assert message is not None, f"{len(found)} records of {topic}, then nothing"
            if message.error() is None:
                found.append(value_of(message))
            elif error_of(message).code() == KafkaError._PARTITION_EOF:
                return found
            else:
                raise KafkaException(message.error())


def damage(data: Path, *, clean: bool) -> None:
    for topic, what in DAMAGED.items():
        if what is not None:
            (data / f"{topic}-0" / what[0]).write_bytes(what[1])
    for name, content in IN_THE_ROOT.items():
        if clean or name != SESSION_FILE:  # a killed broker's session would have to expire
            (data / name).write_bytes(content)
    (data / "lost+found").mkdir()


@pytest.mark.parametrize("how", ["clean", "killed"])
def test_each_damaged_file_costs_what_it_holds(tmp_path: Path, how: str) -> None:
    with zookeeper_process(tmp_path) as connect:
        broker = BrokerProcess(tmp_path / "broker", connect, CONFIG)
        try:
            broker.start()
            write(broker)
            expected = read(broker, "whole")
            assert len(expected) == RECORDS
            if how == "clean":
                assert broker.stop() == 0
            else:
                broker.kill()
            damage(broker.log_dir, clean=how == "clean")
            mark = len(broker.log_text)
            broker.start()
            for topic in DAMAGED.keys() - {"lost"}:
                assert read(broker, topic) == expected, topic
            told = broker.log_text[mark:]
            assert "Traceback" not in told
            for topic, what in DAMAGED.items():
                if what is not None and not (how == "killed" and "index" in topic):
                    name = str(broker.log_dir / f"{topic}-0" / what[0])
                    assert name in told, name
            for name in IN_THE_ROOT.keys() - {SESSION_FILE, "log-start-offset-checkpoint"}:
                assert str(broker.log_dir / name) in told, name
            assert "lost+found" in told
            if how == "clean":
                assert "lost-0 is offline" in told
                with pytest.raises(KafkaException):
                    produce_one(broker, "lost")
            produce_one(broker, "whole")
            assert broker.stop() == 0
            broker.start()
            assert read(broker, "epochs") == expected
        finally:
            broker.kill()


def produce_one(broker: BrokerProcess, topic: str) -> None:
    """KafkaException unless it is acknowledged."""
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "acks": "all", "message.timeout.ms": 3000}
    )
    errors: list[KafkaError] = []
    producer.produce(topic, b"one more", partition=0, callback=collect_errors(errors))
    assert producer.flush(WAIT_SECONDS) == 0
    if errors:
        raise KafkaException(errors[0])


def test_a_directory_of_nobody_is_refused(tmp_path: Path) -> None:
    with zookeeper_process(tmp_path) as connect:
        broker = BrokerProcess(tmp_path / "broker", connect)
        broker.log_dir.mkdir()
        for content in (b"", b"garbage \xff\xfe"):
            (broker.log_dir / "meta.properties").write_bytes(content)
            result = subprocess.run(
                [*PYBROKER, "broker", str(tmp_path / "broker" / "server.properties")],
                cwd=ROOT,
                capture_output=True,
                text=True,
                timeout=WAIT_SECONDS,
                check=False,
            )
            assert result.returncode == 2
            assert "Traceback" not in result.stderr
            last = result.stderr.splitlines()[-1]
            assert str(broker.log_dir / "meta.properties") in last
            assert "if this is the directory of broker 1 in cluster" in last
            assert "remove it" in last
