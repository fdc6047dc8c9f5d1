"""Simulated ensembles of ZooKeeper members: some seeds hold all promises, planted faults are found.

`python -m tests.simulation.ensembles --seeds N` plays as many as one wants.
"""

import pytest

from tests.simulation.ensemble_register import Violation
from tests.simulation.ensembles import PLANTS, run_seed
from tests.support.nightly import chosen

SEEDS = range(1, 7)
MOST_SEEDS = 40  # until a planted fault shows


@pytest.mark.parametrize("seed", chosen(SEEDS, SEEDS[:3]))
def test_a_seed_keeps_all_promises(seed: int) -> None:
    ensemble = run_seed(seed)
    assert ensemble.checks.leaders
    assert sum(len(client.acked) for client in ensemble.clients.all) > 0


def test_a_seed_is_the_same_twice() -> None:
    first, second = run_seed(3), run_seed(3)
    assert first.checks.contents == second.checks.contents
    assert first.checks.leaders == second.checks.leaders


@pytest.mark.parametrize("plant", chosen(PLANTS, ["ack_before_fsync", "commit_without_quorum"]))
def test_a_planted_fault_is_found(plant: str) -> None:
    for seed in range(1, MOST_SEEDS):
        try:
            run_seed(seed, plant)
        except Violation:
            return
    raise AssertionError(f"{plant} was not found in {MOST_SEEDS} seeds")
