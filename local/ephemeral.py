"""Directories of ephemeral clusters, and the removal of abandoned ones.

The process that makes one holds a lock in it (`ephemeral.lock`) while it lives; a supervisor and
its nodes hold those of `cluster_state`. A killed process removes nothing: the next process that
makes one removes all unlocked ones of the same user.
Invariants: a directory without `ephemeral.lock` is never removed, so a directory to be kept is safe
wherever it lies; the lock is held before the directory has its name, so a new one is safe from the
start.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path

from .cluster_state import EPHEMERAL_PREFIX, LOCK_FILE, NODES_LOCK_FILE, ClusterError

OWNER_LOCK_FILE = "ephemeral.lock"
MAX_REMOVED = 20  # at a time: a start is not to wait for more


class EphemeralDirectory:
    """A fresh one at `path`, which is ours until `release`, or until this process ends.

    Raises ClusterError.
    """

    def __init__(self) -> None:
        remove_left_behind()
        try:
            self.path = Path(tempfile.mkdtemp(prefix=EPHEMERAL_PREFIX))
            unnamed = self.path / f"{OWNER_LOCK_FILE}.tmp"
            self._lock = os.open(unnamed, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            (self.path / LOCK_FILE).touch()
            unnamed.rename(self.path / OWNER_LOCK_FILE)
        except OSError as error:
            raise ClusterError(
                f"there is no place for temporary files: {error.strerror}; name one with $TMPDIR, "
                "or a directory that is kept with --data-dir"
            ) from error

    def release(self) -> None:
        """Release the lock after the last use. May be called again."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def remove_left_behind() -> None:
    """Remove the directories of dead clusters."""
    removed = 0
    with contextlib.suppress(OSError):
        for path in Path(tempfile.gettempdir()).glob(f"{EPHEMERAL_PREFIX}*/{OWNER_LOCK_FILE}"):
            if removed < MAX_REMOVED and _is_left_behind(path.parent):
                shutil.rmtree(path.parent, ignore_errors=True)
                removed += 1


def _is_left_behind(directory: Path) -> bool:
    try:
        if directory.is_symlink() or directory.stat().st_uid != os.getuid():
            return False
        return all(
            _is_free(directory / name) for name in (OWNER_LOCK_FILE, LOCK_FILE, NODES_LOCK_FILE)
        )
    except OSError:
        return False


def _is_free(path: Path) -> bool:
    """Whether no process holds the lock, or there is none."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True
