"""Four thousand mutated handshakes, fewer in `make test`; `tls_mutations` plays 200 000 by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.abuse.mutations import is_good
from tests.abuse.secured import Secured
from tests.abuse.tls_mutations import SLACK_DESCRIPTORS, WINDOW, attack, descriptors_of
from tests.support import examples

COUNT = examples.of(4_000)
SEED = 1


@pytest.mark.timeout(300)
def test_mutated_handshakes(secured: Secured, tmp_path: Path) -> None:
    list(attack(secured, tmp_path, WINDOW, SEED))  # what the good client has opened is no loss
    before = descriptors_of(secured.pid)
    for row, ends in attack(secured, tmp_path, COUNT, SEED):
        assert is_good(row), row
        assert ends["open"] > 0  # where anybody may come in: not all mutants break at once
    assert descriptors_of(secured.pid) - before <= SLACK_DESCRIPTORS
