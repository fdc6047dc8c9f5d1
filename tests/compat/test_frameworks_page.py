"""docs/FRAMEWORKS.md: its projects pass as they stand there.

Those of frameworks that are not installed here are run by `python -m tests.package.fresh
--frameworks`, in an environment of their own.
"""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path

import pytest

from tests.compat.test_testing import PYTEST_SECONDS, pytest_command
from tests.support.frameworks_page import PAGE, projects, requirements, write
from tests.support.nightly import chosen

ELSEWHERE = {
    "Quix Streams": "quixstreams",
    "Faust": "faust",
    "Django": "django",
    "Celery": "celery",
}


def test_each_block_is_a_file_of_a_project() -> None:
    found = projects()
    assert set(ELSEWHERE) < set(found)
    blocks = PAGE.read_text().count("```python\n")
    assert sum(len(files) for files in found.values()) == blocks
    assert all(any(name.startswith("test_") for name in files) for files in found.values())
    assert requirements() == [
        "celery", "confluent-kafka", "django", "faststream[kafka]", "faust-streaming",
        "kafka-python", "quixstreams",
    ]  # fmt: skip


@pytest.mark.parametrize("title", chosen(projects(), {*projects()} - {"A queue of tasks"}))
def test_a_project_passes(tmp_path: Path, title: str) -> None:
    module = ELSEWHERE.get(title)
    if module is not None and importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not installed; python -m tests.package.fresh --frameworks")
    write(projects()[title], tmp_path)
    done = subprocess.run(
        pytest_command(tmp_path, "--strict-markers"),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PYTEST_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout
