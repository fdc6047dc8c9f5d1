"""Real server processes for tests: our ZooKeeper and our broker, each with its own command line.

Our test kit forks them (`Command`). A command of another program, and one with an environment of
its own, has a process from the beginning.
Ports are chosen by the system and kept over a restart, so that a client finds the broker again.
Everything started here is killed at the end of the `with` block, whatever happened.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from pybroker_kafka.testing import Command
from tests.support.patience import Limit

ROOT = Path(__file__).resolve().parent.parent.parent
READY_TIMEOUT_SECONDS = 120.0
STOP_TIMEOUT_SECONDS = 60.0
POLL_SECONDS = 0.01
TOLD_CHARACTERS = 3000
LEFT_OUT = ""  # as a config's value: Kafka's default, not that of the tests
PYBROKER = [sys.executable, "-P", "-m", "pybroker_kafka"]


# Below them are those that our clusters for others' tests take, and benchmarks: neither knows of a
# port that somebody will listen on again.
LOWEST_PORT, HIGHEST_PORT = 20_000, 32_000

# Sockets in Linux's abstract namespace: a port's name there says that this test process has it.
_claims: list[contextlib.ExitStack] = []


def hear_signals() -> None:
    """Undo what `nohup`, and a shell's `&`, do: what tests start ends when its terminal does, and
    hears Ctrl-C, wherever they run."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _stands_still(pid: int) -> bool:
    """Whether all threads of a process are stopped; Linux alone tells of each."""
    tasks = Path(f"/proc/{pid}/task")
    if not tasks.exists():
        return True
    stats = [task.joinpath("stat").read_text() for task in tasks.iterdir()]
    return all(stat.rpartition(")")[2].split()[0] in "TtZX" for stat in stats)


def free_port(count: int = 1) -> int:
    """The first of `count` ports in a row, below those that Linux gives to outgoing connections,
    and nobody else's here.

    A server that is down for a while must find its port free when it comes back, so other test
    processes are kept off it until this one ends.
    """
    while True:
        first = random.randrange(LOWEST_PORT, HIGHEST_PORT)
        with contextlib.ExitStack() as claims:
            try:
                for port in range(first, first + count):
                    claim = claims.enter_context(socket.socket(socket.AF_UNIX))
                    claim.bind(f"\0pybroker-tests-port-{port}")
                    with socket.socket() as probe:
                        probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            _claims.append(claims.pop_all())
            return first


def ended(process: subprocess.Popen[bytes] | Command, timeout_s: float) -> int:
    """The exit status, once it has one. Raises subprocess.TimeoutExpired."""
    limit = Limit(timeout_s)
    while (status := process.poll()) is None:
        if limit.is_over:
            raise subprocess.TimeoutExpired(f"process {process.pid}", timeout_s)
        time.sleep(POLL_SECONDS)
    return status


