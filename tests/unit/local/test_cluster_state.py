"""Who holds a data directory: locks, left-over nodes, files of a supervisor that is no more."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pybroker_kafka.broker.resources import machine
from pybroker_kafka.local import cluster_state
from pybroker_kafka.local.cluster_state import NODES_LOCK_FILE, STATE_FILE, ClusterError

WAIT = "print('there', flush=True); import time; time.sleep(600)"
HOLD = f"import fcntl, sys; file = open(sys.argv[1]); fcntl.flock(file, fcntl.LOCK_EX); {WAIT}"
READ = f"import sys; file = open(sys.argv[1]); {WAIT}"


@pytest.fixture
def process(request: pytest.FixtureRequest) -> Callable[[str, Path], subprocess.Popen[bytes]]:
    def start(script: str, path: Path) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", script, str(path)]
        started = subprocess.Popen(command, stdout=subprocess.PIPE)

        def end() -> None:
            started.kill()
            started.communicate()

        request.addfinalizer(end)
        assert started.stdout is not None
        assert started.stdout.readline() == b"there\n"
        return started

    return start


@pytest.mark.skipif(machine.PROC is None, reason="who holds a lock is known from /proc alone")
def test_a_node_that_is_left_over_is_killed_and_nobody_else(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    process: Callable[[str, Path], subprocess.Popen[bytes]],
) -> None:
    monkeypatch.setattr(cluster_state, "ORPHANS_PATIENCE_SECONDS", 0.1)
    lock = tmp_path / NODES_LOCK_FILE
    lock.touch()
    node = process(HOLD, lock)
    reader = process(READ, lock)  # a copy of the directory is being made, say
    told: list[str] = []
    descriptor = cluster_state.claim_nodes(tmp_path, told.append)
    assert node.wait() == -signal.SIGKILL
    assert reader.poll() is None
    assert told == [f"killing process {node.pid}, left over from the last cluster on {tmp_path}"]
    with lock.open() as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(descriptor)


def test_a_directory_is_ours_by_either_lock(tmp_path: Path) -> None:
    (tmp_path / "holiday.jpg").touch()
    with pytest.raises(ClusterError, match="not made by pybroker"):
        cluster_state.claim(tmp_path)
    (tmp_path / NODES_LOCK_FILE).touch()
    os.close(cluster_state.claim(tmp_path))


def test_who_takes_the_lock_removes_what_a_supervisor_has_left(tmp_path: Path) -> None:
    os.close(cluster_state.claim(tmp_path))
    (tmp_path / STATE_FILE).write_text("{}")
    assert not cluster_state.is_claimed(tmp_path)
    descriptor = cluster_state.claim(tmp_path)
    assert not (tmp_path / STATE_FILE).exists()
    assert cluster_state.is_claimed(tmp_path)
    with pytest.raises(ClusterError, match="already running"):
        cluster_state.claim(tmp_path)
    os.close(descriptor)
    assert not cluster_state.is_claimed(tmp_path)
