"""Our wheel and `lib-pybroker`, which owns the import name `pybroker`, in one environment.

Both orders of installing, and either uninstalled: the files of the other stay as they were
installed. `lib-pybroker` comes from the package index without its dependencies, so the test reads
its files and does not import it.
"""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

import pytest

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1200)]

TIMEOUT_SECONDS = 600
OURS, THEIRS = "pybroker-kafka", "lib-pybroker"
IMPORTS = {OURS: "pybroker_kafka", THEIRS: "pybroker"}
THEIR_VERSION = "2.0.2"
# Every file of a distribution is there with the digest of its RECORD, and its package is found.
IS_WHOLE = """
import base64, hashlib, importlib.metadata, importlib.util, sys

name, package = sys.argv[1:]
checked = 0
for file in importlib.metadata.distribution(name).files:
    if file.hash is not None:
        digest = hashlib.new(file.hash.mode, file.locate().read_bytes()).digest()
        assert base64.urlsafe_b64encode(digest).decode().rstrip("=") == file.hash.value, file
        checked += 1
assert importlib.util.find_spec(package) is not None, package
print(checked)
"""


def run(*words: object) -> str:
    command = [str(word) for word in words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def their_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("theirs")
    pip = [sys.executable, "-P", "-m", "pip", "--disable-pip-version-check"]
    run(*pip, "wheel", "--no-deps", "--wheel-dir", folder, f"{THEIRS}=={THEIR_VERSION}")
    (found,) = folder.glob("*.whl")
    return found


@pytest.mark.parametrize("first", [OURS, THEIRS])
@pytest.mark.parametrize("leaving", [OURS, THEIRS])
def test_neither_touches_the_other(
    tmp_path: Path, wheel: Path, their_wheel: Path, first: str, leaving: str
) -> None:
    venv.create(tmp_path / "venv", symlinks=True)
    python = tmp_path / "venv" / "bin" / "python"
    pip = [sys.executable, "-P", "-m", "pip", "--disable-pip-version-check", "--python", python]
    wheels = {OURS: wheel, THEIRS: their_wheel}
    second = OURS if first == THEIRS else THEIRS
    for name in (first, second):
        run(*pip, "install", "--quiet", "--no-compile", "--no-deps", "--no-index", wheels[name])
    for name, package in IMPORTS.items():
        assert int(run(python, "-P", "-c", IS_WHOLE, name, package)) > 10
    run(*pip, "uninstall", "--quiet", "--yes", leaving)
    staying = OURS if leaving == THEIRS else THEIRS
    assert int(run(python, "-P", "-c", IS_WHOLE, staying, IMPORTS[staying])) > 10
    gone = f"import importlib.util; print(importlib.util.find_spec({IMPORTS[leaving]!r}))"
    assert run(python, "-P", "-c", gone) == "None\n"
