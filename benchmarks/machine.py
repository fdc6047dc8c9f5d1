"""What processes cost the machine, and what the machine is. Linux only: all of it is from /proc.

RSS counts every page of a process; PSS a page that forked processes share only once over all of
them, which is what a set of processes takes away from the machine.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from pybroker_kafka.compiled import described

ROOT = Path(__file__).resolve().parent.parent
ASK_SECONDS = 20


class Memory(NamedTuple):
    rss_mb: float
    pss_mb: float


def cpu_seconds(pids: Iterable[int]) -> float:
    """User and system CPU time of the processes so far."""
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def memory(pids: Iterable[int]) -> Memory:
    """The memory of all processes together."""
    kilobytes = {"Rss:": 0, "Pss:": 0}
    for pid in pids:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            name, *rest = line.split()
            if name in kilobytes:
                kilobytes[name] += int(rest[0])
    return Memory(kilobytes["Rss:"] * 1024 / 1e6, kilobytes["Pss:"] * 1024 / 1e6)


def describe_machine() -> dict[str, str]:
    """What a reader must know to repeat the run."""
    facts = {
        "processor": _field("/proc/cpuinfo", "model name"),
        "cores": str(len(os.sched_getaffinity(0))),
        "memory": f"{int(_field('/proc/meminfo', 'MemTotal').split()[0]) / 1e6:.0f} GB",
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
        "load average at the start": f"{os.getloadavg()[0]:.2f}",
        "Python": platform.python_version(),
        "trio": metadata.version("trio"),
        "pybroker": f"{_pybroker_version()}, {described()}",
        "client": f"confluent-kafka {metadata.version('confluent-kafka')} (its librdkafka), "
        f"and benchmarks/load.c by {_first_line(['cc', '--version'])}",
    }
    if shutil.which("java"):
        facts["Java"] = _first_line(["java", "-version"])
    return facts


def _pybroker_version() -> str:
    commit = _first_line(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"])
    changed = _first_line(["git", "-C", str(ROOT), "status", "--porcelain", "-uno", "--", "*.py"])
    return f"{commit}, with changes" if changed else commit


def _field(path: str, name: str) -> str:
    for line in Path(path).read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return "0 unknown"


def _first_line(command: Sequence[str]) -> str:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=ASK_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return next(iter((done.stdout + done.stderr).splitlines()), "")
