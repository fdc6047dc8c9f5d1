"""A local cluster as its user has it: `pybroker start` in a session and process group of its own.

All processes of a start are of its session, so that a test finds every one of them, however they
have been orphaned, and none of anybody else's. `finish` ends what is left.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from signal import Signals

import confluent_kafka
import psutil

from pybroker_kafka.local import cluster_state
from pybroker_kafka.testing import Command
from pybroker_kafka.testkit.inspection import Address, Reading, ask
from tests.support.patience import Limit
from tests.support.processes import ended, free_port

READY_TIMEOUT_SECONDS = 60.0
END_TIMEOUT_SECONDS = 60.0
CLIENT_TIMEOUT_SECONDS = 120.0
POLL_SECONDS = 0.02


class StartRefused(Exception):
    """`pybroker start` ended with this line instead of a cluster."""


class LocalCluster:
    """One data directory and its ports; started and ended any number of times."""

    def __init__(self, directory: Path, brokers: int = 2) -> None:
        self.directory = directory
        self.brokers = brokers
        self.port = free_port(brokers)
        self.zookeeper_port = free_port()
        self.output = directory.parent / f"{directory.name}.out"
        self._sessions: set[int] = set()
        self._process: Command | None = None

    # Commands

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Another command on this data directory; what it prints, of both kinds, is `stdout`."""
        output = self.output.with_suffix(".command")
        output.unlink(missing_ok=True)
        command = Command(*words, "--data-dir", str(self.directory), output=output)
        status = ended(command, END_TIMEOUT_SECONDS)
        return subprocess.CompletedProcess(command.words, status, output.read_text(), "")

    def succeed(self, *words: str) -> str:
        done = self.run(*words)
        assert done.returncode == 0, (words, done.stdout)
        return done.stdout

    def start(self, *more: str) -> float:
        """Start in the foreground of a group of its own; returns the seconds until it was ready.

        Raises StartRefused with the last line if it ends instead.
        """
        self.launch(*more)
        return self.wait_until_ready()

    def launch(self, *more: str) -> None:
        self.launch_as_remembered(
            *(() if "--brokers" in more else ("--brokers", str(self.brokers))), *more
        )

    def launch_as_remembered(self, *more: str) -> None:
        words = ["start", "--data-dir", str(self.directory)]
        words += ["--port", str(self.port), "--zookeeper-port", str(self.zookeeper_port)]
        self._launched = time.monotonic()
        self.output.unlink(missing_ok=True)
        self._process = Command(*words, *more, output=self.output, new_session=True)
        self._sessions.add(self._process.pid)

    def wait_until_ready(self) -> float:
        assert self._process is not None
        limit = Limit(READY_TIMEOUT_SECONDS)
        while "ready after" not in self.told:
            assert not limit.is_over, self.told
            if self._process.poll() is not None:
                raise StartRefused(self.told.strip().rpartition("\n")[2])
            time.sleep(POLL_SECONDS)
        return time.monotonic() - self._launched

    @property
    def told(self) -> str:
        return self.output.read_text(errors="replace") if self.output.exists() else ""

    # Processes

    @property
    def supervisor(self) -> int:
        assert self._process is not None
        return self._process.pid

    def signal(self, number: Signals) -> None:
        """To the supervisor alone."""
        os.kill(self.supervisor, number)

    def signal_group(self, number: Signals) -> None:
        """To every process, as a terminal, `timeout` or systemd would."""
        os.killpg(self.supervisor, number)

    def wait_for_end(self) -> int:
        """The supervisor's exit status."""
        assert self._process is not None
        return ended(self._process, END_TIMEOUT_SECONDS)

    def processes(self) -> list[psutil.Process]:
        """All of our sessions that are no zombies."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                if (
                    os.getsid(process.pid) in self._sessions
                    and process.status() != psutil.STATUS_ZOMBIE
                ):
                    found.append(process)
        return found

    def wait_until_gone(self, timeout_s: float = END_TIMEOUT_SECONDS) -> float:
        """Until nothing of it runs any more; returns the seconds."""
        limit = Limit(timeout_s)
        while left := self.processes():
            if limit.is_over:
                told = [(process.pid, process.status(), process.cmdline()) for process in left]
                raise AssertionError(f"still running after {limit.waited:.0f} s: {told}")
            time.sleep(POLL_SECONDS)
        return limit.waited

    def node_pid(self, name: str) -> int:
        """Of ZooKeeper, or of a broker by its id."""
        (pid,) = [
            node.pid
            for node in cluster_state.load(self.directory).nodes
            if name in (node.kind, str(node.node_id))
        ]
        return pid

    def finish(self) -> None:
        for process in self.processes():
            with contextlib.suppress(psutil.Error):
                process.kill()

    # Records

    @property
    def bootstrap(self) -> str:
        return cluster_state.load(self.directory).bootstrap

    def produce(self, topic: str, values: list[str]) -> None:
        """With acks=all; returns when all are acknowledged."""
        failures = []

        def delivered(error: object, _message: object) -> None:
            if error is not None:
                failures.append(error)

        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "acks": "all",
                "message.timeout.ms": int(CLIENT_TIMEOUT_SECONDS * 1000),
            }
        )
        for value in values:
            producer.produce(topic, value, partition=0, on_delivery=delivered)
        assert producer.flush(CLIENT_TIMEOUT_SECONDS) == 0
        assert not failures, failures

    def consume(self, topic: str) -> list[str]:
        """All that is in partition 0."""
        read = Reading(topic, partition=0, at_least=0, committed=False).read
        records = ask(Address(self.bootstrap, {}), read, CLIENT_TIMEOUT_SECONDS)
        return [(record.value or b"").decode() for record in records]


@contextlib.contextmanager
def local_cluster(directory: Path, brokers: int = 2) -> Iterator[LocalCluster]:
    """Whatever happens in the block, nothing of the cluster outlives it."""
    cluster = LocalCluster(directory, brokers)
    try:
        yield cluster
    finally:
        cluster.finish()
