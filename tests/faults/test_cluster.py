"""The quick cases of `tests.faults.run`, for every change; that command plays all of them.

Our client is at work in each, librdkafka and kafka-python in every second one.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.catalogue import CASES
from tests.faults.scenario import Unavailable, play
from tests.support.nightly import chosen

SEED = 1
QUICK = [one.name for one in CASES.values() if one.quick]
OTHERS = ("confluent", "kafka-python")
IN_EVERY_RUN = ("leader_killed", "all_killed_at_once")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", chosen(QUICK, IN_EVERY_RUN))
def test_promises_are_kept(name: str, tmp_path: Path) -> None:
    clients = ("pybroker", OTHERS[QUICK.index(name) % len(OTHERS)])
    try:
        outcome = play(CASES[name], tmp_path, CASES[name].zookeepers[0], SEED, clients)
    except Unavailable as reason:
        pytest.skip(str(reason))
    assert not outcome.broken, "\n".join(outcome.told())
