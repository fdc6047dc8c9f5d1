"""The cost of the web console for a loaded broker: `python -m benchmarks.console`.

    python -m benchmarks.console                        5 browsers, 6 rounds of 10 s, 2 minutes
    python -m benchmarks.console --rounds 2 --seconds 3

One broker takes records from producers that each wait for the response. Rounds with the console
open in five pages of headless Chromium alternate with rounds in which the console process is
stopped and the pages are empty. The CPU that Chromium uses also lowers the requests per second, but
not the broker's CPU time per request.
"""

from __future__ import annotations

import argparse
import math
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import trio

from benchmarks.machine import cpu_seconds, memory
from pybroker_kafka import Cluster, Producer
from pybroker_kafka.client.admin.admin import Admin
from pybroker_kafka.client.admin.topics import NewTopic
from pybroker_kafka.local.cluster_state import load
from pybroker_kafka.testing import KafkaCluster
from tests.support.browser import chromium

if TYPE_CHECKING:
    from playwright.sync_api import Page

PRODUCERS = 8
VALUE = bytes(100)
PAGES = ("cluster", "topics", "messages/load", "groups", "plots")
TOPICS = 100
SETTLE_SECONDS = 1.0


class Round(NamedTuple):
    """`cpu_us`: the broker's, a request."""

    requests_per_second: float
    p99_ms: float
    cpu_us: float


async def make_topics(bootstrap: str) -> None:
    async with Cluster(bootstrap) as cluster:
        names = ["load", *(f"topic-{number:03}" for number in range(TOPICS))]
        (await Admin(cluster).topics.create([NewTopic(name, 1, 1) for name in names])).all()


async def load_for(bootstrap: str, seconds: float, broker_pid: int) -> Round:
    """A round of the load."""
    took: list[float] = []

    async def produce() -> None:
        async with Producer(bootstrap) as producer:
            await producer.send("load", VALUE)
            while True:
                began = time.perf_counter()
                await producer.send("load", VALUE)
                took.append(time.perf_counter() - began)

    async with trio.open_nursery() as nursery:
        for _ in range(PRODUCERS):
            nursery.start_soon(produce)
        await trio.sleep(SETTLE_SECONDS)
        took.clear()
        before, began = cpu_seconds([broker_pid]), time.perf_counter()
        await trio.sleep(seconds)
        count, elapsed = len(took), time.perf_counter() - began
        cpu = cpu_seconds([broker_pid]) - before
        nursery.cancel_scope.cancel()
    p99 = sorted(took)[math.ceil(0.99 * count) - 1]
    return Round(count / elapsed, 1000 * p99, 1e6 * cpu / count)


@contextmanager
def console(data_dir: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    command = [sys.executable, "-P", "-m", "pybroker_kafka", "console", "--data-dir", str(data_dir)]
    process = subprocess.Popen([*command, "--port", "0"], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().split()[1], process
    finally:
        process.send_signal(signal.SIGCONT)
        process.terminate()
        process.wait()


def show(pages: Sequence[Page], address: str) -> None:
    """Each page of the console that is meant, in a browser of its own."""
    for page, place in zip(pages, PAGES, strict=True):
        page.goto(address)
        page.goto(f"{address.split('?')[0]}#/{place}")
        page.locator("main h1").wait_for()


def measure(rounds: int, seconds: float) -> None:
    from playwright.sync_api import sync_playwright

    found: dict[str, list[Round]] = {"without": [], "with": []}
    with KafkaCluster(metrics_port=0) as kafka, console(kafka.data_dir) as (address, process):
        trio.run(make_topics, kafka.bootstrap)
        (broker,) = (node for node in load(kafka.data_dir).nodes if node.kind == "broker")
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
            pages = [browser.new_context().new_page() for _ in PAGES]
            trio.run(load_for, kafka.bootstrap, seconds, broker.pid)  # to warm up
            for _ in range(rounds):
                for kind, rows in found.items():
                    if kind == "with":
                        process.send_signal(signal.SIGCONT)
                        show(pages, address)
                    else:
                        for page in pages:
                            page.goto("about:blank")
                        process.send_signal(signal.SIGSTOP)
                    rows.append(trio.run(load_for, kafka.bootstrap, seconds, broker.pid))
            resident = memory([process.pid])
            browser.close()
    print(f"| {len(PAGES)} browsers, {TOPICS + 1} topics | requests/s | p99 | CPU of the broker |")
    print("|---|---|---|---|")
    for kind, rows in found.items():
        rate, p99, cpu = (statistics.median(column) for column in zip(*rows, strict=True))
        print(f"| {kind} the console | {rate:,.0f} | {p99:.1f} ms | {cpu:.0f} us a request |")
    told = f"medians of {rounds} rounds of {seconds:g} s, in turn"
    print(f"\n{told}; the console's memory: {resident.rss_mb:.0f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=10.0)
    arguments = parser.parse_args()
    measure(arguments.rounds, arguments.seconds)


if __name__ == "__main__":
    main()
