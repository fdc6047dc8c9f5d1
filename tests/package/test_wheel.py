"""What is in the wheel and in the sdist, and what they say of themselves."""

from __future__ import annotations

import email
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.package.conftest import BUILD, Installation, run
from tests.package.test_layout import rooms
from tests.support.archives import unpack
from tests.support.processes import ROOT

BESIDE_THE_PACKAGE = (".ci", ".github", ".devcontainer", "tests", "benchmarks", "build", "docker")


def modules() -> set[str]:
    files = {"__init__.py", "__main__.py", "compiled.py", "py.typed", "testing.py", "web.py"}
    for room in rooms():
        files |= {str(path.relative_to(ROOT)) for path in room.rglob("*.py")}
    for folder in (ROOT / "console" / "static", ROOT / "learn" / "chapters"):
        files |= {str(path.relative_to(ROOT)) for path in folder.iterdir()}
    return files


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (metadata,) = [name for name in names if name.endswith(".dist-info/METADATA")]
        found = email.message_from_bytes(archive.read(metadata))
    about = metadata.partition("/")[0]
    compiled = {name for name in names if name.endswith(".so")}
    assert {name for name in names - compiled if not name.startswith(f"{about}/")} == {
        f"pybroker_kafka/{name}" for name in modules()
    }
    assert f"{about}/licenses/LICENSE" in names
    assert found["Name"] == "pybroker-kafka"
    assert found["License-Expression"] == "Apache-2.0"
    assert found["Description-Content-Type"] == "text/markdown"
    assert found["Author"] == "the pybroker authors"
    assert len(found.get_all("Project-URL", [])) == 4


def test_its_readme_has_whole_addresses_to_what_is_there(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        text = email.message_from_bytes(archive.read(metadata)).get_payload()
    assert isinstance(text, str)
    links = re.findall(r"\]\(([^)#]+)", text)
    ours = [link for link in links if "github.com/pybroker" in link]
    assert len(ours) >= 10
    assert all(link.startswith("https://") for link in links)
    for link in ours:
        assert (ROOT / re.sub(r"^.*?/(blob|raw)/main/", "", link)).exists(), link


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="git does not know this folder")
def test_its_version_names_the_commit(installed: Installation) -> None:
    git = ["git", "-C", str(ROOT)]
    commit = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    is_release = subprocess.run([*git, "describe", "--tags", "--exact-match"], check=False)
    version = installed.run("pybroker", "--version").split()[2]
    found = re.fullmatch(r"\d+\.\d+\.\d+(?:\.dev\d+\+g([0-9a-f]{7,})(?:\.d\d{8})?)?", version)
    assert found
    assert commit.stdout.startswith(found[1] or "no commit") or is_release.returncode == 0


def test_the_license_is_the_whole_text() -> None:
    text = (ROOT / "LICENSE").read_text()
    assert "TERMS AND CONDITIONS FOR USE, REPRODUCTION, AND DISTRIBUTION" in text
    assert all(f"\n   {number}. " in text for number in range(1, 10))


def test_the_sdist_holds_what_the_wheel_is_built_from(distributions: Path) -> None:
    (path,) = distributions.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    examples = {str(path.relative_to(ROOT)) for path in (ROOT / "examples").glob("*.*")}
    assert "examples/README.md" in examples
    assert names >= modules() | examples | {"LICENSE", "README.md", "pyproject.toml", "setup.py"}
    assert not [name for name in names if name.startswith(BESIDE_THE_PACKAGE)]


def test_the_wheel_can_be_built_from_the_sdist(
    wheel: Path, distributions: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (path,) = distributions.glob("*.tar.gz")
    unpack(path, tmp_path)
    (unpacked,) = tmp_path.iterdir()
    monkeypatch.setenv("PYBROKER_COMPILED", "0")
    run([*BUILD, "--wheel", "--outdir", tmp_path / "dist", unpacked])
    (pure,) = (tmp_path / "dist").iterdir()
    with zipfile.ZipFile(wheel) as compiled_archive, zipfile.ZipFile(pure) as archive:
        expected = {name for name in compiled_archive.namelist() if not name.endswith(".so")}
        assert set(archive.namelist()) == expected


def test_the_metadata_is_as_an_index_wants_it(distributions: Path) -> None:
    command = [sys.executable, "-P", "-m", "twine", "check", "--strict"]
    done = subprocess.run(
        [*command, *distributions.iterdir()], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
