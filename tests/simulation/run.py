"""`python -m tests.simulation.run --seeds 10000`, or `--seed N` to replay one with its trace.

Seeds run in one process per core. Each failing seed is printed at once. At the end a table shows
the runs and the failures, with the command that replays the first failure. `--planted` runs the
planted faults instead, to check that the simulation finds them. `--transactions` simulates a
cluster with transactions, `--transactions-2` one with transactions of version 2, `--client` one
with the real client of `pybroker_kafka.client`, `--client-2` the same with both and with queues,
`--queues` that with members of a queue in each seed, `--groups` one
with a group of the consumer protocol.
"""

import argparse
import gc
import logging
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from typing import NamedTuple, Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from pybroker_kafka.compiled import REQUEST_PATH, is_compiled
from tests.simulation import (
    planted,
    planted_client,
    planted_client_2,
    planted_groups,
    planted_queues,
    planted_transactions,
    planted_transactions_2,
)
from tests.simulation.client_cluster import simulate_client, simulate_client_2, simulate_queues
from tests.simulation.cluster import Result, simulate
from tests.simulation.groups import simulate_groups
from tests.simulation.transactions import simulate_transactions, simulate_transactions_2

TRACE_TAIL = 150
CHUNK = 4
MAX_SHOWN = 20
# Without a terminal for the progress bar: a line for every so many seeds.
LINE_SEEDS = 500

console = Console()


class Faults(Protocol):
    """A module of planted faults."""

    PLANTED: dict[str, Callable[[], AbstractContextManager[object]]]

    def find(self, name: str, seeds: range) -> Result | None: ...


class Kind(NamedTuple):
    """Of clusters: how it is asked for, how a seed of it runs, and what is planted there."""

    option: str
    play: Callable[[int], Result]
    faults: Faults


PLAIN = Kind("", simulate, planted)
TRANSACTIONS = Kind("--transactions", simulate_transactions, planted_transactions)
TRANSACTIONS_2 = Kind("--transactions-2", simulate_transactions_2, planted_transactions_2)
CLIENT = Kind("--client", simulate_client, planted_client)
CLIENT_2 = Kind("--client-2", simulate_client_2, planted_client_2)
QUEUES = Kind("--queues", simulate_queues, planted_queues)
GROUPS = Kind("--groups", simulate_groups, planted_groups)
KINDS = (PLAIN, TRANSACTIONS, TRANSACTIONS_2, CLIENT, CLIENT_2, QUEUES, GROUPS)


def replay(seed: int, lines: int, fault: str | None, kind: Kind) -> int:
    if fault is None:
        result = kind.play(seed)
    else:
        if fault not in kind.faults.PLANTED:
            kind = next(kind for kind in KINDS if fault in kind.faults.PLANTED)
        with kind.faults.PLANTED[fault]():
            result = kind.play(seed)
    for line in result.trace[-lines:]:
        print(line)
    outcome = result.error or "all invariants held"
    print(f"seed {seed} ({result.settings}): {outcome}")
    print(
        f"{result.steps} steps, {result.virtual_ms / 1000:.1f} s of virtual time, "
        f"{result.batches} acknowledged batches, digest {result.digest}"
    )
    return 1 if result.error else 0


def run_seeds(seeds: range, processes: int, play: Callable[[int], Result]) -> Iterator[Result]:
    """Results in the order in which they come; a crash of the simulation itself is one too."""
    if processes == 1:
        yield from map(partial(guarded, play), seeds)
        return
    with multiprocessing.Pool(processes, _prepare) as pool:
        yield from pool.imap_unordered(partial(guarded, play), seeds, chunksize=CHUNK)


def guarded(play: Callable[[int], Result], seed: int) -> Result:
    """Any exception is a finding: the machines raise nothing that is not caught in its place."""
    try:
        return play(seed)
    except Exception as error:
        return Result(seed, "", 0, 0, 0, "", f"{type(error).__name__}: {error}")


