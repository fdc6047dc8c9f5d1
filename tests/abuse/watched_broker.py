"""`pybroker`, with every step of its event loop timed: who holds it, and for how long.

Job: a stand-in for the `pybroker` command. Each step of a trio task that holds the loop for more
than TOLD_SECONDS is a line of JSON in the file that the environment variable HOLDS_VARIABLE names:
when, how long, which task. The time that the loop's thread was ready to run and did not get a
processor does not count (Linux tells it in schedstat): that is other people's doing. What counts is
computing, and waiting for a disk.
With the environment variable SAMPLED_VARIABLE a thread looks at a step that lasts long, and the
line says where it was then: for people who look for the culprit.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
import traceback
from typing import Any

import trio

HOLDS_VARIABLE = "PYBROKER_TEST_HOLDS"
SAMPLED_VARIABLE = "PYBROKER_TEST_SAMPLED"
TOLD_SECONDS = 0.004
SAMPLE_SECONDS = 0.008
SHOWN_FRAMES = 6


class Holds(trio.abc.Instrument):
    """Writes down the steps that hold the loop."""

    def __init__(self, file: str) -> None:
        self._out = open(file, "a", buffering=1)  # noqa: SIM115 (as long as the process lives)
        self._schedstat = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
        self._queued_ns = 0
        self._started = 0.0
        self._since: float | None = None
        self._where: str | None = None

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._where = None
        self._queued_ns = self.queued_ns()
        self._since = self._started = time.monotonic()

    def queued_ns(self) -> int:
        """How long this thread has waited for a processor so far."""
        return int(os.pread(self._schedstat, 64, 0).split()[1])

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self._since = None
        now = time.monotonic()
        if now - self._started <= TOLD_SECONDS:
            return
        seconds = now - self._started - (self.queued_ns() - self._queued_ns) / 1e9
        if seconds > TOLD_SECONDS:
            line = {"at": now, "ms": seconds * 1000, "task": task.name}
            if self._where is not None:
                line["where"] = self._where
            self._out.write(json.dumps(line) + "\n")

    def sample(self, loop_thread: int) -> None:
        while True:
            time.sleep(SAMPLE_SECONDS)
            since = self._since
            if since is None or time.monotonic() - since < SAMPLE_SECONDS:
                continue
            frame = sys._current_frames().get(loop_thread)
            stack = traceback.extract_stack(frame)[-SHOWN_FRAMES:]
            self._where = " > ".join(f"{os.path.basename(f.filename)}:{f.lineno}" for f in stack)


def watch() -> None:
    run = trio.run

    def run_watched(*arguments: Any, **options: Any) -> Any:
        holds = Holds(os.environ[HOLDS_VARIABLE])
        if os.environ.get(SAMPLED_VARIABLE):
            loop_thread = threading.get_ident()
            threading.Thread(target=holds.sample, args=(loop_thread,), daemon=True).start()
        return run(*arguments, instruments=[holds], **options)

    setattr(trio, "run", run_watched)  # noqa: B010 (it takes more than its type says)


if __name__ == "__main__":
    from pybroker_kafka.cli.main import main

    if os.environ.get(HOLDS_VARIABLE):
        watch()
    main()
