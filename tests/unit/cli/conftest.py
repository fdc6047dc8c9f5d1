"""Whatever clusters run on this machine, commands that are tested here do not find them."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYBROKER_DATA_DIR", str(tmp_path / "no-cluster"))
    for name in ("PYBROKER_BOOTSTRAP", "PYBROKER_PROFILE"):
        monkeypatch.delenv(name, raising=False)
