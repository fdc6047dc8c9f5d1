"""Fifty thousand mutated requests of every API and version; `mutations` does a million by hand.

As many again at a broker that serves what Kafka 4 has. `make test` sends the first of them alone
(MUTATED_REQUESTS).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from pybroker_kafka.protocol.api import ApiKey
from tests.abuse.beside import bystander
from tests.abuse.largest import OF_4, newest_versions
from tests.abuse.mutations import attack, is_good
from tests.wire.test_advertised import SERVED

COUNT = int(os.environ.get("MUTATED_REQUESTS", "50000"))
SEED = 1


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("config", "newest"), [({}, SERVED), (OF_4, newest_versions())], ids=["3.9", "4"]
)
def test_mutated_requests(
    tmp_path: Path, config: Mapping[str, str], newest: Mapping[ApiKey, int]
) -> None:
    with bystander(tmp_path, config) as good:
        for row in attack(good, COUNT, SEED, newest):
            assert is_good(row), row
