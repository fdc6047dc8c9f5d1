"""pybroker as users get it: built, and installed from its wheel into an environment of its own.

The libraries that it needs come from the environment that runs the tests, through a .pth file:
downloading them again would take minutes. What they do not bring is pybroker itself, which is there
through an import hook of an editable installation, and such hooks are not taken over.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.processes import ROOT

BUILD = (sys.executable, "-P", "-m", "build", "--no-isolation")
BUILD_TIMEOUT_SECONDS = 600
COMMAND_TIMEOUT_SECONDS = 300
# Whoever has such files beside a program of theirs: each ends the process that imports it.
DECOYS = (
    "broker",
    "client",
    "coordinator",
    "protocol",
    "replication",
    "spark_jobs",
    "storage",
    "handlers",
    "config",
    "messages",
    "records",
    "tests",
)


@dataclass(frozen=True)
class Installation:
    """An environment with the wheel in it, and the folder full of decoys to start commands in."""

    scripts: Path
    folder: Path

    def run(self, *words: str, given: str | None = None) -> str:
        """What a command of the environment prints; it must end well."""
        done = subprocess.run(
            [str(self.scripts / words[0]), *words[1:]],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": "."},
            input=given,
            capture_output=True,
            text=True,
            timeout=COMMAND_TIMEOUT_SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout


def run(command: Sequence[str | Path]) -> None:
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=BUILD_TIMEOUT_SECONDS
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"


@pytest.fixture(scope="session")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist and the wheel; of the wheel, what the checkout has compiled already
    is not compiled again."""
    folder = tmp_path_factory.mktemp("dist")
    run([*BUILD, "--sdist", "--wheel", "--outdir", folder, ROOT])
    return folder


@pytest.fixture(scope="session")
def wheel(distributions: Path) -> Path:
    (found,) = distributions.glob("*.whl")
    return found


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    place = tmp_path_factory.mktemp("installed")
    venv.create(place / "venv", symlinks=True)
    scripts = place / "venv" / "bin"
    pip = [sys.executable, "-P", "-m", "pip", "--disable-pip-version-check", "--quiet"]
    run([*pip, "--python", scripts / "python", "install", "--no-deps", "--no-index", wheel])
    (packages,) = (place / "venv" / "lib").glob("python*/site-packages")
    (packages / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n")
    folder = place / "decoys"
    for name in DECOYS:
        (folder / name).mkdir(parents=True)
        for decoy in (folder / f"{name}.py", folder / name / "__init__.py"):
            decoy.write_text(f"raise SystemExit('a decoy was imported: {name}')\n")
    return Installation(scripts, folder)
