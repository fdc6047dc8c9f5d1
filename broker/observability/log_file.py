"""The log file of a node, which is bounded, and may be on a full disk.

A file that grows beyond MAX_BYTES becomes `.1`, and so on up to KEPT_FILES: a node's log never
takes more than that. On a full disk lines are lost and counted: the next line that can be written
gives their number. A node never logs elsewhere instead: its terminal is the supervisor's.

It is a file of its own because of what it imports: a process that logs to its terminal does
without that memory.
"""

from __future__ import annotations

import contextlib
import logging
import logging.handlers
import sys
from pathlib import Path

from .log_lines import JsonLines

MAX_BYTES = 20 * 1024 * 1024
KEPT_FILES = 5


class LogFile(logging.handlers.RotatingFileHandler):
    """A file that may be full for a while, and never gets larger than it may."""

    def __init__(self, path: Path, max_bytes: int = MAX_BYTES) -> None:
        super().__init__(path, maxBytes=max_bytes, backupCount=KEPT_FILES - 1, encoding="utf-8")
        self._lost = 0

    def format(self, record: logging.LogRecord) -> str:
        if not self._lost:
            return super().format(record)
        lost = f"{self._lost} lines before this one could not be written"
        if isinstance(self.formatter, JsonLines):
            told = logging.makeLogRecord(
                {"name": __name__, "levelname": "WARNING", "msg": lost, "created": record.created}
            )
            return f"{super().format(told)}\n{super().format(record)}"
        return f"({lost})\n{super().format(record)}"

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
        # The stream's buffered lines would fail again and again; the next line reopens the file.
        stream, self.stream = self.stream, None
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()
