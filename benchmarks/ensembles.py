"""Three ZooKeepers of ours beside three of Apache ZooKeeper: `python -m benchmarks.ensembles`.

    python -m benchmarks.ensembles [--rounds 3] [--creates 2000] [--kills 5] [--tick-ms 500]

In turns, each with an empty directory and fsync: memory (PSS) without nodes and with those that
were created, creates a second of one client with many under way, and the time from a SIGKILL of the
leader to the first write of a client of the other two. Members are processes of their own, with
pages that no warm fork server shares. What the last column compares is the median of ours to the
median of theirs.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss, OperationTimeoutError, SessionExpiredError
from rich.console import Console
from rich.table import Table

from benchmarks.machine import cpu_seconds, describe_machine, memory
from tests.support.ensembles import Ensemble, OurMember, ensemble

KINDS = {"ours": "ours", "real": "Apache ZooKeeper"}
MEMBERS = 3
NODE_BYTES = 100
UNDER_WAY = 100
SETTLE_SECONDS = 3.0
CALL_SECONDS = 60.0
SYNC = {"forceSync": "yes"}  # the JVM's members of tests do without
LOST = (ConnectionLoss, OperationTimeoutError, SessionExpiredError)

Figures = dict[str, list[float]]


def pids(running: Ensemble) -> list[int]:
    return [member.pid for member in running.members.values()]


def create_nodes(client: KazooClient, count: int) -> float:
    """The number of creates a second."""
    client.create("/many")
    began = time.monotonic()
    for first in range(0, count, UNDER_WAY):
        names = range(first, min(first + UNDER_WAY, count))
        pending = [client.create_async(f"/many/{name}", bytes(NODE_BYTES)) for name in names]
        for answer in pending:
            answer.get(timeout=CALL_SECONDS)
    return count / (time.monotonic() - began)


def seconds_without_leader(running: Ensemble, number: int) -> float:
    """From the SIGKILL of the leader to the first write, by a client that lost no connection."""
    leader = running.await_leader()
    other = next(member for member in running.members if member != leader)
    with running.client(other) as client:
        began = time.monotonic()
        running.kill(leader)
        while True:
            try:
                client.ensure_path(f"/kill-{number}")
                break
            except LOST:
                continue
        took = time.monotonic() - began
    running.launch(leader)
    running.await_leader()
    return took


def play(kind: str, options: argparse.Namespace, figures: Figures) -> None:
    with tempfile.TemporaryDirectory() as directory:
        kinds = [kind] * MEMBERS
        settings = SYNC if kind == "real" else {}
        with ensemble(
            Path(directory), kinds, tick_ms=options.tick_ms, settings=settings
        ) as running:
            for member in running.members.values():
                if isinstance(member, OurMember):
                    member.environment = {"PYTHONHASHSEED": "random"}  # so that it is not forked
            running.launch()
            running.await_leader()
            time.sleep(SETTLE_SECONDS)
            figures["memory idle, MB"].append(memory(pids(running)).pss_mb)
            with running.client(timeout=CALL_SECONDS) as client:
                before = cpu_seconds(pids(running))
                figures["creates/s"].append(create_nodes(client, options.creates))
                spent = cpu_seconds(pids(running)) - before
                figures["CPU ms a create"].append(1000 * spent / options.creates)
            time.sleep(SETTLE_SECONDS)
            figures["memory with nodes, MB"].append(memory(pids(running)).pss_mb)
            for number in range(options.kills):
                took = seconds_without_leader(running, number)
                figures["ms from SIGKILL to a write"].append(1000 * took)


def report(figures: dict[str, Figures]) -> None:
    table = Table("", *KINDS.values(), "ours / theirs")
    for name, ours in figures["ours"].items():
        theirs = figures["real"][name]
        told = [
            f"{median(some):.4g} ({min(some):.4g} .. {max(some):.4g})" for some in (ours, theirs)
        ]
        table.add_row(name, *told, f"{median(ours) / median(theirs):.3f}")
    Console(width=120).print(table)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--creates", type=int, default=2_000)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--tick-ms", type=int, default=500)
    options = parser.parse_args(arguments)
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)  # of connections that a kill breaks
    figures: dict[str, Figures] = {kind: defaultdict(list) for kind in KINDS}
    for name, value in describe_machine().items():
        print(f"{name}: {value}")
    for _ in range(options.rounds):
        for kind in KINDS:
            play(kind, options, figures[kind])
    report(figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
