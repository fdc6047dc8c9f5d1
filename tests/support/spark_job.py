"""A pipeline in a process of its own, as people run it, to be killed with all that it started."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

PIPELINES = "pybroker_kafka.spark_jobs.pipelines"
WAIT_SECONDS = 900.0
POLL_SECONDS = 0.05
TOLD_CHARACTERS = 4000


class SparkJob:
    """A pipeline as `python -m`, in a process group of its own, with a log."""

    def __init__(self, name: str, directory: Path, *arguments: str) -> None:
        self._log = directory / f"{name}.{time.monotonic_ns()}.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", f"{PIPELINES}.{name}", *arguments],
                cwd=directory,
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    @property
    def text(self) -> str:
        return self._log.read_text(errors="replace")

    def wait_for(self, pattern: str) -> re.Match[str]:
        """Until the job says something; fails if it ends first."""
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            found = re.search(pattern, self.text)
            if found is not None:
                return found
            assert self._process.poll() is None, self.text[-TOLD_CHARACTERS:]
            assert time.monotonic() < deadline, self.text[-TOLD_CHARACTERS:]
            time.sleep(POLL_SECONDS)

    def signal(self, number: int) -> None:
        """To the pipeline's own process, as `kill` does."""
        self._process.send_signal(number)

    def end(self) -> str:
        """Wait for its end, which must be a good one; what it said."""
        status = self._process.wait(WAIT_SECONDS)
        assert status == 0, self.text[-TOLD_CHARACTERS:]
        return self.text

    def failed_with(self, words: str) -> bool:
        """Wait for its end, and tell whether it was a bad one, for this reason."""
        return self._process.wait(WAIT_SECONDS) != 0 and words in self.text

    def kill(self) -> None:
        """SIGKILL, to Spark's JVM too."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


@contextlib.contextmanager
def spark_job(name: str, directory: Path, *arguments: str) -> Iterator[SparkJob]:
    job = SparkJob(name, directory, *arguments)
    try:
        yield job
    finally:
        job.kill()
