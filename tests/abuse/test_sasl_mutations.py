"""Ten thousand mutated logins, fewer in `make test`; `sasl_mutations` plays 200 000 by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.abuse.beside import bystander
from tests.abuse.mutations import is_good
from tests.abuse.sasl_mutations import attack, secured
from tests.support import examples
from tests.support.processes import free_port

COUNT = examples.of(10_000)
SEED = 1


@pytest.mark.timeout(300)
def test_mutated_logins(tmp_path: Path) -> None:
    port = free_port(2)
    with bystander(tmp_path, secured(port), port=port) as good:
        for row in attack(good, COUNT, SEED):
            assert is_good(row), row
