"""Frames cut short and frames with damage: nothing but `ProtocolError`, and no outsized allocation.

Each frame is a whole request, response or data message of one message and version. Whatever the
compiled codec takes or refuses, the reference codec must take, with an equal value, or refuse.
"""

from __future__ import annotations

import contextlib
import random
import tracemalloc
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from pybroker_kafka.protocol.codec import decode, decode_versioned, encode, encode_versioned
from pybroker_kafka.protocol.errors import ProtocolError
from pybroker_kafka.protocol.framing import (
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
)
from pybroker_kafka.protocol.schema import Message
from tests.support import examples
from tests.support.counts import report
from tests.support.frames import decode_request, joined
from tests.support.message_factory import MessageFactory, every_message_and_version
from tests.support.reference_codec import Refused, reference_decode

SHARDS = 8
MUTATIONS = examples.of(200_000) // SHARDS
TWIN_SHARE = 10  # the reference codec checks every tenth mutated body
LONGEST_FRAME = 700
# One byte of a frame can become an element of a list, at worst an empty struct with its slots.
BYTES_ALLOCATED_PER_FRAME_BYTE = 300
BYTES_ALLOCATED_FREELY = 50_000

MESSAGES = list(every_message_and_version())


class Frame(NamedTuple):
    cls: type[Message]
    version: int
    body: bytes
    data: bytes
    read: Callable[[bytes], object]


def frame_of(cls: type[Message], version: int, message: Message) -> Frame:
    key, kind = cls._spec.api_key, cls._spec.kind
    body = encode(message, version)
    if kind == "request":
        parts = encode_request(key, version, 7, "a-client", message)
        return Frame(cls, version, body, joined(parts)[4:], decode_request)
    if kind == "response":
        parts = encode_response(key, version, 7, message)
        data = joined(parts)[4:]
        return Frame(cls, version, body, data, lambda data: decode_response(key, version, data))
    data = encode_versioned(message, version)
    return Frame(cls, version, body, data, lambda data: decode_versioned(cls, data))


