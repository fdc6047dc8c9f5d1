"""One leadership of a partition of `__share_group_state`: its states and their places in the log.

Invariant: `entries` are those of the records in the log, replayed in order, and of the appends on
their way.
"""

from .loader import PartitionLoad
from .state import UNKNOWN


class Owned:
    """See the module."""

    __slots__ = ("entries", "is_over", "last_append_id", "partition", "pruned_before",
                 "snapshot_offsets", "tombstone_offset")  # fmt: skip

    def __init__(self, load: PartitionLoad) -> None:
        self.partition = load.partition
        self.entries = load.entries
        # The offset in the log of each one's last snapshot; of one on its way, the one before.
        self.snapshot_offsets = load.snapshot_offsets
        self.tombstone_offset = UNKNOWN  # of the last one since the load
        self.last_append_id: int | None = None  # None: nothing is on its way
        self.pruned_before = UNKNOWN
        self.is_over = False  # the partition was unloaded

    def needed_offset(self) -> int:
        """All records before it are superseded."""
        return min(self.snapshot_offsets.values(), default=self.tombstone_offset)
