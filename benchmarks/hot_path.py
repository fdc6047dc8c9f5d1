"""Produce and fetch, small and bulk, against our broker: rates and what they cost the broker.

    .venv/bin/python -m benchmarks.hot_path              all loads
    .venv/bin/python -m benchmarks.hot_path small-64x5   one of them

CPU microseconds a request and CPU seconds a gigabyte are steadier than rates on a noisy machine,
where client and broker share the cores: quote those, and rates only as ratios within one run. With
`--against HOST:PORT --against-pid PID` the same loads run in turn against another broker, and the
table shows ratios.
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from benchmarks import bulk_load
from benchmarks.bulk_load import RECORD_BYTES
from benchmarks.raw_load import produce_frame, run_fetch_load, run_produce_load
from tests.support.processes import cpu_seconds, running_broker

BULK_RECORDS = 600_000


@dataclass(slots=True)
class Target:
    """A broker under load."""

    name: str
    host: str
    port: int
    pid: int

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{self.port}"

    def resident_mb(self) -> float:
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * 4096 / 1e6

    def new_topic(self, partitions: int) -> str:
        return bulk_load.new_topic(self.bootstrap, partitions)

    def delete_topic(self, name: str) -> None:
        bulk_load.delete_topic(self.bootstrap, name)


@dataclass(slots=True)
class Figure:
    """What a load gave: a rate, and broker CPU a unit of it."""

    rate: float
    cost: float


def small_produce(connections: int, in_flight: int) -> Callable[[Target, float], Figure]:
    def load(target: Target, seconds: float) -> Figure:
        partitions = min(connections, 8)
        topic = target.new_topic(partitions)
        frames = [produce_frame(topic, number, RECORD_BYTES) for number in range(partitions)]
        address = (target.host, target.port)
        sizes = {"connections": connections, "in_flight": in_flight}
        run_produce_load(address, frames, seconds=seconds / 4, **sizes)
        before = cpu_seconds(target.pid)
        result = run_produce_load(address, frames, seconds=seconds, **sizes)
        cost = (cpu_seconds(target.pid) - before) / result.requests
        target.delete_topic(topic)
        return Figure(result.requests_per_second, cost * 1e6)

    return load


def bulk_produce(target: Target, _seconds: float) -> Figure:
    topic = target.new_topic(1)
    before = cpu_seconds(target.pid)
    seconds = bulk_load.produce(target.bootstrap, topic, BULK_RECORDS, "1")
    figure = _bulk_figure(seconds, cpu_seconds(target.pid) - before)
    target.delete_topic(topic)
    return figure


def bulk_consume(target: Target, _seconds: float) -> Figure:
    topic = target.new_topic(1)
    bulk_load.produce(target.bootstrap, topic, BULK_RECORDS, "1")
    before = cpu_seconds(target.pid)
    seconds = bulk_load.consume(target.bootstrap, topic, BULK_RECORDS)
    figure = _bulk_figure(seconds, cpu_seconds(target.pid) - before)
    target.delete_topic(topic)
    return figure


def raw_fetch(target: Target, seconds: float) -> Figure:
    topic = target.new_topic(1)
    bulk_load.produce(target.bootstrap, topic, BULK_RECORDS, "1")
    before = cpu_seconds(target.pid)
    result = run_fetch_load((target.host, target.port), topic, seconds=seconds)
    cost = cpu_seconds(target.pid) - before
    target.delete_topic(topic)
    return Figure(result.bytes / 1e6 / result.seconds, cost / (result.bytes / 1e9))


def _bulk_figure(seconds: float, cpu: float) -> Figure:
    size = bulk_load.gigabytes(BULK_RECORDS)
    return Figure(size * 1e3 / seconds, cpu / size)


LOADS: dict[str, tuple[Callable[[Target, float], Figure], str, str]] = {
    "small-1x1": (small_produce(1, 1), "requests/s", "CPU us/request"),
    "small-8x1": (small_produce(8, 1), "requests/s", "CPU us/request"),
    "small-64x5": (small_produce(64, 5), "requests/s", "CPU us/request"),
    "bulk-produce": (bulk_produce, "MB/s", "CPU s/GB"),
    "bulk-consume": (bulk_consume, "MB/s", "CPU s/GB"),
    "raw-fetch": (raw_fetch, "MB/s", "CPU s/GB"),
}


@contextlib.contextmanager
def our_broker() -> Iterator[Target]:
    with tempfile.TemporaryDirectory(prefix="pybroker-bench-") as directory:
        config = {"file.delete.delay.ms": "100", "log.segment.delete.delay.ms": "100"}
        with running_broker(Path(directory), config) as broker:
            yield Target("pybroker", "127.0.0.1", broker.port, broker.pid)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("loads", nargs="*", choices=[*LOADS, []], metavar="LOAD")
    parser.add_argument("--seconds", type=float, default=4.0, help="length of a small load")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--against", metavar="HOST:PORT", help="another broker, for ratios")
    parser.add_argument("--against-pid", type=int, metavar="PID")
    arguments = parser.parse_args()
    console = Console(highlight=False)
    with our_broker() as ours:
        targets = [ours]
        if arguments.against:
            host, _, port = arguments.against.rpartition(":")
            targets.append(Target("the other", host, int(port), arguments.against_pid))
        idle_mb = [target.resident_mb() for target in targets]
        table = Table("load", "broker", "rate", "cost", title="medians, (min .. max) of the rounds")
        for name in arguments.loads or LOADS:
            load, rate_unit, cost_unit = LOADS[name]
            figures: list[list[Figure]] = [[] for _ in targets]
            for _ in range(arguments.rounds):
                for target, collected in zip(targets, figures, strict=True):
                    collected.append(load(target, arguments.seconds))
            for target, collected in zip(targets, figures, strict=True):
                rates = [figure.rate for figure in collected]
                costs = [figure.cost for figure in collected]
                table.add_row(
                    name,
                    target.name,
                    f"{median(rates):,.0f} {rate_unit} ({min(rates):,.0f} .. {max(rates):,.0f})",
                    f"{median(costs):.2f} {cost_unit} ({min(costs):.2f} .. {max(costs):.2f})",
                )
        console.print(table)
        for target, idle in zip(targets, idle_mb, strict=True):
            console.print(
                f"{target.name}: {idle:.0f} MB at start, {target.resident_mb():.0f} MB now"
            )


if __name__ == "__main__":
    main()
