"""The records of MirrorMaker 2's own topics, byte for byte; pure.

| topic | key | value |
|---|---|---|
| `mm2-offset-syncs.B.internal` | topic, partition | source offset, target offset |
| `A.checkpoints.internal` | group, topic, partition | version, source offset, target offset, note |
| `heartbeats` | source alias, target alias | version, timestamp |
| `mm2-offsets.A.internal` | JSON: connector, {cluster, partition, topic} | JSON: {offset} |

Strings have an int16 length before them, numbers are big-endian. The last is Kafka Connect's: the
position of a partition's copying, as the offset of the last record copied.
Mirrors: OffsetSync, Checkpoint, Heartbeat; KafkaOffsetBackingStore with MirrorUtils.wrapPartition.
"""

from __future__ import annotations

import json
from struct import Struct, error
from typing import Final, NamedTuple

from ...protocol.errors import ProtocolError
from ...protocol.topics import TopicPartition

VERSION: Final = 0
CONNECTOR: Final = "MirrorSourceConnector"

_INT16 = Struct(">h")
_INT32 = Struct(">i")
_INT64 = Struct(">q")
_TWO_OFFSETS = Struct(">qq")
_CHECKPOINT = Struct(">hqq")
_HEARTBEAT = Struct(">hq")


class OffsetSync(NamedTuple):
    """The offsets of a record at the source and at the target."""

    topic: str
    partition: int
    source_offset: int
    target_offset: int

    def key(self) -> bytes:
        return _string(self.topic) + _INT32.pack(self.partition)

    def value(self) -> bytes:
        return _TWO_OFFSETS.pack(self.source_offset, self.target_offset)

    @classmethod
    def parse(cls, key: bytes | None, value: bytes | None) -> OffsetSync:
        """Raises ProtocolError."""
        try:
            topic, at = _read_string(key or b"", 0)
            (partition,) = _INT32.unpack_from(key or b"", at)
            return cls(topic, partition, *_TWO_OFFSETS.unpack_from(value or b"", 0))
        except (error, UnicodeDecodeError) as problem:
            raise ProtocolError(f"no offset sync: {problem}") from None


class Checkpoint(NamedTuple):
    """The position of a group at the source, and, translated, in the target's topic."""

    group: str
    topic: str
    partition: int
    source_offset: int
    target_offset: int
    metadata: str

    def key(self) -> bytes:
        return _string(self.group) + _string(self.topic) + _INT32.pack(self.partition)

    def value(self) -> bytes:
        numbers = _CHECKPOINT.pack(VERSION, self.source_offset, self.target_offset)
        return numbers + _string(self.metadata)

    @classmethod
    def parse(cls, key: bytes | None, value: bytes | None) -> Checkpoint:
        """Raises ProtocolError."""
        try:
            group, at = _read_string(key or b"", 0)
            topic, at = _read_string(key or b"", at)
            (partition,) = _INT32.unpack_from(key or b"", at)
            version, source, target = _CHECKPOINT.unpack_from(value or b"", 0)
            _check_version(version)
            metadata, _ = _read_string(value or b"", _CHECKPOINT.size)
        except (error, UnicodeDecodeError) as problem:
            raise ProtocolError(f"no checkpoint: {problem}") from None
        return cls(group, topic, partition, source, target, metadata)


class Heartbeat(NamedTuple):
    """A record that a flow was alive at a time in ms."""

    source: str
    target: str
    timestamp: int

    def key(self) -> bytes:
        return _string(self.source) + _string(self.target)

    def value(self) -> bytes:
        return _HEARTBEAT.pack(VERSION, self.timestamp)

    @classmethod
    def parse(cls, key: bytes | None, value: bytes | None) -> Heartbeat:
        """Raises ProtocolError."""
        try:
            source, at = _read_string(key or b"", 0)
            target, _ = _read_string(key or b"", at)
            version, timestamp = _HEARTBEAT.unpack_from(value or b"", 0)
        except (error, UnicodeDecodeError) as problem:
            raise ProtocolError(f"no heartbeat: {problem}") from None
        _check_version(version)
        return cls(source, target, timestamp)


class SourcePosition(NamedTuple):
    """The offset of the last record of a partition that was copied; -1 for none."""

    cluster: str
    topic: str
    partition: int
    offset: int

    def key(self) -> bytes:
        place = {"cluster": self.cluster, "partition": self.partition, "topic": self.topic}
        return _json([CONNECTOR, place])

    def value(self) -> bytes:
        return _json({"offset": self.offset})

    @property
    def place(self) -> TopicPartition:
        return self.topic, self.partition

    @classmethod
    def parse(cls, key: bytes | None, value: bytes | None) -> SourcePosition | None:
        """None for another connector's record, or a tombstone."""
        try:
            connector, place = json.loads(key or b"")
            found = json.loads(value or b"")
            if connector != CONNECTOR:
                return None
            offset = int(found["offset"])
            return cls(str(place["cluster"]), str(place["topic"]), int(place["partition"]), offset)
        except (ValueError, TypeError, KeyError):
            return None


def _json(found: object) -> bytes:
    return json.dumps(found, separators=(",", ":"), ensure_ascii=False).encode()


def _string(text: str) -> bytes:
    content = text.encode()
    return _INT16.pack(len(content)) + content


def _read_string(data: bytes, at: int) -> tuple[str, int]:
    (size,) = _INT16.unpack_from(data, at)
    start = at + _INT16.size
    if size < 0 or start + size > len(data):
        raise ProtocolError("a string is cut short")
    return data[start : start + size].decode(), start + size


def _check_version(version: int) -> None:
    if version != VERSION:
        raise ProtocolError(f"version {version} is not known")
