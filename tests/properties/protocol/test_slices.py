"""Messages read and written in slices are those read and written at once, errors included.

Most are larger than a slice: long lists at every depth, structs of several kilobytes, long strings.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Any

import pytest

from pybroker_kafka.protocol.apis.create_topics import CreateTopicsRequest
from pybroker_kafka.protocol.apis.metadata import MetadataRequest, MetadataRequestTopic
from pybroker_kafka.protocol.apis.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from pybroker_kafka.protocol.codec import decode_from, encode
from pybroker_kafka.protocol.errors import ProtocolError
from pybroker_kafka.protocol.large_messages import decode_slices, decode_small, encode_slices
from pybroker_kafka.protocol.reader import WINDOW_BYTES
from pybroker_kafka.protocol.schema import Message, Struct
from tests.properties.protocol.test_bad_bytes import mutated
from tests.support.counts import report
from tests.support.frames import joined
from tests.support.message_factory import MessageFactory, every_message_and_version
from tests.support.nightly import chosen
from tests.support.steps import result_and_steps

MESSAGES = list(every_message_and_version())
SHARDS = 4
LARGEST = 50_000
MUTATIONS = 3


def lists(struct: Struct) -> Iterator[tuple[Struct, str]]:
    """Where there are lists with something in them, at any depth."""
    for field in struct._fields:
        value = getattr(struct, field.name)
        if field.kind == "array" and value:
            yield struct, field.name
            if isinstance(value[0], Struct):
                for item in value[:3]:
                    yield from lists(item)


def enlarge(source: random.Random, message: Message, version: int) -> None:
    """Make some lists longer, and a text."""
    for _ in range(3):
        size = len(encode(message, version))
        found = list(lists(message))
        if size > WINDOW_BYTES or not found:
            break
        struct, name = source.choice(found)
        value = getattr(struct, name)
        setattr(struct, name, value * min(source.choice((3, 60, 400)), LARGEST // size or 1))
    for field in message._fields:
        text = getattr(message, field.name)
        if field.kind == "string" and text and not source.randrange(4):
            setattr(message, field.name, text * (32_767 // len(text.encode())))


def plain(value: Any) -> Any:
    """Of anything that two of the same wire form share."""
    if isinstance(value, Struct):
        fields = [plain(getattr(value, field.name)) for field in value._fields]
        return [type(value).__name__, *fields, dict(value.unknown_tagged_fields)]
    if isinstance(value, list):
        return [plain(item) for item in value]
    return bytes(value) if isinstance(value, memoryview) else repr(value)


def messages(source: random.Random, cls: type[Message], version: int) -> Iterator[Any]:
    while True:
        message = MessageFactory(source.randbytes(400)).make(cls, version)
        enlarge(source, message, version)
        if len(encode(message, version)) <= 3 * LARGEST:
            yield message


@pytest.mark.parametrize("shard", chosen(range(SHARDS), [0]))
def test_slices(shard: int, request: pytest.FixtureRequest) -> None:
    source = random.Random(f"slices {shard}")
    total = steps_taken = large = broken = 0
    for cls, version in MESSAGES[shard::SHARDS]:
        supply = messages(source, cls, version)
        for message in itertools.islice(supply, 2 if source.randrange(2) else 1):
            whole = encode(message, version)
            parts: list[Any] = []
            _, steps = result_and_steps(encode_slices(message, version, parts))
            assert joined(parts) == whole, f"{cls.__name__} v{version}"
            padded = b"abc" + whole + b"de"
            buffer = source.choice((bytes, bytearray, memoryview))(padded)
            (read, end), read_steps = result_and_steps(decode_slices(cls, version, buffer, 3))
            assert end == 3 + len(whole)
            assert encode(read, version) == whole
            assert plain(read) == plain(decode_from(cls, version, buffer, 3)[0])
            total += 1
            large += len(whole) > WINDOW_BYTES
            steps_taken += steps + read_steps
            for _ in range(MUTATIONS):
                compare(cls, version, mutated(source, whole))
                broken += 1
    assert large > total / 3
    assert steps_taken > 2 * large
    report(
        request.config,
        f"protocol: {total} messages in {steps_taken} slices, {large} large, {broken} broken",
    )


def compare(cls: type[Message], version: int, data: bytes) -> None:
    """Both ways refuse it, or read the same."""
    try:
        expected, end = decode_from(cls, version, data)
    except ProtocolError:
        with pytest.raises(ProtocolError):
            result_and_steps(decode_slices(cls, version, data))
        return
    (read, sliced_end), _ = result_and_steps(decode_slices(cls, version, data))
    assert sliced_end == end
    assert plain(read) == plain(expected)


def produce(*sizes: int) -> ProduceRequest:
    partitions = [
        PartitionProduceData(index=index, records=bytes([index]) * size)
        for index, size in enumerate(sizes)
    ]
    return ProduceRequest(topic_data=[TopicProduceData(name="t", partition_data=partitions)])


@pytest.mark.parametrize("version", [3, 9])
def test_records_do_not_make_a_message_large(version: int) -> None:
    message = produce(100_000, 20, 50_000)
    data = bytearray(encode(message, version))
    found = decode_small(ProduceRequest, version, data, 0)
    assert found == (message, len(data))
    records = found[0].topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    assert records.obj is data
    many = encode(produce(*(5000 for _ in range(20))), version)
    assert decode_small(ProduceRequest, version, many, 0) is None


def test_a_small_message_is_read_to_its_error() -> None:
    data = encode(produce(100_000), 9)
    with pytest.raises(ProtocolError, match="ProduceRequest v9: ends too early"):
        decode_small(ProduceRequest, 9, data[:-1], 0)
    with pytest.raises(ProtocolError, match="ProduceRequest v9: records is longer than the buffer"):
        decode_small(ProduceRequest, 9, data[:-4], 0)


def test_no_step_reads_or_writes_much() -> None:
    topics = [MetadataRequestTopic(name=f"topic-{index}") for index in range(20_000)]
    message = MetadataRequest(topics=topics)
    data = encode(message, 12)
    _, steps = result_and_steps(decode_slices(MetadataRequest, 12, data))
    assert steps > len(data) / 2 / WINDOW_BYTES
    parts: list[Any] = []
    sizes = [len(parts) for _ in encode_slices(message, 12, parts)]
    assert len(sizes) > len(data) / 2 / WINDOW_BYTES
    assert max(len(part) for part in parts) < 2 * WINDOW_BYTES


def test_what_cannot_be_written_is_refused_in_slices_too() -> None:
    topics = [MetadataRequestTopic(name="t" * 200) for _ in range(100)]
    parts: list[Any] = []
    for bad, problem in ((None, "name must not be null in version 8"), ("\ud800", "out of range")):
        topics[-1].name = bad
        with pytest.raises(ProtocolError, match=problem):
            result_and_steps(encode_slices(MetadataRequest(topics=topics), 8, parts))
    late = CreateTopicsRequest(validate_only=True)
    late.topics = None  # type: ignore[assignment]
    with pytest.raises(ProtocolError, match="topics must not be null"):
        result_and_steps(encode_slices(late, 1, parts))
    with pytest.raises(ProtocolError, match="validate_only cannot be written in version 0"):
        result_and_steps(encode_slices(CreateTopicsRequest(validate_only=True), 0, parts))
    with pytest.raises(ProtocolError, match="has no version 99"):
        result_and_steps(encode_slices(late, 99, parts))
