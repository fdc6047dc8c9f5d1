"""The cost of lone records by placement on the processors: `python -m benchmarks.placement`.

    python -m benchmarks.placement                 24 readings of each broker, thrice, 6 minutes
    python -m benchmarks.placement --readings 60

The load `lone-records` read again and again from pybroker and Apache Kafka, in turn, both up: first
where the scheduler puts them, then with both on one processor, then with the broker on one and the
client on another. Most of what the broker does there is `sendfile`, and most of what that costs is
to wake the client: between two processors of a virtual machine that takes several times the CPU.
So the first figures show the placement by the scheduler; the other two show the brokers' own cost.

Prints for each the broker's and the client's CPU seconds a GB, their sum, and MB/s: medians, of the
broker's cost the quartiles, too. The first third of the readings warms up and does not count. Needs
two processors and `taskset`.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from benchmarks.brokers import BROKERS, Cluster
from benchmarks.frames import RECORD_BYTES
from benchmarks.loads.base import FULL, BrokerCpu
from benchmarks.loads.bulk import consume
from benchmarks.loads.lone_records import PARTITIONS, SHARE, fill

KINDS = ("pybroker", "kafka")
READINGS = 24
WARM_UP = 3  # a reading of so many


class Reading(NamedTuple):
    broker: float  # CPU seconds a GB
    client: float
    rate: float  # MB/s


class Filled(NamedTuple):
    cluster: Cluster
    topic: str
    records: int


def filled(cluster: Cluster) -> Filled:
    """A started cluster, and a topic of lone records in it."""
    cluster.start()
    return Filled(cluster, *fill(cluster, FULL.records(SHARE)))


def read(where: Filled) -> Reading:
    cpu = BrokerCpu(where.cluster)
    moved = consume(where.cluster, where.topic, where.records, PARTITIONS, RECORD_BYTES)
    return Reading(moved.cost(cpu.spent()), moved.cost(moved.client_cpu), moved.rate)


def pin(pids: list[int], processors: list[int]) -> None:
    """Each thread of these processes to these processors."""
    allowed = ",".join(map(str, processors))
    for pid in pids:
        subprocess.run(
            ["taskset", "-apc", allowed, str(pid)], stdout=subprocess.DEVNULL, check=True
        )


def measured(brokers: Mapping[str, Filled], readings: int) -> dict[str, list[Reading]]:
    found: dict[str, list[Reading]] = {kind: [] for kind in brokers}
    for _ in range(readings):
        for kind, where in brokers.items():
            found[kind].append(read(where))
    return {kind: all_[readings // WARM_UP :] for kind, all_ in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--readings", type=int, default=READINGS, help=f"of each; {READINGS}")
    readings = max(2 * WARM_UP, parser.parse_args().readings)
    console = Console()
    processors = sorted(os.sched_getaffinity(0))
    if len(processors) < 2:
        raise SystemExit("needs two processors")
    first, second = processors[:2]
    table = Table("broker and client", "", "broker CPU s/GB", "client", "both", "MB/s")
    with ExitStack() as stack:
        brokers = {}
        for kind in KINDS:
            place = stack.enter_context(tempfile.TemporaryDirectory(prefix="pybroker-placement-"))
            cluster = BROKERS[kind](Path(place) / "cluster", 1)
            stack.callback(cluster.kill)
            brokers[kind] = filled(cluster)
        for name, ours, theirs in (
            ("as the scheduler puts them", processors, processors),
            ("on one processor", [first], [first]),
            ("on a processor each", [first], [second]),
        ):
            with console.status(f"{readings} readings of each, {name}"):
                for where in brokers.values():
                    pin(where.cluster.broker_pids, ours)
                pin([os.getpid()], theirs)
                for kind, found in measured(brokers, readings).items():
                    low, middle, high = statistics.quantiles([r.broker for r in found], n=4)
                    client = statistics.median(r.client for r in found)
                    both = statistics.median(r.broker + r.client for r in found)
                    rate = statistics.median(r.rate for r in found)
                    table.add_row(
                        name, kind, f"{middle:.2f} ({low:.2f} to {high:.2f})",
                        f"{client:.2f}", f"{both:.2f}", f"{rate:.0f}",
                    )  # fmt: skip
    console.print(table)


if __name__ == "__main__":
    main()