def frames(source: random.Random, cls: type[Message], version: int) -> Iterator[Frame]:
    """Frames of one message and version, without end."""
    size = 300
    while True:
        frame = frame_of(cls, version, MessageFactory(source.randbytes(size)).make(cls, version))
        if len(frame.data) <= LONGEST_FRAME:
            yield frame
        else:
            size = max(1, size // 2)


def mutated(source: random.Random, data: bytes) -> bytes:
    """One to three injuries: flipped bits, wild lengths, cuts, insertions and repetitions."""
    damaged = bytearray(data)
    for _ in range(source.choice((1, 1, 1, 2, 3))):
        position = source.randrange(len(damaged) + 1)
        kind = source.randrange(8)
        if kind == 0 and position < len(damaged):
            damaged[position] ^= 1 << source.randrange(8)
        elif kind == 1 and position < len(damaged):
            damaged[position] = source.randrange(256)
        elif kind == 2:
            damaged[position : position + 4] = source.choice(
                (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\0\0\0", b"\0\0\xff\xff", bytes(4))
            )
        elif kind == 3:
            damaged[position : position + 2] = source.choice((b"\x7f\xff", b"\xff\xff", b"\x80\0"))
        elif kind == 4:
            damaged[position:position] = source.choice(
                (b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff\xff\xff", b"\x80\0", b"\x80\x80\x01")
            )
        elif kind == 5:
            del damaged[position:]
        elif kind == 6:
            del damaged[position : position + source.randrange(1, 9)]
        else:
            damaged[position:position] = damaged[max(0, position - 9) : position]
    return bytes(damaged)


@pytest.mark.parametrize("shard", range(SHARDS))
def test_mutated_frames(shard: int, request: pytest.FixtureRequest) -> None:
    source = random.Random(f"mutated frames {shard}")
    taken = refused = compared = 0
    share = MESSAGES[shard::SHARDS]
    per_message = -(-MUTATIONS // len(share))
    for cls, version in share:
        supply = frames(source, cls, version)
        for index in range(per_message):
            if index % 40 == 0:
                frame = next(supply)
            damaged = mutated(source, frame.data)
            try:
                frame.read(damaged)
                taken += 1
            except ProtocolError:
                refused += 1
            if index % TWIN_SHARE == 0:
                compared += 1
                check_against_twin(cls, version, mutated(source, frame.body))
    assert taken
    assert refused
    report(
        request.config,
        f"protocol: {taken + refused} mutated frames, {refused} refused with ProtocolError and"
        f" {taken} taken; {compared} more bodies treated as by the reference codec",
    )


def check_against_twin(cls: type[Message], version: int, damaged: bytes) -> None:
    try:
        expected, _ = reference_decode(cls, version, damaged)
    except Refused:
        with pytest.raises(ProtocolError):
            decode(cls, version, damaged)
        return
    # Compared by what they encode to: a NaN is not equal to itself.
    read = decode(cls, version, damaged)
    assert encode(read, version) == encode(expected, version)


def test_every_prefix(request: pytest.FixtureRequest) -> None:
    source = random.Random("prefixes")
    prefixes = 0
    for cls, version in MESSAGES:
        supply = frames(source, cls, version)
        for _ in range(2):
            frame = next(supply)
            frame.read(frame.data)
            for end in range(len(frame.data)):
                with pytest.raises(ProtocolError):
                    frame.read(frame.data[:end])
            prefixes += len(frame.data)
    report(request.config, f"protocol: {prefixes} prefixes of frames, all refused")


def test_allocation_stays_within_the_frame(request: pytest.FixtureRequest) -> None:
    source = random.Random("allocation")
    most = 0.0
    measured = 0
    for cls, version in MESSAGES:
        frame = next(frames(source, cls, version))
        for _ in range(8):
            damaged = mutated(source, frame.data)
            # What Python loads at the first error is no cost of a frame (3.14: 140 kB).
            with contextlib.suppress(ProtocolError):
                frame.read(damaged)
            tracemalloc.start()
            try:
                frame.read(damaged)
            except ProtocolError:
                pass
            finally:
                peak = tracemalloc.get_traced_memory()[1]
                tracemalloc.stop()
            limit = BYTES_ALLOCATED_FREELY + BYTES_ALLOCATED_PER_FRAME_BYTE * len(damaged)
            assert peak <= limit, f"{cls.__name__} v{version}: {peak} bytes for {damaged!r}"
            most = max(most, peak / max(1, len(damaged)))
            measured += 1
    line = f"{measured} frames measured, at most {most:.0f} bytes allocated for one of the frame"
    report(request.config, f"protocol: {line}")


def test_a_count_is_checked_before_anything_is_allocated() -> None:
    """A topic array that claims 2^31 - 1 elements in a frame of a few bytes."""
    from pybroker_kafka.protocol.apis.metadata import MetadataRequest

    tracemalloc.start()
    try:
        for version, body in ((1, b"\x7f\xff\xff\xff"), (12, b"\xff\xff\xff\xff\x07")):
            with pytest.raises(ProtocolError, match="too many elements"):
                decode(MetadataRequest, version, body + bytes(100))
        assert tracemalloc.get_traced_memory()[1] < 1_000_000  # what compiling the readers takes
    finally:
        tracemalloc.stop()


def test_random_bytes_as_headers(request: pytest.FixtureRequest) -> None:
    source = random.Random("headers")
    taken = 0
    rounds = 50_000
    for _ in range(rounds):
        data = bytearray(source.randbytes(source.randrange(40)))
        if len(data) > 10 and source.randrange(2):
            data[:2] = source.randrange(70).to_bytes(2, "big")
            data[2:4] = source.randrange(12).to_bytes(2, "big")
            data[8:10] = source.randrange(-1, 12).to_bytes(2, "big", signed=True)
        try:
            header, position = decode_request_header(data)
        except ProtocolError:
            continue
        taken += 1
        assert 8 <= position <= len(data)
        assert header.client_id is None or isinstance(header.client_id, str)
    assert taken
    report(request.config, f"protocol: {rounds} random headers, {taken} taken")
