"""The output of log lines: a file a node, in Kafka's line format (`[time] LEVEL message (logger)`),
or as JSON, an object a line.

A file that grows beyond MAX_BYTES becomes `.1`, and so on up to KEPT_FILES: a node's log never
takes more than that. On a full disk lines are lost and counted: the next line that can be written
gives their number. A node never logs elsewhere instead: its terminal is the supervisor's.

Invariant: no text from outside begins an entry. A message is one line, whatever names are in it
(`visible_text`); the lines of a traceback are indented.
"""

from __future__ import annotations

import contextlib
import json
import logging
import logging.handlers
import sys
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from ..resources.visible_text import visible, visible_json, visible_lines

LINE_FORMAT = "[%(asctime)s,%(msecs)03d] %(levelname)s %(message)s (%(name)s)"
TIME_FORMAT = "%Y-%m-%d %H:%M:%S"
INDENT = "    "

MAX_BYTES = 20 * 1024 * 1024
KEPT_FILES = 5


class LogFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


class TextLines(logging.Formatter):
    """A line, and the lines of an error below it."""

    def __init__(self, line_format: str = LINE_FORMAT) -> None:
        super().__init__(line_format, TIME_FORMAT)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        return visible(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802 - logging's name
        return self._below(super().formatException(ei))

    def formatStack(self, stack_info: str) -> str:  # noqa: N802 - logging's name
        return self._below(super().formatStack(stack_info))

    def _below(self, text: str) -> str:
        return INDENT + visible_lines(text).replace("\n", f"\n{INDENT}")


class JsonLines(logging.Formatter):
    """An object a line: time (UTC), level, logger, message, and the traceback of an error."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return visible_json(json.dumps(line, ensure_ascii=False))


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


def show_warnings_only() -> None:
    """Set up warnings of a command without a logging configuration: Python prints these by itself,
    here in lines that move no cursor.
    """
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(TextLines("%(message)s"))


def configure_logging(
    path: Path | None, *, verbose: bool = False, log_format: str = LogFormat.TEXT
) -> None:
    """Log to `path` (appending), or to the standard error output when it is None."""
    handler: logging.Handler = LogFile(path) if path else logging.StreamHandler()
    is_json = log_format == LogFormat.JSON
    handler.setFormatter(JsonLines() if is_json else TextLines())
    root = logging.getLogger()
    for previous in list(root.handlers):
        root.removeHandler(previous)
    root.addHandler(handler)
    root.setLevel(logging.DEBUG if verbose else logging.INFO)
    logging.getLogger("kazoo").setLevel(logging.INFO if verbose else logging.ERROR)
