"""One answer for all browsers that ask for the same at about the same time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar, cast

import trio

ANSWERS_MAX: Final = 200
T = TypeVar("T")


class Shared:
    """`get` asks once, and returns the same answer to all calls within its time."""

    def __init__(self) -> None:
        self._answers: OrderedDict[str, tuple[float, object]] = OrderedDict()
        self._asking: dict[str, trio.Lock] = {}

    def forget(self) -> None:
        """Forget all answers after a change, so that later questions do not get the old state."""
        self._answers.clear()

    async def get(self, name: str, seconds: float, ask: Callable[[], Awaitable[T]]) -> T:
        """An answer of at most this age; an error is raised to its own callers, and not kept."""
        lock = self._asking.setdefault(name, trio.Lock())
        try:
            async with lock:
                known = self._answers.get(name)
                if known is not None and trio.current_time() - known[0] < seconds:
                    return cast(T, known[1])
                found = await ask()
                self._answers[name] = (trio.current_time(), found)
                self._answers.move_to_end(name)
                while len(self._answers) > ANSWERS_MAX:
                    self._answers.popitem(last=False)
                return found
        finally:
            if not lock.statistics().tasks_waiting and not lock.locked():
                self._asking.pop(name, None)
