"""What a broker makes of old formats, case by case, in a form that two brokers can be compared in.

A case is a topic (how it is stored, its codec, its timestamps) and the format in which two sets of
records are sent to it; `observe` tells what produce answered and what Fetch v0-v4 gave.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from pybroker_kafka.protocol.apis.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from pybroker_kafka.protocol.records.batch import (
    Compression,
    SimpleRecord,
    TimestampType,
    iter_batch_headers,
    iter_records,
)
from pybroker_kafka.protocol.records.builder import build_batch
from tests.support.conversions import build_message_set
from tests.support.wire import WireClient
from tests.unit.protocol.records.test_message_set import entry, relative, wrapper

FORMATS = {0: "0.9.0", 1: "0.10.2", 2: "2.8"}
FETCH_VERSIONS = range(5)
LAST_V0_FETCH, LAST_V1_FETCH = 1, 3
LEGACY_CODECS = (Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4)
RECORDS = [
    SimpleRecord(1_700_000_000_000 + 7 * n % 5, None if n == 2 else b"k%d" % n, b"value %d" % n)
    for n in range(4)
]
APPENDED = "the time of the append"


class Case(NamedTuple):
    stored: int | None  # magic; None leaves message.format.version alone
    sent: int
    codec: Compression
    target: str = "producer"
    append_time: bool = False

    def __str__(self) -> str:
        stored = "default" if self.stored is None else f"v{self.stored}"
        time = "-append-time" if self.append_time else ""
        return f"v{self.sent}-{self.codec.name.lower()}-in-{stored}-{self.target}{time}"


def cases(*stored: int | None) -> list[Case]:
    """Every codec in every format, and where the topic has a codec or a clock of its own."""
    found = [Case(s, sent, codec) for s in stored for sent in (0, 1, 2) for codec in LEGACY_CODECS]
    for s in stored:
        for sent in (0, 1, 2):
            for codec in (Compression.NONE, Compression.GZIP):
                found.append(Case(s, sent, codec, append_time=True))
                found += [Case(s, sent, codec, target) for target in ("uncompressed", "snappy")]
    return found


def encoded(case: Case, records: list[SimpleRecord]) -> bytes:
    if case.sent == 2:
        return bytes(build_batch(records, compression=case.codec))
    return bytes(build_message_set(records, magic=case.sent, compression=case.codec))


def observe(client: WireClient, case: Case) -> dict[str, Any]:
    configs = {"compression_type": case.target}
    if case.stored is not None:
        configs["message_format_version"] = FORMATS[case.stored]
    if case.append_time:
        configs["message_timestamp_type"] = "LogAppendTime"
    topic = client.configured_topic(configs)
    seen: dict[str, Any] = {}
    version = case.sent if case.sent < 2 else 3
    for attempt in ("first", "second"):
        answer = client.produce(topic.name, encoded(case, RECORDS), version=version)
        seen[f"{attempt} produce"] = (answer.error_code, answer.base_offset)
    for fetch in FETCH_VERSIONS:
        for offset in (0, 2, 5):
            data = client.fetch(topic, offset, version=fetch)
            plain = case.codec is Compression.NONE and case.target == "producer"
            seen[f"fetch v{fetch} from {offset}"] = (
                data.error_code,
                data.high_watermark,
                # Compressed bytes depend on the library that made them.
                len(data.records) if plain else None,
                rows(bytes(data.records or b"")),
            )
    return seen


def rows(data: bytes) -> list[tuple[Any, ...]]:
    """(magic, codec, offset, timestamp, key, value) of the complete entries."""
    found = []
    for position, header in iter_batch_headers(data):
        if header.base_offset < 0:
            break  # the filler of a conversion
        append_time = header.timestamp_type is TimestampType.LOG_APPEND_TIME
        for record in iter_records(data, position):
            time = APPENDED if append_time else record.timestamp
            found.append(
                (header.magic, header.compression.name, record.offset, time, record.key,
                 record.value)
            )  # fmt: skip
    return found


def expected_rows(case: Case, version: int, offset: int) -> list[tuple[Any, ...]]:
    """By the rules: what a fetch of a version gives from an offset on, from the case alone."""
    stored = 2 if case.stored is None else case.stored
    wanted = 0 if version <= LAST_V0_FETCH else 1 if version <= LAST_V1_FETCH else 2
    magic = min(stored, wanted)
    codec = (
        case.codec.name
        if case.target == "producer"
        else {"uncompressed": "NONE"}.get(case.target, case.target.upper())
    )
    found = []
    for n in range(2 * len(RECORDS)):
        record = RECORDS[n % len(RECORDS)]
        time: Any = record.timestamp
        if magic == 0 or case.sent == 0:
            time = -1
        if case.append_time and stored and magic:
            time = APPENDED
        found.append((magic, codec, n, time, record.key, record.value))
    # Whole batches where there are batches; single messages stand for themselves.
    first = offset if codec == "NONE" and magic < 2 else offset // len(RECORDS) * len(RECORDS)
    return found[first:]


def odd_sets() -> dict[str, bytes]:
    """Message sets with something wrong or unusual about them."""
    plain = bytes(build_message_set(RECORDS, magic=1))
    wrapped = bytes(build_message_set(RECORDS, magic=1, compression=Compression.GZIP))
    wrong_crc = bytearray(plain)
    wrong_crc[-1] ^= 1
    inner = bytearray(plain)
    inner[-1] ^= 1
    return {
        "two magics": plain + bytes(build_message_set(RECORDS, magic=0)),
        "two wrappers": wrapped * 2,
        "a wrapper and a message": wrapped + plain,
        "a message and a wrapper": plain + wrapped,
        "a wrong CRC": bytes(wrong_crc),
        "a wrong CRC inside": wrapper(3, 1, bytes(inner)),
        "another magic inside": wrapper(3, 1, bytes(build_message_set(RECORDS, magic=0))),
        "a wrapper in a wrapper": wrapper(3, 1, wrapped),
        "inner offsets with gaps": wrapper(9, 1, relative(1, 0, 4, 9)),
        "absolute inner offsets": wrapper(9, 1, relative(1, 7, 8, 9)),
        "a wrapper offset of zero": wrapper(0, 1, relative(1, 0, 1, 2)),
        "offsets of v0 inside": wrapper(2, 0, relative(0, 0, 1, 2)),
        "an empty wrapper": wrapper(0, 1, b""),
        "a wrapper without a value": entry(0, 1, 1, 0, None),
        "an unknown codec": entry(0, 1, 5, 0, b"x"),
        "zstd": entry(0, 1, 4, 0, b"x"),
        "a claimed append time": bytes(build_message_set(RECORDS, magic=1, log_append_time=5)),
        "a cut message": plain[:-5],
        "nothing": b"",
        "a v2 batch": bytes(build_batch(RECORDS)),
        "a time before 1970": entry(0, 1, 0, -5, b"x"),
        "odd attributes": entry(0, 1, 0x70, 1_700_000_000_000, b"x"),
    }


def observe_odd_sets(client: WireClient, stored: int | None) -> dict[str, Any]:
    """How a broker takes each of them in Produce v2."""
    seen = {}
    for name, data in odd_sets().items():
        configs = {} if stored is None else {"message_format_version": FORMATS[stored]}
        topic = client.configured_topic(configs)
        answer = client.produce(topic.name, data, version=2)
        found = client.fetch(topic, version=4)
        seen[name] = (answer.error_code, answer.base_offset, rows(bytes(found.records or b"")))
    return seen


def observe_refusals(client: WireClient, stored: int | None) -> dict[str, Any]:
    """What cannot be written to a topic of a format, or read from it by a client of some age."""
    configs = {} if stored is None else {"message_format_version": FORMATS[stored]}
    plain = bytes(build_batch(RECORDS))
    seen: dict[str, Any] = {}
    topic = client.configured_topic(configs)
    named = [SimpleRecord(1, b"k", b"v", [("name", b"x")])]
    for name, data in {
        "headers": build_batch(named),
        "an idempotent producer": build_batch(
            RECORDS, producer_id=7, producer_epoch=0, base_sequence=0
        ),
        "zstd": build_batch(RECORDS, compression=Compression.ZSTD),
    }.items():
        for version in (3, 6, 7):
            answer = client.produce(topic.name, bytes(data), version=version)
            seen[f"produce v{version} of {name}"] = answer.error_code
    for time in (-1, -2, -3, -4, 5):
        query = ListOffsetsPartition(partition_index=0, timestamp=time)
        request = ListOffsetsRequest(
            replica_id=-1, topics=[ListOffsetsTopic(name=topic.name, partitions=[query])]
        )
        ((offset,),) = (t.partitions for t in client.call(request, 8).topics)
        seen[f"offset at {time}"] = (offset.error_code, offset.timestamp, offset.offset)
    for name, more in {
        "a zstd topic": {"compression_type": "zstd"},
        "without down-conversion": {"message_downconversion_enable": "false"},
        "a compacted topic": {"cleanup_policy": "compact"},
        "a small limit": {"max_message_bytes": "45"},
    }.items():
        topic = client.configured_topic({**configs, **more})
        seen[f"produce to {name}"] = client.produce(topic.name, plain, version=3).error_code
        for version in range(11):
            data = client.fetch(topic, version=version)
            seen[f"fetch v{version} from {name}"] = (data.error_code, data.high_watermark)
    return seen
