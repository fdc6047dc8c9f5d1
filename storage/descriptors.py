"""How storage handles a lack of file descriptors: refuse, wait, retry; it is not a broken disk.

`Files` keeps a few spare descriptors and uses them to open files when there are no others. So a
step that has begun can finish. A step that would keep descriptors, or that cannot be undone, asks
first (`require_descriptors`) and is refused unless all spare descriptors are available.

Goes beyond Kafka, where a failed open takes the log directory offline.
"""

from __future__ import annotations

from ..protocol.errors import ErrorCode, KafkaError
from .files import Files

__all__ = ["OutOfDescriptors", "left_by_partitions", "require_descriptors"]

# New partitions, each of which keeps one descriptor while it exists, leave a share of all
# descriptors: for clients, for other brokers and ZooKeeper, for checkpoints and syncs; a larger
# share if logs are few. A new segment needs no more: it takes the descriptor of the segment before
# it.
SHARE_LEFT_BY_PARTITIONS = 8
FEW_LEFT_BY_PARTITIONS = 64


class OutOfDescriptors(KafkaError):
    """An operation failed for want of a descriptor. Clients retry on this code."""

    def __init__(self, doing: str) -> None:
        super().__init__(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"Out of file descriptors while {doing}; it can be tried again. Allow this process to "
            "open more files (ulimit -n)",
        )


def left_by_partitions(limit: int) -> int:
    """The number of descriptors that new partitions leave, of the `limit` of this process."""
    return max(limit // SHARE_LEFT_BY_PARTITIONS, min(limit // 4, FEW_LEFT_BY_PARTITIONS))


def require_descriptors(files: Files, doing: str, *, leaving: int = 0) -> None:
    """Raises OutOfDescriptors, before anything has been changed, if there may be too few, or fewer
    than `leaving` for others."""
    if not files.has_spare_descriptors(leaving):
        raise OutOfDescriptors(doing)
