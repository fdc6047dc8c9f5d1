"""No dead names in the package, and what is long is described.

A name counts as used if code of the package names it outside of its own definition: as a name, an
attribute, a keyword, in `__all__`, or as a string that is given to `getattr` and its like. Names
are compared as such, not resolved: a method that shares its name with a living one is not found.
Fields of classes are not looked at, nor are messages and enumerations, which are all that Kafka or
ZooKeeper has, used or not.
"""

from __future__ import annotations

import ast
import functools
import importlib
import itertools
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, TypeAlias

import pytest

from pybroker_kafka import testing
from pybroker_kafka.client.admin.share_groups import ShareGroups
from pybroker_kafka.client.consumer.consumer import Consumer
from pybroker_kafka.client.consumer.deliveries import Delivery
from pybroker_kafka.client.consumer.received import ReceivedBatch
from pybroker_kafka.client.producer.producer import Producer
from pybroker_kafka.client.share.consumer import ShareConsumer
from pybroker_kafka.testkit.tiered import RemoteStorageManagerTests
from tests import run
from tests.support.processes import ROOT

OUTSIDE = ("tests", "benchmarks", "examples", "build", "dist", "docker", "setup.py")
HERE = Path(__file__).resolve()
# Of Kafka's tables, used or not, and what is written from them.
MESSAGES = ("protocol/apis/", "protocol/messages/", "protocol/generated/")
# What nothing here but tests uses, and why it is there.
FOR_TESTS = {
    "broker/config/ineffective.py::NO_PROTECTION": "the other half of a table that is complete",
    "coordinator/transaction/transaction_coordinator.py::TransactionCoordinator.pending_markers": (
        "what twins are compared with"
    ),
    "protocol/api.py::pages": "what pages of docs/ are written from",
    "protocol/zookeeper/jute.py::record_types": "all records, for tests of each one",
    "replication/controller/kafka_controller.py::Controller.illegal_transitions": (
        "0 at the end of each simulation"
    ),
    "spark_jobs/cluster.py::SparkCluster.kill_worker": "a machine that is gone",
    **{
        f"spark_jobs/source/data_source.py::StreamReader.{method}": "Spark 4.2 calls it"
        for method in ("getDefaultReadLimit", "prepareForTriggerAvailableNow", "reportLatestOffset")
    },
    "spark_jobs/tables.py::table_session": "for people's programs",
    "testkit/tiered.py::RemoteStorageManagerTests": "for anyone's storage manager",
    "storage/checkpoints.py::read_offsets": "the counterpart of write_offsets, for the tools too",
}
# All public methods of these, inherited ones included, are for people's tests and programs.
HANDED_OUT = [
    *(base for name in testing.__all__ for base in getattr(testing, name).__mro__),
    *(Consumer, Delivery, ReceivedBatch, Producer, ShareConsumer, ShareGroups),
    RemoteStorageManagerTests,
]
_WORD = re.compile(r"\w+")
# A function or a class that takes less than this says by itself what it does.
SHORT_LINES = 12
TAKES_NAMES = ("getattr", "hasattr", "setattr", "attrgetter", "methodcaller")
# Whoever is decorated with something else is handed to somebody by that.
PLAIN_DECORATORS = {
    "abstractmethod", "asynccontextmanager", "cache", "cached_property", "classmethod",
    "contextmanager", "dataclass", "lru_cache", "overload", "property", "setter", "staticmethod",
    "total_ordering", "unique",
}  # fmt: skip

NAMING = (ast.Name, ast.Attribute, ast.keyword, ast.MatchClass, ast.Assign, ast.Call)

Described: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class Definition(NamedTuple):
    """A function, a class, a method or a constant, by its place: `storage/log.py::Log.append`."""

    place: str
    name: str
    node: ast.stmt


@functools.cache
def modules() -> dict[str, ast.Module]:
    """By their paths from the root."""
    paths = (path.relative_to(ROOT) for path in sorted(ROOT.rglob("*.py")))
    return {
        str(path): ast.parse((ROOT / path).read_text()) for path in paths if _is_ours(path.parts[0])
    }


def _is_ours(top: str) -> bool:
    return top not in OUTSIDE and not top.startswith(".")


def uses(*trees: ast.AST) -> Counter[str]:
    found: Counter[str] = Counter()
    for node in itertools.chain.from_iterable(map(ast.walk, trees)):
        if not isinstance(node, NAMING):
            continue
        match node:
            case ast.Name(id=name, ctx=ast.Load()) | ast.Attribute(attr=name, ctx=ast.Load()):
                found[name] += 1
            case ast.keyword(arg=str(name)):
                found[name] += 1
            case ast.MatchClass(kwd_attrs=names):
                found.update(names)
            case ast.Assign(targets=[ast.Name(id="__all__")], value=value):
                found.update(_strings(value))
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in TAKES_NAMES:
                found.update(_strings(node))
    return found


