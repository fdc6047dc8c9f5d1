"""The quick cases of `tests.faults.run`, for every change; that command plays all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.catalogue import CASES
from tests.faults.scenario import Unavailable, play

SEED = 1


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", [one.name for one in CASES.values() if one.quick])
def test_promises_are_kept(name: str, tmp_path: Path) -> None:
    try:
        outcome = play(CASES[name], tmp_path, "embedded", SEED)
    except Unavailable as reason:
        pytest.skip(str(reason))
    assert not outcome.broken, "\n".join(outcome.told())
