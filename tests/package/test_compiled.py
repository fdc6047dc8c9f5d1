"""The compiled parts of what users install: who gets them, and who is told that there are none.

What a compiler makes of them is tested where they are: `make test` runs the tests of their rooms
compiled, and the tests of records once more interpreted.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from pybroker_kafka.compiled import UNITS
from tests.package.conftest import Installation
from tests.support.processes import ROOT

MODULES = [module for unit in UNITS for module in unit.modules]
ALL, LOOPS, PURE = (
    "(compiled record loops, compiled request path)\n",
    "(compiled record loops)\n",
    "(pure Python)\n",
)
WHERE_FROM = f"""
import sys
from importlib import import_module
names = ["pybroker_kafka." + name for name in {MODULES}]
print(*(import_module(name).__file__ for name in names))
print(any("Finder" in type(found).__name__ and "pybroker" in type(found).__module__
          for found in sys.meta_path))
"""

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


def compile_loops(into: Path, **environment: str) -> str:
    command = [sys.executable, "setup.py", "-q", "compile", "--units=record_loops"]
    done = subprocess.run(
        [*command, f"--into={into}"],
        cwd=ROOT,
        env={**os.environ, "PYBROKER_COMPILED": "all", **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


@needs_compiler
def test_the_wheel_of_a_machine_with_a_compiler(wheel: Path, installed: Installation) -> None:
    with zipfile.ZipFile(wheel) as archive:
        compiled = [name.partition(".")[0] for name in archive.namelist() if name.endswith(".so")]
    expected = [*MODULES, *(unit.library_module for unit in UNITS)]
    assert sorted(compiled) == sorted(
        f"pybroker_kafka/{name.replace('.', '/')}" for name in expected
    )
    assert "none-any" not in wheel.name
    assert installed.run("pybroker", "--version").endswith(ALL)


@needs_compiler
def test_it_needs_no_finder(installed: Installation) -> None:
    files, has_finder = installed.run("python", "-c", WHERE_FROM).splitlines()
    assert all(file.endswith(".so") for file in files.split())
    assert has_finder == "False"


@needs_compiler
def test_compiled_modules_ask_for_nothing_that_is_not_a_dependency(
    installed: Installation,
) -> None:
    """Here everything is at hand; where only pybroker is, they could not be imported."""
    loaded = installed.run(
        "python",
        "-c",
        f"{WHERE_FROM}\n"
        "from importlib.metadata import packages_distributions as distributions\n"
        "tops = {name.partition('.')[0] for name in sys.modules}\n"
        "known = distributions()\n"
        "print(*{name.lower() for top in tops for name in known.get(top, ())})",
    ).splitlines()[-1]
    asked = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    declared = {re.match(r"[\w.-]+", line)[0].replace("-", "_") for line in asked}  # type: ignore[index]
    # The dependencies of trio and of python-snappy.
    declared |= {"attrs", "sortedcontainers", "idna", "outcome", "sniffio", "cffi", "pycparser"}
    declared |= {"cramjam"}
    assert {name.replace("-", "_") for name in loaded.split()} - {
        "pybroker_kafka",
        "setuptools",
    } <= declared


@needs_compiler
@pytest.mark.parametrize(("wanted", "told"), [("0", PURE), ("loops", LOOPS), ("all", ALL)])
def test_the_sources_can_be_asked_for(
    installed: Installation, wanted: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYBROKER_COMPILED", wanted)
    assert installed.run("pybroker", "--version").endswith(told)
    files, has_finder = installed.run("python", "-c", WHERE_FROM).splitlines()
    assert (".py" not in files) == (wanted == "all")
    assert (".so" not in files) == (wanted == "0")
    assert has_finder == str(wanted != "all")


def test_nothing_fails_for_want_of_a_compiler(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    told = compile_loops(tmp_path / "nowhere", PATH=str(tmp_path / "bin"))
    assert "pybroker stays pure Python: no C compiler works here" in told
    broken = tmp_path / "bin" / "cc"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    told = compile_loops(tmp_path / "nowhere", PATH=str(tmp_path / "bin"), CC="cc")
    assert "pybroker stays pure Python: no C compiler works here" in told
    told = compile_loops(tmp_path / "nowhere", PYBROKER_COMPILED="0")
    assert told == "pybroker stays pure Python: PYBROKER_COMPILED=0\n"
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.nightly
@needs_compiler
def test_a_compiler_that_fails_midway_is_survived(tmp_path: Path) -> None:
    compiler = tmp_path / "cc"
    compiler.write_text('#!/bin/sh\ncase "$*" in *trial.c*) exec cc "$@";; esac\nexit 1\n')
    compiler.chmod(0o755)
    told = compile_loops(tmp_path / "nowhere", CC=str(compiler))
    assert "record loops: not compiled" in told
    assert "pybroker: record loops: stays pure Python" in told
    assert not list(tmp_path.glob("nowhere/**/digest"))


@pytest.mark.nightly
@needs_compiler
@pytest.mark.nightly
def test_what_has_not_changed_is_not_compiled_again(tmp_path: Path) -> None:
    assert "record loops: 6 modules compiled" in compile_loops(tmp_path)
    assert compile_loops(tmp_path) == ""
    (digest,) = tmp_path.glob("build/compiled/*/record_loops/digest")
    digest.write_text(f"0{digest.read_text()}")
    assert "record loops: 6 modules compiled" in compile_loops(tmp_path)
