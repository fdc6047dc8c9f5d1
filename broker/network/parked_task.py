"""A task that sleeps until there is work for it.

Job: `wait` parks the calling task, `wake` resumes it. Cheaper than a trio.Event for each piece of
work. A wake-up without a parked task has no effect: a task looks for work before it waits.
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
