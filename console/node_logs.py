"""Follows the log files of a local cluster's nodes.

Limits: BEHIND_BYTES of the lines from before the console's start, READ_BYTES a node and look, and
TOLD_MAX events a look; the rest is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from .cluster_view import Happening
from .log_lines import Line, controller_epoch, happening_of, parsed

BEHIND_BYTES: Final = 256 * 1024
READ_BYTES: Final = 256 * 1024
TOLD_MAX: Final = 50


class Place(NamedTuple):
    """The read position in a file: its identity, and the bytes read."""

    inode: int
    offset: int


class NodeLogs:
    """`look` blocks: call it in a thread, one at a time."""

    def __init__(self) -> None:
        self._places: dict[str, Place] = {}
        self.controller_epoch: int | None = None

    def look(self, files: Mapping[str, str]) -> list[Happening]:
        """The events that the nodes, by name, have logged since the last look, in the order of
        time.
        """
        found: list[Happening] = []
        for node, path in files.items():
            for line in _lines(self._unread(path)):
                epoch = controller_epoch(line)
                if epoch is not None:
                    self.controller_epoch = max(epoch, self.controller_epoch or 0)
                happened = happening_of(node, line)
                if happened is not None:
                    found.append(happened)
        found.sort(key=lambda one: one.at_ms or 0)
        return found[-TOLD_MAX:]

    def _unread(self, path: str) -> bytes:
        """Whole lines; a file that was begun anew is read from its beginning."""
        try:
            with Path(path).open("rb") as file:
                about = Path(path).stat()
                known = self._places.get(path)
                begin = max(about.st_size - BEHIND_BYTES, 0) if known is None else known.offset
                if known is not None and (known.inode != about.st_ino or about.st_size < begin):
                    begin = 0
                file.seek(max(begin, about.st_size - READ_BYTES))
                begin = file.tell()
                data = file.read(READ_BYTES)
        except OSError:
            return b""
        whole = data[: data.rfind(b"\n") + 1]
        self._places[path] = Place(about.st_ino, begin + len(whole))
        return whole


def _lines(data: bytes) -> Iterable[Line]:
    for text in data.decode(errors="replace").splitlines():
        line = parsed(text)
        if line is not None:
            yield line
