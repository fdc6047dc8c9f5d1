"""One answer for all browsers that ask for the same at about the same time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar, cast

import trio

ANSWERS_MAX: Final = 200
T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")


async def together(
    one: Callable[[], Awaitable[A]],
    two: Callable[[], Awaitable[B]],
    three: Callable[[], Awaitable[C]],
) -> tuple[A, B, C]:
    """The answers of questions that are asked side by side; raises the first error as it is."""
    found: list[Any] = [None, None, None]
    errors: list[Exception] = []

    async def ask(index: int, question: Callable[[], Awaitable[object]]) -> None:
        try:
            found[index] = await question()
        except Exception as error:
            errors.append(error)
            nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        for index, question in enumerate((one, two, three)):
            nursery.start_soon(ask, index, question)
    if errors:
        raise errors[0]
    return found[0], found[1], found[2]


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
