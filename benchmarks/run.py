"""Benchmarks of our broker and Apache Kafka: `python -m benchmarks.run`, or `make bench`.

    python -m benchmarks.run                                        everything, about 20 minutes
    python -m benchmarks.run --quick                                everything once, about 4 minutes
    python -m benchmarks.run --loads small-produce --brokers pybroker,kafka --rounds 3
    python -m benchmarks.run --continue                             what an earlier run left out
    python -m benchmarks.run --report-only                          only write the page again

A whole run and its continuation write benchmarks/RESULTS.md. A quick or partial run writes to
build/benchmarks, unless `--results` names another file.

The rounds of a load alternate between the brokers. Before its first round a load warms up each
broker until its figure no longer grows. A failing load is noted and the next one runs. Each
measurement has a time limit, and every broker is killed at the end. When `--minutes` are running
out, loads have one round instead of three; when they are over, the remaining loads are noted as not
measured.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import shlex
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from benchmarks import report
from benchmarks.brokers import BROKERS, TITLES, Cluster, tansu_program
from benchmarks.loads import LOADS, bulk, chosen, small_produce
from benchmarks.loads.base import FULL, QUICK, WARM_UP, Bench, Load, Pace
from benchmarks.machine import describe_machine
from benchmarks.native import LeftOut
from benchmarks.results import Cell, Results

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results.json"
SCRATCH = HERE.parent / "build" / "benchmarks" / "results.json"
CELL_SECONDS = 420
# A new cluster does some work of each kind, of this share of a bulk load.
WARM_UP_ROUNDS = 1
WARM_UP_SHARE = 0.3
# Then each load is run until twice in a row it was not better by so much than ever before: a JVM
# compiles late what it has not run yet.
GROWS = 1.05
MOST_WARM_UPS = 8
MINUTES = 24.0

console = Console(highlight=False)


class Overdue(RuntimeError):
    """A measurement took longer than any should."""


@contextlib.contextmanager
def limit(seconds: int) -> Iterator[None]:
    def end(_signal: int, _frame: FrameType | None) -> None:
        raise Overdue(f"it was ended after {seconds} s")

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def warm_up(bench: Bench) -> None:
    """Some work of each kind, so that what is compiled late is compiled."""
    inner = Bench(bench.pace._replace(warm_up=0.1), bench.new_cluster, bench.running)
    for _ in range(WARM_UP_ROUNDS):
        small_produce.produce(inner, 8, 5)
        if bench.cluster.count == 1 and bench.cluster.has_topics:
            bulk.produce_and_consume(inner, "none", bench.pace.records(WARM_UP_SHARE))


def until_it_grows_no_more(load: Load, bench: Bench) -> list[float]:
    """Run the load; its figure of each time."""
    if not load.figures:
        return []
    name, more_is_better = load.figures[0]
    found: list[float] = []
    while len(found) < MOST_WARM_UPS:
        found.append(load.run(bench)[name])
        worth = [value if more_is_better else 1 / max(value, 1e-9) for value in found]
        if len(worth) > 2 and max(worth[-2:]) < GROWS * max(worth[:-2]):
            break
    return found


class Harness:
    """Clusters by broker and size; what was started is gone at the end of the `with` block."""

    def __init__(self, results: Results, pace: Pace, directory: Path) -> None:
        self._results = results
        self._pace = pace
        self._warm_pace = WARM_UP._replace(
            seconds=min(WARM_UP.seconds, pace.seconds),
            bulk_megabytes=min(WARM_UP.bulk_megabytes, pace.bulk_megabytes),
        )
        self._directory = directory
        self._pool: dict[tuple[str, int], Cluster] = {}
        self._count = 0

    def __enter__(self) -> Harness:
        return self

    def __exit__(self, *_: object) -> None:
        self.end_pool()

    def end_pool(self) -> None:
        while self._pool:
            _, cluster = self._pool.popitem()
            cluster.discard()

    def end_other_sizes(self, nodes: int) -> None:
        """Clusters that the next load does not use would only take memory and time."""
        for key in [key for key in self._pool if key[1] != nodes]:
            self._pool.pop(key).discard()

    def measure(self, load: Load, broker: str, round_: int) -> Cell:
        began = time.monotonic()
        cell = Cell(load.name, broker, round_)
        try:
            with limit(CELL_SECONDS):
                cell.figures = self._run(load, broker)
        except Exception as error:  # whatever it is, the other loads still have their turn
            cell.failure = f"{type(error).__name__}: {error}"[:600]
            # Whatever state its cluster is in, the next load gets a new one.
            if (cluster := self._pool.pop((broker, load.nodes), None)) is not None:
                cluster.discard()
        cell.took_seconds = round(time.monotonic() - began, 1)
        return cell

    def _run(self, load: Load, broker: str) -> dict[str, float]:
        with contextlib.ExitStack() as stack:

            def new_cluster(nodes: int) -> Cluster:
                cluster = self._new(broker, nodes)
                stack.callback(cluster.discard)
                return cluster

            bench = Bench(self._pace, new_cluster)
            if load.nodes:
                bench.running = self._pool.get((broker, load.nodes)) or self._warm(
                    broker, load.nodes
                )
                bench.running.check_alive()
                if load.warms_up and load.name not in bench.running.warmed:
                    bench.running.warmed.add(load.name)
                    self._results.warm_ups[f"{load.name} {broker}"] = until_it_grows_no_more(
                        load, Bench(self._warm_pace, self._new_never, bench.running)
                    )
            return load.run(bench)

    def _new(self, broker: str, nodes: int) -> Cluster:
        self._count += 1
        return BROKERS[broker](self._directory / f"{broker}-{nodes}-{self._count}", nodes)

    def _warm(self, broker: str, nodes: int) -> Cluster:
        """A new cluster of the pool, after some work."""
        cluster = self._new(broker, nodes)
        self._pool[broker, nodes] = cluster
        cluster.start()
        warm_up(Bench(self._pace, self._new_never, cluster))
        return cluster

    @staticmethod
    def _new_never(_nodes: int) -> Cluster:
        raise AssertionError("warming up starts no cluster")


def plan(
    loads: Sequence[Load], brokers: Sequence[str], rounds: int
) -> Iterator[tuple[Load, str, int]]:
    """Every measurement in order, each round from broker to broker.

    Loads of one family take their rounds together, so that figures of one are beside those of the
    others in time as well.
    """
    for _, family in itertools.groupby(loads, key=lambda load: (load.family, load.nodes)):
        together = list(family)
        for round_ in range(1, rounds + 1):
            for load in together:
                if round_ > load.most_rounds:
                    continue
                for broker in brokers:
                    if broker in load.brokers and load.nodes <= BROKERS[broker].most_brokers:
                        yield load, broker, round_


class Budget:
    """Whether there is time for a measurement: later rounds leave enough for all first ones."""

    def __init__(self, work: Sequence[tuple[Load, str, int]], seconds: float) -> None:
        self._ends = time.monotonic() + seconds
        earlier = Results.load(RESULTS).cells if RESULTS.exists() else []
        self._took = {(cell.load, cell.broker): cell.took_seconds for cell in earlier}
        for load, broker, _ in work:
            self._took.setdefault((load.name, broker), load.about_seconds)
        self._first = [(load.name, broker) for load, broker, round_ in work if round_ == 1]

    def allows(self, load: Load, broker: str, round_: int) -> bool:
        left = self._ends - time.monotonic()
        if round_ == 1:
            return left > 0
        return left > self._took[load.name, broker] + sum(self._took[key] for key in self._first)

    def note(self, cell: Cell) -> None:
        key = cell.load, cell.broker
        if key in self._first:
            self._first.remove(key)
        else:  # the first round has warmed up, too
            self._took[key] = cell.took_seconds


def available(brokers: Sequence[str], results: Results) -> list[str]:
    """Those of the brokers that this machine can run; says why the others are left out."""
    found = []
    for broker in brokers:
        try:
            with tempfile.TemporaryDirectory() as place:
                if broker == "tansu":
                    tansu_program()
                BROKERS[broker](Path(place))
        except LeftOut as reason:
            results.left_out[broker] = str(reason)
            console.print(f"[yellow]{TITLES[broker]} is left out:[/] {reason}")
        else:
            results.left_out.pop(broker, None)
            found.append(broker)
    return found


def run_all(
    results: Results, work: Sequence[tuple[Load, str, int]], pace: Pace, directory: Path,
    minutes: float = MINUTES,
) -> None:  # fmt: skip
    columns = (
        SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
        TimeElapsedColumn(), TimeRemainingColumn(),
    )  # fmt: skip
    with Harness(results, pace, directory) as harness, Progress(*columns, console=console) as bar:
        task = bar.add_task("", total=len(work))
        budget = Budget(work, minutes * 60)
        for load, broker, round_ in work:
            bar.update(task, description=f"{load.name}, {broker}, round {round_}")
            if budget.allows(load, broker, round_):
                harness.end_other_sizes(load.nodes)
                cell = harness.measure(load, broker, round_)
                budget.note(cell)
            elif round_ == 1:
                cell = Cell(load.name, broker, round_, failure="the minutes of the run were over")
            else:
                bar.advance(task)
                continue
            results.add(cell)
            bar.console.print(_line(cell), soft_wrap=True)
            bar.advance(task)


def _line(cell: Cell) -> str:
    head = f"{cell.load:16} {cell.broker:14} {cell.round}  "
    if cell.failure:
        return f"{head}[red]FAILED[/] {cell.failure}"
    return head + ", ".join(f"{value:,.3g} {name}" for name, value in cell.figures.items())


def parse(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--loads", default="", help=f"loads or families, some of {', '.join(LOADS)}"
    )
    parser.add_argument(
        "--brokers", default=",".join(BROKERS), help=f"some of {', '.join(BROKERS)}"
    )
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seconds", type=float, help="seconds of a small load")
    parser.add_argument("--megabytes", type=int, help="megabytes of a bulk load")
    parser.add_argument(
        "--minutes", type=float, default=MINUTES, help=f"minutes for the whole run ({MINUTES:g})"
    )
    parser.add_argument("--quick", action="store_true", help="run one short round of each load")
    parser.add_argument("--continue", dest="continues", action="store_true")
    parser.add_argument("--report-only", action="store_true")
    parser.add_argument("--results", type=Path, metavar="FILE", help="file of the figures")
    parser.add_argument("--directory", type=Path, help="directory of the brokers' data")
    arguments = parser.parse_args(words)
    if arguments.results is None:
        partial = arguments.loads or arguments.quick or arguments.brokers != ",".join(BROKERS)
        adds = arguments.continues or arguments.report_only
        arguments.results = SCRATCH if partial and not adds else RESULTS
    arguments.brokers = [word for word in arguments.brokers.split(",") if word]
    if unknown := [word for word in arguments.brokers if word not in BROKERS]:
        parser.error(f"there is no broker {unknown[0]}; there are {', '.join(BROKERS)}")
    try:
        arguments.loads = chosen([word for word in arguments.loads.split(",") if word])
    except KeyError as word:
        parser.error(f"there is no load {word}; there are {', '.join(LOADS)}")
    return arguments


def pace_of(arguments: argparse.Namespace) -> Pace:
    pace = QUICK if arguments.quick else FULL
    return pace._replace(
        seconds=arguments.seconds or pace.seconds,
        bulk_megabytes=arguments.megabytes or pace.bulk_megabytes,
        rounds=arguments.rounds or pace.rounds,
    )


def opened(arguments: argparse.Namespace, words: Sequence[str]) -> Results:
    """The stored results to continue, or new ones."""
    command = shlex.join(["python", "-m", "benchmarks.run", *words])
    if arguments.continues and arguments.results.exists():
        results = Results.load(arguments.results)
    else:
        results = Results(arguments.results, date=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC")
        results.machine = describe_machine()
    results.commands.append(command)
    return results


def on_signal(action: Callable[[], None]) -> None:
    def end(_signal: int, _frame: FrameType | None) -> None:
        action()

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGHUP, end)


def main(words: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if words is None else words)
    arguments = parse(words)
    if arguments.report_only:
        report.write(Results.load(arguments.results))
        return 0
    on_signal(lambda: sys.exit(143))
    results = opened(arguments, words)
    pace = pace_of(arguments)
    brokers = available(arguments.brokers, results)
    work = [
        (load, broker, round_)
        for load, broker, round_ in plan(arguments.loads, brokers, pace.rounds)
        if not (arguments.continues and results.has(load.name, broker, round_))
    ]
    try:
        with tempfile.TemporaryDirectory(
            prefix="pybroker-bench-", dir=arguments.directory, ignore_cleanup_errors=True
        ) as place:
            run_all(results, work, pace, Path(place), arguments.minutes)
    except KeyboardInterrupt:
        console.print("stopped; go on with --continue")
        return 130
    page = report.write(results)
    for line in report.both_ways(results):
        console.print(line, soft_wrap=True)
    console.print(f"{page} is written; {len(results.failures())} measurements failed")
    os.sync()
    return 1 if results.failures() else 0


if __name__ == "__main__":
    sys.exit(main())
