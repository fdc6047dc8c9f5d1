"""The real ZooKeeper server (its jars are in pyspark's `jars/`) as a test oracle."""

import contextlib
import importlib.util
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from tests.support.patience import Limit
from tests.support.processes import free_port
from tests.support.short_lived_java import JVM_OPTIONS

START_TIMEOUT_S = 120.0
FORMATTER_CLASS = "org.apache.zookeeper.server.SnapshotFormatter"
LOG_TOOL_CLASS = "org.apache.zookeeper.server.persistence.TxnLogToolkit"
SERVER_CLASS = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
WORDS = "ruok,srvr,stat,mntr,conf,isro"


def jars() -> Path | None:
    """The directory with ZooKeeper's jars, None without pyspark or Java."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None or shutil.which("java") is None:
        return None
    directory = Path(spec.origin).parent / "jars"
    return directory if any(directory.glob("zookeeper-3*.jar")) else None


class RealZooKeeper:
    """One server process: alone, or a member of an ensemble (`members`: quorum ports by id)."""

    def __init__(
        self,
        directory: Path,
        *,
        tick_ms: int = 2000,
        container_check_ms: int = 500,
        member_id: int = 0,
        members: Mapping[int, tuple[int, int]] | None = None,
        words: str = WORDS,
        settings: Mapping[str, object] | None = None,
        jvm_options: Sequence[str] = (),
        port: int = 0,
    ) -> None:
        self.port = port or free_port()
        self.jvm_options = jvm_options
        self._directory = directory
        self._container_check_ms = container_check_ms
        self._log = directory / "server.log"
        self._process: subprocess.Popen[bytes] | None = None
        data = self.data = directory / "data"
        data.mkdir(parents=True, exist_ok=True)
        config = (
            f"dataDir={data}\nclientPort={self.port}\nclientPortAddress=127.0.0.1\n"
            f"tickTime={tick_ms}\nmaxClientCnxns=0\nadmin.enableServer=false\n"
            f"4lw.commands.whitelist={words}\n"
        )
        config += "".join(f"{name}={value}\n" for name, value in (settings or {}).items())
        if members:
            config += "initLimit=10\nsyncLimit=5\n"
            for member, (follow, elect) in members.items():
                config += f"server.{member}=127.0.0.1:{follow}:{elect}\n"
            (data / "myid").write_text(str(member_id))
        (directory / "zoo.cfg").write_text(config)

    def launch(self) -> None:
        jar_directory = jars()
        if jar_directory is None:
            pytest.skip("no Java, or no pyspark with ZooKeeper's jars")
        command = [
            "java",
            "-Xmx256m",
            *JVM_OPTIONS,
            "-Dzookeeper.extendedTypesEnabled=true",
            "-Dzookeeper.admin.enableServer=false",
            f"-Dznode.container.checkIntervalMs={self._container_check_ms}",
            "-Dzookeeper.forceSync=no",
            *self.jvm_options,
            "-cp",
            f"{jar_directory}/*",
            SERVER_CLASS,
            str(self._directory / "zoo.cfg"),
        ]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=subprocess.STDOUT, cwd=self._directory
            )

    def start(self) -> None:
        self.launch()
        self.wait_until_ready()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    @property
    def mode(self) -> str:
        """`standalone`, `leader` or `follower`; empty while it does not serve."""
        address = ("127.0.0.1", self.port)
        # A server that is still starting may accept and never answer.
        with contextlib.suppress(OSError), socket.create_connection(address, timeout=1) as sock:
            sock.sendall(b"srvr")
            with sock.makefile("rb") as answer:
                for line in answer.read().decode().splitlines():
                    if line.startswith("Mode: "):
                        return line.removeprefix("Mode: ")
        return ""

    def wait_until_ready(self) -> None:
        assert self._process is not None
        limit = Limit(START_TIMEOUT_S)
        while not limit.is_over:
            assert self._process.poll() is None, self._log.read_text()[-2000:]
            if self.mode:
                return
            time.sleep(0.05)
        raise AssertionError(f"ZooKeeper did not start:\n{self._log.read_text()[-2000:]}")


def ensemble_of(directory: Path, count: int, *, tick_ms: int = 2000) -> list[RealZooKeeper]:
    """The servers of one ensemble, none started yet."""
    members = {number: (free_port(), free_port()) for number in range(1, count + 1)}
    return [
        RealZooKeeper(directory / str(number), tick_ms=tick_ms, member_id=number, members=members)
        for number in members
    ]


def dumped_tree(data: Path, place: Path) -> dict[str, str]:
    """What Apache ZooKeeper's tools print of each node in the files of a server that has ended.

    A server alone reads a copy of the files, those of its log as well, and writes a snapshot of
    them at its start; `place` is an empty directory for it. ZooKeeper's own nodes are left out.
    """
    shutil.copytree(data, place / "data")
    server = RealZooKeeper(place)
    server.start()
    server.kill()
    return dumped_snapshot(max((place / "data/version-2").glob("snapshot.*"), key=zxid_of))


def run_tool(name: str, *arguments: object) -> str:
    """The output of one of Apache ZooKeeper's tools, which must succeed."""
    done = subprocess.run(
        ["java", *JVM_OPTIONS, "-cp", f"{jars()}/*", name, *map(str, arguments)],
        capture_output=True, encoding="utf-8", timeout=START_TIMEOUT_S, check=True,
    )  # fmt: skip
    return done.stdout


def dumped_snapshot(file: Path) -> dict[str, str]:
    """What SnapshotFormatter prints of each node; ZooKeeper's own are left out."""
    nodes, _, _ = run_tool(FORMATTER_CLASS, "-d", file).partition("Session Details")
    _, *found = nodes.split("\n----\n")
    return {
        path: facts
        for path, _, facts in (one.partition("\n") for one in found)
        if path and not path.startswith("/zookeeper")
    }


def zxid_of(file: Path) -> int:
    return int(file.suffix[1:], 16)


@contextlib.contextmanager
def real_zookeeper(
    directory: Path,
    *,
    tick_ms: int = 2000,
    container_check_ms: int = 500,
    words: str = WORDS,
    settings: Mapping[str, object] | None = None,
    jvm_options: Sequence[str] = (),
) -> Iterator[int]:
    """Run a standalone server; yields its port. Skips the test if there is none to run."""
    server = RealZooKeeper(
        directory,
        tick_ms=tick_ms,
        container_check_ms=container_check_ms,
        words=words,
        settings=settings,
        jvm_options=jvm_options,
    )
    try:
        server.start()
        yield server.port
    finally:
        server.kill()
