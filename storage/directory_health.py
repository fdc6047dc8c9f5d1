"""The state that all logs of a directory share: whether its disk works, and its checkpoints.

Mirrors: LogDirFailureChannel (of one directory).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from ..protocol.errors import ErrorCode, KafkaError
from ..protocol.topics import TopicPartition
from . import checkpoints
from .files import is_out_of_descriptors

logger: Final = logging.getLogger("pybroker.storage.directory_health")


class UnreadableSegment(KafkaError):
    """A file that existed when the log was loaded cannot be opened: it was removed, or its
    permissions were changed. The disk is not at fault, and the rest of the log is served."""

    def __init__(self, reason: str) -> None:
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, f"Cannot open {reason}")


class DirectoryHealth:
    __slots__ = ("_checkpoints", "error", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self.error: OSError | None = None  # why it is offline, for good; None: it is online
        # The last two contents of each file: the newer one may not be on disk yet.
        self._checkpoints: dict[str, list[Mapping[TopicPartition, int]]] = {
            name: [{}, {}] for name in checkpoints.OFFSET_FILES
        }

    def fail(self, error: OSError) -> None:
        if is_out_of_descriptors(error):
            logger.warning("%s: no fault of log directory %s", error, self.path)
        elif self.error is None:
            self.error = error

    def note_checkpoint(self, name: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Note `offsets` that are about to be written; those of the call before are on disk."""
        self._checkpoints[name] = [self._checkpoints[name][1], offsets]

    def recovery_points_on_disk(self, key: TopicPartition) -> list[int]:
        """The possible recovery points of a log in the checkpoint on disk."""
        return [
            offsets.get(key, 0) for offsets in self._checkpoints[checkpoints.RECOVERY_POINT_FILE]
        ]

    def forget_recovery_point(self, key: TopicPartition) -> None:
        """The next log of this name has a note on disk that the checkpoints so far are of an
        earlier one."""
        self._checkpoints[checkpoints.RECOVERY_POINT_FILE] = [
            {other: offset for other, offset in offsets.items() if other != key}
            for offsets in self._checkpoints[checkpoints.RECOVERY_POINT_FILE]
        ]

    def may_be_checkpointed(self, key: TopicPartition) -> bool:
        """Whether a checkpoint on disk may say anything of a log of this name."""
        return any(
            key in offsets for last_two in self._checkpoints.values() for offsets in last_two
        )
