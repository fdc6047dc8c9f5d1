"""Run all fault cases and random schedules, and print a table of the results.

    python -m tests.faults.run [--schedules 20] [--seed N] [--only NAME ...] [--zookeeper KIND]
                               [--clients pybroker,confluent,kafka-python] [--namespaces]

A failing case is printed in full at once, with its events and the directory of its brokers' logs.
The table comes at the end. The exit status is 1 if a case failed.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.faults.catalogue import CASES
from tests.faults.scenario import OUR_MEMBERS, Case, Outcome, Unavailable, play
from tests.faults.schedules import schedule
from tests.support.ledger import CLIENTS
from tests.support.terminated import clean_up_when_terminated

EMBEDDED = "embedded"
MAX_SEED = 2**32
MIN_WIDTH = 100


def plan(arguments: argparse.Namespace) -> list[tuple[Case, str, int]]:
    """(case, kind of ZooKeeper, seed) in order."""
    chosen = random.Random(arguments.seed)
    runs = [
        (one, kind, chosen.randrange(MAX_SEED))
        for one in CASES.values()
        for kind in one.zookeepers
        if not arguments.only or one.name in arguments.only
        if arguments.zookeeper in (None, kind)
    ]
    if not arguments.only or "schedule" in arguments.only:
        runs += [
            (schedule(number), EMBEDDED, number)
            for number in range(arguments.seed, arguments.seed + arguments.schedules)
        ]
    if arguments.namespaces:
        runs = [
            (replace(one, net=True), kind, seed)
            for one, kind, seed in runs
            if kind in (EMBEDDED, *OUR_MEMBERS)
        ]
    return runs


def run_one(
    one: Case, kind: str, seed: int, clients: Sequence[str]
) -> tuple[Outcome | None, str, Path]:
    """The outcome, or none and the reason why it cannot be run here."""
    directory = Path(tempfile.mkdtemp(prefix=f"faults-{one.name}-"))
    try:
        outcome = play(one, directory, kind, seed, clients)
    except Unavailable as reason:
        shutil.rmtree(directory)
        return None, str(reason), directory
    if not outcome.broken:
        shutil.rmtree(directory)
    return outcome, "", directory


def named_clients(text: str) -> list[str]:
    """Raises ArgumentTypeError."""
    names = text.split(",")
    if unknown := [name for name in names if name not in CLIENTS]:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(CLIENTS)}")
    return names


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.faults.run",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--schedules", type=int, default=20, help="number of random schedules")
    parser.add_argument("--seed", type=int, default=1, help="seed of the first schedule")
    parser.add_argument(
        "--only", nargs="+", help="run only these cases; `schedule` is the random schedules"
    )
    parser.add_argument("--zookeeper", choices=["embedded", "real", "ensemble", "members"])
    parser.add_argument(
        "--clients",
        type=named_clients,
        default=CLIENTS,
        help="clients that produce the load, separated by commas",
    )
    parser.add_argument(
        "--namespaces",
        action="store_true",
        help="run each server in a network namespace, so that cut links lose packets silently",
    )
    arguments = parser.parse_args()
    clean_up_when_terminated()

    console = Console()
    console.width = max(console.width, MIN_WIDTH)
    table = Table(title="Faults", title_justify="left")
    for column in ("case", "ZooKeeper"):
        table.add_column(column, no_wrap=True)
    for column in ("seconds", "acknowledged"):
        table.add_column(column, justify="right")
    table.add_column("verdict")

    started = time.monotonic()
    failures: list[str] = []
    passed = skipped = 0
    for one, kind, seed in plan(arguments):
        console.print(f"{one.name} on {kind} ZooKeeper, seed {seed} ...", highlight=False)
        outcome, reason, directory = run_one(one, kind, seed, arguments.clients)
        if outcome is None:
            skipped += 1
            table.add_row(one.name, kind, "", "", f"[yellow]skipped: {reason}")
            continue
        verdict = "[green]kept" if not outcome.broken else f"[red]{len(outcome.broken)} broken"
        cells = f"{outcome.seconds:.1f}", f"{outcome.acknowledged}"
        table.add_row(one.name, kind, *cells, verdict)
        if outcome.broken:
            failures.append(one.name)
            tell(console, outcome, directory)
        else:
            passed += 1
    console.print(table)
    console.print(
        f"{passed} kept all promises, {len(failures)} failed, {skipped} skipped, "
        f"{time.monotonic() - started:.0f} s, seed {arguments.seed}",
        highlight=False,
    )
    return 1 if failures else 0


def tell(console: Console, outcome: Outcome, directory: Path) -> None:
    console.print(f"\n[red]{outcome.case}[/red] on {outcome.zookeeper} ZooKeeper: {directory}")
    for line in outcome.told():
        console.print("  " + line, markup=False, highlight=False, soft_wrap=True)


if __name__ == "__main__":
    sys.exit(main())
