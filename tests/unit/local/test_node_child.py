"""A node as its supervisor knows it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pybroker_kafka.local.cluster_state import NodeState
from pybroker_kafka.local.node_child import NodeChild
from tests.support.patience import fair

# Two threads that are never out of work.
BUSY = """
import threading
def count():
    while True:
        pass
threading.Thread(target=count).start()
print("ready", flush=True)
count()
"""


def child_of(pid: int) -> NodeChild:
    return NodeChild(NodeState("broker", 1, pid, "127.0.0.1", 1, "directory", "log"))


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="it does not tell of threads")
def test_a_paused_node_stands_still_when_that_is_told() -> None:
    with subprocess.Popen([sys.executable, "-c", BUSY], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            child = child_of(process.pid)
            for _ in range(20):
                child.pause()
                tasks = Path(f"/proc/{process.pid}/task").glob("*/stat")
                assert {task.read_text().rpartition(")")[2].split()[0] for task in tasks} == {"T"}
                os.kill(process.pid, signal.SIGCONT)
                time.sleep(0.01)
        finally:
            process.kill()


def test_a_node_that_has_ended_is_not_waited_for() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        child = child_of(process.pid)
        began = fair.now()
        child.pause()
        assert fair.now() - began < 5
