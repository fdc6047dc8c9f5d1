"""A broker whose disk breaks when the file `broken-disk` appears beside its log directory.

It is the same program as `pybroker broker`, over a filesystem seam in which every write and read
of a log file is EIO from then on.
"""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from unittest.mock import patch

from pybroker_kafka.cli.main import main
from pybroker_kafka.protocol.primitives import Buffer
from pybroker_kafka.storage.files import DataFile, Files

MARK = Path(sys.argv[-1]).parent / "broken-disk"


def check(path: str) -> None:
    if MARK.exists():
        raise OSError(errno.EIO, os.strerror(errno.EIO), path)


class BreakableDataFile(DataFile):
    __slots__ = ()

    def write_at(self, data: Buffer, position: int) -> None:
        check(self.path)
        super().write_at(data, position)

    def read_at(self, size: int, position: int) -> bytes:
        check(self.path)
        return super().read_at(size, position)

    def sync(self) -> None:
        check(self.path)
        super().sync()


class BreakableFiles(Files):
    def open(self, path: str, *, create: bool = False) -> DataFile:
        check(path)
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return BreakableDataFile(os.open(path, flags, 0o644), path)


if __name__ == "__main__":
    with patch("pybroker_kafka.broker.settings.Files", BreakableFiles):
        main()
