"""A filesystem on which the process dies at a chosen change: a write, a rename, a removal."""

from __future__ import annotations

import os

from pybroker_kafka.protocol.primitives import Buffer
from pybroker_kafka.storage.files import DataFile
from tests.support.faulty_files import FaultyDataFile, FaultyFiles


class Crash(BaseException):
    """The process is gone; no handler of errors may see it."""


class CrashingFiles(FaultyFiles):
    """Counts down over all that changes the disk, and crashes at zero."""

    def __init__(self) -> None:
        super().__init__()
        self.countdown = -1

    def step(self) -> None:
        if self.countdown == 0:
            raise Crash
        self.countdown -= 1

    def open(self, path: str, *, create: bool = False) -> DataFile:
        self.check("open", path)
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return CrashingDataFile(os.open(path, flags, 0o644), path, self)

    def rename(self, source: str, target: str) -> None:
        self.step()
        super().rename(source, target)

    def remove(self, path: str) -> None:
        self.step()
        super().remove(path)


class CrashingDataFile(FaultyDataFile):
    __slots__ = ()

    def write_at(self, data: Buffer, position: int) -> None:
        assert isinstance(self._owner, CrashingFiles)
        self._owner.step()
        super().write_at(data, position)
