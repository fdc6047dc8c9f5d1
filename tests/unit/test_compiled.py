"""The compiled way of a request is never older than its sources. Seconds: none but for imports."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pybroker.compiled import FOLDER, REQUEST_PATH, Finder, is_request_path_compiled
from tests.support.processes import ROOT

FIRST = f"pybroker.{REQUEST_PATH[0]}"
needs_compiled = pytest.mark.skipif(not is_request_path_compiled(), reason="not compiled here")


def test_every_module_of_the_list_is_there() -> None:
    assert all(Path(ROOT, *name.split(".")).with_suffix(".py").is_file() for name in REQUEST_PATH)
    assert len(set(REQUEST_PATH)) == len(REQUEST_PATH)


def test_without_a_folder_the_sources_are_found(tmp_path: Path) -> None:
    finder = Finder("pybroker", str(tmp_path))
    assert not finder.fits()
    assert finder.find_spec(FIRST) is None


@pytest.mark.parametrize("wanted", ["0", "loops"])
def test_the_sources_can_be_asked_for(wanted: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"import {FIRST} as module; print(module.__file__)"],
        cwd=ROOT,
        env={**os.environ, "PYBROKER_COMPILED": wanted},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip().endswith(".py")


@needs_compiled
def test_what_is_compiled_runs_unless_something_else_is_asked_for() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYBROKER_COMPILED"}
    done = subprocess.run(
        [sys.executable, "-c", f"import {FIRST} as module; print(module.__file__)"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip().endswith(".so")


@needs_compiled
def test_an_edit_of_what_is_compiled_or_imported_there_makes_it_void(tmp_path: Path) -> None:
    shutil.copytree(ROOT / FOLDER, tmp_path / FOLDER)
    (digest,) = (tmp_path / FOLDER).glob("*/digest")
    names = digest.read_text().split("\n")[1:]
    assert {f"{name.replace('.', '/')}.py" for name in REQUEST_PATH} <= set(names)
    assert "broker/network/mute_state.py" in names  # its states are only imported
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    spec = Finder("pybroker", str(tmp_path)).find_spec(FIRST)
    assert spec is not None
    assert str(spec.origin).startswith(str(tmp_path))
    assert Finder("pybroker", str(tmp_path)).find_spec("pybroker.broker.server") is None
    for name in (names[0], "broker/network/mute_state.py"):
        source = tmp_path / name
        original = source.read_text()
        source.write_text(original + "\n")
        assert not Finder("pybroker", str(tmp_path)).fits()
        source.write_text(original)
    assert Finder("pybroker", str(tmp_path)).fits()
    (tmp_path / names[0]).unlink()
    assert not Finder("pybroker", str(tmp_path)).fits()
