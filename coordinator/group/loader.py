"""Reading one partition of `__consumer_offsets` back into groups and offsets.

Mirrors the reading loop of Kafka's GroupMetadataManager.doLoadGroupsAndOffsets. A PartitionLoad is
filled batch by batch, possibly in a worker thread: it touches nothing but itself, and the
coordinator takes its result over in one step on the loop.

Rules: later records win; a null offset value removes the offset, a null group value the group;
offsets of a transaction stay aside until a COMMIT marker merges them (a newer batch base offset
wins) or an ABORT marker drops them. Records that cannot be understood are counted and skipped: one
bad record must not cost the partition its other groups (Kafka gives up the whole partition).

Most records of an offsets topic are superseded by later ones, so while reading, keys and values are
kept as bytes, and only what is left at the end is decoded.
"""

import logging
from collections.abc import Iterable
from typing import NamedTuple

from coordinator.group.group import Group
from coordinator.group.offsets import CommittedOffset, TopicPartition
from coordinator.group.records import (
    GROUP_KEY_PREFIX,
    MAX_OFFSET_VALUE_VERSION,
    OFFSET_KEY_PREFIXES,
    decode_group_key,
    decode_group_value,
    decode_offset_key,
    decode_offset_value,
    version_of,
)
from protocol.errors import ProtocolError
from protocol.records.batch import BatchHeader, iter_batch_headers, iter_records
from protocol.records.control import ControlRecordType, parse_control_record_type
from protocol.records.record import Record

log = logging.getLogger(__name__)

_MAX_LOGGED_SKIPS = 10
_PREFIX_BYTES = 2


class RawValue(NamedTuple):
    """A value that may still be superseded, and the base offset of its batch."""

    record_offset: int
    data: bytes


RawOffsets = dict[bytes, RawValue]


class PartitionLoad:
    """What has been read of one partition so far."""

    __slots__ = (
        "_groups",
        "_is_decoded",
        "_offsets",
        "_pending",
        "_raw_groups",
        "_raw_offsets",
        "_raw_pending",
        "epoch",
        "markers",
        "next_offset",
        "partition",
        "record_count",
        "skipped_count",
    )

    def __init__(self, partition: int, epoch: int) -> None:
        self.partition = partition
        self.epoch = epoch
        # Where reading goes on: one past the last offset that was seen.
        self.next_offset = 0
        self.record_count = 0
        self.skipped_count = 0
        # (producer id, committed) of markers that were written while this was loading.
        self.markers: list[tuple[int, bool]] = []
        # By key without its version: the versions of offset keys have the same fields.
        self._raw_groups: RawOffsets = {}
        self._raw_offsets: RawOffsets = {}
        self._raw_pending: dict[int, RawOffsets] = {}
        self._is_decoded = False
        self._groups: dict[str, Group] = {}
        self._offsets: dict[str, dict[TopicPartition, CommittedOffset]] = {}
        self._pending: dict[str, dict[int, dict[TopicPartition, CommittedOffset]]] = {}

    # Reading

    def add(self, records: bytes | bytearray | memoryview) -> None:
        """Take in complete batches, in log order; a partial batch at the end is left alone."""
        assert not self._is_decoded
        for position, header in iter_batch_headers(records):
            try:
                if header.is_control:
                    self._add_marker(header, iter_records(records, position))
                else:
                    self._add_batch(header, iter_records(records, position))
            except ProtocolError as error:
                self._skip(f"batch at offset {header.base_offset}", error)
            self.next_offset = header.next_offset

    def _add_marker(self, header: BatchHeader, records: Iterable[Record]) -> None:
        for record in records:
            pending = self._raw_pending.pop(header.producer_id, {})
            if parse_control_record_type(record.key) is ControlRecordType.COMMIT:
                for key, value in pending.items():
                    current = self._raw_offsets.get(key)
                    if current is None or current.record_offset < value.record_offset:
                        self._raw_offsets[key] = value

    def _add_batch(self, header: BatchHeader, records: Iterable[Record]) -> None:
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
            else:
                self._skip(f"record at offset {offset}", f"unknown kind of key, {prefix!r}")

    def _skip(self, what: str, why: object) -> None:
        self.skipped_count += 1
        if self.skipped_count <= _MAX_LOGGED_SKIPS:
            log.warning("__consumer_offsets-%d: skipped %s: %s", self.partition, what, why)

    # What it comes to

    def decode(self) -> None:
        """All has been read: decode what is left. Like `add`, this may run in a worker thread."""
        if self._is_decoded:
            return
        self._is_decoded = True
        for key, value in self._raw_groups.items():
            try:
                group_id = decode_group_key(key)
                self._groups[group_id] = decode_group_value(group_id, self.partition, value.data)
            except ProtocolError as error:
                self._skip(f"a group in the batch at offset {value.record_offset}", error)
        for group_id, partition, committed in self._decode_offsets(self._raw_offsets):
            self._offsets.setdefault(group_id, {})[partition] = committed
        for producer_id, raw_offsets in self._raw_pending.items():
            for group_id, partition, committed in self._decode_offsets(raw_offsets):
                by_producer = self._pending.setdefault(group_id, {})
                by_producer.setdefault(producer_id, {})[partition] = committed
        self._raw_groups = {}
        self._raw_offsets = {}
        self._raw_pending = {}

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
        for group_id in self._offsets.keys() | self._pending.keys():
            if group_id not in self._groups:
                self._groups[group_id] = Group(group_id, self.partition, now_ms)
        for group_id, group in self._groups.items():
            group.offsets.load(self._offsets.get(group_id, {}), self._pending.get(group_id, {}))
        return list(self._groups.values())
