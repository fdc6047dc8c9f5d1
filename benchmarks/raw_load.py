"""A raw Kafka load generator: pipelined Produce or Fetch requests over plain sockets.

The request frames are encoded once and sent over and over; answers are only counted by their
length, so that the client costs about two microseconds a request and is not what is measured.
One epoll loop drives all connections. Kafka allows one request in progress a connection; the
others wait in its socket, as with any pipelining client.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from typing import NamedTuple

from protocol.api import ApiKey
from protocol.framing import encode_request
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.records.builder import build_batch
from protocol.records.record import SimpleRecord

PRODUCE_VERSION = 9
RECEIVE_BYTES = 1 << 18


class LoadResult(NamedTuple):
    requests: int
    seconds: float

    @property
    def requests_per_second(self) -> float:
        return self.requests / self.seconds


def produce_frame(topic: str, partition: int, value_bytes: int) -> bytes:
    """One Produce request (acks=1) with one record of `value_bytes`."""
    batch = build_batch([SimpleRecord(int(time.time() * 1000), None, b"x" * value_bytes)])
    request = ProduceRequest(
        acks=1,
        timeout_ms=30_000,
        topic_data=[
            TopicProduceData(
                name=topic,
                partition_data=[PartitionProduceData(index=partition, records=batch)],
            )
        ],
    )
    parts = encode_request(ApiKey.PRODUCE, PRODUCE_VERSION, 1, "raw-load", request)
    return b"".join(bytes(part) for part in parts)


def _answer(connection: socket.socket) -> bytes:
    head = _exactly(connection, 4)
    return head + _exactly(connection, struct.unpack(">i", head)[0])


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        chunk = connection.recv(size - len(data))
        if not chunk:
            raise ConnectionError("the broker closed the connection")
        data += chunk
    return data


def run_produce_load(
    address: tuple[str, int],
    frames: list[bytes],
    *,
    connections: int,
    in_flight: int,
    seconds: float,
) -> LoadResult:
    """Keep `in_flight` requests on each connection for `seconds`; they share out the frames."""
    epoll = select.epoll()
    opened: dict[int, tuple[socket.socket, bytes]] = {}
    unread: dict[int, int] = {}
    answer_bytes = 0
    for number in range(connections):
        connection = socket.create_connection(address)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        frame = frames[number % len(frames)]
        connection.sendall(frame)
        answer = _answer(connection)
        if answer_bytes and len(answer) != answer_bytes:
            raise AssertionError(f"answers of {answer_bytes} and {len(answer)} bytes: an error?")
        answer_bytes = len(answer)
        opened[connection.fileno()] = (connection, frame)
        unread[connection.fileno()] = 0
        epoll.register(connection.fileno(), select.EPOLLIN)
    try:
        for connection, frame in opened.values():
            connection.sendall(frame * in_flight)
        answered = 0
        started = time.perf_counter()
        deadline = started + seconds
        while time.perf_counter() < deadline:
            for descriptor, _ in epoll.poll(1.0):
                connection, frame = opened[descriptor]
                size = unread[descriptor] + len(connection.recv(RECEIVE_BYTES))
                whole, unread[descriptor] = divmod(size, answer_bytes)
                if whole:
                    answered += whole
                    connection.sendall(frame * whole)
        return LoadResult(answered, time.perf_counter() - started)
    finally:
        epoll.close()
        for connection, _ in opened.values():
            connection.close()
