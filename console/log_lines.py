"""Events for the timeline from the lines of a node's log; pure.

Only some loggers count, by the end of their names, and of these only lines that match one of the
patterns below: all other lines are only for readers of the log itself.
"""

from __future__ import annotations

import json
import re
from datetime import datetime
from typing import Final, NamedTuple

from .cluster_view import Happening

LINE: Final = re.compile(r"\[([\d ,:-]{23})\] [A-Z]+ (.*) \(([\w.]+)\)")
TEXT_TIME: Final = "%Y-%m-%d %H:%M:%S,%f"
CONTROLLER: Final = re.compile(r"broker (\d+) is the controller, epoch (\d+)")
# The end of a logger's name, a pattern of its lines, and the kind of their event.
TOLD: Final = (
    (".cluster.zookeeper_client", re.compile(r"ZooKeeper session \w+"), "session"),
    (".cluster.registration", re.compile(r"closed the ZooKeeper session .*"), "session"),
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
