"""How the demo ends when it is told to."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

SLOW = """
import os, signal, time
os.kill(os.getpid(), signal.{name})
time.sleep(0.2)
print("imported", flush=True)
"""
PROGRAM = """
import signal, time
from pybroker_kafka.spark_jobs.demo import end
signal.signal(signal.{name}, end)
import slow
time.sleep(30)
print("too late")
"""


@pytest.mark.parametrize(
    ("name", "status"), [("SIGTERM", 128 + signal.SIGTERM), ("SIGINT", -signal.SIGINT)]
)
def test_not_in_an_import(tmp_path: Path, name: str, status: int) -> None:
    (tmp_path / "slow.py").write_text(SLOW.format(name=name))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(name=name)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout == "imported\n"
    assert done.returncode == status
