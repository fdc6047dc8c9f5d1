"""Work that goes in steps, done at once."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")


def finished(steps: Generator[None, None, T]) -> T:
    """Their result."""
    return result_and_steps(steps)[0]


def result_and_steps(steps: Generator[None, None, T]) -> tuple[T, int]:
    """Their result, and how many there were."""
    count = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value, count
        count += 1
