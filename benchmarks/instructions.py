"""Machine instructions of a request: `python -m benchmarks.instructions [OTHER_CHECKOUT]`.

    python -m benchmarks.instructions                    this checkout
    python -m benchmarks.instructions /tmp/before        and another one, with the ratio of both

A busy machine changes times by a quarter and more from run to run; it hardly changes how many
instructions a broker executes. So this finds a change of 2 % where `benchmarks.run` does not. It
tells nothing about caches, the kernel or the disk: times decide in the end.

valgrind's callgrind counts in the broker's process, all threads together, while one connection
sends one request at a time. The client is this checkout's. Both checkouts are compiled and have a
virtual environment `.venv`. Counts go up and down by 1 % with how often the event loop wakes.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from struct import Struct

from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.frames import commit_frame, create_topic, produce_frame, small_fetch_frame
from benchmarks.machine import ROOT
from tests.support.processes import BrokerProcess, zookeeper_process
from tests.support.wire import WireClient

TOPIC = "counted"
ONE_RECORD_BYTES = 1100  # of a Fetch: the record of 1 KiB that a Produce request has
WARM_UP_REQUESTS = 2000  # until all ways have been taken
REQUESTS = 500
TIMES = 3
# Under callgrind a broker is some 50 times slower.
PATIENT = {"zookeeper.connection.timeout.ms": "120000", "zookeeper.session.timeout.ms": "60000"}
ANSWER_SECONDS = 120
TOTAL = re.compile(r"^totals: (\d+)", re.MULTILINE)

_LENGTH = Struct(">i")
FRAMES: dict[str, Callable[[], bytes]] = {
    "produce": lambda: produce_frame(TOPIC, 0),
    "fetch": lambda: small_fetch_frame(TOPIC, 0, 0, ONE_RECORD_BYTES),
    "offset commit": lambda: commit_frame("counting", TOPIC, 0),
}

console = Console(highlight=False)


class CountedBroker(BrokerProcess):
    """The broker of a checkout under callgrind, which counts nothing at first."""

    def __init__(self, checkout: Path, directory: Path, zookeeper_connect: str) -> None:
        self._python = checkout / ".venv" / "bin" / "python"
        self._counts = directory / "counts"
        super().__init__(directory, zookeeper_connect, PATIENT)
        self.environment = {"PYBROKER_COMPILED": "all"}

    def command_for(self, properties: Path) -> list[str]:
        callgrind = ["valgrind", "--tool=callgrind", "--instr-atstart=no"]
        callgrind += [f"--callgrind-out-file={self._counts}", "--log-file=/dev/null"]
        broker = [str(self._python), "-P", "-m", "pybroker_kafka", "broker", str(properties)]
        return [*callgrind, *broker]

    def counted(self, work: Callable[[], None]) -> int:
        """Instructions while `work` runs."""
        self._control("--instr=on")
        self._control("--zero")
        work()
        self._control("--dump")
        self._control("--instr=off")
        newest = max(self._counts.parent.glob("counts.*"), key=lambda path: path.stat().st_mtime_ns)
        total = TOTAL.search(newest.read_text())
        newest.unlink()
        assert total is not None
        return int(total[1])

    def _control(self, order: str) -> None:
        command = ["callgrind_control", order, str(self.pid)]
        subprocess.run(command, check=True, capture_output=True)


def ask(client: WireClient, frame: bytes, times: int) -> None:
    for _ in range(times):
        client.socket.sendall(frame)
        (length,) = _LENGTH.unpack(client.exactly(_LENGTH.size))
        client.exactly(length)


def instructions(checkout: Path, requests: int) -> dict[str, float]:
    """Instructions of each kind of request, the median of TIMES."""
    with (
        tempfile.TemporaryDirectory() as directory,
        zookeeper_process(Path(directory)) as connect,
    ):
        broker = CountedBroker(checkout, Path(directory, "broker"), connect)
        broker.start()
        try:
            create_topic(broker.bootstrap, TOPIC, 1)
            with WireClient(broker.bootstrap) as client:
                client.socket.settimeout(ANSWER_SECONDS)
                return {
                    kind: _of_one(broker, client, frame(), requests)
                    for kind, frame in track(
                        FRAMES.items(), f"{checkout}", console=console, transient=True
                    )
                }
        finally:
            broker.kill()


def _of_one(broker: CountedBroker, client: WireClient, frame: bytes, requests: int) -> float:
    ask(client, frame, WARM_UP_REQUESTS)
    counts = [broker.counted(lambda: ask(client, frame, requests)) for _ in range(TIMES)]
    return median(counts) / requests


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("other", nargs="?", type=Path, help="a checkout to compare with")
    parser.add_argument("--requests", type=int, default=REQUESTS, help="of each kind")
    given = parser.parse_args()
    if shutil.which("callgrind_control") is None:
        sys.exit("valgrind is not here: apt-get install valgrind")
    checkouts = [given.other.resolve(), ROOT] if given.other else [ROOT]
    for checkout in checkouts:
        if not os.access(checkout / ".venv" / "bin" / "python", os.X_OK):
            sys.exit(f"{checkout} has no virtual environment .venv: make venv-test there")
    found = [instructions(checkout, given.requests) for checkout in checkouts]
    table = Table(title="Instructions of a request in the broker")
    table.add_column("request")
    for checkout in checkouts:
        table.add_column(str(checkout), justify="right")
    if given.other:
        table.add_column("ratio", justify="right")
    for kind in FRAMES:
        counts = [one[kind] for one in found]
        ratio = [f"{counts[1] / counts[0]:.3f}"] if given.other else []
        table.add_row(kind, *(f"{count:,.0f}" for count in counts), *ratio)
    console.print(table)


if __name__ == "__main__":
    main()
