"""The figures of docs/operate/capacity.md, taken from benchmarks/RESULTS.md."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.support.processes import ROOT

PAGE = ROOT / "docs" / "operate" / "capacity.md"
RESULTS = ROOT / "benchmarks" / "RESULTS.md"
BEGIN = "<!-- figures: written by python -m tests.pages from benchmarks/RESULTS.md -->\n"
END = "<!-- /figures -->\n"

# What a reader plans with, the load and the figure that say it, and its unit.
ROWS = (
    ("1 KB produce requests a second, 64 connections", "small-64x5", "requests/s", ""),
    ("their cost in the broker", "small-64x5", "broker CPU us/request", "us of CPU"),
    ("fetches a second, 64 connections", "fetch-64x5", "requests/s", ""),
    ("offset commits a second, 8 groups", "offset-commits", "commits/s", ""),
    ("bulk produce, 1 KiB records", "bulk-none", "produce MB/s", "MB/s"),
    ("bulk produce, 100 B records", "bulk-100-bytes", "produce MB/s", "MB/s"),
    ("bulk produce, zstd", "bulk-zstd", "produce MB/s", "MB/s"),
    ("bulk produce over TLS", "tls-bulk", "produce MB/s", "MB/s"),
    ("bulk consume from the page cache", "bulk-none", "consume MB/s", "MB/s"),
    ("bulk consume from the disk", "cold-consume", "consume MB/s", "MB/s"),
    ("bulk consume over TLS", "tls-bulk", "consume MB/s", "MB/s"),
    ("bulk produce to three brokers, acks=all", "three-bulk", "produce MB/s", "MB/s"),
    ("transactions a second, eight producers", "transactions-8", "transactions/s", ""),
    ("from producer to consumer at 20 000/s, p99", "latency-20000", "p99 ms", "ms"),
    ("three brokers, acks=all, 5 000/s, p99", "three-latency-5000", "p99 ms", "ms"),
    ("memory of an idle broker", "memory", "idle MB", "MB"),
    ("memory with 5 000 partitions", "restart-5000", "broker memory MB", "MB"),
    ("start with 5 000 partitions", "restart-5000", "start-up s", "s"),
    ("failover of 5 000 partitions, until the last is led", "failover-5000", "last led s", "s"),
)


def capacity_page(page: str) -> str:
    """The same page with the figures as they are now."""
    before, found, rest = page.partition(BEGIN)
    _, ended, after = rest.partition(END)
    assert found, f"{PAGE.name} has lost the line before its figures"
    assert ended, f"{PAGE.name} has lost the line behind its figures"
    results = RESULTS.read_text()
    measured = re.search(r"^(\d{4}-\d\d-\d\d)", results, re.MULTILINE)
    assert measured is not None
    rows = "".join(_rows(results))
    return (
        f"{before}{BEGIN}\nMeasured {measured[1]}, on two cores that the client shares with the "
        f"broker; medians.\n\n| | pybroker | Apache Kafka 3.9.1 |\n|---|---:|---:|\n{rows}\n"
        f"{END}{after}"
    )


def _rows(results: str) -> Iterator[str]:
    tables = [line.split(" | ") for line in results.splitlines() if line.startswith("| `")]
    for title, load, figure, unit in ROWS:
        for head, name, ours, theirs, *_ in tables:
            if head == f"| `{load}`" and name.removesuffix(" (more is better)") == figure:
                figures = [_median(ours, unit), _median(theirs, unit)]
                yield f"| {title} | {' | '.join(figures)} |\n"
                break
        else:
            raise AssertionError(f"{RESULTS.name} has no {figure} of {load}")


def _median(cell: str, unit: str) -> str:
    """Without the least and the most, which stand in brackets."""
    return " ".join([cell.partition(" (")[0].strip(), unit]).strip()


def write() -> Path:
    PAGE.write_text(capacity_page(PAGE.read_text()))
    return PAGE
