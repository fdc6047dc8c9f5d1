"""Reading one partition of `__consumer_offsets` back into groups and offsets.

Mirrors the reading loop of Kafka's GroupMetadataManager.doLoadGroupsAndOffsets. A PartitionLoad is
filled batch by batch, possibly in a worker thread: it touches nothing but itself, and the
coordinator takes its result over in one step on the loop.

Rules: later records win; a null offset value removes the offset, a null group value the group;
offsets of a transaction stay aside until a COMMIT marker merges them (a newer batch base offset
wins) or an ABORT marker drops them. Records that cannot be understood are counted and skipped: one
bad record must not cost the partition its other groups (Kafka gives up the whole partition).
"""

import logging
from collections.abc import Iterable

from coordinator.group.group import Group
from coordinator.group.offsets import CommittedOffset, OffsetAndMetadata, TopicPartition
from coordinator.group.records import (
    GroupKey,
    OffsetKey,
    UnknownKey,
    decode_group_value,
    decode_key,
    decode_offset_value,
)
from protocol.errors import ProtocolError
from protocol.records.batch import BatchHeader, Record, iter_batch_headers, iter_records
from protocol.records.control import ControlRecordType, parse_control_record_type

log = logging.getLogger(__name__)

_MAX_LOGGED_SKIPS = 10


class PartitionLoad:
    """What has been read of one partition so far."""

    __slots__ = (
        "_groups",
        "_offsets",
        "_pending",
        "epoch",
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
        self._groups: dict[str, Group] = {}
        self._offsets: dict[OffsetKey, CommittedOffset] = {}
        self._pending: dict[int, dict[OffsetKey, CommittedOffset]] = {}

    def add(self, records: bytes | bytearray | memoryview) -> None:
        """Take in complete v2 batches, in log order; a partial batch at the end is left alone."""
        for position, header in iter_batch_headers(records):
            try:
                if header.is_control:
                    self._add_marker(header, iter_records(records, position))
                else:
                    self._add_batch(header, iter_records(records, position))
            except ProtocolError as error:
                self._skip(f"batch at offset {header.base_offset}", error)
            self.next_offset = header.next_offset

    def groups(self, now_ms: int) -> list[Group]:
        """The groups of the partition, with their offsets; call once, at the end."""
        offsets: dict[str, dict[TopicPartition, CommittedOffset]] = {}
        for (group_id, partition), committed in self._offsets.items():
            offsets.setdefault(group_id, {})[partition] = committed
        pending: dict[str, dict[int, dict[TopicPartition, CommittedOffset]]] = {}
        for producer_id, producer_offsets in self._pending.items():
            for (group_id, partition), committed in producer_offsets.items():
                by_producer = pending.setdefault(group_id, {})
                by_producer.setdefault(producer_id, {})[partition] = committed
        for group_id in offsets.keys() | pending.keys():
            if group_id not in self._groups:
                self._groups[group_id] = Group(group_id, self.partition, now_ms)
        for group_id, group in self._groups.items():
            group.offsets.load(offsets.get(group_id, {}), pending.get(group_id, {}))
        return list(self._groups.values())

    def _add_marker(self, header: BatchHeader, records: Iterable[Record]) -> None:
        for record in records:
            pending = self._pending.pop(header.producer_id, {})
            if parse_control_record_type(record.key) is ControlRecordType.COMMIT:
                for key, committed in pending.items():
                    current = self._offsets.get(key)
                    if current is None or current.record_offset < committed.record_offset:
                        self._offsets[key] = committed

    def _add_batch(self, header: BatchHeader, records: Iterable[Record]) -> None:
        base_offset: int | None = None
        for record in records:
            self.record_count += 1
            if base_offset is None:
                base_offset = record.offset
            try:
                key = decode_key(record.key)
                if isinstance(key, OffsetKey):
                    value = None if record.value is None else decode_offset_value(record.value)
                    producer_id = header.producer_id if header.is_transactional else None
                    self._apply_offset(key, value, base_offset, producer_id)
                elif isinstance(key, GroupKey):
                    self._apply_group(key.group_id, record.value)
                else:
                    self._skip_unknown(record.offset, key)
            except ProtocolError as error:
                self._skip(f"record at offset {record.offset}", error)

    def _apply_offset(
        self,
        key: OffsetKey,
        value: OffsetAndMetadata | None,
        record_offset: int,
        producer_id: int | None,
    ) -> None:
        offsets = self._offsets
        if producer_id is not None:
            offsets = self._pending.setdefault(producer_id, {})
        if value is None:
            offsets.pop(key, None)
        else:
            offsets[key] = CommittedOffset(record_offset, value)

    def _apply_group(self, group_id: str, value: bytes | memoryview | None) -> None:
        if value is None:
            self._groups.pop(group_id, None)
        else:
            self._groups[group_id] = decode_group_value(group_id, self.partition, value)

    def _skip_unknown(self, offset: int, key: UnknownKey) -> None:
        self._skip(f"record at offset {offset}", f"unknown key version {key.version}")

    def _skip(self, what: str, why: object) -> None:
        self.skipped_count += 1
        if self.skipped_count <= _MAX_LOGGED_SKIPS:
            log.warning("__consumer_offsets-%d: skipped %s: %s", self.partition, what, why)
