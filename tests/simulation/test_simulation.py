"""Seeds of the simulation: a failing one prints its settings, what it found, and its last steps."""

import pytest

from tests.simulation.cluster import simulate

SEEDS = 20
TRACE_TAIL = 80


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_seed_holds_all_invariants(seed: int) -> None:
    result = simulate(seed)
    if result.error is not None:
        tail = "\n".join(result.trace[-TRACE_TAIL:])
        pytest.fail(f"seed {seed} ({result.settings}): {result.error}\n{tail}", pytrace=False)
