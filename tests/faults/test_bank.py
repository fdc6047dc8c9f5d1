"""Three moments of trouble for the bank; `python -m tests.faults.bank` plays fifty."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.bank import play

SEED = 1
MOMENTS = ("zombie", "transaction coordinator killed", "leader paused")


@pytest.mark.timeout(300)
def test_transactions_keep_their_promises(tmp_path: Path) -> None:
    result = play(tmp_path, SEED, MOMENTS, ("confluent", "pybroker"), ("pybroker",))
    assert not result.broken, "\n".join([*result.broken, "the story:", *result.story])
    assert result.committed > 0
    assert result.receipts > 0
    assert result.fenced == 1
    print(result.summary())
