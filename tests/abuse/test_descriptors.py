"""Idle connections and partitions without end, at low limits of open files."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pybroker_kafka.protocol.apis.create_topics import CreatableTopic, CreateTopicsRequest
from pybroker_kafka.protocol.apis.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from pybroker_kafka.protocol.apis.metadata import MetadataRequest
from tests.abuse.beside import TABLE, WATCHED, Bystander, Row, bystander
from tests.support.descriptors import limited
from tests.support.processes import PYBROKER, BrokerProcess, zookeeper_process
from tests.support.wire import WireClient

HARD = 256
SECONDS = 3.0
PARTITIONS = 90
ACK_MAX_MS = 1000.0


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bystander]:
    """The soft limit alone would not do for what follows."""
    directory = tmp_path_factory.mktemp("descriptors")
    program = limited(WATCHED, 140, HARD)
    with bystander(directory, {"offsets.topic.num.partitions": "3"}, program=program) as beside:
        yield beside


def is_good(row: Row) -> bool:
    window = row.window
    return window.acknowledged_max_ms < ACK_MAX_MS and not window.errors and not window.lost


def crowd(port: int, count: int, meanwhile: Callable[[], object]) -> None:
    """Idle connections, more than are let in, for some seconds."""
    connections = []
    try:
        for _ in range(count):
            connection = socket.socket()
            connection.setblocking(False)
            connection.connect_ex(("127.0.0.1", port))
            connections.append(connection)
            time.sleep(0.001)
        meanwhile()
        time.sleep(SECONDS)
    finally:
        for connection in connections:
            connection.close()


def test_more_connections_than_descriptors(good: Bystander) -> None:
    port = good.broker.port

    def abuse() -> None:
        crowd(port, 2 * HARD, lambda: None)

    row = good.measure(f"{2 * HARD} idle connections, {HARD} files", abuse, is_good)
    assert is_good(row), row
    assert "Refusing connections on listener PLAINTEXT" in good.broker.log_text
    assert "goes offline" not in good.broker.log_text
    with WireClient(good.bootstrap) as client:
        client.call(MetadataRequest(topics=[]))


def test_more_partitions_than_descriptors(good: Bystander) -> None:
    """They are begun as soon as the connections that took the descriptors are gone."""
    with WireClient(good.bootstrap) as client:

        def create() -> None:
            topic = CreatableTopic(name="many", num_partitions=PARTITIONS, replication_factor=1)
            client.call(CreateTopicsRequest(topics=[topic], timeout_ms=1000))

        row = good.beside(
            f"{PARTITIONS} partitions without files",
            lambda: crowd(good.broker.port, 2 * HARD, create),
        )
        TABLE.append(row)
        assert is_good(row), row
        assert "and further replicas wait" in good.broker.log_text
        deadline = time.monotonic() + 120
        while (begun := partitions_of(client, "many")) < PARTITIONS:
            assert time.monotonic() < deadline, f"only {begun} partitions were begun"
            time.sleep(0.1)
    assert "goes offline" not in good.broker.log_text


def partitions_of(client: WireClient, name: str) -> int:
    """How many the broker has on its disk."""
    answer = client.call(DescribeLogDirsRequest(topics=None))
    assert isinstance(answer, DescribeLogDirsResponse)
    (directory,) = answer.results
    return sum(len(topic.partitions) for topic in directory.topics if topic.name == name)


def test_too_few_to_begin_with(tmp_path: Path) -> None:
    """One line that says what to do, and the exit status of a user's error."""
    with zookeeper_process(tmp_path) as connect:
        broker = BrokerProcess(tmp_path / "broker", connect)
        broker.replace_program(limited(PYBROKER, 64, 64))
        with pytest.raises(AssertionError, match="exit 2"):
            broker.start()
        (line,) = broker.log_text.splitlines()
        assert "only 64 files" in line
        assert "ulimit -Hn" in line
