"""Fifty thousand mutated requests of every API and version; `mutations` does a million by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.abuse.beside import bystander
from tests.abuse.mutations import attack, is_good

COUNT = 50_000
SEED = 1


@pytest.mark.timeout(600)
def test_mutated_requests(tmp_path: Path) -> None:
    with bystander(tmp_path) as good:
        for row in attack(good, COUNT, SEED):
            assert is_good(row), row
