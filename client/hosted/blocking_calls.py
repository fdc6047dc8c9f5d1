"""Calls of the clients for threads: they block until the client in the trio thread has a result."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TypeVar

R = TypeVar("R")


def result_of(future: Future[R]) -> R:
    """Wait for the result; an interruption cancels the call."""
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise
