"""Apache Kafka opens partition directories that hold files of our own, and we open them after it.

Two of the notes are only true as long as nobody else has loaded the log: their names end in
`.deleted`, which Kafka removes whenever it loads a log.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from pybroker_kafka.storage.files import Files
from pybroker_kafka.storage.recovery_notes import (
    GAPS_FILE,
    KEPT_FILES,
    NO_GAPS_FILE,
    STALE_RECOVERY_POINTS_FILE,
    note_cut,
    note_new,
    write_gaps,
)
from tests.mixed.one_directory import WAIT_SECONDS, forget_registration, wait_for
from tests.support.apache_kafka import ApacheKafkaProcess, kafka_jars
from tests.support.consumed import value_of
from tests.support.processes import BrokerProcess, zookeeper_process

TOPIC = "noted"
A_TURN = 300
CONFIG = {"offsets.topic.num.partitions": "1"}

pytestmark = pytest.mark.timeout(600)


def produce(broker: BrokerProcess, numbers: range) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all"})
    for number in numbers:
        producer.produce(TOPIC, b"%d" % number, key=b"%d" % number, partition=0)
    assert producer.flush(WAIT_SECONDS) == 0


def read(broker: BrokerProcess) -> list[int]:
    settings = {
        "bootstrap.servers": broker.bootstrap,
        "group.id": "none",
        "enable.partition.eof": True,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
    }
    found: list[int] = []
    with closing(Consumer(settings)) as consumer:
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        while True:
            message = consumer.poll(WAIT_SECONDS)
            assert message is not None, f"{len(found)} records, then nothing"
            error = message.error()
            if error is None:
                found.append(int(value_of(message)))
            elif error.code() == KafkaError._PARTITION_EOF:
                return found
            else:
                raise KafkaException(error)


def test_kafka_opens_what_we_have_noted(tmp_path: Path) -> None:
    kafka_jars()
    with zookeeper_process(tmp_path) as connect:
        ours = BrokerProcess(tmp_path / "broker", connect, CONFIG)
        partition = ours.log_dir / f"{TOPIC}-0"
        note = partition / GAPS_FILE
        try:
            ours.start()
            config = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "1"}
            admin = AdminClient({"bootstrap.servers": ours.bootstrap})
            admin.create_topics([NewTopic(TOPIC, 1, 1, config=config)])[TOPIC].result(WAIT_SECONDS)
            produce(ours, range(A_TURN))
            assert ours.stop() == 0
        finally:
            ours.kill()
        assert (partition / NO_GAPS_FILE).exists()
        note_cut(Files(), str(partition), 20, [100])
        note_new(Files(), str(partition))
        write_gaps(Files(), str(partition), 7)
        forget_registration(connect)
        theirs = ApacheKafkaProcess(tmp_path / "broker", connect, CONFIG, port=ours.port)
        try:
            theirs.start()
            wait_for(lambda: read(theirs) == list(range(A_TURN)), "all records")
            assert not {path.name for path in partition.iterdir()} & KEPT_FILES
            assert (partition / STALE_RECOVERY_POINTS_FILE).exists()
            produce(theirs, range(A_TURN, 2 * A_TURN))
            theirs.kill()
        finally:
            theirs.kill()
        forget_registration(connect)
        ours = BrokerProcess(tmp_path / "broker", connect, CONFIG, port=ours.port)
        try:
            ours.start()
            assert read(ours) == list(range(2 * A_TURN))
            # From here on it is ours to know where the gaps are; below nobody does.
            assert note.read_text() == f"0\n1\n{2 * A_TURN}\n"
        finally:
            ours.kill()
