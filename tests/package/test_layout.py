"""One package: what pyproject.toml lists is what is there, and every import goes through it."""

from __future__ import annotations

import ast
import functools
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import pytest

import pybroker_kafka
from tests.support.imports import imports_in
from tests.support.processes import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
OUTSIDE = ("tests", "benchmarks", "examples")
LATE = (
    "trio",
    "kazoo",
    "asyncio",
    "pybroker_kafka.client",
    "pybroker_kafka.protocol",
    "importlib.metadata",
)
# A ZooKeeper runs without them. Any module of the compiled request path loads all of it.
NOT_OF_A_ZOOKEEPER = (
    "asyncio",
    "cryptography",
    "importlib.metadata",
    "kazoo",
    "logging.handlers",
    "pickle",
    "pybroker_kafka.broker.resources.clock",
    "pybroker_kafka.broker.server",
    "pybroker_kafka.client",
    "pybroker_kafka.protocol.records",
    "pybroker_kafka.protocol.sasl",
    "pybroker_kafka.protocol.wall_clock",
    "pybroker_kafka.replication",
    "pybroker_kafka.request_path__mypyc",
    "pybroker_kafka.storage",
)


class Import(NamedTuple):
    path: Path
    line: int
    module: str
    level: int


def rooms() -> list[Path]:
    """The folders of the root that are packages of pybroker."""
    return [
        path.parent for path in ROOT.glob("[a-z]*/__init__.py") if path.parent.name not in OUTSIDE
    ]


def test_every_package_is_listed() -> None:
    there = {"pybroker_kafka"}
    for room in rooms():
        for init in room.rglob("__init__.py"):
            there.add(".".join(("pybroker_kafka", *init.parent.relative_to(ROOT).parts)))
    assert set(PROJECT["tool"]["setuptools"]["packages"]) == there


@functools.cache
def imports() -> list[Import]:
    """Every import statement, those of embedded scripts excepted."""
    return list(_imports())


def _imports() -> Iterator[Import]:
    files = list(ROOT.glob("*.py"))
    for folder in (*rooms(), *(ROOT / name for name in OUTSIDE)):
        files.extend(folder.rglob("*.py"))
    for path in files:
        for node in imports_in(path):
            if isinstance(node, ast.ImportFrom):
                yield Import(path, node.lineno, node.module or "", node.level)
            else:
                for alias in node.names:
                    yield Import(path, node.lineno, alias.name, 0)


@pytest.mark.nightly
def test_no_room_is_imported_as_if_it_were_a_package_of_its_own() -> None:
    """It would be: the root is on the path of tests, and each module would be there twice."""
    names = {room.name for room in rooms()}
    wrong = [
        f"{path.relative_to(ROOT)}:{line} {module}"
        for path, line, module, level in imports()
        if not level and module.partition(".")[0] in names
    ]
    assert not wrong


def test_the_package_does_not_know_what_is_beside_it() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line} {module}"
        for path, line, module, _ in imports()
        if path.relative_to(ROOT).parts[0] not in OUTSIDE
        and module.removeprefix("pybroker_kafka.").partition(".")[0] in OUTSIDE
    ]
    assert not wrong


def test_public_names_are_there_and_described() -> None:
    assert pybroker_kafka.__doc__ is not None
    for name in pybroker_kafka.__all__:
        assert getattr(pybroker_kafka, name) is not None
        assert name in pybroker_kafka.__doc__
        assert name in dir(pybroker_kafka)
    assert pybroker_kafka.__version__ == metadata.version("pybroker-kafka")


def imported_with(*modules: str, then: str = "") -> set[str]:
    """All modules of a process that has imported these, and then ran a line."""
    script = f"import sys, {', '.join(modules)}; {then or 'pass'}; print(*sys.modules)"
    command = [sys.executable, "-P", "-c", script]
    return {*subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()}


def test_what_a_command_does_not_need_is_not_imported() -> None:
    modules = imported_with("pybroker_kafka", "pybroker_kafka.cli.main")
    assert "pybroker_kafka" in modules
    assert not set(LATE) & modules


def test_what_a_zookeeper_does_not_need_is_not_imported() -> None:
    modules = imported_with(
        *("pybroker_kafka.cli.main", "pybroker_kafka.cli.server"),
        *("pybroker_kafka.local.node_process", "pybroker_kafka.broker.zookeeper.member_server"),
    )
    assert "pybroker_kafka.zookeeper.quorum.member" in modules
    assert not set(NOT_OF_A_ZOOKEEPER) & modules


def test_a_zookeeper_is_forked_without_the_code_of_brokers() -> None:
    modules = imported_with(
        *("pybroker_kafka.local.supervisor", "pybroker_kafka.local.cluster_start"),
        then="pybroker_kafka.local.cluster_start.import_zookeeper_code()",
    )
    assert "pybroker_kafka.broker.zookeeper.server" in modules
    rooms = ("broker.handlers", "broker.network", "broker.server", "coordinator", "replication")
    ours = tuple(f"pybroker_kafka.{room}" for room in rooms)
    assert not [name for name in modules if name.startswith(ours)]
