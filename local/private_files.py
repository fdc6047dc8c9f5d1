"""Files and directories that only their owner may enter or read, from their first byte."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from .cluster_state import ClusterError

DIRECTORY_MODE = 0o700
FILE_MODE = 0o600
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def private_directory(path: Path) -> None:
    """Make the directory if need be. Raises ClusterError if others may enter an existing one."""
    path.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise ClusterError(f"{path} is no directory")
    if found.st_uid != os.geteuid() or found.st_mode & _OTHERS:
        raise ClusterError(
            f"{path} holds secrets, and other users of this machine may have read them: remove it "
            f"to get new secrets, or run chmod 700 {path} if you trust those users"
        )


def write_private(path: Path, content: bytes, *, lasting: bool = True) -> None:
    """Replace `path` as a whole. Unless `lasting`, the content may be lost in a power cut."""
    staged = path.with_name(f"{path.name}.tmp")
    staged.unlink(missing_ok=True)
    descriptor = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        if lasting:
            file.flush()
            os.fsync(file.fileno())
    staged.replace(path)
