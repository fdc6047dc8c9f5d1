"""A secret in a file that only its owner may read: never an argument, never a variable of a
process.

`ps` and /proc show arguments and variables to other users. A file that its group or others may read
or write is refused rather than mended: its secret may have been read already.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

MAX_BYTES = 64 * 1024
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class UnsafeSecret(Exception):
    """The file cannot be used; the message has the reason and the remedy, and no content."""


def read_secret(path: Path) -> bytes:
    """The file without the line end behind its last line. Raises UnsafeSecret."""
    try:
        # Without O_NONBLOCK a pipe would block us until a process writes to it.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise UnsafeSecret(f"cannot read {path}: {error.strerror}") from None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise UnsafeSecret(f"{path} is no file")
        if found.st_mode & _OTHERS:
            raise UnsafeSecret(
                f"{path} holds a secret, and other users can read the file: "
                f"change the secret, then run chmod 600 {path}"
            )
        secret = os.read(descriptor, MAX_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(secret) > MAX_BYTES:
        raise UnsafeSecret(f"{path} has more than {MAX_BYTES} bytes")
    return secret.removesuffix(b"\n").removesuffix(b"\r")
