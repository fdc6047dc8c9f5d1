"""The web console beside its limits, and its cost for a loaded broker.

    python -m benchmarks.console                        5 browsers, 6 rounds of 10 s, 3 minutes
    python -m benchmarks.console --rounds 2 --seconds 3
    python -m benchmarks.console --limits               the limits alone, half a minute

The limits are the time from the command to the first page, the memory, and violations that axe
finds on the pages, in both themes. The exit status is 1 if one of them is not kept. The console's
modules have their bytecode, as after an installation or the first start.

One broker takes records from producers that each wait for the response. Rounds with the console
open in five pages of headless Chromium alternate with rounds in which the console process is
stopped and the pages are empty. The CPU that Chromium uses also lowers the requests per second, but
not the broker's CPU time per request.
"""

from __future__ import annotations

import argparse
import math
import os
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
    from playwright.sync_api import Browser, Page

PRODUCERS = 8
VALUE = bytes(100)
FIRST_PAGES = 5
MOST_SECONDS, MOST_MB = 1.0, 60.0
ALL_PAGES = (
    "overview",
    "cluster",
    "topics",
    "topics/load",
    "messages/load",
    "groups",
    "clients",
    "transactions",
    "security",
    "plots",
    "tables",
    *(f"inside/{view}/1/load/0" for view in ("way", "waiting", "files", "lookup", "replication")),
    "inside/zookeeper/1/brokers",
)
PAGES = ("cluster", "topics", "messages/load", "groups", "plots")
TOPICS = 100
SETTLE_SECONDS = 1.0


class Round(NamedTuple):
    """`cpu_us`: the broker's, a request."""

    requests_per_second: float
    p99_ms: float
    cpu_us: float


class Limit(NamedTuple):
    """A figure of the console that may not be more than `most`."""

    title: str
    most: float
    found: float
    unit: str

    @property
    def row(self) -> str:
        kept = "yes" if self.found <= self.most else "NO"
        return f"| {self.title} | {self.most:g}{self.unit} | {self.found:.3g}{self.unit} | {kept} |"


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
    own = {"PYTHONPYCACHEPREFIX": str(data_dir / "bytecode")}
    inherited = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    process = subprocess.Popen(
        [*command, "--port", "0"], stdout=subprocess.PIPE, text=True, env={**inherited, **own}
    )
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


def first_pages(data_dir: Path, browser: Browser) -> list[Limit]:
    """Consoles that are started, each with a page of its own."""
    seconds, megabytes = [], []
    for _ in range(1 + FIRST_PAGES):  # the first one writes bytecode
        context = browser.new_context()
        page = context.new_page()
        began = time.perf_counter()
        with console(data_dir) as (address, process):
            page.goto(address)
            page.locator("main .health b").wait_for()
            page.get_by_role("table", name="Busiest topics").wait_for()
            seconds.append(time.perf_counter() - began)
            megabytes.append(memory([process.pid]).rss_mb)
            context.close()
    return [
        Limit(
            "from the command to the first page", MOST_SECONDS, statistics.median(seconds[1:]), " s"
        ),
        Limit("memory then", MOST_MB, statistics.median(megabytes[1:]), " MB"),
    ]


def open_page(page: Page, address: str, place: str) -> None:
    page.goto(f"{address.split('?')[0]}#/{place}")
    page.locator("main :is(h2, table, form):visible").first.wait_for()


def all_pages(data_dir: Path, browser: Browser) -> list[Limit]:
    """Each page in both themes, before axe."""
    from axe_playwright_python.sync_playwright import Axe

    found = 0
    page = browser.new_context().new_page()
    with console(data_dir) as (address, _):  # writes the pages' bytecode
        page.goto(address)
        for place in ALL_PAGES:
            open_page(page, address, place)
    with console(data_dir) as (address, process):
        page.goto(address)
        for _ in ("light", "dark"):
            for place in ALL_PAGES:
                open_page(page, address, place)
                result = Axe().run(page)
                found += result.violations_count
                if result.violations_count:
                    print(f"{place}:\n{result.generate_report()}", file=sys.stderr)
            page.locator("#theme").click()
        resident = memory([process.pid]).rss_mb
        page.context.close()
    return [
        Limit("memory after all pages were open", MOST_MB, resident, " MB"),
        Limit(f"violations that axe finds on {len(ALL_PAGES)} pages, light and dark", 0, found, ""),
    ]


def print_limits(limits: Sequence[Limit]) -> bool:
    """Returns whether all are kept."""
    print(f"| the console, {TOPICS + 1} topics | at most | measured | kept |")
    print("|---|---|---|---|")
    for limit in limits:
        print(limit.row)
    print(f"\nFirst pages: medians of {FIRST_PAGES}.\n", flush=True)
    return all(limit.found <= limit.most for limit in limits)


def measure(rounds: int, seconds: float) -> bool:
    """Returns whether the console's limits are kept; no rounds measure these alone."""
    from playwright.sync_api import sync_playwright

    with KafkaCluster(metrics_port=0) as kafka, sync_playwright() as playwright:
        trio.run(make_topics, kafka.bootstrap)
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        limits = first_pages(kafka.data_dir, browser) + all_pages(kafka.data_dir, browser)
        are_kept = print_limits(limits)
        if rounds:
            measure_load(kafka, browser, rounds, seconds)
        browser.close()
    return are_kept


def measure_load(kafka: KafkaCluster, browser: Browser, rounds: int, seconds: float) -> None:
    found: dict[str, list[Round]] = {"without": [], "with": []}
    (broker,) = (node for node in load(kafka.data_dir).nodes if node.kind == "broker")
    with console(kafka.data_dir) as (address, process):
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
        for page in pages:
            page.context.close()
    print(f"| {len(PAGES)} browsers, {TOPICS + 1} topics | requests/s | p99 | CPU of the broker |")
    print("|---|---|---|---|")
    for kind, rows in found.items():
        rate, p99, cpu = (statistics.median(column) for column in zip(*rows, strict=True))
        print(f"| {kind} the console | {rate:,.0f} | {p99:.1f} ms | {cpu:.0f} us a request |")
    told = f"medians of {rounds} rounds of {seconds:g} s, in turn"
    print(f"\n{told}; the console's memory: {resident.rss_mb:.0f} MB")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--limits", action="store_true", help="without a loaded broker")
    arguments = parser.parse_args()
    return 0 if measure(0 if arguments.limits else arguments.rounds, arguments.seconds) else 1


if __name__ == "__main__":
    sys.exit(main())
