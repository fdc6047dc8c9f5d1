"""Follows the log files of a local cluster's nodes, for events of the timeline.

Only some loggers count, by the end of their names, and of these only lines that match one of the
patterns below: all other lines are only for readers of the log itself.

Limits: BEHIND_BYTES of the lines from before the console's start, READ_BYTES a node and look, and
TOLD_MAX events a look; the rest is left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

from .cluster_view import Happening

BEHIND_BYTES: Final = 256 * 1024
READ_BYTES: Final = 256 * 1024
TOLD_MAX: Final = 50


class Place(NamedTuple):
    """The read position in a file: its identity, and the bytes read."""

    inode: int
    offset: int


LINE: Final = re.compile(r"\[([\d ,:-]{23})\] [A-Z]+ (.*) \(([\w.]+)\)")
TEXT_TIME: Final = "%Y-%m-%d %H:%M:%S,%f"
CONTROLLER: Final = re.compile(r"broker (\d+) is the controller, epoch (\d+)")
# The end of a logger's name, a pattern of its lines, and the kind of their event.
TOLD: Final = (
    (".zk.zookeeper", re.compile(r"ZooKeeper session \w+"), "session"),
    (".zk.registration", re.compile(r"closed the ZooKeeper session .*"), "session"),
    (".group.rebalance", re.compile(r"group .*"), "rebalance"),
    (".group.joining", re.compile(r"group .*"), "rebalance"),
    (".broker.cleaner", re.compile(r"Cleaned log \S+ \(.*?\)\)"), "cleaning"),
    (".storage.retention", re.compile(r".*?deleted \d+ old segments?"), "retention"),
    (".transaction_coordinator", re.compile(r"The transaction of .* timed out"), "transaction"),
)  # fmt: skip


class Line(NamedTuple):
    """`at_ms` since 1970."""

    at_ms: int
    logger: str
    message: str


def parsed(line: str) -> Line | None:
    """The first line of an entry, in either format; None for other lines."""
    try:
        if line.startswith("{"):
            found = json.loads(line)
            at = datetime.fromisoformat(found["time"])
            return Line(int(at.timestamp() * 1000), str(found["logger"]), str(found["message"]))
        match = LINE.fullmatch(line)
        if match is None:
            return None
        at = datetime.strptime(match[1], TEXT_TIME).astimezone()
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None
    return Line(int(at.timestamp() * 1000), match[3], match[2])


def happening_of(node: str, line: Line) -> Happening | None:
    """The event of a line for the timeline; None if it has none."""
    for logger, words, kind in TOLD:
        if line.logger.endswith(logger) and (match := words.match(line.message)):
            return Happening(kind, f"{node}: {match[0]}", line.at_ms)
    return None


def controller_epoch(line: Line) -> int | None:
    """The epoch of the controller that the line announces."""
    match = CONTROLLER.fullmatch(line.message)
    return None if match is None else int(match[2])


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
