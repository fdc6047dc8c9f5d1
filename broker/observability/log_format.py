"""Where log lines go: a file a node, in Kafka's line format (`[time] LEVEL message (logger)`), or
as JSON, an object a line.

A file that grows beyond MAX_BYTES becomes `.1`, and so on up to KEPT_FILES: a node's log never
takes more than that. On a full disk lines are lost and counted: the next that can be written says
how many. A node never writes elsewhere instead: its terminal is the supervisor's.
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

LINE_FORMAT = "[%(asctime)s,%(msecs)03d] %(levelname)s %(message)s (%(name)s)"
TIME_FORMAT = "%Y-%m-%d %H:%M:%S"


MAX_BYTES = 20 * 1024 * 1024
KEPT_FILES = 5


class LogFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


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
        return json.dumps(line, ensure_ascii=False)


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
        # What it holds back would come again and again; the next line opens the file anew.
        stream, self.stream = self.stream, None
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()


def configure_logging(
    path: Path | None, *, verbose: bool = False, log_format: str = LogFormat.TEXT
) -> None:
    """Log to `path` (appending), or to the standard error output when it is None."""
    handler: logging.Handler = LogFile(path) if path else logging.StreamHandler()
    is_json = log_format == LogFormat.JSON
    handler.setFormatter(JsonLines() if is_json else logging.Formatter(LINE_FORMAT, TIME_FORMAT))
    root = logging.getLogger()
    for previous in list(root.handlers):
        root.removeHandler(previous)
    root.addHandler(handler)
    root.setLevel(logging.DEBUG if verbose else logging.INFO)
    logging.getLogger("kazoo").setLevel(logging.INFO if verbose else logging.ERROR)