def _strings(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def definitions(tree: ast.Module, place: str) -> Iterator[Definition]:
    for node in tree.body:
        match node:
            case ast.ClassDef(name=cls):
                yield Definition(f"{place}::{cls}", cls, node)
                for inner in node.body:
                    if isinstance(inner, Described):
                        yield Definition(f"{place}::{cls}.{inner.name}", inner.name, inner)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield Definition(f"{place}::{name}", name, node)
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                yield Definition(f"{place}::{name}", name, node)


def unused(trees: dict[str, ast.Module]) -> dict[str, ast.stmt]:
    """By its place, what the modules define and do not use; messages only use."""
    everywhere = uses(*trees.values())
    return {
        one.place: one.node
        for place, tree in trees.items()
        if not place.startswith(MESSAGES)
        for one in definitions(tree, place)
        if everywhere[one.name] == uses(one.node)[one.name] and not one.name.startswith("__")
    }


def is_called_from_elsewhere(place: str, node: ast.stmt) -> bool:
    """By pytest, by a decorator's doing, by tests that hold the class out of
    `pybroker_kafka.testing`, or since a class of another package has a method of this name."""
    if not isinstance(node, Described):
        return False
    if node.name.startswith("pytest_"):
        return True
    for decorator in node.decorator_list:
        call = decorator.func if isinstance(decorator, ast.Call) else decorator
        if ast.unparse(call).rpartition(".")[2] not in PLAIN_DECORATORS:
            return True
    path, _, name = place.partition("::")
    cls, _, method = name.partition(".")
    if not method:
        return False
    module = importlib.import_module("pybroker_kafka." + path.removesuffix(".py").replace("/", "."))
    if not method.startswith("_") and getattr(module, cls) in HANDED_OUT:
        return True
    bases = getattr(module, cls).__mro__[1:]
    return any(
        method in vars(base) for base in bases if not base.__module__.startswith("pybroker_kafka")
    )


def is_long(node: Described) -> bool:
    return (node.end_lineno or 0) - node.lineno >= SHORT_LINES


def test_every_name_is_used() -> None:
    dead = {
        place
        for place, node in unused(modules()).items()
        if not is_called_from_elsewhere(place, node)
    }
    assert sorted(dead - FOR_TESTS.keys()) == [], "nobody uses it"
    assert sorted(FOR_TESTS.keys() - dead) == [], "the package uses it, or it is gone"


def test_what_only_tests_use_is_used_by_tests() -> None:
    files = [path for folder in ("tests", "benchmarks") for path in (ROOT / folder).rglob("*.py")]
    words = {word for path in files if path != HERE for word in _WORD.findall(path.read_text())}
    assert [place for place in FOR_TESTS if _WORD.findall(place)[-1] not in words] == []


def test_dead_names_are_found() -> None:
    code = "LIMIT = 1\ndef used(): ...\ndef again(): again()\nclass A:\n  def m(self): used()\n"
    assert list(unused({"a.py": ast.parse(code)})) == [
        "a.py::LIMIT", "a.py::again", "a.py::A", "a.py::A.m",
    ]  # fmt: skip
    assert list(unused({"a.py": ast.parse(code), "b.py": ast.parse("print(A().m, LIMIT)")})) == [
        "a.py::again"
    ]


def test_a_stage_that_leaves_something_in_the_checkout_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    checkout, temporary = tmp_path / "checkout", tmp_path / "temporary"
    checkout.mkdir()
    temporary.mkdir()
    monkeypatch.setattr(run, "ROOT", checkout)
    for name, passes in ((".cache", True), ("artifacts", False)):
        stage = run.Stage("makes", "test", [sys.executable, "-c", f"open({name!r}, 'w')"])
        assert run.run([stage], temporary)[0].passed is passes
    assert "left in the checkout: artifacts" in capfd.readouterr().out


def test_stages_run_side_by_side(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Two lanes, whose stages wait for each other's files, and would not end alone; those of one
    lane run in turn, and what they say does not mix."""
    wait = "import pathlib, sys, time; mine, its = map(pathlib.Path, sys.argv[1:3]); mine.touch()"
    wait += "\nwhile not its.exists(): time.sleep(0.01)\nprint('this is', mine.name); sys.exit({})"
    a, b = str(tmp_path / "a"), str(tmp_path / "b")
    stages = [
        run.Stage("first", "test", [sys.executable, "-c", wait.format(0), a, b]),
        run.Stage("second", "test", [sys.executable, "-c", wait.format(3), b, a], lane=1),
        run.Stage("third", "test", [sys.executable, "-c", f"open({b!r}).close()"], lane=1),
    ]
    results = run.run(stages, tmp_path)
    assert [result.passed for result in results] == [True, False, True]
    told = capfd.readouterr().out
    assert told.index("this is a") < told.index("=== second") < told.index("this is b")
    assert told.index("this is b") < told.index("=== third")


def test_every_module_is_described() -> None:
    silent = [
        place for place, tree in modules().items() if tree.body and ast.get_docstring(tree) is None
    ]
    assert silent == []


def test_public_functions_and_classes_are_described() -> None:
    """The longest public class of a module is what the module's own description is about."""
    silent = []
    for place, tree in modules().items():
        if place.startswith(MESSAGES):
            continue
        classes = [
            node
            for node in tree.body
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
        ]
        lengths = [(node.end_lineno or 0) - node.lineno for node in classes]
        for node in tree.body:
            if not isinstance(node, Described) or node.name.startswith("_") or node.name == "main":
                continue
            is_the_subject = node in classes and lengths[classes.index(node)] == max(lengths)
            if is_long(node) and not is_the_subject and ast.get_docstring(node) is None:
                silent.append(f"{place}::{node.name}")
    assert silent == []
