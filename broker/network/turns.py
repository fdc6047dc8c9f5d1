"""Long work in short turns: none holds the event loop longer than TURN_SECONDS.

Job: long work is a generator ("steps") that yields at least about once a millisecond: the decoding
of a large frame, a handler's loop over a request, the encoding of a large response. `begin` runs
the first turn at once, like the handlers of small requests; unfinished steps are continued by
`run`, behind all others under way: one turn, then the other tasks of the loop, then the turn of the
next one. `finish` is the same for coroutines, which wait for it; a coroutine whose own loop may be
long calls its `Pace` in it.

Invariants: between two steps others run, so that a step is a whole state change, or none; one turn
is taken between two rounds of the network, however many wait. A failure is raised (`finish`), or
passed to the function given with the steps (`begin`, `add`).

Mirrors nothing in Kafka, whose request handler threads the operating system takes in turns.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from time import perf_counter
from typing import Any, TypeVar

import trio

from ...protocol.discarding import discard_all
from .parked_task import ParkedTask

# Kafka's own clients wait for a broker some milliseconds at the best of times.
TURN_SECONDS = 0.002
# The first turn of a coroutine, of which many may begin at the same time.
FIRST_TURN_SECONDS = 0.0005

Steps = Generator[None, None, None]
Failed = Callable[[Exception], None]
T = TypeVar("T")


class Turns:
    __slots__ = ("_runner", "_waiting")

    def __init__(self) -> None:
        # Steps with the function to call if they fail, or a coroutine that waits for its turn.
        self._waiting: deque[tuple[Steps, Failed] | trio.Event] = deque()
        self._runner = ParkedTask()

    def __len__(self) -> int:
        return len(self._waiting)

    def begin(self, steps: Steps, failed: Failed) -> None:
        """Do the first turn of these steps now, and the rest in turns."""
        if not _take_turn(steps, failed, perf_counter() + TURN_SECONDS):
            self.add(steps, failed)

    def add(self, steps: Steps, failed: Failed) -> None:
        """Do this in turns."""
        self._put((steps, failed))

    async def wait_for_turn(self) -> None:
        """Return when this coroutine may take a turn of its own."""
        event = trio.Event()
        self._put(event)
        await event.wait()

    def _put(self, work: tuple[Steps, Failed] | trio.Event) -> None:
        self._waiting.append(work)
        self._runner.wake()

    async def finish(self, steps: Generator[None, None, T]) -> T:
        """Wait until this is done in turns; its result."""
        work = _Awaited(steps)
        self.add(work.run(), work.failed)
        try:
            await work.done.wait()
        finally:
            work.is_wanted = False
        if work.error is not None:
            raise work.error
        return work.result  # type: ignore[no-any-return]

    async def run(self) -> None:
        """Take turns for ever."""
        waiting = self._waiting
        while True:
            if not waiting:
                await self._runner.wait()
            ends = perf_counter() + TURN_SECONDS
            while waiting:
                work = waiting.popleft()
                if isinstance(work, trio.Event):
                    work.set()
                    break
                if not _take_turn(*work, ends):
                    waiting.append(work)
                    break
            await trio.lowlevel.checkpoint()


def _take_turn(steps: Steps, failed: Failed, ends: float) -> bool:
    """Step until then; True if all steps are done."""
    try:
        return all(perf_counter() < ends for _ in steps)
    except Exception as error:
        failed(error)
        return True


class Pace:
    """Called in a coroutine's loop, lets others have their turn when its own is over."""

    __slots__ = ("_ends", "_turns")

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._ends = perf_counter() + FIRST_TURN_SECONDS

    async def __call__(self) -> None:
        if perf_counter() > self._ends:
            await self._turns.wait_for_turn()
            self._ends = perf_counter() + TURN_SECONDS


def distinct(items: Iterable[T]) -> Generator[None, None, list[T]]:
    """Steps that leave out repeated items, in the order of their first occurrence."""
    found: dict[T, None] = {}
    for item in items:
        found[item] = None
        yield
    items = list(found)
    yield from discard_all(found)
    return items


class _Awaited:
    """Steps that a coroutine waits for."""

    __slots__ = ("_steps", "done", "error", "is_wanted", "result")

    def __init__(self, steps: Generator[None, None, Any]) -> None:
        self._steps = steps
        self.done = trio.Event()
        self.is_wanted = True
        self.error: Exception | None = None
        self.result: Any = None

    def run(self) -> Steps:
        steps = self._steps
        try:
            while self.is_wanted:
                next(steps)
                yield
        except StopIteration as end:
            self.result = end.value
        except Exception as error:
            self.failed(error)
            return
        self.done.set()

    def failed(self, error: Exception) -> None:
        self.error = error
        self.done.set()
