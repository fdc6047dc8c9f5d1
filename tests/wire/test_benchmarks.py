"""The benchmarks run: one short load against our broker, from the command to the page."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.results import Results
from tests.support.processes import ROOT

LIMIT_SECONDS = 100


@pytest.mark.nightly
@pytest.mark.skipif(shutil.which("cc") is None, reason="the load generators are in C")
def test_a_load_is_measured_and_the_page_written(tmp_path: Path) -> None:
    words = ["--loads", "small-8x1,packed-zstd", "--brokers", "pybroker,c-server", "--quick"]
    sizes = ["--seconds", "0.2", "--megabytes", "5"]
    where = ["--results", str(tmp_path / "results.json"), "--directory", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.run", *words, *sizes, *where],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    results = Results.load(tmp_path / "results.json")
    for load, broker, figure in (
        ("small-8x1", "pybroker", "requests/s"),
        ("small-8x1", "c-server", "requests/s"),
        ("packed-zstd", "pybroker", "produce MB/s"),
    ):
        summary = results.summary(load, broker, figure)
        assert summary is not None
        assert summary.median > 0
        assert len(results.warm_ups[f"{load} {broker}"]) >= 3
    page = (tmp_path / "RESULTS.md").read_text()
    assert "| `small-8x1` | requests/s (more is better) |" in page
    assert not list(tmp_path.glob("pybroker-bench-*"))
