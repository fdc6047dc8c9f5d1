"""Batches that a partition must refuse, or take in spite of their looks, and how Kafka answers.

Each case: the topic's configs, batches that go first, the batch in question, the error code (NONE
where it is taken). The codes are those of Apache Kafka 3.9.1, which tests/mixed asks for them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import crc32c

from pybroker_kafka.protocol.apis.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.records.builder import build_batch
from pybroker_kafka.protocol.records.compression import Compression, compress
from pybroker_kafka.protocol.records.loops.varint import encode_varlong
from pybroker_kafka.protocol.records.record import SimpleRecord
from tests.support.slow_records import encode_record
from tests.support.wire import Topic, WireClient

HOUR_MS = 3_600_000
GOOD = 1  # the partition beside the one in question
KEYED = {"cleanup.policy": "compact"}
CRC_POSITION, CRC_START, ATTRIBUTES, LAST_DELTA, RECORD_COUNT, HEADER = 17, 21, 21, 23, 57, 61


@dataclass(slots=True, frozen=True)
class Case:
    error: ErrorCode
    build: Callable[[], bytes]
    configs: Mapping[str, str] = field(default_factory=dict)
    before: Sequence[Callable[[], bytes]] = ()
    taken: int = 1  # records, if it is not refused


def now_ms() -> int:
    return int(time.time() * 1000)


def one(
    value: bytes = b"value", *, key: bytes | None = b"k", age_ms: int = 0, **options: Any
) -> bytes:
    return bytes(build_batch([SimpleRecord(now_ms() - age_ms, key, value)], **options))


def from_producer(sequence: int, epoch: int = 1, producer_id: int = 77_777) -> bytes:
    return one(producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)


def sealed(data: bytearray) -> bytes:
    """With the CRC that fits what it says now."""
    crc = crc32c.crc32c(memoryview(data)[CRC_START:])
    data[CRC_POSITION : CRC_POSITION + 4] = crc.to_bytes(4, "big")
    return bytes(data)


def patched(position: int, value: int, size: int, batch: bytes | None = None) -> bytes:
    data = bytearray(one() if batch is None else batch)
    data[position : position + size] = value.to_bytes(size, "big", signed=True)
    return sealed(data)


def with_block(block: bytes, codec: Compression = Compression.NONE, count: int = 1) -> bytes:
    """A batch whose records are these bytes, whatever they are."""
    data = bytearray(one()[:HEADER] + block)
    data[8:12] = (len(data) - 12).to_bytes(4, "big")
    data[ATTRIBUTES : ATTRIBUTES + 2] = int(codec).to_bytes(2, "big")
    data[LAST_DELTA : LAST_DELTA + 4] = (count - 1).to_bytes(4, "big")
    data[RECORD_COUNT : RECORD_COUNT + 4] = count.to_bytes(4, "big")
    return sealed(data)


def a_record() -> bytes:
    return one()[HEADER:]


def bomb(**options: Any) -> bytes:
    """One honest record of 100 MB in a batch of 10 KB."""
    return one(bytes(100 << 20), compression=Compression.ZSTD, **options)


def nested_bomb(codec: Compression, megabytes: int) -> bytes:
    """Claims one small record and unpacks to so much."""
    return with_block(compress(codec, a_record() + bytes(megabytes << 20)), codec)


def packed(block: bytes, codec: Compression, cut: int = 0) -> bytes:
    """One record that is these bytes, compressed; the end of the compressed data may be missing."""
    data = compress(codec, block)
    return with_block(data[: len(data) - cut], codec)


def record_with(fields: bytes) -> bytes:
    """A record of these bytes under a right length."""
    return encode_varlong(len(fields)) + fields


def at_offsets(*deltas: int, codec: Compression = Compression.NONE) -> bytes:
    block = b"".join(encode_record(delta, 0, b"k", b"v", ()) for delta in deltas)
    return with_block(compress(codec, block), codec, len(deltas))


HUGE = encode_varlong(2**31 - 1)
BEFORE_KEY, NO_KEY, NO_VALUE = b"\0\0\0", b"\x01", b"\x01"
# Records that are not what they say, by what is wrong with them.
WRONG_RECORDS = {
    "bytes that are all ones": b"\xff" * 40,
    "bytes that are all zero": bytes(40),
    "garbage": bytes(range(40, 80)),
    "no bytes at all": b"",
    "a negative record length": b"\x01" + bytes(20),
    "a record length of 2 GB": HUGE + bytes(20),
    "a record shorter than its fields": record_with(BEFORE_KEY + NO_KEY + NO_VALUE),
    "a key of 2 GB": record_with(BEFORE_KEY + HUGE + bytes(20)),
    "a value of 2 GB": record_with(BEFORE_KEY + NO_KEY + HUGE + bytes(20)),
    "two billion headers": record_with(BEFORE_KEY + NO_KEY + NO_VALUE + HUGE + bytes(20)),
    "a negative number of headers": record_with(BEFORE_KEY + NO_KEY + NO_VALUE + b"\x01"),
    "a header without a key": record_with(BEFORE_KEY + NO_KEY + NO_VALUE + b"\x02\x01\x01"),
    "a header of 2 GB": record_with(BEFORE_KEY + NO_KEY + NO_VALUE + b"\x02\0" + HUGE),
    "a time of eleven bytes": record_with(b"\0" + b"\xff" * 11 + b"\0\x01\x01\0"),
    "an offset of six bytes": record_with(b"\0\0" + b"\xff" * 6 + b"\x01\x01\0"),
}
CODECS = [codec for codec in Compression if codec]


E = ErrorCode
CASES: dict[str, Case] = {
    "no key, compacted": Case(E.INVALID_RECORD, lambda: one(key=None), KEYED),
    "no key, compacted and compressed": Case(
        E.INVALID_RECORD, lambda: one(key=None, compression=Compression.GZIP), KEYED
    ),
    "larger than max.message.bytes": Case(
        E.MESSAGE_TOO_LARGE, lambda: one(b"x" * 2000), {"max.message.bytes": "1000"}
    ),
    "larger than the segment": Case(
        E.RECORD_LIST_TOO_LARGE, lambda: one(b"x" * 2000), {"segment.bytes": "1000"}
    ),
    "too old": Case(
        E.INVALID_TIMESTAMP,
        lambda: one(age_ms=2 * HOUR_MS),
        {"message.timestamp.before.max.ms": str(HOUR_MS)},
    ),
    "too old, compressed": Case(
        E.INVALID_TIMESTAMP,
        lambda: one(age_ms=2 * HOUR_MS, compression=Compression.LZ4),
        {"message.timestamp.before.max.ms": str(HOUR_MS)},
    ),
    "of the future": Case(
        E.INVALID_TIMESTAMP,
        lambda: one(age_ms=-2 * HOUR_MS),
        {"message.timestamp.after.max.ms": str(HOUR_MS)},
    ),
    "of the future, which only time decides": Case(
        E.NONE,
        lambda: one(age_ms=-2 * HOUR_MS),
        {"message.timestamp.after.max.ms": str(HOUR_MS), "message.timestamp.type": "LogAppendTime"},
    ),
    "LogAppendTime by the client": Case(E.NONE, lambda: patched(ATTRIBUTES, 8, 2)),
    "wrong CRC": Case(E.CORRUPT_MESSAGE, lambda: one()[:-1] + b"!"),
    "with a base offset": Case(E.INVALID_RECORD, lambda: patched(0, 5, 8)),
    "a count that is not its offsets'": Case(E.INVALID_RECORD, lambda: patched(RECORD_COUNT, 3, 4)),
    "no records": Case(
        E.INVALID_RECORD, lambda: patched(RECORD_COUNT, 0, 4, patched(LAST_DELTA, -1, 4))
    ),
    "magic 3": Case(E.CORRUPT_MESSAGE, lambda: patched(16, 3, 1)),
    "a producer without a sequence": Case(
        E.INVALID_RECORD, lambda: one(producer_id=5, producer_epoch=0)
    ),
    "an unknown producer in the middle": Case(E.NONE, lambda: from_producer(41)),
    "a gap in the sequence": Case(
        E.OUT_OF_ORDER_SEQUENCE_NUMBER, lambda: from_producer(2), before=[lambda: from_producer(0)]
    ),
    "a sequence of long ago": Case(
        E.OUT_OF_ORDER_SEQUENCE_NUMBER,
        lambda: from_producer(0),
        before=[partial(from_producer, number) for number in range(7)],
    ),
    "an old epoch": Case(
        E.INVALID_PRODUCER_EPOCH,
        lambda: from_producer(1, epoch=0),
        before=[lambda: from_producer(0)],
    ),
    "a new epoch in the middle": Case(
        E.OUT_OF_ORDER_SEQUENCE_NUMBER,
        lambda: from_producer(1, epoch=2),
        before=[lambda: from_producer(0)],
    ),
    "a codec that there is not": Case(E.UNKNOWN_SERVER_ERROR, lambda: patched(ATTRIBUTES, 5, 2)),
    "not what its codec makes": Case(
        E.UNKNOWN_SERVER_ERROR, lambda: with_block(b"no gzip at all", Compression.GZIP), KEYED
    ),
    "a record longer than the batch": Case(
        E.INVALID_RECORD, lambda: with_block(b"\xfe\x7f" + a_record()[1:]), KEYED
    ),
    "bytes after the last record": Case(
        E.INVALID_RECORD, lambda: with_block(a_record() + b"more"), KEYED
    ),
    "fewer records than it says": Case(
        E.INVALID_RECORD, lambda: with_block(a_record(), count=2), KEYED
    ),
    "a bomb": Case(E.NONE, lambda: bomb()),
    "a bomb, compacted": Case(E.NONE, lambda: bomb(), KEYED),
    "a bomb without a key, compacted": Case(E.INVALID_RECORD, lambda: bomb(key=None), KEYED),
    "a null key by an odd number": Case(
        E.NONE, lambda: with_block(record_with(BEFORE_KEY + b"\x03\x03\0"))
    ),
    "offsets that do not count up": Case(E.NONE, lambda: at_offsets(0, 0), taken=2),
    "offsets that do not count up, compressed": Case(
        E.UNKNOWN_SERVER_ERROR, lambda: at_offsets(5, 2, codec=Compression.GZIP)
    ),
    "offsets that do not count up, to be compressed": Case(
        E.NONE, lambda: at_offsets(5, 2), {"compression.type": "lz4"}, taken=2
    ),
    "two billion records": Case(E.INVALID_RECORD, lambda: with_block(a_record(), count=2**31 - 1)),
    "two billion records, compressed": Case(
        E.INVALID_RECORD,
        lambda: with_block(compress(Compression.ZSTD, a_record()), Compression.ZSTD, 2**31 - 1),
    ),
    "a bomb to be packed anew": Case(
        E.MESSAGE_TOO_LARGE, lambda: bomb(), {"compression.type": "uncompressed"}
    ),
}


CASES |= {
    what: Case(
        E.UNKNOWN_SERVER_ERROR if what == "bytes that are all ones" else E.INVALID_RECORD,
        partial(with_block, block),
    )
    for what, block in WRONG_RECORDS.items()
}
CASES |= {
    f"{what}, compressed": Case(E.INVALID_RECORD, partial(packed, block, Compression.LZ4))
    for what, block in WRONG_RECORDS.items()
}
CASES |= {
    f"a bomb of {codec.name.lower()} behind its records": Case(
        E.INVALID_RECORD, partial(nested_bomb, codec, megabytes)
    )
    for codec, megabytes in zip(CODECS, (64, 16, 64, 256), strict=True)
}
CASES |= {
    f"{codec.name.lower()} cut short": Case(
        E.INVALID_RECORD if codec is Compression.GZIP else E.UNKNOWN_SERVER_ERROR,
        partial(packed, a_record() * 100, codec, 9),
    )
    for codec in CODECS
}


def ask(kafka: WireClient, topic: Topic, case: Case) -> tuple[Any, Any]:
    """Both answers to one request: the batch in question, and a good one beside it."""
    request = ProduceRequest(
        acks=-1,
        timeout_ms=10_000,
        topic_data=[
            TopicProduceData(
                name=topic.name,
                partition_data=[
                    PartitionProduceData(index=0, records=case.build()),
                    PartitionProduceData(index=GOOD, records=one()),
                ],
            )
        ],
    )
    (answered,) = kafka.call(request).responses
    by_index = {answer.index: answer for answer in answered.partition_responses}
    return by_index[0], by_index[GOOD]
