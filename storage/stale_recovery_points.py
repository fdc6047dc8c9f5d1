"""Recovery points that the checkpoint of a directory may show although a log was cut below them.

Recovery reads a log from its recovery point on. The checkpoint of a directory's recovery points is
written now and then: when a log is cut below what it shows, what is appended there next is not on
disk, and recovery would not look at it. So before the cut the range that is void is noted, in a
file of the partition's own that is forced to disk: a recovery point in (low, high] means low. What
a later checkpoint shows is above that range, or in it by chance, which makes recovery read more
than it must: the note may stay.

Mirrors: LogManager.truncateTo, which writes the checkpoint of the whole directory instead.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from storage import checkpoints
from storage.files import Files

STALE_RECOVERY_POINTS_FILE = "stale-recovery-points"


def note_cut(files: Files, directory: str, offset: int, shown: Sequence[int]) -> None:
    """The log is about to be cut at `offset`; the checkpoint shows one of `shown`. Blocks."""
    high = max(shown)
    if offset >= high:
        return
    meant = [(true_recovery_point(files, directory, point), point) for point in shown]
    low = min([offset, *(meaning for meaning, point in meant if meaning < point)])
    checkpoints.write_checkpoint_lines(files, _path(directory), [f"{low} {high}"])


def true_recovery_point(files: Files, directory: str, shown: int) -> int:
    """Below this the log is on disk for certain if the checkpoint shows `shown`."""
    path = _path(directory)
    if not files.exists(path):
        return shown
    try:
        [(low, high)] = checkpoints.read_checkpoint_lines(files, path, 2)
        return int(low) if int(low) < shown <= int(high) else shown
    except (checkpoints.CheckpointError, ValueError):
        return 0  # damaged, which it never should be


def _path(directory: str) -> str:
    return os.path.join(directory, STALE_RECOVERY_POINTS_FILE)
