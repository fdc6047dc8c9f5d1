"""The simulation of a group of the consumer protocol in CI: some seeds, and the planted faults.

`python -m tests.simulation.run --groups --seed N` replays a failing seed.
"""

import pytest

from tests.simulation import planted_groups
from tests.simulation.groups import simulate_groups
from tests.simulation.test_transactions import told
from tests.support.nightly import chosen
from tests.support.sources import needs_sources

SEEDS = 12
CHUNK = 4

# Where CI begins to look for each planted fault: the first seed that finds it, by
# `python -m tests.simulation.run --groups --planted --seeds 300`.
KNOWN_SEEDS = {
    "heartbeat answered before the log is durable": 3,
    "partitions are given before they are free": 0,
    "stale commits are accepted": 26,
    "sessions do not end": 1,
}


@pytest.mark.parametrize("first_seed", chosen(range(0, SEEDS, CHUNK), [0]))
def test_a_group_keeps_its_promises(first_seed: int) -> None:
    committed = 0
    for seed in range(first_seed, first_seed + CHUNK):
        result = simulate_groups(seed)
        if result.error is not None:
            pytest.fail(told(result), pytrace=False)
        committed += result.batches
    assert committed > 0


@needs_sources
@pytest.mark.timeout(600)  # Some are found after tens of seeds, should the known one not do.
@pytest.mark.parametrize("name", chosen(KNOWN_SEEDS, ["stale commits are accepted"]))
def test_a_planted_fault_is_found(name: str) -> None:
    seeds = range(KNOWN_SEEDS[name], KNOWN_SEEDS[name] + planted_groups.MAX_SEEDS)
    result = planted_groups.find(name, seeds)
    assert result is not None, f"not found within {planted_groups.MAX_SEEDS} seeds"
    print(f"{name}: found at seed {result.seed}: {result.error}")
