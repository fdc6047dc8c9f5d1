"""Errors of a table, with messages for its operator."""

from __future__ import annotations

from typing import Final

INSTALL: Final = "pip install 'pybroker-kafka[tables]'"


class TableError(Exception):
    """The table cannot be kept as it is configured; a change by the operator is needed."""

    def __init__(self, problem: str, advice: str = "") -> None:
        super().__init__(problem)
        self.advice = advice  # what to do


class Conflict(Exception):
    """The table has changed since it was read: read its offsets anew."""


def problem_of(error: Exception) -> tuple[str, str]:
    """What happened, and what to do about it."""
    again = "the writer tries again by itself"
    if isinstance(error, Conflict):
        return f"the table was changed by another process: {error}", f"nothing: {again}"
    if isinstance(error, TableError):
        return str(error), error.advice or f"change the topic's configs; {again}"
    if isinstance(error, ImportError):
        return str(error), f"{INSTALL} where the broker runs, and start the broker again"
    text = str(error).strip() or "no message"
    return f"{type(error).__name__}: {text}", f"{again}; see the broker's log if this stays"
