"""From 1 to 50 000 partitions and 1 to 10 000 connections: `python -m benchmarks.scale`.

The benchmark runs one of our brokers like `pybroker start`. It adds topics up to each number of
partitions and writes a record to each partition. At each number it measures a small request
(round all partitions, ten connections, one request in flight on each), the memory of the broker,
the time to create a partition, a clean stop, and the time of a start until records to the first,
the middle and the last partition are acknowledged. Then, with one partition, it opens each number
of connections, which send one request and stay idle. It measures their memory and a request on ten
other connections.

The figures are stored in `scale.json`, beside a plot. `docs/SCALE.md` has the tables, between two
marks, and text about them. `--page` writes tables and plot again from the stored figures.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import paper
from benchmarks.brokers import PyBroker
from benchmarks.frames import (
    create_topic,
    first_acknowledged,
    produce_error_at,
    produce_frame,
)
from benchmarks.machine import cpu_seconds, describe_machine, memory
from benchmarks.native import Answered, Lines, LoadError, run_load
from pybroker_kafka.storage.descriptors import SHARE_LEFT_BY_PARTITIONS

HERE = Path(__file__).resolve().parent
STORED = HERE / "scale.json"
PLOT = HERE / "plots" / "scale.png"
PAGE = HERE.parent / "docs" / "SCALE.md"
BEGIN, END = "<!-- measured -->", "<!-- /measured -->"

PARTITIONS = (1, 10, 100, 1000, 5000, 10_000, 15_000, 20_000, 50_000)
CONNECTIONS = (1, 100, 1000, 5000, 10_000)
MOST_OF_A_TOPIC = 5000
ACTIVE = 10
FIRST_RECORDS_A_SECOND = 1500.0
SECONDS = 4.0
START_LIMIT_SECONDS = 600.0
# Of a broker, beside one for each partition's log and those that new partitions leave.
OTHER_DESCRIPTORS = 250


@dataclass(slots=True)
class Row:
    """At so many partitions, or connections."""

    count: int
    requests: float
    broker_us: float
    p99_ms: float
    memory_mb: float
    created_ms: float = 0.0
    stop_seconds: float = 0.0
    start_seconds: float = 0.0
    start_cpu: float = 0.0


@dataclass(slots=True)
class Scale:
    date: str = ""
    machine: dict[str, str] = field(default_factory=dict)
    partitions: list[Row] = field(default_factory=list)
    connections: list[Row] = field(default_factory=list)
    paper: list[str] = field(default_factory=list)

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=1) + "\n")

    @staticmethod
    def load(path: Path) -> Scale:
        raw: dict[str, Any] = json.loads(path.read_text())
        for name in ("partitions", "connections"):
            raw[name] = [Row(**row) for row in raw[name]]
        return Scale(**raw)


class Topics:
    """As many partitions as there are, in topics of the same size and names of the same length."""

    def __init__(self, cluster: PyBroker) -> None:
        self._cluster = cluster
        self._names: list[tuple[str, int]] = []

    @property
    def count(self) -> int:
        return sum(size for _, size in self._names)

    def grow(self, to: int) -> float:
        """Create what is missing and give each a record; seconds of the creation."""
        seconds = 0.0
        while self.count < to:
            name = f"scale-{len(self._names):05d}"
            size = min(to - self.count, MOST_OF_A_TOPIC)
            began = time.monotonic()
            create_topic(self._cluster.bootstrap, name, size)
            seconds += time.monotonic() - began
            self._names.append((name, size))
            frames = [produce_frame(name, index) for index in range(size)]
            self._run(frames, rate=FIRST_RECORDS_A_SECOND, warm_up=0.0,
                      seconds=(size + ACTIVE) / FIRST_RECORDS_A_SECOND)  # fmt: skip
        return seconds

    def load(self, idle: int = 0) -> Answered:
        frames = [produce_frame(name, n) for name, size in self._names for n in range(size)]
        return self._run(frames, idle=idle, warm_up=1.0, seconds=SECONDS)

    def probes(self) -> Iterator[tuple[str, list[int]]]:
        """The first, the middle and the last partition of the first and the last topic."""
        for name, size in {self._names[0], self._names[-1]}:
            yield name, sorted({0, size // 2, size - 1})

    def _run(self, frames: list[bytes], **options: object) -> Answered:
        cluster = self._cluster
        return run_load(
            [Lines(cluster.addresses[0], frames)],
            connections=ACTIVE,
            error_at=produce_error_at(self._names[0][0]),
            pids=cluster.broker_pids,
            **options,
        )


def at_partitions(cluster: PyBroker, topics: Topics, count: int) -> Row:
    before = topics.count
    created = topics.grow(count)
    answered = topics.load()
    taken = memory(cluster.broker_pids).pss_mb
    began = time.monotonic()
    cluster.stop()
    stopped = time.monotonic()
    cluster.launch()
    for name, indexes in topics.probes():
        first_acknowledged(cluster.addresses, name, indexes, acks=-1, limit=START_LIMIT_SECONDS)
    started = time.monotonic()
    cluster.wait()
    start_cpu = cpu_seconds(cluster.broker_pids)
    return Row(
        count=count,
        requests=answered.rate,
        broker_us=answered.broker_us,
        p99_ms=answered.p99_ms,
        memory_mb=taken,
        created_ms=created / max(count - before, 1) * 1e3,
        stop_seconds=stopped - began,
        start_seconds=started - stopped,
        start_cpu=start_cpu,
    )


def at_connections(cluster: PyBroker, topics: Topics, count: int) -> Row:
    answered = topics.load(idle=count)
    return Row(
        count=count,
        requests=answered.rate,
        broker_us=answered.broker_us,
        p99_ms=answered.p99_ms,
        memory_mb=memory(cluster.broker_pids).pss_mb,
    )


def measure(
    scale: Scale, path: Path, partitions: Sequence[int], connections: Sequence[int]
) -> None:
    """All rows, each stored when it is there."""
    with tempfile.TemporaryDirectory(prefix="pybroker-scale-") as place:
        for counts, rows, action in (
            (connections, scale.connections, at_connections),
            (partitions, scale.partitions, at_partitions),
        ):
            cluster = PyBroker(Path(place) / action.__name__)
            try:
                cluster.start()
                topics = Topics(cluster)
                topics.grow(1)
                for count in counts:
                    rows.append(action(cluster, topics, count))
                    print(rows[-1], flush=True)
                    scale.save(path)
            except LoadError as error:
                raise LoadError(f"{error}; its log ends: {cluster.last_words()}") from None
            finally:
                cluster.discard()


def write_page(scale: Scale) -> None:
    draw(scale, PLOT)
    before, _, rest = PAGE.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text("\n".join([before + BEGIN, "", *tables(scale), "", END + after]))


def tables(scale: Scale) -> Iterator[str]:
    facts = scale.machine
    yield (
        f"Measured {scale.date} at {facts['pybroker']}: {facts['processor']}, "
        f"{facts['cores']} cores, Python {facts['Python']}, "
        f"load average {facts['load average at the start']} at the start "
        f"and {facts.get('load average at the end', '?')} at the end, "
        f"{facts['descriptors']} descriptors a process."
    )
    yield ""
    yield (
        "| partitions | broker CPU us a request | requests/s | p99 ms | memory MB "
        "| created, ms each | clean stop s | start s | start CPU s |"
    )
    yield "|" + "---:|" * 9
    for row in scale.partitions:
        yield (
            f"{_cells(row)} {row.created_ms:.2f} "
            f"| {row.stop_seconds:.1f} | {row.start_seconds:.1f} | {row.start_cpu:.1f} |"
        )
    yield ""
    yield "| idle connections | broker CPU us a request | requests/s | p99 ms | memory MB |"
    yield "|" + "---:|" * 5
    yield from map(_cells, scale.connections)
    yield ""
    yield "![What partitions and connections cost](../benchmarks/plots/scale.png)"
    yield ""
    yield "### On paper"
    yield ""
    yield from scale.paper


def _cells(row: Row) -> str:
    count, requests = paper.spaced(row.count), paper.spaced(int(row.requests))
    return (
        f"| {count} | {row.broker_us:.1f} | {requests} | {row.p99_ms:.2f} | {row.memory_mb:.0f} |"
    )


def draw(scale: Scale, path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    panels: list[tuple[str, list[Row], str]] = [
        ("broker CPU us a request, by partitions", scale.partitions, "broker_us"),
        ("memory MB, by partitions", scale.partitions, "memory_mb"),
        ("start CPU s, by partitions", scale.partitions, "start_cpu"),
        ("broker CPU us a request, by idle connections", scale.connections, "broker_us"),
        ("memory MB, by idle connections", scale.connections, "memory_mb"),
    ]
    figure, axes = pyplot.subplots(1, len(panels), figsize=(4.2 * len(panels), 3.4))
    for (title, rows, name), axis in zip(panels, axes, strict=True):
        axis.plot([row.count for row in rows], [getattr(row, name) for row in rows], "o-")
        axis.set_xscale("log")
        axis.set_ylim(bottom=0)
        axis.set_title(title, loc="left", fontsize=10)
        axis.grid(visible=True, color="#ecedef")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130, bbox_inches="tight")
    pyplot.close(figure)


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--partitions", type=_numbers, default=PARTITIONS)
    parser.add_argument("--connections", type=_numbers, default=CONNECTIONS)
    parser.add_argument("--stored", type=Path, default=STORED, help="file of the figures")
    parser.add_argument(
        "--page", action="store_true", help="only write the page and the plot again"
    )
    arguments = parser.parse_args(words)
    if not arguments.page:
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        most = hard - hard // SHARE_LEFT_BY_PARTITIONS - OTHER_DESCRIPTORS
        partitions = [count for count in arguments.partitions if count <= most]
        if len(partitions) < len(arguments.partitions):
            print(f"more than {most} partitions need more descriptors than {hard} (ulimit -Hn)")
        scale = Scale(date=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC", machine=describe_machine())
        scale.machine["descriptors"] = f"{hard}"
        measure(scale, arguments.stored, partitions, arguments.connections)
        scale.machine["load average at the end"] = f"{os.getloadavg()[0]:.2f}"
        scale.paper = paper.lines(paper.BROKERS, paper.PARTITIONS)
        scale.save(arguments.stored)
    if arguments.stored == STORED:
        write_page(Scale.load(arguments.stored))
    return 0


def _numbers(text: str) -> list[int]:
    return [int(word) for word in text.split(",") if word]


if __name__ == "__main__":
    sys.exit(main())
