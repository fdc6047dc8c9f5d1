"""A disk that is full or fails, for the broker in this process.

A fault replaces the methods of `storage.files` that write, read and sync; without one they are
the original ones. Log directories that have met it stay offline until the broker starts again, as
in Kafka: the only one ends it. Leaves out: reads by `sendfile`.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from enum import StrEnum
from typing import Any

from ..storage.files import DataFile


class DiskFault(StrEnum):
    FULL = "full"
    FAILING = "failing"


_ERRORS = {DiskFault.FULL: errno.ENOSPC, DiskFault.FAILING: errno.EIO}
_METHODS = {
    DiskFault.FULL: ("write_at",),
    DiskFault.FAILING: ("write_at", "read_at", "sync", "truncate"),
}
_whole: dict[str, Callable[..., Any]] = {}


def break_disk(fault: DiskFault) -> None:
    """Break the disk until `mend_disk`."""
    mend_disk()
    number = _ERRORS[fault]

    def fail(file: DataFile, *_arguments: object) -> None:
        raise OSError(number, os.strerror(number), file.path)

    for name in _METHODS[fault]:
        _whole[name] = getattr(DataFile, name)
        setattr(DataFile, name, fail)


def mend_disk() -> None:
    for name, method in _whole.items():
        setattr(DataFile, name, method)
    _whole.clear()
