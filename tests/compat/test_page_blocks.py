"""Each block of our pages, pasted and run as a reader would, in the order of the page.

A reader has a machine of its own here (`tests/support/page_machine.py`). Pages that start no
cluster share one machine, with the cluster that `pybroker start --detach` makes. `pip install`
does nothing: all is installed. `tests/package/first_hours.py` reads pages in environments with
nothing else.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from pybroker_kafka.spark_jobs.java import JavaNotFoundError, find_java_home
from tests.support.nightly import chosen
from tests.support.page_blocks import STARTS, Block, pages, programs, to_run
from tests.support.page_machine import Machine, PortTakenError, comes, commands_and_output, is_test
from tests.support.processes import ROOT

NEEDS_JAVA = ("kafka_session(", "SparkSession", "spark_jobs.pipelines")
READ = [page for page in pages() if to_run(page)]
IN_EVERY_RUN = [ROOT / "README.md"]

pytestmark = pytest.mark.timeout(900)


def machine_in(folder: Path) -> Machine:
    try:
        return Machine(folder)
    except PortTakenError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    machine = machine_in(tmp_path_factory.mktemp("machine"))
    with contextlib.closing(machine):
        machine.paste("pybroker start --detach")
        yield machine


@pytest.fixture
def machine(page: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Machine]:
    """One of its own for a page that starts a cluster; the others share one."""
    if any(STARTS.search(block.text) for block in to_run(page) if block.language != "python"):
        with contextlib.closing(machine_in(tmp_path)) as own:
            yield own
    else:
        yield request.getfixturevalue("shared")


@pytest.mark.parametrize(
    "page", chosen(READ, IN_EVERY_RUN), ids=lambda page: str(page.relative_to(ROOT))
)
def test_a_page_does_what_it_says(page: Path, machine: Machine) -> None:
    found = programs(to_run(page))
    tests = [block for block in found if is_test(block)]
    for block in found:
        if block not in tests:
            skip_without_java(block)
            machine.paste_block(block)
    if tests:
        machine.run_tests(tests)


def skip_without_java(block: Block) -> None:
    if block.language == "python" and any(word in block.text for word in NEEDS_JAVA):
        try:
            find_java_home()
        except JavaNotFoundError as error:
            pytest.skip(str(error))


def test_output_is_compared() -> None:
    block = Block(ROOT / "README.md", 1, "console", "$ echo 'a 1'\na 2\n...\n$ true\n", "")
    assert [*commands_and_output(block)] == [("echo 'a 1'", ["a 2", "..."]), ("true", [])]
    comes(["a  2", "...", "x ..."], "x y\na 17\n", block)
    with pytest.raises(AssertionError):
        comes(["b 2"], "a 2\n", block)
