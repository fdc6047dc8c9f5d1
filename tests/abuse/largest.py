"""The largest cheap request of each API: as many elements as one megabyte holds.

Job: `largest_requests(key, version, target)` makes, for each list of a request, messages in which
that list is as long as fits: elements that differ and that nobody knows, the same known element
again and again, and one known outer element with a long inner list.
Invariants: what is asked for changes nothing that the other clients of the broker need: names are
those of a topic of our own, or unknown; epochs are stale; nothing is created or deleted for real.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pybroker_kafka.protocol import codec
from pybroker_kafka.protocol.api import API_TABLE, ApiKey, request_class
from pybroker_kafka.protocol.features import RELEASES, Levels
from pybroker_kafka.protocol.schema import Field, Struct
from tests.support.message_factory import within

LARGEST_BYTES = 1_000_000
RELEASE = "4.3"  # whose features bring the newest versions
OF_4 = {"pybroker.features": RELEASE}
SAMPLE = 100
PARTITIONS = 4
BROKER_RESOURCE = 4
# Integers that are not 0 or their default, and strings of which something is known.
VALUES: dict[str, Any] = {
    "timeout_ms": 1000, "acks": 1, "resource_type": BROKER_RESOURCE, "resource_name": "1",
    "validate_only": True, "group_id": "abuse", "controller_epoch": 0, "broker_id": 99,
    "session_timeout_ms": 30_000, "rebalance_timeout_ms": 30_000, "protocol_type": "consumer",
    "min_bytes": 1, "max_wait_ms": 0, "max_bytes": 1000, "partition_max_bytes": 1000,
    "session_epoch": -1, "allow_auto_topic_creation": False, "topic_filter": None,
    "replica_id": -1, "producer_id": 77, "replication_factor": 1, "num_partitions": 1,
    "client_software_name": "abuse", "client_software_version": "1", "count": 2,
    "path": "/nowhere", "timestamp": 1, "include_synonyms": True, "include_documentation": True,
    "generation_id_or_member_epoch": -1, "generation_id": -1, "member_epoch": -1,
    "controller_id": 99, "broker_epoch": 0, "rack_id": "", "endpoint_type": 1,
    "transactional_id": None, "acquired": 0, "coordinator_epoch": 1, "max_num_offsets": 1,
}  # fmt: skip
NAMES_OF_TOPICS = ("name", "topic", "topic_name")
NAMES_OF_PARTITIONS = ("partition", "partition_index", "index", "partition_indexes", "partitions")


def newest_versions(levels: Levels = RELEASES[RELEASE]) -> dict[ApiKey, int]:
    """The newest version of each API that a broker serves under these features."""
    newest = {key: spec.highest(levels) for key, spec in API_TABLE.items()}
    return {key: last for key, last in newest.items() if last >= API_TABLE[key].min_version}


def largest_requests(
    key: ApiKey, version: int, topic: str, topic_id: bytes, size: int = LARGEST_BYTES
) -> Iterator[Any]:
    maker = _Maker(version, topic, topic_id, size)
    cls = request_class(key)
    lists = [f for f in cls._fields if f.kind == "array" and within(f.versions, version)]
    if not lists:
        yield maker.struct(cls, 0, known=True)
    for field in lists:
        for known in (False, True):
            yield maker.filled(cls, [field], known=known)
        if isinstance(field.element, str):
            continue
        for inner in field.element._fields:
            if inner.kind == "array" and within(inner.versions, version):
                yield maker.filled(cls, [field, inner], known=True)


class _Maker:
    def __init__(self, version: int, topic: str, topic_id: bytes, size: int) -> None:
        self.version = version
        self.size = size
        self.topic = topic
        self.topic_id = topic_id

    def filled(self, cls: Any, path: list[Field], *, known: bool) -> Any:
        """A message whose list at `path` makes it as large as it may be."""
        message = self.with_list(cls, path, SAMPLE, known)
        empty = len(codec.encode(self.with_list(cls, path, 0, known), self.version))
        each = (len(codec.encode(message, self.version)) - empty) / SAMPLE
        return self.with_list(cls, path, int(self.size / (each + 1.5)), known)

    def with_list(self, cls: Any, path: list[Field], count: int, known: bool) -> Any:
        message = self.struct(cls, 0, known=known)
        holder = message
        for outer in path[:-1]:
            element = self.struct(outer.element, 0, known=known)
            setattr(holder, outer.name, [element])
            holder = element
        last = path[-1]
        setattr(holder, last.name, [self.element(last, i, known=known) for i in range(count)])
        return message

    def struct(self, cls: type[Struct], index: int, *, known: bool) -> Any:
        """One of its kind, with one element in each list within."""
        made: Any = cls()
        for field in cls._fields:
            if not within(field.versions, self.version):
                continue
            if field.kind == "array":
                if issubclass(cls, Struct) and "_spec" not in vars(cls):
                    setattr(made, field.name, [self.element(field, index, known=known)])
            elif field.kind == "struct":
                setattr(made, field.name, self.struct(field.element, index, known=known))
            else:
                setattr(made, field.name, self.plain(field, index, known=known))
        return made

    def element(self, field: Field, index: int, *, known: bool) -> Any:
        if isinstance(field.element, str):
            return self.value(field.element, field.name, index, known=known)
        return self.struct(field.element, index, known=known)

    def plain(self, field: Field, index: int, *, known: bool) -> Any:
        if field.name in VALUES and (known or field.name != "resource_name"):
            value = VALUES[field.name]
            if value is not None or within(field.nullable, self.version):
                return value
        return self.value(field.kind, field.name, index, known=known)

    def value(self, kind: str, name: str, index: int, *, known: bool) -> Any:
        if kind == "string":
            if known:
                return self.topic if name in NAMES_OF_TOPICS else "known"
            return f"{index:x}"
        if name in NAMES_OF_PARTITIONS:
            return index % PARTITIONS if known else index
        if kind == "uuid":
            return self.topic_id if known else index.to_bytes(16, "big")
        if kind in ("bytes", "records"):
            return b""
        if kind == "bool":
            return False
        return 0.0 if kind == "float64" else 0
