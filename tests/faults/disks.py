"""Disks that are full or broken: the node whose disk it is leaves, and comes back mended."""

from __future__ import annotations

import errno
import functools
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.faults.scenario import Scenario, Unavailable, case
from tests.support.cluster import Cluster
from tests.support.sick_disk import SickDisk, why_not

SICK_NODE = 3
DISK_BYTES = 3 << 20
BALLAST_STEP_BYTES = 1 << 16


def on_a_small_disk(cluster: Cluster) -> None:
    """Its log directory is a file system of its own, which is small."""
    if os.geteuid() != 0:
        raise Unavailable("mounting a small file system needs root")
    directory = cluster.nodes[SICK_NODE].log_dir
    directory.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(directory)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unavailable(f"no mount here: {done.stderr.strip()}")
    cluster.at_close(lambda: subprocess.run(["umount", "-l", str(directory)], check=False))


@case(prepare=on_a_small_disk, config={"log.index.size.max.bytes": "65536"})
def disk_full(scenario: Scenario) -> None:
    """Its only log directory is offline: it ends itself, and starts again when there is room."""
    cluster = scenario.cluster
    ballast = cluster.nodes[SICK_NODE].log_dir / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(BALLAST_STEP_BYTES))
        except OSError:
            pass
    cluster.tell("disk full")
    leaves_and_comes_back(scenario, ballast.unlink)


@functools.cache
def breakable_disk(directory: Path) -> SickDisk:
    return SickDisk(directory / "sick-disk")


def on_a_breakable_disk(cluster: Cluster) -> None:
    if reason := why_not():
        raise Unavailable(reason)
    breakable_disk(cluster.directory).ail(cluster.nodes[SICK_NODE])


@case(quick=True, prepare=on_a_breakable_disk)
def disk_breaks(scenario: Scenario) -> None:
    """Every write and read of a log is EIO from now on."""
    disk = breakable_disk(scenario.cluster.directory)
    logs = scenario.cluster.nodes[SICK_NODE].log_dir
    disk.says(*(f"{what} {errno.EIO} {logs}/*" for what in ("open", "read", "write", "sync")))
    scenario.cluster.tell("disk broken")
    leaves_and_comes_back(scenario, disk.heal)


def leaves_and_comes_back(scenario: Scenario, mend: Callable[[], object]) -> None:
    cluster = scenario.cluster
    cluster.wait_for(lambda: not cluster.nodes[SICK_NODE].is_running, "it ends itself")
    scenario.moved_from(SICK_NODE)
    scenario.make_progress()
    mend()
    cluster.start(SICK_NODE)
    scenario.in_sync()
    scenario.make_progress()
