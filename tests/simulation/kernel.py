"""Virtual time: one heap of events, one source of randomness, one trace.

Rules: nothing in a simulated cluster looks at a clock or at `random`; everything that happens is an
event of the heap, and two events of the same millisecond run in the order in which they were made.
So a run is a function of its seed. Every step and every line of the trace goes into `digest`, which
tells whether two runs were the same.

An event belongs to a `Process` (or to nobody: the network, the faults). A dead process's events
vanish with it; those of a stopped one (SIGSTOP) wait until it goes on.
"""

from collections import deque
from collections.abc import Callable
from hashlib import blake2b
from heapq import heappop, heappush
from random import Random
from typing import Any

START_MS = 1_700_000_000_000
TRACE_LINES = 2_000


class Process:
    """What can be killed and stopped: a life, counted by `generation`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.alive = True
        self.paused = False
        self.generation = 0
        self.backlog: list[tuple[Callable[..., None], tuple[Any, ...]]] = []

    def kill(self) -> None:
        self.alive = False
        self.paused = False
        self.generation += 1
        self.backlog.clear()


class Kernel:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.now_ms = START_MS
        self.steps = 0
        self.trace: deque[str] = deque(maxlen=TRACE_LINES)
        self.after_step: Callable[[Process | None], None] | None = None
        self._heap: list[tuple[int, int, Process | None, int, Any, tuple[Any, ...]]] = []
        self._count = 0
        self._digest = blake2b(digest_size=16)

    # The trace

    def note(self, text: str) -> None:
        line = f"{self.now_ms - START_MS:>7} {text}"
        self.trace.append(line)
        self._digest.update(line.encode())

    @property
    def digest(self) -> str:
        return self._digest.hexdigest()

    # Events

    def after(
        self, delay_ms: int, owner: Process | None, run: Callable[..., None], *args: Any
    ) -> None:
        """Do `run(*args)` in a while, if `owner` still lives the same life then."""
        self._count += 1
        generation = owner.generation if owner is not None else 0
        due_ms = self.now_ms + max(0, delay_ms)
        heappush(self._heap, (due_ms, self._count, owner, generation, run, args))

    def run_until(self, end_ms: int, is_done: Callable[[], bool] | None = None) -> bool:
        """Events up to `end_ms`; True as soon as `is_done` says so."""
        while self._heap and self._heap[0][0] <= end_ms:
            due_ms, _, owner, generation, run, args = heappop(self._heap)
            self.now_ms = max(self.now_ms, due_ms)
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
        self._digest.update(f"{self.now_ms} {name} {run.__qualname__}".encode())
        run(*args)
        if self.after_step is not None:
            self.after_step(owner)

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
