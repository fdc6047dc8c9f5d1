"""Where log lines go: a file a node, in Kafka's line format (`[time] LEVEL message (logger)`).

On a full disk lines are lost and counted: the next that can be written says how many. A node never
writes elsewhere instead: its terminal is the supervisor's.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from pathlib import Path

LINE_FORMAT = "[%(asctime)s,%(msecs)03d] %(levelname)s %(message)s (%(name)s)"
TIME_FORMAT = "%Y-%m-%d %H:%M:%S"


class LogFile(logging.FileHandler):
    """A file that may be full for a while."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, encoding="utf-8")
        self._lost = 0

    def format(self, record: logging.LogRecord) -> str:
        line = super().format(record)
        if self._lost:
            return f"({self._lost} lines before this one could not be written)\n{line}"
        return line

    def emit(self, record: logging.LogRecord) -> None:
        lost = self._lost
        try:
            super().emit(record)
        except OSError:  # it cannot even be opened
            self._lost += 1
        if self._lost == lost:
            self._lost = 0

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        if not isinstance(sys.exc_info()[1], OSError):
            super().handleError(record)
            return
        self._lost += 1
        # What it holds back would come again and again; the next line opens the file anew.
        stream, self.stream = self.stream, None
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()


def configure_logging(path: Path | None, *, verbose: bool = False) -> None:
    """Log to `path` (appending), or to the standard error output when it is None."""
    handler: logging.Handler = LogFile(path) if path else logging.StreamHandler()
    handler.setFormatter(logging.Formatter(LINE_FORMAT, TIME_FORMAT))
    root = logging.getLogger()
    for previous in list(root.handlers):
        root.removeHandler(previous)
    root.addHandler(handler)
    root.setLevel(logging.DEBUG if verbose else logging.INFO)
    logging.getLogger("kazoo").setLevel(logging.INFO if verbose else logging.ERROR)
