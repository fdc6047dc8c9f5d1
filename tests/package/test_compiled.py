"""The compiled loops over records: who gets them, and that old ones never run for new sources.

What a compiler makes of the loops is tested where they are: `make test` runs everything compiled,
and the tests of records once more interpreted.
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

from tests.package.conftest import Installation
from tests.support.processes import ROOT

LOOPS = Path("protocol", "records", "loops")
ASK = "from pybroker.protocol.records.loops import COMPILED, scan; print(COMPILED, scan.__file__)"
COMPILED, PURE = "(compiled record loops)\n", "(pure Python)\n"

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


def compile_loops(into: Path, **environment: str) -> str:
    command = [sys.executable, "setup.py", "-q", "compile_loops", "--into", str(into)]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PYBROKER_COMPILED": "1", **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


@needs_compiler
def test_the_wheel_of_a_machine_with_a_compiler(wheel: Path, installed: Installation) -> None:
    with zipfile.ZipFile(wheel) as archive:
        compiled = [name for name in archive.namelist() if name.endswith(".so")]
    assert {Path(name).name.partition(".")[0] for name in compiled} == {
        *(path.stem for path in (ROOT / LOOPS).glob("*.py") if path.name != "__init__.py"),
        "pybroker_record_loops__mypyc",
    }
    assert "none-any" not in wheel.name
    assert installed.run("pybroker", "--version").endswith(COMPILED)


@needs_compiler
def test_compiled_modules_ask_for_nothing_that_is_not_a_dependency(
    installed: Installation,
) -> None:
    """Here everything is at hand; where only pybroker is, they would be left out in silence."""
    loaded = installed.run(
        "python",
        "-c",
        "import sys, pybroker.protocol.records.loops as loops\n"
        "from importlib.metadata import packages_distributions as distributions\n"
        "assert loops.COMPILED\n"
        "tops = {name.partition('.')[0] for name in sys.modules}\n"
        "known = distributions()\n"
        "print(*{name.lower() for top in tops for name in known.get(top, ())})",
    )
    asked = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    declared = {re.match(r"[\w.-]+", line)[0].replace("-", "_") for line in asked}  # type: ignore[index]
    assert {name.replace("-", "_") for name in loaded.split()} - {
        "pybroker",
        "setuptools",
    } <= declared


@needs_compiler
def test_an_edit_is_never_shadowed(installed: Installation) -> None:
    (package,) = installed.scripts.parent.glob("lib/python*/site-packages/pybroker")
    source = package / LOOPS / "scan.py"
    original = source.read_text()
    assert installed.run("python", "-c", ASK).startswith("True ")
    try:
        source.write_text(original + "\n")
        assert installed.run("python", "-c", ASK) == f"False {source}\n"
        assert installed.run("pybroker", "--version").endswith(PURE)
    finally:
        source.write_text(original)
    assert installed.run("python", "-c", ASK).startswith("True ")


def test_the_sources_can_be_asked_for(
    installed: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYBROKER_COMPILED", "0")
    assert installed.run("pybroker", "--version").endswith(PURE)


def test_nothing_fails_for_want_of_a_compiler(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    told = compile_loops(tmp_path / "nowhere", PATH=str(tmp_path / "bin"))
    assert "no C compiler" in told
    broken = tmp_path / "bin" / "cc"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    told = compile_loops(tmp_path / "nowhere", PATH=str(tmp_path / "bin"), CC="cc")
    assert "not compiled" in told
    assert not list(tmp_path.glob("nowhere/*/digest"))
