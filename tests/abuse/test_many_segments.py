"""A client whose records' timestamps are days apart, or whose topic has `segment.ms=1`: each of its
batches begins a segment. Segments take no descriptors, and not more of anything than may be.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.records.batch import SimpleRecord
from pybroker_kafka.protocol.records.builder import build_batch
from tests.support.descriptors import limited
from tests.support.processes import PYBROKER, BrokerProcess, zookeeper_process
from tests.support.wire import Topic, WireClient

FILES = 600
BATCHES = 534
CLIENTS = 200
DAY_MS = 86_400_000
BEGIN_MS = 1_000_000_000_000
CONFIG = {"offsets.topic.num.partitions": "3"}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with zookeeper_process(tmp_path) as connect:
        broker = BrokerProcess(tmp_path / "broker", connect, CONFIG)
        broker.replace_program(limited(PYBROKER, FILES, FILES))
        broker.start()
        try:
            yield broker
        finally:
            broker.kill()


def weekly(number: int) -> int:
    return BEGIN_MS + number * 8 * DAY_MS


def now(number: int) -> int:
    time.sleep(0.002)
    return int(time.time() * 1000)


@pytest.mark.nightly
@pytest.mark.parametrize(("stamp", "configs"), [(weekly, {}), (now, {"segment.ms": "1"})])
def test_segments_take_no_descriptors(
    broker: BrokerProcess, stamp: Callable[[int], int], configs: dict[str, str]
) -> None:
    with WireClient(broker.bootstrap) as client:
        topic = client.configured_topic(configs)
        for number in range(BATCHES):
            append(client, topic, number, stamp(number))
        segments = segment_files(broker, topic)
        assert len(segments) >= BATCHES - 5  # of this clock some milliseconds may be the same
        assert open_files(broker) < FILES // 2
        assert_serves(broker, topic)
    assert broker.stop() == 0, broker.log_text[-3000:]
    broker.start()
    assert_serves(broker, topic)
    broker.kill()
    broker.start()
    assert_serves(broker, topic)
    assert segment_files(broker, topic) == segments
    assert "goes offline" not in broker.log_text


def append(client: WireClient, topic: Topic, number: int, timestamp: int) -> None:
    data = bytes(build_batch([SimpleRecord(timestamp, None, b"%d" % number)]))
    answer = client.produce(topic.name, data, acks=1)
    assert answer.error_code == ErrorCode.NONE, number
    assert answer.base_offset == number


def assert_serves(broker: BrokerProcess, topic: Topic) -> None:
    """New clients come in, and read all segments; at once, so that none is read for long."""
    clients = [socket.create_connection(("127.0.0.1", broker.port)) for _ in range(CLIENTS)]
    try:
        with WireClient(broker.bootstrap) as client:
            found: list[bytes | None] = []
            while len(found) < BATCHES:
                records = client.read(topic, len(found))
                assert records
                found += [record.value for record in records]
            assert found == [b"%d" % number for number in range(BATCHES)]
    finally:
        for each in clients:
            each.close()


def segment_files(broker: BrokerProcess, topic: Topic) -> list[str]:
    return sorted(path.name for path in broker.log_dir.glob(f"{topic.name}-0/*.log"))


def open_files(broker: BrokerProcess) -> int:
    return len(os.listdir(f"/proc/{broker.pid}/fd"))
