"""kazoo's own test suite, out of its sdist, against our embedded ZooKeeper.

    .venv/bin/python -m tests.compat.kazoo_suite            all of it, ten at a time
    .venv/bin/python -m tests.compat.kazoo_suite --members 3    at members of an ensemble
    .venv/bin/python -m tests.compat.kazoo_suite --real     the same on ZooKeeper itself (Java)

The sdist of the installed version comes from PyPI and is kept in the user's cache, with the
libraries that its tests for gevent and eventlet want. `make test` runs a part (test_kazoo_suite).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from tests.support import real_zookeeper
from tests.support.archives import unpack
from tests.support.kazoo_harness import MEMBERS, REAL_JARS, ROOT
from tests.support.maven import cache_directory

EXTRAS = ("gevent", "eventlet", "objgraph")
PIP_TIMEOUT_SECONDS = 300
WORKERS = 10  # its tests wait more than they work


class Unavailable(Exception):
    """PyPI cannot be reached, or not as needed."""


def _pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=PIP_TIMEOUT_SECONDS, check=False
    )
    if done.returncode:
        raise Unavailable(f"{' '.join(command)}: {done.stderr[-500:]}")


def sources() -> Path:
    """The unpacked sdist of the kazoo that is installed."""
    name = f"kazoo-{version('kazoo')}"
    directory = cache_directory() / "kazoo-suite"
    unpacked = directory / name
    if not (unpacked / "setup.py").exists():
        directory.mkdir(parents=True, exist_ok=True)
        wanted = name.replace("-", "==")
        _pip("download", "--no-deps", "--no-binary", "kazoo", "--dest", str(directory), wanted)
        unpack(directory / f"{name}.tar.gz", directory)
    return unpacked


def extras() -> Path:
    """The libraries that some of its tests want, away from ours."""
    directory = cache_directory() / "kazoo-suite" / f"extras-{sys.version_info.minor}"
    if not (directory / "objgraph.py").exists():
        _pip("install", "--target", str(directory), *EXTRAS)
    return directory


def command(workers: int, tests: list[str]) -> list[str]:
    """pytest as kazoo's own configuration wants it, with our harness."""
    options = ["-q", "-o", "addopts=", "-o", "log_cli=false", "-p", "no:cacheprovider", "-rs"]
    parallel = ["-n", str(workers), "--dist", "loadscope"] if workers > 1 else []
    # Of our plugins only these two: hypothesis' has a class TreeNode, and kazoo counts its own.
    harness = [
        "-p",
        "tests.support.kazoo_harness",
        "-p",
        "no:logging",
        "-p",
        "xdist",
        "-p",
        "timeout",
    ]
    return [sys.executable, "-m", "pytest", *options, *harness, *parallel, *tests]


def environment(members: int, *more_paths: Path, real: bool = False) -> dict[str, str]:
    paths = os.pathsep.join(map(str, (ROOT, *more_paths)))
    result = {**os.environ, "PYTHONPATH": paths, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    result[MEMBERS] = str(members)
    jars = real_zookeeper.jars() if real else None
    if real and jars is None:
        raise Unavailable("no Java, or no pyspark with ZooKeeper's jars")
    return {**result, REAL_JARS: str(jars)} if jars else result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--real", action="store_true", help="on ZooKeeper itself")
    parser.add_argument("--members", type=int, default=1, help="of the ensemble; 1: one server")
    parser.add_argument("--workers", type=int, default=WORKERS)
    parser.add_argument("tests", nargs="*", default=["kazoo/tests"], help="default: all")
    arguments = parser.parse_args()
    return subprocess.run(
        command(arguments.workers, arguments.tests),
        cwd=sources(),
        env=environment(arguments.members, extras(), real=arguments.real),
        check=False,
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
