"""Unit, property and wire tests on each Python that is here: `make pythons`.

An interpreter is looked for on PATH, among pyenv's and among uv's; each gets an environment of its
own in build/pythons. Nothing is downloaded but libraries: which Pythons a machine has is its own
affair, and the table at the end says which ones were not there, and which ones pyproject.toml
claims. Exit status 1 if a test failed.

Mirrors: tox, as far as one list of versions needs it.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
PLACE = ROOT / "build" / "pythons"
SUITES = (("unit and property tests", ("-n", "2", "tests/unit", "tests/properties")),
          ("wire tests", ("tests/wire",)))  # fmt: skip
CLASSIFIER = "Programming Language :: Python :: "


class Result(NamedTuple):
    python: str
    suite: str
    outcome: str
    seconds: float

    @property
    def passed(self) -> bool:
        return self.outcome == "ok"


def candidates(version: str) -> Iterator[Path]:
    """Where this Python may be, likeliest first."""
    yield Path(sys.executable)
    on_path = shutil.which(f"python{version}")
    if on_path:
        yield Path(on_path)
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from sorted((pyenv / "versions").glob(f"{version}*/bin/python"), reverse=True)
    data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    uv = data / "uv" / "python"
    yield from sorted(uv.glob(f"cpython-{version}*/bin/python{version}"), reverse=True)


def find(version: str) -> tuple[Path, str] | None:
    """An interpreter of this version that runs, and its full version."""
    for python in candidates(version):
        try:
            told = subprocess.run(
                [python, "-c", "import platform, venv; print(platform.python_version())"],
                capture_output=True,
                text=True,
                check=True,
            ).stdout.strip()
        except (OSError, subprocess.CalledProcessError):
            continue  # a shim of pyenv for a version that is not chosen, for example
        if re.match(rf"{re.escape(version)}\.\d", told):
            return python, told
    return None


def environment(python: Path, version: str) -> Path:
    """The interpreter of its environment, with pybroker and what the tests need."""
    place = PLACE / version
    own = place / "bin" / "python"
    if not own.exists():
        subprocess.run([python, "-m", "venv", place], check=True)
    pip: list[str | Path] = [own, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    subprocess.run([*pip, "install", "--editable", ".[spark,dev,site]"], cwd=ROOT, check=True)
    return own


def run(version: str) -> Iterator[Result]:
    found = find(version)
    if found is None:
        yield Result(version, "", "not on this machine", 0)
        return
    python, full = found
    print(f"\n=== Python {full}: {python}", flush=True)
    try:
        own = environment(python, version)
    except subprocess.CalledProcessError as error:
        yield Result(full, "", f"no environment: {error}", 0)
        return
    for suite, words in SUITES:
        started = time.monotonic()
        command = [own, "-m", "pytest", "-q", *words]
        code = subprocess.run(command, cwd=ROOT, check=False).returncode
        outcome = f"FAILED ({code})" if code else "ok"
        yield Result(full, suite, outcome, time.monotonic() - started)


def claimed() -> set[str]:
    """The Pythons that pyproject.toml says this runs on."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = (text.removeprefix(CLASSIFIER) for text in project["classifiers"])
    return {text for text in named if re.fullmatch(r"3\.\d+", text)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=VERSIONS, default=VERSIONS)
    versions = parser.parse_args().only
    results = {version: list(run(version)) for version in versions}
    print("\n=== Pythons")
    for each in results.values():
        for result in each:
            print(f"{result.python:8} {result.outcome:20} {result.seconds:7.1f} s  {result.suite}")
    ran = {v for v, each in results.items() if all(result.passed for result in each)}
    print(
        f"pyproject.toml claims {', '.join(sorted(claimed()))}; ran here: {', '.join(sorted(ran))}"
    )
    tried = [
        r for each in results.values() for r in each if r.suite or r.outcome.startswith("no e")
    ]
    failed = sum(not result.passed for result in tried)
    print(f"{len(tried) - failed} passed, {failed} failed")
    return 1 if failed or not tried else 0


if __name__ == "__main__":
    sys.exit(main())
