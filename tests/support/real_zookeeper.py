"""The real ZooKeeper server (its jars are in pyspark's `jars/`) as a test oracle."""

import contextlib
import importlib.util
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

START_TIMEOUT_S = 30.0
SERVER_CLASS = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
WORDS = "ruok,srvr,stat,mntr,conf,isro"


def jars() -> Path | None:
    """The directory with ZooKeeper's jars, None without pyspark or Java."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None or shutil.which("java") is None:
        return None
    directory = Path(spec.origin).parent / "jars"
    return directory if any(directory.glob("zookeeper-3*.jar")) else None


@contextlib.contextmanager
def real_zookeeper(
    directory: Path, *, tick_ms: int = 2000, container_check_ms: int = 500
) -> Iterator[int]:
    """Run a standalone server; yields its port. Skips the test if there is none to run."""
    jar_directory = jars()
    if jar_directory is None:
        pytest.skip("no Java, or no pyspark with ZooKeeper's jars")
    port = _free_port()
    directory.mkdir(parents=True, exist_ok=True)
    config = directory / "zoo.cfg"
    config.write_text(
        f"dataDir={directory / 'data'}\nclientPort={port}\nclientPortAddress=127.0.0.1\n"
        f"tickTime={tick_ms}\nmaxClientCnxns=0\nadmin.enableServer=false\n"
        f"4lw.commands.whitelist={WORDS}\n"
    )
    command = [
        "java",
        "-Xmx256m",
        "-Dzookeeper.extendedTypesEnabled=true",
        "-Dzookeeper.admin.enableServer=false",
        f"-Dznode.container.checkIntervalMs={container_check_ms}",
        "-Dzookeeper.forceSync=no",
        "-cp",
        f"{jar_directory}/*",
        SERVER_CLASS,
        str(config),
    ]
    with (directory / "server.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, cwd=directory)
    try:
        _wait_until_ready(port, process, directory / "server.log")
        yield port
    finally:
        process.kill()
        process.wait()


def _wait_until_ready(port: int, process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text()[-2000:]
        address = ("127.0.0.1", port)
        # A server that is still starting may accept and never answer.
        with contextlib.suppress(OSError), socket.create_connection(address, timeout=1) as sock:
            sock.sendall(b"srvr")
            with sock.makefile("rb") as answer:
                if b"Mode: standalone" in answer.read():
                    return
        time.sleep(0.05)
    raise AssertionError(f"ZooKeeper did not start:\n{log.read_text()[-2000:]}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
