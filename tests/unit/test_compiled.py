"""What is compiled in a checkout is never older than its sources. Seconds: none but for imports."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from runpy import run_path

import pytest

from pybroker_kafka.compiled import (
    LOOPS,
    REQUEST_PATH,
    UNITS,
    Finder,
    Unit,
    described,
    folder_of,
    is_compiled,
)
from tests.run import INTERPRETED
from tests.support.processes import ROOT

MODULES = [module for unit in UNITS for module in unit.modules]
needs_compiled = pytest.mark.skipif(not is_compiled(REQUEST_PATH), reason="not compiled here")


def source_of(module: str) -> Path:
    return Path(*module.split(".")).with_suffix(".py")


def files_that_run(wanted: str | None) -> list[str]:
    """Where the first module of each unit comes from."""
    names = [f"pybroker_kafka.{unit.modules[0]}" for unit in UNITS]
    environment = {name: value for name, value in os.environ.items() if name != "PYBROKER_COMPILED"}
    if wanted is not None:
        environment["PYBROKER_COMPILED"] = wanted
    asked = f"import sys, {', '.join(names)}; print(*(sys.modules[n].__file__ for n in {names}))"
    done = subprocess.run(
        [sys.executable, "-c", asked],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


def test_nothing_is_compiled_of_rooms_whose_tests_run_once() -> None:
    """`make test` leaves them out of the second run of the unit and property tests."""
    rooms = tuple(room.replace("/", ".") + "." for room in INTERPRETED)
    assert not [module for module in MODULES if module.startswith(rooms)]


def test_every_module_of_the_list_is_there() -> None:
    assert all((ROOT / source_of(module)).is_file() for module in MODULES)
    assert len(set(MODULES)) == len(MODULES)
    loops = (ROOT / "protocol" / "records" / "loops").glob("*.py")
    assert {path.stem for path in loops} - {"__init__"} == {
        module.rpartition(".")[2] for module in LOOPS.modules
    }


@pytest.mark.parametrize("module", MODULES)
def test_constants_are_final(module: str) -> None:
    """One that is not is looked up in a dictionary each time where it is compiled."""
    tree = ast.parse((ROOT / source_of(module)).read_text())
    others = []
    for node in tree.body:
        if isinstance(node, ast.Assign):
            targets = [name for target in node.targets for name in ast.walk(target)]
        elif isinstance(node, ast.AnnAssign) and "Final" not in ast.unparse(node.annotation):
            targets = [node.target]
        else:
            continue
        names = [target.id for target in targets if isinstance(target, ast.Name)]
        others += [name for name in names if name.isupper() and len(name) > 1]
    assert not others


def test_what_runs_is_told() -> None:
    told = described()
    assert all((f"compiled {unit.name}" in told) == is_compiled(unit) for unit in UNITS)
    assert told


def test_without_a_folder_the_sources_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYBROKER_COMPILED", raising=False)
    finder = Finder("pybroker_kafka", str(tmp_path))
    for unit in UNITS:
        assert not finder.fits(unit)
        assert finder.find_spec(f"pybroker_kafka.{unit.modules[0]}") is None


@pytest.mark.parametrize("wanted", ["0", "loops"])
def test_the_sources_can_be_asked_for(wanted: str) -> None:
    loops, request_path = files_that_run(wanted)
    assert request_path.endswith(".py")
    assert loops.endswith(".py") or wanted == "loops"


@needs_compiled
def test_what_is_compiled_runs_unless_something_else_is_asked_for() -> None:
    for wanted in (None, "all"):
        assert all(file.endswith(".so") for file in files_that_run(wanted))


@needs_compiled
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.library)
def test_an_edit_of_what_is_compiled_or_imported_there_makes_it_void(
    unit: Unit, tmp_path: Path
) -> None:
    folder = folder_of(unit)
    shutil.copytree(ROOT / folder, tmp_path / folder)
    names = (tmp_path / folder / "digest").read_text().split("\n")[1:]
    assert {source_of(module).as_posix() for module in unit.modules} <= set(names)
    assert "compiled.py" in names
    assert "protocol/errors.py" in names  # it is only imported
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    spec = Finder("pybroker_kafka", str(tmp_path)).find_spec(f"pybroker_kafka.{unit.modules[0]}")
    assert spec is not None
    assert str(spec.origin).startswith(str(tmp_path))
    assert Finder("pybroker_kafka", str(tmp_path)).find_spec("pybroker_kafka.broker.server") is None
    for name in (names[0], "protocol/errors.py"):
        source = tmp_path / name
        original = source.read_text()
        source.write_text(original + "\n")
        assert not Finder("pybroker_kafka", str(tmp_path)).fits(unit)
        source.write_text(original)
    assert Finder("pybroker_kafka", str(tmp_path)).fits(unit)
    (tmp_path / names[0]).unlink()
    assert not Finder("pybroker_kafka", str(tmp_path)).fits(unit)


def test_a_unit_compiled_with_less_than_it_should_have_is_compiled_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = run_path(str(ROOT / "setup.py"))["compile_changed"].__globals__
    seen: list[tuple[str, str]] = []

    def compile_units(units: Sequence[Unit], into: Path) -> list[Unit]:
        for unit in units:
            (into / unit.library).mkdir()
            seen.append((unit.library, build["level_of"](unit)))
        return list(units)

    build["compile_units"] = compile_units

    def compiled_now(level: str | None) -> list[tuple[str, str]]:
        monkeypatch.delenv("PYBROKER_COMPILE_LEVEL", raising=False)
        if level is not None:
            monkeypatch.setenv("PYBROKER_COMPILE_LEVEL", level)
        seen.clear()
        build["compile_changed"](UNITS, tmp_path)
        return list(seen)

    assert compiled_now("0") == [("record_loops", "0"), ("request_path", "0")]
    assert compiled_now("0") == []
    assert compiled_now(None) == [("record_loops", "3"), ("request_path", "1")]
    assert compiled_now("0") == []
    assert compiled_now("3") == []
