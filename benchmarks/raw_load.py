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
from protocol.framing import decode_response, encode_request
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.records.batch import iter_batch_headers
from protocol.records.builder import build_batch
from protocol.records.record import SimpleRecord

PRODUCE_VERSION = 9
RECEIVE_BYTES = 1 << 18


FETCH_VERSION = 11
FETCH_BYTES = 1 << 20
_INT64 = struct.Struct(">q")
# Where a fetch request has its offset: a number that nothing else in it looks like.
_OFFSET_MARK = 0x5A11C0DE5A11C0DE


class FetchResult(NamedTuple):
    bytes: int
    seconds: float


class LoadResult(NamedTuple):
    requests: int
    seconds: float

    @property
    def requests_per_second(self) -> float:
        return self.requests / self.seconds


def produce_frame(topic: str, partition: int, value_bytes: int, *, acks: int = 1) -> bytes:
    """One Produce request with one record of `value_bytes`."""
    batch = build_batch([SimpleRecord(int(time.time() * 1000), None, b"x" * value_bytes)])
    request = ProduceRequest(
        acks=acks,
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


def fetch_frame(topic: str) -> tuple[bytearray, int]:
    """A Fetch request for a megabyte of partition 0, and where its offset goes."""
    partition = FetchPartition(
        partition=0, fetch_offset=_OFFSET_MARK, partition_max_bytes=FETCH_BYTES
    )
    request = FetchRequest(
        max_wait_ms=100,
        min_bytes=1,
        max_bytes=FETCH_BYTES,
        session_epoch=-1,
        topics=[FetchTopic(topic=topic, partitions=[partition])],
    )
    parts = encode_request(ApiKey.FETCH, FETCH_VERSION, 1, "raw-load", request)
    frame = bytearray(b"".join(bytes(part) for part in parts))
    return frame, frame.index(_INT64.pack(_OFFSET_MARK))


def run_fetch_load(address: tuple[str, int], topic: str, *, seconds: float) -> FetchResult:
    """Read partition 0 over and over from its start, two requests in flight.

    The first pass reads every answer to learn its next offset; later ones only count bytes.
    """
    frame, place = fetch_frame(topic)
    with socket.create_connection(address) as connection:
        offsets = _offsets_of_answers(connection, frame, place)
        scratch = bytearray(2 * FETCH_BYTES)
        total = turn = 0
        started = time.perf_counter()
        deadline = started + seconds
        _INT64.pack_into(frame, place, offsets[0])
        connection.sendall(frame)
        while time.perf_counter() < deadline:
            turn += 1
            _INT64.pack_into(frame, place, offsets[turn % len(offsets)])
            connection.sendall(frame)
            total += _skip_answer(connection, scratch)
        return FetchResult(total, time.perf_counter() - started)


def _offsets_of_answers(connection: socket.socket, frame: bytearray, place: int) -> list[int]:
    """The offsets at which fetches of one pass over the partition begin."""
    offsets = [0]
    while True:
        _INT64.pack_into(frame, place, offsets[-1])
        connection.sendall(frame)
        _, message = decode_response(ApiKey.FETCH, FETCH_VERSION, _answer(connection)[4:])
        assert isinstance(message, FetchResponse)
        data = message.responses[0].partitions[0]
        assert not data.error_code, f"error {data.error_code} at offset {offsets[-1]}"
        records = data.records
        assert isinstance(records, bytes | bytearray | memoryview)
        *_, (_, last) = iter_batch_headers(records)
        if last.next_offset >= data.high_watermark:
            return offsets
        offsets.append(last.next_offset)


def _skip_answer(connection: socket.socket, scratch: bytearray) -> int:
    """Receive one answer into `scratch`, whatever is in it; returns its bytes."""
    size: int = struct.unpack(">i", _exactly(connection, 4))[0]
    view = memoryview(scratch)
    left = size
    while left:
        received = connection.recv_into(view, min(left, len(scratch)))
        if not received:
            raise ConnectionError("the broker closed the connection")
        left -= received
    return size


def _answer(connection: socket.socket) -> bytes:
    head = _exactly(connection, 4)
    return head + _exactly(connection, struct.unpack(">i", head)[0])


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = bytearray(size)
    view = memoryview(data)
    while view:
        received = connection.recv_into(view)
        if not received:
            raise ConnectionError("the broker closed the connection")
        view = view[received:]
    return bytes(data)


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
