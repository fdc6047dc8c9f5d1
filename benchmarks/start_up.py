"""From the command to a cluster that is ready: `python -m benchmarks.start_up`.

Starts `pybroker start` with one broker and with three, over the embedded ZooKeeper, several times;
reports wall seconds and the CPU seconds of all processes up to then, and the idle cluster's memory
and CPU. Ready is when the cluster's state file is there: a produce would succeed from then on. The
best of the rounds is what the command needs; the rest is the machine's other work.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from benchmarks.machine import memory_mb, total_cpu_seconds
from broker import cluster_state
from tests.support.processes import PYBROKER, ROOT

READY_WAIT_SECONDS = 60.0
POLL_SECONDS = 0.005


class StartUp(NamedTuple):
    wall_seconds: float
    cpu_seconds: float
    memory_mb: float
    idle_cpu_percent: float


def start_once(brokers: int, idle_seconds: float) -> StartUp:
    with tempfile.TemporaryDirectory(prefix="pybroker-start-") as name:
        directory = Path(name) / "cluster"
        command = [*PYBROKER, "start", "--brokers", str(brokers), "--port", "0"]
        command += ["--zookeeper-port", "0", "--data-dir", str(directory)]
        began = time.monotonic()
        supervisor = subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            while not (directory / cluster_state.STATE_FILE).exists():
                if supervisor.poll() is not None or time.monotonic() > began + READY_WAIT_SECONDS:
                    raise AssertionError("the cluster did not start")
                time.sleep(POLL_SECONDS)
            wall = time.monotonic() - began
            pids = [supervisor.pid, *(node.pid for node in cluster_state.load(directory).nodes)]
            cpu = total_cpu_seconds(pids)
            time.sleep(1.0)  # what still follows on the start is not idle
            before = total_cpu_seconds(pids)
            time.sleep(idle_seconds)
            idle = (total_cpu_seconds(pids) - before) / idle_seconds * 100
            return StartUp(wall, cpu, memory_mb(pids), idle)
        finally:
            supervisor.send_signal(signal.SIGTERM)
            supervisor.wait()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--idle-seconds", type=float, default=5.0)
    arguments = parser.parse_args()
    table = Table("brokers", "wall s", "CPU s", "memory MB", "idle CPU %", title="best (median)")
    for brokers in (1, 3):
        rounds = [start_once(brokers, arguments.idle_seconds) for _ in range(arguments.rounds)]
        columns = zip(*rounds, strict=True)
        table.add_row(str(brokers), *(f"{min(each):.2f} ({median(each):.2f})" for each in columns))
    Console(highlight=False).print(table)


if __name__ == "__main__":
    main()
