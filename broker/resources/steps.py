"""Runs steps: a generator that yields between them, and returns a result.

Invariant: the loop is held for one step at a time. Handlers share the time of a turn among all
their steps instead (`network/turns.py`).
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

import trio

T = TypeVar("T")


async def in_turns(steps: Generator[None, None, T]) -> T:
    """The result. Other tasks run between the steps. A thread would compute beside them, and each
    of them would wait for the interpreter again and again.
    """
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
        await trio.lowlevel.checkpoint()
