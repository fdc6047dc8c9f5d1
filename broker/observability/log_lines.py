"""Log entries: lines as Kafka has them (`[time] LEVEL message (logger)`), or a JSON object a line.

Invariant: no text from outside begins an entry. A message is one line, whatever names are in it
(`visible_text`); the lines of a traceback are indented.
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any

from ..resources.visible_text import visible, visible_json, visible_lines

LINE_FORMAT = "[%(asctime)s,%(msecs)03d] %(levelname)s %(message)s (%(name)s)"
TIME_FORMAT = "%Y-%m-%d %H:%M:%S"
INDENT = "    "


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