class ServerProcess:
    """A server command in a process of its own, with its output in `log`.

    It is ready once it prints a line with `ready`; a subclass may know otherwise.
    """

    def __init__(self, command: list[str], log: Path) -> None:
        self._command = command
        self._log = log
        self._mark = 0
        self._launched = 0.0
        self._process: subprocess.Popen[bytes] | Command | None = None
        self.namespace: str | None = None  # of the network in which it runs
        self.environment: Mapping[str, str] = {}  # of it alone, in addition; then it is not forked

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def log_text(self) -> str:
        return self._log.read_text(errors="replace")

    def is_ready(self) -> bool:
        return b" ready" in self._log.read_bytes()[self._mark :]

    def replace_program(self, program: list[str]) -> None:
        """Another program with the same arguments, instead of `pybroker`."""
        self._command[: len(PYBROKER)] = program

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> float:
        """Start and wait until ready; returns the seconds it took."""
        self.launch()
        return self.wait_until_ready()

    def launch(self) -> None:
        self._launched = time.monotonic()
        self._mark = self._log.stat().st_size if self._log.exists() else 0
        program, words = self._command[: len(PYBROKER)], self._command[len(PYBROKER) :]
        if program == PYBROKER and not self.environment:
            self._process = Command(*words, output=self._log, network_namespace=self.namespace)
            return
        inside = ["ip", "netns", "exec", self.namespace] if self.namespace else []
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                [*inside, *self._command],
                cwd=ROOT,
                env={**os.environ, **self.environment},
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
            )

    def wait_until_ready(self) -> float:
        assert self._process is not None
        limit = Limit(READY_TIMEOUT_SECONDS)
        while not self.is_ready():
            code = self._process.poll()
            if code is not None or limit.is_over:
                raise AssertionError(
                    f"{self._command}: exit {code} after {limit.waited:.1f} s\n"
                    f"{self.log_text[-TOLD_CHARACTERS:]}"
                )
            time.sleep(POLL_SECONDS)
        return time.monotonic() - self._launched

    def pause(self) -> None:
        """SIGSTOP: the process stands still when this returns, its connections stay.

        Its threads go on until the one that takes the signal has its turn: long enough, on a busy
        machine, to answer once more.
        """
        os.kill(self.pid, signal.SIGSTOP)
        limit = Limit(STOP_TIMEOUT_SECONDS)
        while not _stands_still(self.pid):
            assert not limit.is_over, f"{self._command}: it goes on after SIGSTOP"
            time.sleep(0.001)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL, as a crash of the process."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> int:
        """SIGTERM, and wait for a clean end; returns the exit status."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self.wait(STOP_TIMEOUT_SECONDS)

    def wait(self, timeout_s: float) -> int:
        """The exit status. Raises subprocess.TimeoutExpired."""
        assert self._process is not None
        return ended(self._process, timeout_s)


class BrokerProcess(ServerProcess):
    """A broker on its own directory and port, over some ZooKeeper."""

    def __init__(
        self,
        directory: Path,
        zookeeper_connect: str,
        config: Mapping[str, str] | None = None,
        broker_id: int = 1,
        port: int | None = None,
        host: str = "127.0.0.1",
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.port = port or free_port()
        self.bootstrap = f"{host}:{self.port}"
        self.log_dir = directory / "data"
        self.log_dirs = [self.log_dir]  # more of them, if a test changes the properties
        has_own_retention = any(key.startswith("log.retention.") for key in config or {})
        properties = {
            "broker.id": str(broker_id),
            "listeners": f"PLAINTEXT://{self.bootstrap}",
            "zookeeper.connect": zookeeper_connect,
            "log.dirs": str(self.log_dir),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            # Tests write timestamps of long ago, and the first check comes 30 s after the start.
            **({} if has_own_retention else {"log.retention.ms": "-1"}),
            **(config or {}),
        }
        path = directory / "server.properties"
        lines = (f"{key}={value}\n" for key, value in properties.items() if value != LEFT_OUT)
        path.write_text("".join(lines))
        super().__init__(self.command_for(path), directory / "broker.log")

    def command_for(self, properties: Path) -> list[str]:
        return [*PYBROKER, "broker", str(properties)]


class ZooKeeperProcess(ServerProcess):
    """Our embedded ZooKeeper in a process of its own; its data and port outlive it."""

    def __init__(self, directory: Path, port: int | None = None, host: str = "127.0.0.1") -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.port = port or free_port()
        self.connect = f"{host}:{self.port}"
        where = ["--host", host, "--port", str(self.port)]
        where += ["--data-dir", str(directory / "zookeeper")]
        super().__init__([*PYBROKER, "zookeeper", *where], directory / "zookeeper.log")


@contextlib.contextmanager
def zookeeper_process(directory: Path, port: int | None = None) -> Iterator[str]:
    """A running ZooKeeperProcess, killed at the end; yields its connect string."""
    process = ZooKeeperProcess(directory, port)
    process.start()
    try:
        yield process.connect
    finally:
        process.kill()


@contextlib.contextmanager
def running_broker(
    directory: Path, config: Mapping[str, str] | None = None
) -> Iterator[BrokerProcess]:
    """A ZooKeeper and one broker, both started and both killed at the end."""
    with zookeeper_process(directory) as connect:
        broker = BrokerProcess(directory / "broker", connect, config)
        broker.start()
        try:
            yield broker
        finally:
            broker.kill()


def cpu_seconds(pid: int) -> float:
    """User and system CPU time of a process so far (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
