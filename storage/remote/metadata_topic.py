"""What a broker has read of `__remote_log_metadata`, for the partitions that it leads or follows.

A user partition is *assigned* while this broker has a replica of it. The metadata partition that
has its records is then read, from the beginning when a user partition is added: the records of user
partitions that were assigned before are passed over, by their offsets. A user partition is *ready*
once everything has been read that was there when it was assigned; until then questions about it
raise `RemoteLogNotReadyError`, since its segments are not all known.

The caller reads the topic and keeps to this order:
1. after `assign` and `unassign`, read the partitions in `wanted`;
2. seek each partition in `take_restarts` to its beginning, and pass its ends to `on_ends`;
3. pass records to `on_record`, in order. Those of a partition that waits for step 2 are ignored.

Invariants: the records of a user partition are applied once each, in order, without a gap. A
partition that is not assigned has no state.

Mirrors: ConsumerTask, RemotePartitionMetadataStore. Leaves out snapshots, which 3.9 does not have.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...protocol.errors import ProtocolError
from ...protocol.primitives import Buffer
from .metadata_cache import RemoteLogMetadataCache
from .metadata_records import metadata_partition, read
from .segments import (
    RemotePartitionDeleteMetadata,
    RemotePartitionDeleteState,
    TopicIdPartition,
)
from .storage_manager import RemoteResourceNotFoundError, RemoteStorageError


class RemoteLogNotReadyError(RemoteStorageError):
    """The metadata of a partition has not been read to its end: the caller tries again."""


class _User:
    """A user partition that is assigned."""

    __slots__ = ("applied_offset", "cache", "metadata_partition", "until_offset")

    def __init__(self, number: int) -> None:
        self.metadata_partition = number
        self.cache = RemoteLogMetadataCache()
        # Of the last applied record.
        self.applied_offset = -1
        # The end of the metadata partition at the assignment; None until it is known.
        self.until_offset: int | None = None


class MetadataTopic:
    __slots__ = ("_positions", "_restarts", "_users", "_waiting", "partition_count")

    def __init__(self, partition_count: int) -> None:
        self.partition_count = partition_count  # of the metadata topic
        self._users: dict[TopicIdPartition, _User] = {}
        # By metadata partition: the offset of the next record to read, 0 at the beginning.
        self._positions: dict[int, int] = {}
        self._restarts: set[int] = set()
        # The users that are not ready, by metadata partition.
        self._waiting: dict[int, list[_User]] = {}

    def partition_of(self, partition: TopicIdPartition) -> int:
        return metadata_partition(partition, self.partition_count)

    # Assignment

    def assign(self, partitions: Iterable[TopicIdPartition]) -> None:
        for partition in partitions:
            if partition not in self._users:
                number = self.partition_of(partition)
                user = self._users[partition] = _User(number)
                self._waiting.setdefault(number, []).append(user)
                self._positions[number] = 0
                self._restarts.add(number)

    def unassign(self, partitions: Iterable[TopicIdPartition]) -> None:
        for partition in partitions:
            user = self._users.pop(partition, None)
            waiting = [] if user is None else self._waiting.get(user.metadata_partition, [])
            if user in waiting:
                waiting.remove(user)
        needed = {user.metadata_partition for user in self._users.values()}
        self._positions = {one: at for one, at in self._positions.items() if one in needed}
        self._restarts &= needed

    @property
    def assigned(self) -> frozenset[TopicIdPartition]:
        return frozenset(self._users)

    @property
    def wanted(self) -> frozenset[int]:
        """The metadata partitions to read."""
        return frozenset(self._positions)

    def begin(self) -> None:
        """A reader begins, perhaps after another one that has not learned all ends: those of its
        metadata partitions are read from their beginnings."""
        for number, users in self._waiting.items():
            if any(user.until_offset is None for user in users):
                self._positions[number] = 0
                self._restarts.add(number)

    def position(self, number: int) -> int:
        """The offset from which a metadata partition is read on; 0: from its beginning."""
        return self._positions.get(number, 0)

    def take_restarts(self) -> frozenset[int]:
        """The metadata partitions to read from their beginnings now; each is returned once."""
        taken = frozenset(self._restarts)
        self._restarts.clear()
        return taken

    # Reading

    def on_ends(self, number: int, start_offset: int, end_offset: int) -> None:
        """The offsets of a metadata partition, asked for after its restart."""
        if number not in self._positions or number in self._restarts:
            return  # these are asked for again
        if start_offset == end_offset:  # nothing to read, whatever the offsets are
            self._positions[number] = max(self._positions[number], end_offset)
        for user in self._waiting.get(number, ()):
            if user.until_offset is None:
                user.until_offset = end_offset
        self._mark_ready(number)

    def on_record(self, number: int, offset: int, value: Buffer | None) -> str | None:
        """The next record of a metadata partition; None, or why it was dropped, for the log."""
        if number not in self._positions or number in self._restarts:
            return None
        try:
            return self._apply(offset, value)
        finally:
            self._positions[number] = offset + 1
            self._mark_ready(number)

    def has_read(self, number: int, offset: int) -> bool:
        """Whether a record has been read; RemoteStorageError if this broker does not read it."""
        if number not in self._positions:
            raise RemoteStorageError(f"partition {number} of the metadata topic is not read here")
        return self._positions[number] > offset

    def _apply(self, offset: int, value: Buffer | None) -> str | None:
        if value is None:
            return "a record without a value"
        try:
            record = read(value)
        except ProtocolError as error:
            return str(error)
        partition = record.topic_id_partition
        user = self._users.get(partition)
        if user is None or offset <= user.applied_offset:
            return None
        user.applied_offset = offset
        if not isinstance(record, RemotePartitionDeleteMetadata):
            return user.cache.apply(record)
        if record.state is RemotePartitionDeleteState.DELETE_PARTITION_FINISHED:
            ready, user.cache = user.cache.is_initialized, RemoteLogMetadataCache()
            user.cache.is_initialized = ready
        return None

    def _mark_ready(self, number: int) -> None:
        waiting = self._waiting.get(number)
        if not waiting:
            return
        position = self._positions[number]
        for user in waiting:
            user.cache.is_initialized = (
                user.until_offset is not None and position >= user.until_offset
            )
        self._waiting[number] = [user for user in waiting if not user.cache.is_initialized]

    # Questions. They raise RemoteResourceNotFoundError for a partition that is not assigned, and
    # RemoteLogNotReadyError until it is ready.

    def is_ready(self, partition: TopicIdPartition) -> bool:
        user = self._users.get(partition)
        return user is not None and user.cache.is_initialized

    def cache(self, partition: TopicIdPartition) -> RemoteLogMetadataCache:
        user = self._users.get(partition)
        if user is None:
            raise RemoteResourceNotFoundError(f"the metadata of {partition} is not read here")
        if not user.cache.is_initialized:
            raise RemoteLogNotReadyError(f"the metadata of {partition} is being read")
        return user.cache
