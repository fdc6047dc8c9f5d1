"""What processes cost the machine: CPU time, memory, and a way to measure on a busy one.

Memory is the proportional share (PSS): a page that forked processes share counts once over all of
them. Linux only.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.support.processes import cpu_seconds

REAL_TIME_PRIORITY = 10
# Between two loads under real-time priority, whoever else uses the machine gets its turn.
REST_SECONDS = 1.0


def total_cpu_seconds(pids: Iterable[int]) -> float:
    return sum(cpu_seconds(pid) for pid in pids)


def memory_mb(pids: Iterable[int]) -> float:
    """The memory of all processes together, shared pages counted once."""
    total_kb = 0
    for pid in pids:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                total_kb += int(line.split()[1])
    return total_kb * 1024 / 1e6


@contextlib.contextmanager
def real_time(pids: Iterable[int], *, wanted: bool) -> Iterator[None]:
    """Run this process and `pids` with all their threads ahead of everything else (needs root)."""
    if not wanted:
        yield
        return
    processes = [os.getpid(), *pids]
    try:
        _schedule(processes, os.SCHED_RR, REAL_TIME_PRIORITY)
        yield
    finally:
        _schedule(processes, os.SCHED_OTHER, 0)
        time.sleep(REST_SECONDS)


def _schedule(pids: Iterable[int], policy: int, priority: int) -> None:
    for pid in pids:
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(ProcessLookupError):  # the thread has ended meanwhile
                os.sched_setscheduler(int(task.name), policy, os.sched_param(priority))
