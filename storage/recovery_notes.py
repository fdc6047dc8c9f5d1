"""Facts about a log that recovery needs beyond the checkpoints of its directory.

Small files in the partition's directory. The first two are forced to disk before the event that
they record. The others are names alone, which stand in the directory before the segments that they
are about: if those are there after a power cut, the notes are, too.

- `stale-recovery-points`, "low high". Recovery reads a log from the recovery point in the
  checkpoint on, which may be old. When a log is truncated below that point, the next appends are
  not on disk, and recovery would not read them. So a recovery point in (low, high] means low. A
  later checkpoint has a point above that range, or in it by chance, and then recovery reads more
  than it must: the note may stay.
- `gaps-below.deleted`, an offset; compacted logs have it. Between two segments below it there may
  be gaps, left by the cleaner; above it a gap is a tail that was lost. The cleaner's checkpoint
  records them too late, after the swap. Apache Kafka's cleaner leaves no such note, and the log may
  have been Kafka's meanwhile; but whenever Kafka loads a log it removes files of that suffix. So
  the note is right as long as it exists; the gaps of a compacted log without one are accepted.
- `no-gaps.deleted`, empty: the log was begun by us as a compacted one, and has no gaps unless the
  note above says so.
- `new-since-checkpoints.deleted`, empty: the values in the checkpoints belong to an earlier log of
  this name, which was deleted. The file is removed when the checkpoints have been written anew, by
  us or by Kafka.

Mirrors: LogManager.truncateTo, which writes the checkpoint of the whole directory instead. Kafka
takes any gap as it is.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from . import checkpoints
from .files import Files

STALE_RECOVERY_POINTS_FILE = "stale-recovery-points"
GAPS_FILE = "gaps-below.deleted"
NO_GAPS_FILE = "no-gaps.deleted"
NEW_FILE = "new-since-checkpoints.deleted"
# Must not be taken for a left-over of a deletion.
KEPT_FILES = frozenset({GAPS_FILE, NO_GAPS_FILE, NEW_FILE})
_EVERYWHERE = 2**63 - 1


def note_cut(
    files: Files, directory: str, offset: int, shown: Sequence[int]
) -> tuple[int, int] | None:
    """The log is about to be cut at `offset`; the checkpoint shows one of `shown`. Returns the
    (low, high) that it wrote. Blocks."""
    high = max(shown)
    if offset >= high:
        return None
    meant = [(true_recovery_point(files, directory, point), point) for point in shown]
    low = min([offset, *(meaning for meaning, point in meant if meaning < point)])
    path = os.path.join(directory, STALE_RECOVERY_POINTS_FILE)
    checkpoints.write_checkpoint_lines(files, path, [f"{low} {high}"])
    return low, high


def true_recovery_point(files: Files, directory: str, shown: int) -> int:
    """Below this the log is on disk for certain if the checkpoint shows `shown`."""
    path = os.path.join(directory, STALE_RECOVERY_POINTS_FILE)
    if not files.exists(path):
        return shown
    try:
        [(low, high)] = checkpoints.read_checkpoint_numbers(files, path, 2)
        return low if low < shown <= high else shown
    except (checkpoints.CheckpointError, ValueError):
        return 0  # damaged, which it never should be


def note_new(files: Files, directory: str) -> None:
    """A log is about to be made here; the checkpoints know another one of its name."""
    files.open(os.path.join(directory, NEW_FILE), create=True)


def is_new_since_checkpoints(files: Files, directory: str) -> bool:
    """A power cut may have taken the note out of a directory whose own name was on disk already,
    and with it all that came later."""
    path = os.path.join(directory, NEW_FILE)
    return files.exists(path) or not files.list_directory(directory)


def note_gaps(files: Files, directory: str, offset: int) -> None:
    """Segments below `offset` are about to be replaced by compacted ones. Blocks."""
    if (gaps_below(files, directory) or 0) < offset:
        write_gaps(files, directory, offset)


def write_gaps(files: Files, directory: str, offset: int) -> None:
    path = os.path.join(directory, GAPS_FILE)
    checkpoints.write_checkpoint_lines(files, path, [str(offset)])


def note_no_gaps(files: Files, directory: str) -> None:
    """A compacted log begins here."""
    files.open(os.path.join(directory, NO_GAPS_FILE), create=True)


def gaps_below(files: Files, directory: str) -> int | None:
    """None: another broker may have cleaned this log."""
    path = os.path.join(directory, GAPS_FILE)
    if not files.exists(path):
        return 0 if files.exists(os.path.join(directory, NO_GAPS_FILE)) else None
    try:
        [(offset,)] = checkpoints.read_checkpoint_numbers(files, path, 1)
        return offset
    except (checkpoints.CheckpointError, ValueError):
        return _EVERYWHERE
