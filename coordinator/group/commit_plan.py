"""The constant parts of a commit that is repeated with other offsets.

A consumer commits the same partitions over and over. The look-ups, the encoded batch and the answer
are the same each time but for the offsets and the time, so they are kept here: the batch for
`__consumer_offsets`, into which both are written, and the answer of a success.

Invariants: the batch has the same bytes as the one that `plain_batch` makes of the records of
`records` (a test compares them). The plan holds no state of the group: each commit is validated
against it. Commits with an explicit time of commit or expiry, which only old clients send, have no
plan.
"""

from struct import Struct
from typing import Any, Final

from crc32c import crc32c

from ...protocol.apis.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition
from ...protocol.records.layout import ATTRIBUTES_POSITION, CRC_POSITION, HEADER_SIZE
from ...protocol.records.loops.varint import encode_varlong
from ...protocol.records.plain_batch import build_plain_batch
from ...protocol.topics import TopicPartition
from .consumer.commits import FIRST_COMMIT_VERSION
from .offsets import NO_EXPIRE_TIMESTAMP, OffsetAndMetadata
from .records import offset_commit_key, offset_commit_value

FIRST_VERSION: Final = 5  # without times

_TIMES: Final = Struct(">qq").pack_into
_TIMES_OFFSET: Final = 27  # base and max timestamp of a v2 batch
_UINT32: Final = Struct(">I").pack_into
_INT64: Final = Struct(">q").pack_into
_INT64_BYTES: Final = 8
_VERSION_BYTES: Final = 2


class CommitPlan:
    __slots__ = (
        "_batch", "answer", "entries", "generation_id", "group_id", "group_instance_id", "is_old",
        "known_at", "longest_metadata", "member_id", "request",
    )  # fmt: skip

    def __init__(self, request: OffsetCommitRequest) -> None:
        """Make the plan of a request whose entries are changed in place, with other offsets each
        time."""
        self.request = request
        self.group_id = request.group_id
        self.generation_id = request.generation_id_or_member_epoch
        self.member_id = request.member_id
        self.group_instance_id = request.group_instance_id
        # The partition, its entry in the request, and the positions of offset and time in the
        # batch.
        self.entries: list[tuple[TopicPartition, OffsetCommitRequestPartition, int, int]] = []
        records: list[tuple[bytes, bytes]] = []
        position = HEADER_SIZE
        for topic in request.topics:
            for entry in topic.partitions:
                partition = (topic.name, entry.partition_index)
                key = offset_commit_key(self.group_id, partition)
                value = offset_commit_value(_to_offset(entry, 0, 0))
                before = b"\0\0%b%b%b%b" % (
                    encode_varlong(len(records)),
                    encode_varlong(len(key)),
                    key,
                    encode_varlong(len(value)),
                )
                size = len(before) + len(value) + 1
                start = position + len(encode_varlong(size)) + len(before)
                position = start + len(value) + 1
                offset_at, time_at = start + _VERSION_BYTES, start + len(value) - _INT64_BYTES
                self.entries.append((partition, entry, offset_at, time_at))
                records.append((key, value))
        self._batch = build_plain_batch(0, records)
        assert position == len(self._batch)
        self.longest_metadata = max(
            len(entry.committed_metadata or "") for _, entry, _, _ in self.entries
        )
        # Set by the code that answers: the frame of the answer behind the correlation id.
        self.answer: bytes | None = None
        # Of a version that members of the consumer protocol must not use.
        self.is_old = False
        # The version of the metadata in which all partitions were known to exist.
        self.known_at = -1

    @property
    def is_ambiguous(self) -> bool:
        """Whether a partition is named twice."""
        return len({entry[0] for entry in self.entries}) != len(self.entries)

    def values(self, now_ms: int, stamp_ms: int) -> dict[TopicPartition, OffsetAndMetadata]:
        """The offsets to commit now; `stamp_ms` is the current time for timestamps."""
        return {entry[0]: _to_offset(entry[1], now_ms, stamp_ms) for entry in self.entries}

    def batch(self, stamp_ms: int) -> bytearray:
        """The records of `values`."""
        batch = self._batch.copy()
        _TIMES(batch, _TIMES_OFFSET, stamp_ms, stamp_ms)
        for _, entry, offset_at, time_at in self.entries:
            _INT64(batch, offset_at, entry.committed_offset)
            _INT64(batch, time_at, stamp_ms)
        _UINT32(batch, CRC_POSITION, crc32c(memoryview(batch)[ATTRIBUTES_POSITION:]))
        return batch


def plan_of(request: Any, api_version: int, metadata_max_bytes: int) -> CommitPlan | None:
    """A plan for requests like this one; None if they must be examined each time."""
    if api_version < FIRST_VERSION or not any(topic.partitions for topic in request.topics):
        return None
    plan = CommitPlan(request)
    plan.is_old = api_version < FIRST_COMMIT_VERSION
    # A character of Java's is two bytes at most here, and two of its characters at most.
    if plan.is_ambiguous or plan.longest_metadata * 2 > metadata_max_bytes:
        return None
    return plan


def _to_offset(
    entry: OffsetCommitRequestPartition, now_ms: int, stamp_ms: int
) -> OffsetAndMetadata:
    return OffsetAndMetadata(
        entry.committed_offset,
        entry.committed_leader_epoch,
        entry.committed_metadata or "",
        stamp_ms,
        NO_EXPIRE_TIMESTAMP,
        now_ms,
    )