def _prepare() -> None:
    logging.disable(logging.CRITICAL)
    gc.disable()  # each run collects the garbage of the one before (`virtual_trio.simulated`)


def hunt(first: int, count: int, processes: int, kind: Kind) -> int:
    started_at = time.perf_counter()
    failed: list[Result] = []
    done = steps = batches = 0
    columns = (
        TextColumn("seeds"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[found]}"),
        TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task("seeds", total=count, found="0 failed")
        for result in run_seeds(range(first, first + count), processes, kind.play):
            done += 1
            steps += result.steps
            batches += result.batches
            if result.error is not None:
                failed.append(result)
                if len(failed) <= MAX_SHOWN:
                    progress.console.print(f"[red]seed {result.seed}[/red]: {result.error}")
            progress.update(bar, advance=1, found=f"{len(failed)} failed")
            if done % LINE_SEEDS == 0 and not console.is_terminal:
                left = (time.perf_counter() - started_at) / done * (count - done)
                print(f"{done} of {count} seeds, {len(failed)} failed, {left / 60:.0f} min left",
                      flush=True)  # fmt: skip
    seconds = time.perf_counter() - started_at
    table = Table("seeds", "failed", "seeds/s", "steps", "acknowledged batches", "seconds")
    table.add_row(
        str(done), str(len(failed)), f"{done / seconds:.1f}", str(steps), str(batches),
        f"{seconds:.0f}",
    )  # fmt: skip
    console.print(table)
    if failed:
        seed = min(result.seed for result in failed)
        console.print(f"replay: python -m tests.simulation.run {kind.option} --seed {seed}")
    return 1 if failed else 0


def hunt_planted(count: int, faults: Faults) -> int:
    table = Table("planted fault", "found at seed", "by")
    missed = 0
    for name in faults.PLANTED:
        result = faults.find(name, range(count))
        missed += result is None
        found = "-" if result is None else str(result.seed)
        by = f"not within {count} seeds" if result is None else str(result.error)[:100]
        table.add_row(name, found, by)
        console.print(f"{name}: {found}")
    console.print(table)
    return 1 if missed else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, help="replay this seed and print its trace")
    parser.add_argument("--seeds", type=int, default=200, help="how many seeds to run")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--lines", type=int, default=TRACE_TAIL, help="lines of the trace to print")
    parser.add_argument(
        "--planted", action="store_true", help="check that the planted faults are found"
    )
    faults = sorted({name for kind in KINDS for name in kind.faults.PLANTED})
    parser.add_argument("--with-fault", choices=faults, help="with --seed: plant this fault")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--transactions", action="store_true", help="simulate transactions")
    which.add_argument(
        "--transactions-2", action="store_true", help="simulate transactions of version 2"
    )
    which.add_argument(
        "--client", action="store_true", help="simulate clients of pybroker_kafka.client"
    )
    which.add_argument(
        "--client-2", action="store_true", help="clients, queues, and transactions of version 2"
    )
    which.add_argument(
        "--queues", action="store_true", help="as --client-2, with members of a queue in each seed"
    )
    which.add_argument(
        "--groups", action="store_true", help="simulate a group of the consumer protocol"
    )
    options = parser.parse_args()
    if (options.planted or options.with_fault) and is_compiled(REQUEST_PATH):
        parser.error("faults are planted in sources of the request path: PYBROKER_COMPILED=loops")
    _prepare()
    (kind,) = [
        kind
        for kind in KINDS
        if kind.option and getattr(options, kind.option[2:].replace("-", "_"))
    ] or [PLAIN]
    if options.seed is not None:
        return replay(options.seed, options.lines, options.with_fault, kind)
    if options.planted:
        return hunt_planted(options.seeds, kind.faults)
    return hunt(options.first, options.seeds, options.processes, kind)


if __name__ == "__main__":
    sys.exit(main())
