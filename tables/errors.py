"""Errors of a table, with messages for its operator."""

from __future__ import annotations


class TableError(Exception):
    """The table cannot be kept as it is configured; a change by the operator is needed."""


class Conflict(Exception):
    """The table has changed since it was read: read its offsets anew."""
