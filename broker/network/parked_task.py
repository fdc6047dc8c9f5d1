"""One task that sleeps until there is work for it.

Job: `wait` parks the task that calls it, `wake` lets it go on. Cheaper than a trio.Event for each
piece of work, and a wake-up while nobody is parked is none: whoever waits looks for work first.
Invariant: at most one task is parked.
"""

from __future__ import annotations

import trio

from ...protocol.invariants import BrokenInvariant


class ParkedTask:
    __slots__ = ("_task",)

    def __init__(self) -> None:
        self._task: trio.lowlevel.Task | None = None

    def wake(self) -> None:
        task = self._task
        if task is not None:
            self._task = None
            trio.lowlevel.reschedule(task)

    async def wait(self) -> None:
        """Return after the next `wake`."""
        if self._task is not None:
            raise BrokenInvariant(f"{self._task} is parked, and another task is to be")
        self._task = trio.lowlevel.current_task()

        def abort(_raise_cancel: object) -> trio.lowlevel.Abort:
            self._task = None
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)
