"""Converting while sending: what is announced is what is sent, in bounded pieces."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from pybroker_kafka.broker.network.down_conversion import (
    CHUNK_BYTES,
    MIN_OVERFLOW_BYTES,
    QUICK_RECORDS,
    QUICK_UNPACKED_BYTES,
    DownConversion,
)
from pybroker_kafka.protocol.errors import ErrorCode, KafkaError
from pybroker_kafka.protocol.records.batch import (
    Compression,
    ControlRecordType,
    EndTxnMarker,
    SimpleRecord,
    iter_batch_headers,
    read_records,
)
from pybroker_kafka.protocol.records.builder import build_batch, build_end_txn_marker
from pybroker_kafka.storage.files import Files, FileSlice
from tests.support.connections import connection_over

MARKER = build_end_txn_marker(
    EndTxnMarker(ControlRecordType.COMMIT, 0), timestamp=0, producer_id=1, producer_epoch=0
)


def batch(first: int, count: int, size: int = 10, codec: Compression = Compression.NONE) -> bytes:
    records = [SimpleRecord(1000 + n, b"k", bytes([65 + n % 26]) * size) for n in range(count)]
    return bytes(build_batch(records, base_offset=first, compression=codec))


def stored(directory: Path, data: bytes) -> FileSlice:
    file = Files().open(str(directory / "log"), create=True)
    file.write_at(data, 0)
    return FileSlice(file, 0, len(data))


def offsets(data: bytes) -> list[int]:
    end = 0
    for position, header in iter_batch_headers(data):
        if header.base_offset < 0:
            break  # the overflow, for whose length there is no room
        end = position + header.size_in_bytes
    return [record.offset for record in read_records(data[:end])]


def test_the_announced_size_is_what_comes(tmp_path: Path) -> None:
    taken: list[DownConversion] = []
    data = b"".join(batch(10 * n, 10) for n in range(200))
    part = DownConversion(stored(tmp_path, data), 1, 0, taken.append)
    # v1 messages are larger than v2 records: the last ones find no room.
    assert len(part) == len(data)
    assert part.converted_count == 10, "only the first batch is converted before it is sent"
    whole = part.read()
    assert taken == [part]
    assert part.converted_count >= 500
    assert part.converted_bytes >= len(data)
    assert len(whole) == len(data)
    found = offsets(whole)
    assert found == list(range(len(found)))
    assert 500 < len(found) < 2000


def test_what_is_left_over_is_filled_with_a_message_cut_short(tmp_path: Path) -> None:
    data = batch(0, 3) + bytes(MARKER) * 5
    part = DownConversion(stored(tmp_path, data), 1, 1, lambda part: None)
    whole = part.read()
    assert len(whole) == len(data) > 200
    assert offsets(whole) == [1, 2]
    [*entries] = iter_batch_headers(whole)
    end = entries[-1][0] + entries[-1][1].size_in_bytes
    rest = whole[end:]
    # Offset -1, and a length that goes beyond what follows.
    assert int.from_bytes(rest[:8], "big", signed=True) == -1
    assert int.from_bytes(rest[8:12], "big") > len(rest) - 12
    assert not any(rest[12:])


def test_the_first_batch_always_fits(tmp_path: Path) -> None:
    data = batch(0, 500, 1)
    part = DownConversion(stored(tmp_path, data), 1, 0, lambda part: None)
    assert len(part) > len(data)
    assert offsets(part.read()) == list(range(500))


def test_only_control_batches(tmp_path: Path) -> None:
    part = DownConversion(stored(tmp_path, bytes(MARKER) * 3), 0, 0, lambda part: None)
    whole = part.read()
    assert len(part) == len(whole) == MIN_OVERFLOW_BYTES
    assert list(iter_batch_headers(whole)) == []


def test_no_complete_batch(tmp_path: Path) -> None:
    assert len(DownConversion(stored(tmp_path, batch(0, 3)[:-1]), 1, 0, lambda part: None)) == 0


def test_zstd_ends_what_can_be_converted(tmp_path: Path) -> None:
    zstd = batch(3, 3, 500, Compression.ZSTD)
    (tmp_path / "a").mkdir()
    part = DownConversion(stored(tmp_path / "a", batch(0, 3) + zstd * 9), 1, 0, lambda part: None)
    whole = part.read()
    assert (len(whole), offsets(whole)) == (len(part), [0, 1, 2])
    with pytest.raises(KafkaError) as caught:
        DownConversion(stored(tmp_path, zstd), 1, 0, lambda part: None)
    assert caught.value.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


@pytest.mark.parametrize(
    "slow",
    [
        batch(10, QUICK_RECORDS + 1),
        batch(10, 1, QUICK_UNPACKED_BYTES, Compression.GZIP),
    ],
    ids=["many records", "unpacks to a lot"],
)
def test_what_is_not_quick_is_converted_when_it_comes_first(tmp_path: Path, slow: bytes) -> None:
    data = batch(0, 10) + slow + batch(10_000, 10)
    part = DownConversion(stored(tmp_path, data), 1, 0, lambda part: None)
    whole = part.read()
    assert (len(whole), offsets(whole)) == (len(part), list(range(10)))
    (tmp_path / "next").mkdir()
    part = DownConversion(
        stored(tmp_path / "next", data[len(batch(0, 10)) :]), 1, 10, lambda part: None
    )
    (first, *_) = offsets(part.read())
    assert first == 10


def test_damaged_data(tmp_path: Path) -> None:
    bad = bytearray(batch(3, 30, 100, Compression.GZIP))
    bad[80:90] = bytes(10)
    with pytest.raises(KafkaError) as caught:
        DownConversion(stored(tmp_path, bytes(bad)), 1, 0, lambda part: None)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
    part = DownConversion(stored(tmp_path, batch(0, 3) + bad), 1, 0, lambda part: None)
    assert offsets(part.next_chunk()) == [0, 1, 2]  # type: ignore[arg-type]
    with pytest.raises(ConnectionAbortedError):
        part.next_chunk()


def test_pieces_are_bounded(tmp_path: Path) -> None:
    data = b"".join(batch(10 * n, 10, 1000) for n in range(300))
    part = DownConversion(stored(tmp_path, data), 0, 0, lambda part: None)
    sizes = [len(chunk) for chunk in part.chunks()]
    assert sum(sizes) == len(data)
    assert len(sizes) > 20
    assert max(sizes) < CHUNK_BYTES + 12_000
    # A long filler comes in pieces too.
    data = batch(0, 1) + bytes(MARKER) * 10_000
    part = DownConversion(stored(tmp_path, data), 0, 0, lambda part: None)
    assert max(len(chunk) for chunk in part.chunks()) <= CHUNK_BYTES


def test_a_connection_sends_it_in_turns(tmp_path: Path) -> None:
    data = b"".join(batch(10 * n, 10, 1000) for n in range(300))
    part = DownConversion(stored(tmp_path, data), 1, 0, lambda part: None)
    mine, theirs = socket.socketpair()
    with mine, theirs:
        mine.setblocking(False)
        theirs.setblocking(False)
        connection = connection_over(mine)
        connection.out.parts.extend([b"before", part, b"after"])
        connection.out.size = 11 + len(part)
        received = bytearray()
        rounds = 0
        while not connection.out.flush():
            assert connection.out.blocked
            rounds += 1
            while True:
                try:
                    received += theirs.recv(1 << 16)
                except BlockingIOError:
                    break
        mine.shutdown(socket.SHUT_WR)
        theirs.setblocking(True)
        while chunk := theirs.recv(1 << 16):
            received += chunk
        assert (connection.out.size, connection.out.blocked) == (0, False)
        assert rounds >= len(data) // (CHUNK_BYTES + 12_000)
        assert received.startswith(b"before")
        assert received.endswith(b"after")
        assert len(received) == 11 + len(part)
        found = offsets(bytes(received[6:-5]))
        assert found == list(range(len(found)))
