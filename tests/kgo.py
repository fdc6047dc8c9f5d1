"""The tests that franz-go has of its client, at a cluster of ours: `python -m tests.kgo`.

    python -m tests.kgo                              all of them, three brokers, all features
    python -m tests.kgo --run 'Share|848'            those with such names
    python -m tests.kgo --records 500000             as many records as franz-go's own CI

Needs Go, and takes franz-go from Go's module proxy. Prints each case that failed or was skipped.
The exit status is 1 if a case failed, or if one of KIP-848 or of share groups was skipped: all
features are finalized, so nothing that they need is missing.

Left out: franz-go's cases with logins, which want a cluster of their own.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from pybroker_kafka.testing import KafkaCluster

MODULE = "github.com/twmb/franz-go@v1.22.3"
BROKERS = 3
CONFIG = {"pybroker.features": "4.3"}
# Reasons that may not be given for a skipped case.
MISSING = ("KIP-848", "share groups")
ENDS = ("pass", "fail", "skip")
LAST_LINES = 15

console = Console(highlight=False)


class Cases:
    """How each case ended, and what it printed."""

    def __init__(self) -> None:
        self.ends: dict[str, str] = {}
        self._output: dict[str, list[str]] = {}

    def add(self, event: dict[str, Any]) -> None:
        """An event of `go test -json`."""
        name = event.get("Test")
        if name is None:
            return
        if event["Action"] == "output":
            self._output.setdefault(name, []).append(event["Output"].rstrip())
        elif event["Action"] in ENDS:
            self.ends[name] = event["Action"]

    def reason(self, name: str) -> str:
        """The last lines of a case itself, without those of its clients and of the runner."""
        lines = [one.strip() for one in self._output.get(name, []) if "_test.go:" in one]
        return "\n".join(lines[-LAST_LINES:])

    def ended(self, how: str) -> list[str]:
        return sorted(name for name, end in self.ends.items() if end == how)

    def wrongly_skipped(self) -> list[str]:
        return [
            name for name in self.ended("skip") if any(one in self.reason(name) for one in MISSING)
        ]


def sources() -> Path:
    """The module's directory, from the proxy where it is not here yet."""
    done = subprocess.run(
        ["go", "mod", "download", "-json", MODULE], stdout=subprocess.PIPE, text=True, check=True
    )
    return Path(json.loads(done.stdout)["Dir"])


def events(lines: Iterable[str]) -> Iterable[dict[str, Any]]:
    for line in lines:
        if line.startswith("{"):
            yield json.loads(line)


def run(pattern: str, records: int, minutes: int) -> Cases:
    cases = Cases()
    command = ["go", "test", "-json", "-count=1", f"-timeout={minutes}m", f"-run={pattern}", "."]
    with KafkaCluster(brokers=BROKERS, config=CONFIG) as kafka:
        environment = os.environ | {
            "KGO_SEEDS": kafka.bootstrap,
            "KGO_TEST_RF": str(BROKERS),
            "KGO_TEST_RECORDS": str(records),
        }
        with subprocess.Popen(
            command,
            cwd=sources() / "pkg" / "kgo",
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            for event in events(process.stdout):
                cases.add(event)
    if process.returncode and not cases.ended("fail"):
        sys.exit(f"go test ended with status {process.returncode}")
    return cases


def show(cases: Cases) -> None:
    counts = Counter(cases.ends.values())
    table = Table("case", "", "why")
    for how in ("fail", "skip"):
        for name in cases.ended(how):
            table.add_row(name, how, cases.reason(name))
    if table.row_count:
        console.print(table)
    console.print(", ".join(f"{counts[how]} {how}" for how in ENDS))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--run", default=".", help="a pattern of names, as go test has it")
    parser.add_argument("--records", type=int, default=50_000)
    parser.add_argument("--minutes", type=int, default=30)
    given = parser.parse_args()
    if shutil.which("go") is None:
        sys.exit("go is not here: https://go.dev/dl")
    cases = run(given.run, given.records, given.minutes)
    show(cases)
    wrong = cases.wrongly_skipped()
    if wrong:
        console.print(f"skipped without need: {', '.join(wrong)}")
    return int(bool(wrong or cases.ended("fail") or not cases.ends))


if __name__ == "__main__":
    sys.exit(main())
