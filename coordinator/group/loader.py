"""Reading one partition of `__consumer_offsets` back into groups and offsets.

Mirrors the reading loop of Kafka's GroupMetadataManager.doLoadGroupsAndOffsets. A PartitionLoad is
filled batch by batch, possibly in a worker thread: it touches nothing but itself, and the
coordinator takes its result over in one step on the loop.

Rules: later records win; a null offset value removes the offset, a null group value the group;
offsets of a transaction stay aside until a COMMIT marker merges them (a newer batch base offset
wins) or an ABORT marker drops them. Unreadable records are counted and skipped: one
bad record must not cost the partition its other groups (Kafka drops the whole partition).

Most records of an offsets topic are superseded by later ones, so keys and values are kept as bytes
while reading, and only the latest are decoded at the end.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ...protocol.errors import ProtocolError
from ...protocol.records.batch import BatchHeader
from ...protocol.records.control import ControlRecordType, parse_control_record_type
from ...protocol.records.record import Record
from ...protocol.topics import OFFSETS_TOPIC, TopicPartition
from .. import partition_load
from .changing_group import ChangingGroup
from .consumer import records as consumer_records
from .consumer.consumer_group import ConsumerGroup
from .group import Group
from .offsets import CommittedOffset
from .records import (
    GROUP_KEY_PREFIX,
    MAX_OFFSET_VALUE_VERSION,
    OFFSET_KEY_PREFIXES,
    decode_group_key,
    decode_group_value,
    decode_offset_key,
    decode_offset_value,
    version_of,
)
from .share import records as share_records
from .share.share_group import ShareGroup
from .streams import records as streams_records
from .streams.streams_group import StreamsGroup

_PREFIX_BYTES = 2
# The kinds of groups that are not classic: whether a key is of one, its reader, and a new group.
_MODERN = (
    (consumer_records.is_consumer_group_key, consumer_records.read, ConsumerGroup),
    (share_records.is_share_group_key, share_records.read, ShareGroup),
    (streams_records.is_streams_group_key, streams_records.read, StreamsGroup),
)


def _is_modern_key(key: bytes) -> bool:
    return any(is_key(key) for is_key, _, _ in _MODERN)


class RawValue(NamedTuple):
    """A value that may still be superseded, and the base offset of its batch."""

    record_offset: int
    data: bytes


RawOffsets = dict[bytes, RawValue]


class PartitionLoad(partition_load.PartitionLoad):
    """The records of one partition read so far."""

    __slots__ = (
        "_groups",
        "_modern_groups",
        "_offsets",
        "_pending",
        "_raw_groups",
        "_raw_modern_groups",
        "_raw_offsets",
        "_raw_pending",
        "markers",
    )

    topic = OFFSETS_TOPIC

    def __init__(self, partition: int, epoch: int) -> None:
        super().__init__(partition, epoch)
        # (producer id, committed) of markers that were written while this was loading.
        self.markers: list[tuple[int, bool]] = []
        # By key without its version: the versions of offset keys have the same fields.
        self._raw_groups: RawOffsets = {}
        # Of groups that are not classic, by whole key.
        self._raw_modern_groups: RawOffsets = {}
        self._raw_offsets: RawOffsets = {}
        self._raw_pending: dict[int, RawOffsets] = {}
        self._groups: dict[str, Group] = {}
        self._modern_groups: dict[str, ChangingGroup] = {}
        self._offsets: dict[str, dict[TopicPartition, CommittedOffset]] = {}
        self._pending: dict[str, dict[int, dict[TopicPartition, CommittedOffset]]] = {}

    # Reading

    def _add_marker(self, header: BatchHeader, records: Iterable[Record]) -> None:
        for record in records:
            pending = self._raw_pending.pop(header.producer_id, {})
            if parse_control_record_type(record.key) is ControlRecordType.COMMIT:
                for key, value in pending.items():
                    current = self._raw_offsets.get(key)
                    if current is None or current.record_offset < value.record_offset:
                        self._raw_offsets[key] = value

    def _add_batch(self, header: BatchHeader, records: Iterator[Record]) -> None:
        if header.is_control:
            self._add_marker(header, records)
            return
        offsets = self._raw_offsets
        if header.is_transactional:
            offsets = self._raw_pending.setdefault(header.producer_id, {})
        base_offset: int | None = None
        for offset, _, key, value, _, _ in records:
            self.record_count += 1
            if base_offset is None:
                base_offset = offset
            prefix = b"" if key is None else key[:_PREFIX_BYTES]
            if prefix in OFFSET_KEY_PREFIXES:
                assert key is not None
                if value is None:
                    offsets.pop(key[_PREFIX_BYTES:], None)
                elif version_of(value) <= MAX_OFFSET_VALUE_VERSION:
                    offsets[key[_PREFIX_BYTES:]] = RawValue(base_offset, value)
                else:
                    self._skip(f"record at offset {offset}", "unknown version of its value")
            elif prefix == GROUP_KEY_PREFIX:
                assert key is not None
                if value is None:
                    self._raw_groups.pop(key[_PREFIX_BYTES:], None)
                else:
                    self._raw_groups[key[_PREFIX_BYTES:]] = RawValue(base_offset, value)
            elif key is not None and _is_modern_key(key):
                if value is None:
                    self._raw_modern_groups.pop(bytes(key), None)
                else:
                    self._raw_modern_groups[bytes(key)] = RawValue(base_offset, value)
            else:
                self._skip(f"record at offset {offset}", f"unknown kind of key, {prefix!r}")

    # The result

    def _decode(self) -> None:
        # The place of each group's last record: a group may have changed its protocol.
        last: dict[str, int] = {}
        for key, value in self._raw_groups.items():
            try:
                group_id = decode_group_key(key)
                last[group_id] = value.record_offset
                self._groups[group_id] = decode_group_value(group_id, self.partition, value.data)
            except ProtocolError as error:
                self._skip(f"a group in the batch at offset {value.record_offset}", error)
        for key, value in self._raw_modern_groups.items():
            self._decode_modern(key, value, last)
        for group_id in self._groups:
            self._modern_groups.pop(group_id, None)
        for group_id, partition, committed in self._decode_offsets(self._raw_offsets):
            self._offsets.setdefault(group_id, {})[partition] = committed
        for producer_id, raw_offsets in self._raw_pending.items():
            for group_id, partition, committed in self._decode_offsets(raw_offsets):
                by_producer = self._pending.setdefault(group_id, {})
                by_producer.setdefault(producer_id, {})[partition] = committed
        self._raw_groups = {}
        self._raw_modern_groups = {}
        self._raw_offsets = {}
        self._raw_pending = {}

    def _decode_modern(self, key: bytes, value: RawValue, last: dict[str, int]) -> None:
        _, read, new_group = next(kind for kind in _MODERN if kind[0](key))
        try:
            group_id, change = read(key, value.data)
        except ProtocolError as error:
            self._skip(f"a group in the batch at offset {value.record_offset}", error)
            return
        if type(self._modern_groups.get(group_id)) is not new_group:
            self._modern_groups[group_id] = new_group(group_id)
        self._modern_groups[group_id].apply(change)
        if last.get(group_id, -1) <= value.record_offset:
            self._groups.pop(group_id, None)

    def _decode_offsets(
        self, raw_offsets: RawOffsets
    ) -> Iterable[tuple[str, TopicPartition, CommittedOffset]]:
        for key, value in raw_offsets.items():
            try:
                group_id, partition = decode_offset_key(key)
                offset = decode_offset_value(value.data)
            except ProtocolError as error:
                self._skip(f"an offset in the batch at offset {value.record_offset}", error)
            else:
                yield group_id, partition, CommittedOffset(value.record_offset, offset)

    def groups(self, now_ms: int) -> list[Group]:
        """The groups of the partition, with their offsets; call once, at the end."""
        self.decode()
        for group_id, modern in self._modern_groups.items():
            self._groups[group_id] = Group(group_id, self.partition, now_ms)
            self._groups[group_id].modern = modern
        for group_id in self._offsets.keys() | self._pending.keys():
            if group_id not in self._groups:
                self._groups[group_id] = Group(group_id, self.partition, now_ms)
        for group_id, group in self._groups.items():
            group.offsets.load(self._offsets.get(group_id, {}), self._pending.get(group_id, {}))
        return list(self._groups.values())
