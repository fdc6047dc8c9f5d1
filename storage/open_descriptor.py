"""A file descriptor that is closed with its last reference.

Not compiled: a `__del__` that is compiled does not put by an exception that is on its way.
"""

from __future__ import annotations

import os


class OpenDescriptor:
    __slots__ = ("_fd",)

    def __init__(self, fd: int) -> None:
        self._fd = fd  # -1: none

    def __del__(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
