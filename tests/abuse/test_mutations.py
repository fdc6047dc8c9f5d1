"""Fifty thousand mutated requests of every API and version; `mutations` does a million by hand.

As many again at a broker that serves what Kafka 4 has. `make test` sends some of the latter alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from pybroker_kafka.protocol.api import ApiKey
from tests.abuse.beside import bystander
from tests.abuse.largest import OF_4, newest_versions
from tests.abuse.mutations import attack, is_good
from tests.support import examples
from tests.wire.test_advertised import SERVED

COUNT = examples.of(50_000)
SEED = 1


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("config", "newest"),
    [
        pytest.param({}, SERVED, id="3.9", marks=pytest.mark.nightly),
        pytest.param(OF_4, newest_versions(), id="4"),
    ],
)
def test_mutated_requests(
    tmp_path: Path, config: Mapping[str, str], newest: Mapping[ApiKey, int]
) -> None:
    with bystander(tmp_path, config) as good:
        for row in attack(good, COUNT, SEED, newest):
            assert is_good(row), row
