"""The processes of a local cluster: CPU time, memory and disk space of each, roles of ZooKeepers.

Values that only /proc has are None elsewhere than on Linux. Disk is counted seldom, since all files
of a directory are looked at.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import Any, Final, NamedTuple

from ..broker.resources import machine
from ..local import cluster_state
from ..local.cluster_state import ClusterError, NodeState
from .ensemble import member_row

DISK_SECONDS: Final = 15.0
BLOCK_BYTES: Final = 512  # of st_blocks, on every file system
_AFTER_NAME: Final = ") "
# Fields of /proc/PID/stat behind the name: user and system time in ticks, start in ticks.
_USER, _SYSTEM, _START = 11, 12, 19


class Taken(NamedTuple):
    """The CPU time of a process so far; `started` in seconds since the machine's start."""

    cpu_seconds: float
    started: float


def taken_by(pid: int) -> Taken | None:
    """The resources of a process; None if it has ended, or the system does not show them."""
    if machine.PROC is None:
        return None
    try:
        text = (machine.PROC / str(pid) / "stat").read_text()
    except OSError:
        return None
    fields = text.rpartition(_AFTER_NAME)[2].split()
    ticks = os.sysconf("SC_CLK_TCK")
    cpu = (int(fields[_USER]) + int(fields[_SYSTEM])) / ticks
    return Taken(cpu, int(fields[_START]) / ticks)


class Processes:
    """The processes of the cluster on `data_dir`. `look` blocks: call it in a thread, one at a
    time.
    """

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self._cpu: dict[int, tuple[float, float]] = {}  # by pid: when, and seconds by then
        self._disk: dict[str, tuple[float, int]] = {}  # by directory: when, and bytes

    def look(self) -> list[dict[str, Any]]:
        """A row a node; none if the cluster is gone."""
        try:
            state = cluster_state.load(self._data_dir)
        except ClusterError:
            return []
        rows = [self._row(node) for node in state.nodes]
        self._cpu = {node.pid: self._cpu[node.pid] for node in state.nodes if node.pid in self._cpu}
        return rows

    def _row(self, node: NodeState) -> dict[str, Any]:
        taken = taken_by(node.pid)
        return {
            "name": node.name,
            "id": node.node_id if node.kind == "broker" else None,
            "kind": node.kind,
            "status": str(node.status),
            "pid": node.pid,
            "host": node.host,
            "port": node.port,
            "metrics_port": node.metrics_port,
            "log": node.log_file,
            "memory": machine.resident_bytes(node.pid),
            "cpu": self._cpu_share(node.pid, taken),
            "disk": self._bytes_in(node.directory),
            "zookeeper": member_row(node),
            "uptime": None if taken is None else time.clock_gettime(_BOOT) - taken.started,
        }

    def _cpu_share(self, pid: int, taken: Taken | None) -> float | None:
        """The share of one core since the last look."""
        if taken is None:
            return None
        now = time.monotonic()
        at, before = self._cpu.get(pid, (now, taken.cpu_seconds))
        self._cpu[pid] = (now, taken.cpu_seconds)
        return (taken.cpu_seconds - before) / (now - at) if now > at else 0.0

    def _bytes_in(self, directory: str) -> int:
        at, size = self._disk.get(directory, (-DISK_SECONDS, 0))
        if time.monotonic() - at >= DISK_SECONDS:
            size = _held_by(directory)
            self._disk[directory] = (time.monotonic(), size)
        return size


def _held_by(directory: str) -> int:
    """Bytes on the disk: index files are longer than their content."""
    total = 0
    for parent, _, names in os.walk(directory):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.stat(os.path.join(parent, name)).st_blocks * BLOCK_BYTES
    return total


_BOOT: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
