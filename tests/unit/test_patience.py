"""Limits of time that know how busy the machine is.

Cases: a. the clock is the wall's where nothing else runs; b. slower where more wants to run than
there are processors, by as much, and by what a hypervisor takes; c. never slower than its bound;
d. a `timeout` of subprocess is on it, and still ends what hangs; e. so is pytest's limit of a test;
f. what passed a limit of the wall's clock is noted.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import pytest_timeout

from tests.support import patience
from tests.support.patience import MAX_SLOWNESS, FairClock, Limit

SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]


@pytest.fixture
def busy(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """A machine on which as much wants to run as a test says."""
    state = SimpleNamespace(ready=1.0, stolen=0.0)
    monkeypatch.setattr(patience, "slow_core", lambda: 1.0)
    monkeypatch.setattr(patience, "ready_to_run", lambda: state.ready)
    monkeypatch.setattr(patience.Stolen, "share", lambda _self: state.stolen)
    monkeypatch.setattr(patience, "SAMPLE_SECONDS", 0.0)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr(patience, "fair", FairClock())
    monkeypatch.setattr(subprocess, "_time", lambda: patience.fair.now())
    return state


@pytest.mark.parametrize(
    ("ready", "stolen", "slowness"),
    [(0, 0, 1), (2, 0, 1), (8, 0, 4), (2, 0.5, 2), (8, 0.5, 8), (1e6, 0.99, MAX_SLOWNESS)],
)
def test_how_slow(busy: SimpleNamespace, ready: float, stolen: float, slowness: float) -> None:
    """Cases a to c."""
    busy.ready, busy.stolen = ready, stolen
    clock = FairClock()
    began, wall = clock.now(), time.monotonic()
    time.sleep(0.2)
    took, seconds = clock.now() - began, time.monotonic() - wall
    assert clock.slowness() == slowness
    assert took == pytest.approx(seconds / slowness, abs=0.05)
    assert took <= seconds


def test_a_timeout_of_a_subprocess(busy: SimpleNamespace) -> None:
    """Case d."""
    busy.ready = 1e6
    for wait in ("wait", "communicate"):
        with subprocess.Popen(SLEEP) as process:
            wall = time.monotonic()
            with pytest.raises(subprocess.TimeoutExpired):
                getattr(process, wait)(timeout=0.05)
            assert time.monotonic() - wall > 0.5 * MAX_SLOWNESS * 0.05
            process.kill()


@pytest.mark.parametrize("is_busy", [False, True])
def test_the_limit_of_a_test(
    busy: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, is_busy: bool
) -> None:
    """Case e. The alarm of this test itself is gone with it."""
    busy.ready = 1e6 if is_busy else 1
    ended: list[object] = []
    monkeypatch.setattr(patience, "_stretched", False)
    monkeypatch.setattr(pytest_timeout, "timeout_sigalrm", lambda *_: ended.append(1))
    item: Any = SimpleNamespace()
    settings = SimpleNamespace(timeout=0.1, method="signal")
    assert patience.pytest_timeout_set_timer(item, settings)
    time.sleep(0.4)
    item.cancel_timeout()
    assert bool(ended) is not is_busy


def test_a_note(busy: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Case f."""
    monkeypatch.setattr(patience, "_stretched", False)
    notes = tmp_path / "notes"
    patience._note(notes, "quick", 2.0, 1.0, 0.5)
    patience._note(notes, "long", 20.0, 19.0, 18.0)
    assert patience.told(notes) == []
    patience._note(notes, "waited", 30.0, 6.0, 1.0)
    busy.ready = 1e6
    limit = Limit(0.05)
    time.sleep(0.1)
    assert not limit.is_over
    patience._note(notes, "late", 3.0, 0.5, 0.1)
    first, second = patience.told(notes)
    assert first.endswith("waited")
    assert second.endswith("late (past its limit)")
