"""The files that GitHub reads are valid by its schemas, and name commands and paths that exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.pythons import claimed
from tests.support.processes import ROOT

GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
FORMS = sorted(
    set((GITHUB / "ISSUE_TEMPLATE").glob("*.yml")) - {GITHUB / "ISSUE_TEMPLATE/config.yml"}
)


def problems(schema: str, *files: Path) -> str:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}"]
    done = subprocess.run([*command, *files], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr if done.returncode else ""


@pytest.mark.parametrize(
    ("schema", "files"),
    [
        ("github-workflows", WORKFLOWS),
        ("github-actions", [ROOT / "action.yml"]),
        ("github-issue-forms", FORMS),
        ("github-issue-config", [GITHUB / "ISSUE_TEMPLATE/config.yml"]),
    ],
)
def test_files_are_valid(schema: str, files: list[Path], tmp_path: Path) -> None:
    assert files
    assert not problems(schema, *files)
    broken = tmp_path / "broken.yml"
    broken.write_text("name: 3\njobs: []\nbody: 1\nblank_issues_enabled: 7\n")
    assert problems(schema, broken)


def test_workflows_run_what_is_there() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for workflow in WORKFLOWS:
        for command in re.findall(r"^\s*-? ?run: (.+)$", workflow.read_text(), re.MULTILINE):
            for target in re.findall(r"\bmake ([a-z-]+)", command):
                assert re.search(rf"^{target}:", makefile, re.MULTILINE), command
            for module in re.findall(r"python -m (tests[\w.]+)", command):
                assert (ROOT / module.replace(".", "/")).with_suffix(".py").exists(), command
            for path in re.findall(r"(?<![\w/])(\.ci/\w+|docker/\w+)", command):
                assert (ROOT / path).exists(), command


def test_each_claimed_python_is_tested() -> None:
    jobs = yaml.safe_load((GITHUB / "workflows" / "tests.yml").read_text())["jobs"]
    assert set(jobs["pythons"]["strategy"]["matrix"]["python"]) == claimed()
