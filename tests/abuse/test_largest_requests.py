"""The largest cheap request of every API, again and again: a good client beside it goes on.

What is cheap for the one who asks must not cost the others: with a megabyte of the smallest
elements an API's handler has a hundred thousand of them to look at, and an answer to write.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

import pytest

from pybroker_kafka.protocol.api import API_TABLE, ApiKey
from pybroker_kafka.protocol.errors import ProtocolError
from pybroker_kafka.protocol.framing import encode_request
from tests.abuse.beside import Bystander, assert_unharmed, bystander, for_seconds
from tests.abuse.largest import OF_4, PARTITIONS, largest_requests, newest_versions
from tests.support.frames import joined
from tests.support.wire import WireClient
from tests.wire.test_advertised import SERVED

SECONDS = 0.25
LATER = {key: last for key, last in newest_versions().items() if last > SERVED.get(key, -1)}
ANSWER_SECONDS = 120.0
READ_BYTES = 1 << 20


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bystander]:
    with bystander(tmp_path_factory.mktemp("largest"), rate=200) as beside:
        with WireClient(beside.bootstrap) as client:
            beside.target = client.create_topic(PARTITIONS, name="target")
            client.coordinator("abuse")
            client.coordinator("abuse", 1)
        yield beside


@pytest.fixture(scope="module")
def good_of_4(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bystander]:
    """The broker serves what Kafka 4 has."""
    with bystander(tmp_path_factory.mktemp("largest-4"), OF_4, rate=200) as beside:
        with WireClient(beside.bootstrap) as client:
            beside.target = client.create_topic(PARTITIONS, name="target")
            client.coordinator("abuse")
            client.coordinator("abuse", 1)
        yield beside


def frames(key: ApiKey, version: int, topic: str, topic_id: bytes) -> Iterator[bytes]:
    for message in largest_requests(key, version, topic, topic_id):
        try:
            parts = encode_request(key, version, 1, "abuser", message)
        except ProtocolError as error:
            raise AssertionError(f"{key.name} v{version}: {error}") from error
        yield joined(parts)


def send_and_drain(bootstrap: str, frame: bytes) -> None:
    """Send, and read the answer without looking at it; the broker may close instead."""
    host, _, port = bootstrap.rpartition(":")
    with socket.create_connection((host, int(port)), ANSWER_SECONDS) as connection:
        try:
            connection.sendall(frame)
            prefix = connection.recv(4, socket.MSG_WAITALL)
            if len(prefix) < 4:
                return
            left = struct.unpack(">i", prefix)[0]
            while left:
                data = connection.recv(min(left, READ_BYTES))
                if not data:
                    return
                left -= len(data)
        except ConnectionError:
            return


@pytest.mark.parametrize("key", sorted(SERVED), ids=lambda key: key.name)
def test_largest_request(good: Bystander, key: ApiKey) -> None:
    endure(good, key, SERVED[key])


@pytest.mark.parametrize("key", sorted(LATER), ids=lambda key: key.name)
def test_largest_request_of_kafka_4(good_of_4: Bystander, key: ApiKey) -> None:
    endure(good_of_4, key, LATER[key])


def endure(good: Bystander, key: ApiKey, version: int) -> None:
    made = list(frames(key, version, good.target.name, good.target.id))

    def abuse() -> None:
        for frame in made:
            send_and_drain(good.bootstrap, frame)

    assert_unharmed(good, f"{API_TABLE[key].name} {version} {len(max(made, key=len)) // 1000} kB",
                    for_seconds(SECONDS, abuse))  # fmt: skip
