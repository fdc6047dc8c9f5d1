"""Where the broker's time goes under a load: `python -m benchmarks.profile small-64x5`.

    python -m benchmarks.profile LOAD...          a load, or a family of loads (`benchmarks.run -h`)
    python -m benchmarks.profile restart-5000     a start, with all processes of the last one

py-spy samples a broker, started as users start it, from outside while a load of the benchmarks
runs. The program prints the most expensive functions and writes the flame graph (SVG, for a
browser) and the stacks to build/profiles. Time in which the broker waits is not included.

For loads that start their own cluster, py-spy follows the command and all its processes. It misses
the first tenth of a second, until it finds them.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.brokers import BROKERS, Cluster, PyBroker
from benchmarks.flame import costs, flame_graph, read_stacks
from benchmarks.loads import chosen
from benchmarks.loads.base import FULL, Bench, Load
from benchmarks.machine import ROOT
from benchmarks.run import warm_up

SAMPLES_A_SECOND = 200
LONGEST_SECONDS = 600
END_SECONDS = 30
SHOWN = 25
# Where threads wait; py-spy takes some of them for work.
WAITS = ("Condition.wait (", "EpollSelector.select (", "WorkerThread._work (")

console = Console(highlight=False)


class Sampler:
    """py-spy beside some processes, until `stop`."""

    def __init__(self, program: str, directory: Path) -> None:
        self._program = program
        self._directory = directory
        self._running: list[tuple[subprocess.Popen[bytes], Path]] = []

    def attach(self, pids: Sequence[int], *, with_children: bool) -> None:
        for pid in pids:
            raw = self._directory / f"{pid}.stacks"
            command = [self._program, "record", "--pid", str(pid), "--format", "raw"]
            command += ["--rate", str(SAMPLES_A_SECOND), "--duration", str(LONGEST_SECONDS)]
            command += ["--output", str(raw), *(["--subprocesses"] if with_children else [])]
            process = subprocess.Popen(
                command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            self._running.append((process, raw))

    def stop(self) -> Counter[tuple[str, ...]]:
        """The samples since the last start of a process."""
        stacks: Counter[tuple[str, ...]] = Counter()
        for process, raw in self._running:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
            if raw.exists():
                found = read_stacks(raw.read_text().splitlines())
                stacks += Counter(
                    {s: count for s, count in found.items() if not s[-1].startswith(WAITS)}
                )
        self._running = []
        return stacks


class SampledPyBroker(PyBroker):
    """A cluster whose last start is sampled, from its command on."""

    sampler: Sampler

    def launch(self) -> None:
        self.sampler.stop()
        super().launch()
        time.sleep(0.05)  # until it is Python
        self.sampler.attach([self._processes[-1].pid], with_children=True)


def sample(load: Load, seconds: float, program: str) -> Counter[tuple[str, ...]]:
    pace = FULL._replace(seconds=seconds)
    with tempfile.TemporaryDirectory(prefix="pybroker-profile-") as place:
        sampler = Sampler(program, Path(place))
        started: list[Cluster] = []

        def new_cluster(nodes: int) -> Cluster:
            cluster = SampledPyBroker(Path(place) / f"cluster-{len(started)}", nodes)
            cluster.sampler = sampler
            started.append(cluster)
            return cluster

        bench = Bench(pace, new_cluster)
        try:
            if load.nodes:
                bench.running = BROKERS["pybroker"](Path(place) / "cluster", load.nodes)
                started.append(bench.running)
                bench.running.start()
                warm_up(bench)
                sampler.attach(bench.running.broker_pids, with_children=False)
            load.run(bench)
            return sampler.stop()
        finally:
            sampler.stop()
            for cluster in started:
                cluster.kill()


def table_of(stacks: Counter[tuple[str, ...]], title: str) -> Table:
    table = Table("own %", "with callees %", "function", title=title)
    for cost in sorted(costs(stacks), key=lambda cost: -cost.own)[:SHOWN]:
        table.add_row(f"{cost.own:.1f}", f"{cost.total:.1f}", cost.function)
    return table


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("loads", nargs="+", metavar="LOAD")
    parser.add_argument("--seconds", type=float, default=5.0, help="seconds of a small load")
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "profiles")
    arguments = parser.parse_args()
    beside = Path(sysconfig.get_path("scripts")) / "py-spy"
    program = str(beside) if beside.exists() else shutil.which("py-spy")
    if program is None:
        console.print("profiles are taken with py-spy: pip install py-spy")
        return 1
    try:
        loads = chosen(arguments.loads)
    except KeyError as word:
        parser.error(f"there is no load {word}")
    arguments.output.mkdir(parents=True, exist_ok=True)
    for load in loads:
        stacks = sample(load, arguments.seconds, program)
        if not stacks:
            console.print(f"{load.name}: no samples; py-spy needs the right to trace processes")
            return 1
        title = f"pybroker under {load.name}: {sum(stacks.values())} samples"
        console.print(table_of(stacks, title))
        graph = arguments.output / f"{load.name}.svg"
        graph.write_text(flame_graph(stacks, title))
        lines = (f"{';'.join(stack)} {count}\n" for stack, count in stacks.most_common())
        graph.with_suffix(".stacks").write_text("".join(lines))
        console.print(f"flame graph: {graph}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
