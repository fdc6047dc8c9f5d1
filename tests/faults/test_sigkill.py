"""A broker killed with SIGKILL at random moments under load loses nothing that it acknowledged.

The ledger: every record carries its number; librdkafka's idempotent producer (acks=all) retries
across the kills, so at the end each number must be in the log exactly once, in order, at
contiguous offsets, and at the very offset that its acknowledgement named. A group commits between
the kills; each acknowledged commit must be there after the restart.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.consumed import consumed
from tests.support.nightly import chosen
from tests.support.patience import until
from tests.support.processes import BrokerProcess, running_broker

KILLS = 20
WAIT_SECONDS = 120.0
ROUND_SECONDS = 0.005  # the broker is tested, not how fast a client can be
TOPIC = "ledger"


class Load(threading.Thread):
    """Produces numbered records until told to end; notes the offset each acknowledgement names."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self.producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 1,
                "message.timeout.ms": int(WAIT_SECONDS * 1000),
                "retry.backoff.ms": 20,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 100,
            }
        )
        self.acknowledged: dict[int, int] = {}
        self.errors: list[object] = []
        self.sent = 0
        self.ending = threading.Event()

    def run(self) -> None:
        while not self.ending.is_set():
            for _ in range(20):
                self.producer.produce(
                    TOPIC, b"%d" % self.sent, partition=0, on_delivery=self._delivered
                )
                self.sent += 1
            self.producer.poll(0)
            self.ending.wait(ROUND_SECONDS)
        assert self.producer.flush(WAIT_SECONDS) == 0

    def _delivered(self, error: object, message: Message) -> None:
        if error is not None:
            self.errors.append(error)
        else:
            record = consumed(message)
            self.acknowledged[int(record.value)] = record.offset


def read_ledger(bootstrap: str) -> list[tuple[int, int]]:
    """All (offset, number) in the log."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader"})
    with closing(consumer):
        partition = TopicPartition(TOPIC, 0, 0)
        end = consumer.get_watermark_offsets(partition, WAIT_SECONDS)[1]
        consumer.assign([partition])
        entries: list[tuple[int, int]] = []
        deadline = time.monotonic() + WAIT_SECONDS
        while len(entries) < end:
            assert time.monotonic() < deadline, f"{len(entries)} of {end}"
            messages = consumer.consume(10_000, 0.5)
            assert all(message.error() is None for message in messages)
            records = map(consumed, messages)
            entries += [(record.offset, int(record.value)) for record in records]
    return entries


def commit(consumer: Consumer, offset: int) -> bool:
    """Whether the commit was acknowledged."""
    try:
        consumer.commit(offsets=[TopicPartition(TOPIC, 0, offset)], asynchronous=False)
    except KafkaException:
        return False
    return True


def committed(bootstrap: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "committers"})
    with closing(consumer):
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            try:
                return consumer.committed([TopicPartition(TOPIC, 0)], 5.0)[0].offset
            except KafkaException:
                assert time.monotonic() < deadline


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "config",
    chosen([{"log.flush.interval.messages": "1"}, {}], [{}]),
    ids=["every-append-flushed", "flushes-left-to-the-system"],
)
def test_nothing_acknowledged_is_lost(
    tmp_path: Path, config: Mapping[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    seed = random.randrange(2**32)
    moments = random.Random(seed)
    restarts = []
    with running_broker(tmp_path, config) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(WAIT_SECONDS)
        load = Load(broker.bootstrap)
        load.start()
        last_commit = -1001
        try:
            for _ in range(KILLS):
                restarts.append(kill_once(broker, load, moments))
                if last_commit >= 0:
                    assert committed(broker.bootstrap) == last_commit, f"seed {seed}"
                settings = {"bootstrap.servers": broker.bootstrap, "group.id": "committers"}
                with closing(Consumer(settings)) as committer:
                    offset = len(load.acknowledged)
                    if commit(committer, offset):
                        last_commit = offset
        finally:
            load.ending.set()
            load.join(WAIT_SECONDS)
        entries = read_ledger(broker.bootstrap)
        assert committed(broker.bootstrap) == last_commit, f"seed {seed}"
    assert load.errors == [], f"seed {seed}"
    assert [offset for offset, _ in entries] == list(range(len(entries))), f"seed {seed}"
    assert [number for _, number in entries] == list(range(load.sent)), f"seed {seed}"
    assert {number: offset for offset, number in entries} == load.acknowledged, f"seed {seed}"
    with capsys.disabled():
        print(
            f"\n{KILLS} kills, seed {seed}: {len(entries)} records acknowledged and there once; "
            f"restart to ready {min(restarts):.2f}-{max(restarts):.2f} s"
        )


def kill_once(broker: BrokerProcess, load: Load, moments: random.Random) -> float:
    """Let some records through, kill at a random moment, start again; seconds to ready."""
    before = len(load.acknowledged)
    until(lambda: len(load.acknowledged) >= before + 50, "no progress under load")
    time.sleep(moments.uniform(0, 0.3))
    broker.kill()
    return broker.start()
