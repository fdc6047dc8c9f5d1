"""Virtual time: one heap of events, one source of randomness, one trace.

Rules: nothing in a simulated cluster looks at a clock or at `random`; everything that happens is an
event of the heap, and two events of the same millisecond run in the order in which they were made.
So a run is a function of its seed. Every step and every line of the trace goes into `digest`, which
tells whether two runs were the same.

An event belongs to a `Process` (or to nobody: the network, the faults). A dead process's events
vanish with it; those of a stopped one (SIGSTOP) wait until it goes on. If the process has tasks,
those that an event wakes run within it.
"""

from collections import deque
from collections.abc import Callable
from hashlib import blake2b
from heapq import heappop, heappush
from random import Random
from typing import Any, Protocol

START_MS = 1_700_000_000_000
TRACE_LINES = 2_000
DIGESTED_STEPS = 500

# When it is due, its number, of which life of which process it is (None: of none), and what to do.
Event = list[Any]


class Tasks(Protocol):
    """The trio tasks of a process (`virtual_trio`)."""

    def step(self, run: Callable[..., None], args: tuple[Any, ...]) -> None: ...

    def kill(self) -> None: ...


class Process:
    """What can be killed and stopped: a life, counted by `generation`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.alive = True
        self.paused = False
        self.generation = 0
        self.tasks: Tasks | None = None
        self.backlog: list[tuple[Callable[..., None], tuple[Any, ...]]] = []

    def kill(self) -> None:
        self.alive = False
        self.paused = False
        if self.tasks is not None:
            self.tasks.kill()
            self.tasks = None
        self.generation += 1  # after all that its tasks have begun as they were cancelled
        self.backlog.clear()


class Kernel:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.now_ms = START_MS
        self.steps = 0
        self.trace: deque[str] = deque(maxlen=TRACE_LINES)
        self.running: dict[Tasks, None] = {}
        self.after_step: Callable[[Process | None], None] | None = None
        self._crash: BaseException | None = None
        self._heap: list[Event] = []
        self._count = 0
        self._digest = blake2b(digest_size=16)
        self._undigested: list[str] = []

    # The trace

    def note(self, text: str) -> None:
        line = f"{self.now_ms - START_MS:>7} {text}"
        self.trace.append(line)
        self._undigested.append(line)

    def _digest_all(self) -> None:
        self._digest.update("".join(self._undigested).encode())
        self._undigested.clear()

    @property
    def digest(self) -> str:
        self._digest_all()
        return self._digest.hexdigest()

    # Events

    def after(
        self, delay_ms: int, owner: Process | None, run: Callable[..., None], *args: Any
    ) -> Event:
        """Do `run(*args)` in a while, if `owner` still lives the same life then."""
        self._count += 1
        generation = owner.generation if owner is not None else 0
        due_ms = self.now_ms + delay_ms if delay_ms > 0 else self.now_ms
        event = [due_ms, self._count, owner, generation, run, args]
        heappush(self._heap, event)
        return event

    @staticmethod
    def cancel(event: Event) -> None:
        """It does not happen, if it has not happened yet."""
        event[4] = None

    def run_until(self, end_ms: int, is_done: Callable[[], bool] | None = None) -> bool:
        """Events up to `end_ms`; True as soon as `is_done` says so."""
        while self._heap and self._heap[0][0] <= end_ms:
            due_ms, _, owner, generation, run, args = heappop(self._heap)
            if run is None:
                continue
            if due_ms > self.now_ms:
                self.now_ms = due_ms
            if owner is not None:
                if owner.generation != generation or not owner.alive:
                    continue
                if owner.paused:
                    owner.backlog.append((run, args))
                    continue
            self._step(owner, run, args)
            if is_done is not None and is_done():
                return True
        self.now_ms = max(self.now_ms, end_ms)
        return False

    def _step(self, owner: Process | None, run: Callable[..., None], args: tuple[Any, ...]) -> None:
        self.steps += 1
        name = owner.name if owner is not None else "-"
        undigested = self._undigested
        undigested.append(f"{self.now_ms} {name} {run.__qualname__}")
        if len(undigested) >= DIGESTED_STEPS:
            self._digest_all()
        if owner is None or owner.tasks is None:
            run(*args)
        else:
            owner.tasks.step(run, args)
        if self._crash is not None:
            raise self._crash
        if self.after_step is not None:
            self.after_step(owner)

    def crashed(self, where: str, error: BaseException) -> None:
        """Somebody has caught an exception that nothing may raise: the step ends the run."""
        if self._crash is None:
            if not isinstance(error, AssertionError):
                cause, error = error, AssertionError(f"{where}: {type(error).__name__}: {error}")
                error.__cause__ = cause
            self._crash = error

    # SIGSTOP and SIGCONT

    def pause(self, process: Process) -> None:
        process.paused = True

    def resume(self, process: Process) -> None:
        """What came meanwhile is handled now, in the order in which it came."""
        process.paused = False
        backlog, process.backlog = process.backlog, []
        for run, args in backlog:
            self.after(0, process, run, *args)

    # Choices

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability
