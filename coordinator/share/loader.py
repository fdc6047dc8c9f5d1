"""Reading one partition of `__share_group_state` back into the states of share partitions.

A PartitionLoad is filled batch by batch, possibly in a worker thread: it touches nothing but
itself, and the coordinator takes its result over in one step on the loop.

Rules: a snapshot replaces all before it, an update adds to it, a null value removes the state.
Unreadable records are counted and skipped. Mirrors CoordinatorLoaderImpl with the replay of
ShareCoordinatorShard.
"""

from collections.abc import Iterator

from ...protocol.errors import ProtocolError
from ...protocol.records.batch import BatchHeader, Record
from ...protocol.topics import SHARE_STATE_TOPIC
from .. import partition_load
from .records import is_known_key, read
from .state import Entry, Key, State, replayed


class PartitionLoad(partition_load.PartitionLoad):
    """The records of one partition read so far."""

    __slots__ = ("_updates_per_snapshot", "entries", "snapshot_offsets")

    topic = SHARE_STATE_TOPIC

    def __init__(self, partition: int, epoch: int, updates_per_snapshot: int) -> None:
        super().__init__(partition, epoch)
        self.entries: dict[Key, Entry] = {}
        # The offset of each one's last snapshot.
        self.snapshot_offsets: dict[Key, int] = {}
        self._updates_per_snapshot = updates_per_snapshot

    def _add_batch(self, header: BatchHeader, records: Iterator[Record]) -> None:
        if header.is_control:
            return
        for offset, _, key, value, _, _ in records:
            self.record_count += 1
            if key is None or not is_known_key(key):
                self._skip(f"the record at offset {offset}", "unknown kind of key")
                continue
            try:
                found, change = read(key, value)
            except ProtocolError as error:
                self._skip(f"the record at offset {offset}", error)
                continue
            entry = replayed(self.entries.get(found), change, self._updates_per_snapshot)
            if entry is None:
                self.entries.pop(found, None)
                self.snapshot_offsets.pop(found, None)
            else:
                self.entries[found] = entry
                if isinstance(change, State):
                    self.snapshot_offsets[found] = offset

    def _decode(self) -> None:
        pass  # each record counts: all are decoded as they are read
