"""Jars from Maven Central, and Java programs of our own over them.

Jars are resolved once by Maven and kept in the user's cache, and so is what is compiled. Without
Maven or Java, or where Maven Central cannot be reached, tests that need them are skipped with that
reason.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

RESOLVE_TIMEOUT_SECONDS = 300
COMPILE_TIMEOUT_SECONDS = 120


def cache_directory() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pybroker"


def maven_jars(name: str, artifacts: Mapping[str, str]) -> Path:
    """The directory with the jars of `group:artifact` -> version and all they depend on. With a
    third part the name is that of a jar beside the artifact's own: `group:artifact:test`."""
    found = _resolve(name, tuple(artifacts.items()))
    if isinstance(found, str):
        pytest.skip(found)
    return found


@functools.cache
def _resolve(name: str, artifacts: tuple[tuple[str, str], ...]) -> Path | str:
    """The directory, or why there is none: what does not work is not tried for each test."""
    directory = cache_directory() / name
    pom = _pom(artifacts)
    complete = directory / "complete"
    if complete.exists() and complete.read_text() == pom:
        if shutil.which("java") is None:
            return "Java programs need java, and there is none on PATH"
        return directory
    if shutil.which("java") is None or shutil.which("mvn") is None:
        return f"{name} comes through Maven, and java or mvn is not on PATH"
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "pom.xml").write_text(pom)
    command = ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={directory}"]
    try:
        done = subprocess.run(
            command,
            cwd=directory,
            capture_output=True,
            text=True,
            timeout=RESOLVE_TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"Maven did not resolve {name} within {RESOLVE_TIMEOUT_SECONDS} s"
    if done.returncode:
        return f"Maven did not resolve {name}: {done.stdout[-500:]}"
    complete.write_text(pom)
    return directory


def _pom(artifacts: tuple[tuple[str, str], ...]) -> str:
    dependencies = ""
    for name, version in artifacts:
        group, artifact, *classifier = name.split(":")
        dependencies += (
            f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
            f"<version>{version}</version>"
            + "".join(f"<classifier>{one}</classifier>" for one in classifier)
            + "</dependency>"
        )
    return (
        "<project><modelVersion>4.0.0</modelVersion><groupId>tests</groupId>"
        "<artifactId>kafka</artifactId><version>1</version>"
        f"<dependencies>{dependencies}</dependencies></project>"
    )


def compiled(source: Path, jars: Path) -> str:
    """The class path of a source file compiled against jars. Skips the test without javac."""
    return f"{compiled_classes(source, jars)}:{_class_path(jars)}"


def _class_path(jars: Path) -> str:
    return ":".join(str(jar) for jar in sorted(jars.glob("*.jar")))


@functools.cache
def compiled_classes(source: Path, jars: Path) -> Path:
    """The directory of what a source file compiles to. Skips the test without javac."""
    if shutil.which("javac") is None:
        pytest.skip(f"{source.name} must be compiled, and there is no javac on PATH")
    jar_path = _class_path(jars)
    key = hashlib.sha256(source.read_bytes() + jar_path.encode()).hexdigest()[:12]
    target = jars / f"{source.stem}-{key}"
    if not target.exists():
        partial = Path(f"{target}.{os.getpid()}")
        done = subprocess.run(
            ["javac", "-cp", jar_path, "-d", str(partial), str(source)],
            capture_output=True,
            text=True,
            timeout=COMPILE_TIMEOUT_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        try:
            partial.rename(target)
        except OSError:  # another test process was first
            shutil.rmtree(partial)
    return target
