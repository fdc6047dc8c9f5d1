"""Where a process logs to: a file (`log_file`) or its terminal, as text or JSON (`log_lines`)."""

from __future__ import annotations

import logging
from enum import StrEnum
from pathlib import Path

from .log_lines import JsonLines, TextLines


class LogFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


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
    handler: logging.Handler = _file(path) if path else logging.StreamHandler()
    is_json = log_format == LogFormat.JSON
    handler.setFormatter(JsonLines() if is_json else TextLines())
    root = logging.getLogger()
    for previous in list(root.handlers):
        root.removeHandler(previous)
    root.addHandler(handler)
    root.setLevel(logging.DEBUG if verbose else logging.INFO)
    logging.getLogger("kazoo").setLevel(logging.INFO if verbose else logging.ERROR)


def _file(path: Path) -> logging.Handler:
    from .log_file import LogFile  # with logging.handlers and pickle, which a terminal lacks

    return LogFile(path)
