"""The simulation of transactions in CI: some seeds, and the planted faults.

`python -m tests.simulation.run --transactions --seed N` replays a failing seed.
"""

import pytest

from tests.simulation import planted_transactions, planted_transactions_2
from tests.simulation.cluster import Result
from tests.simulation.transactions import simulate_transactions, simulate_transactions_2
from tests.support.nightly import chosen
from tests.support.sources import needs_sources

SEEDS = 4
CHUNK = 4
TRACE_TAIL = 80

# Where CI begins to look for each planted fault: the first seed that finds it, by
# `python -m tests.simulation.run --transactions --planted --seeds 600`.
KNOWN_SEEDS = {
    "marker before the log is durable": 8,
    "LSO past an open transaction": 0,
    "epoch not bumped on timeout": 2,
    "offsets visible before the commit": 1,
    "late requests are applied": 5,
    "coordinator answers from memory": 9,
    "offsets answered from memory": 26,
    "unlogged fences are believed": 8,
    "late markers are written": 3,
    "late offsets are taken": 6,
}
FAULTS_IN_EVERY_RUN = ("LSO past an open transaction",)


def told(result: Result) -> str:
    tail = "\n".join(result.trace[-TRACE_TAIL:])
    return f"seed {result.seed} ({result.settings}): {result.error}\n{tail}"


@pytest.mark.parametrize("first_seed", range(0, SEEDS, CHUNK))
def test_transactions_keep_their_promises(first_seed: int) -> None:
    committed = 0
    for seed in range(first_seed, first_seed + CHUNK):
        result = simulate_transactions(seed)
        if result.error is not None:
            pytest.fail(told(result), pytrace=False)
        committed += result.batches
    assert committed > 0


@needs_sources
@pytest.mark.timeout(600)  # Some are found after tens of seeds, should the known one not do.
@pytest.mark.parametrize("name", chosen(KNOWN_SEEDS, FAULTS_IN_EVERY_RUN))
def test_a_planted_fault_is_found(name: str) -> None:
    seeds = range(KNOWN_SEEDS[name], KNOWN_SEEDS[name] + planted_transactions.MAX_SEEDS)
    result = planted_transactions.find(name, seeds)
    assert result is not None, f"not found within {planted_transactions.MAX_SEEDS} seeds"
    print(f"{name}: found at seed {result.seed}: {result.error}")


# Of version 2, as above, with `--transactions-2`.
KNOWN_SEEDS_2 = {
    "coordinator is not waited for": 0,
    "next end is taken for a retry": 6,
    "marker may have the epoch of the transaction": 0,
}


@pytest.mark.parametrize("first_seed", range(0, SEEDS, CHUNK))
def test_transactions_of_version_2_keep_their_promises(first_seed: int) -> None:
    """Without the protections of ours that those of before need."""
    committed = 0
    for seed in range(first_seed, first_seed + CHUNK):
        result = simulate_transactions_2(seed)
        if result.error is not None:
            pytest.fail(told(result), pytrace=False)
        committed += result.batches
    assert committed > 0


@needs_sources
@pytest.mark.parametrize(
    "name", chosen(planted_transactions_2.HARMLESS, ["late markers are written"])
)
def test_what_harms_version_0_does_not_harm_version_2(name: str) -> None:
    first = KNOWN_SEEDS.get(name, 0)
    result = planted_transactions_2.find(name, range(first, first + 2))
    assert result is None, told(result)


@needs_sources
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", chosen(KNOWN_SEEDS_2, ["coordinator is not waited for"]))
def test_a_planted_fault_of_version_2_is_found(name: str) -> None:
    first = KNOWN_SEEDS_2[name]
    seeds = range(first, first + planted_transactions_2.MAX_SEEDS)
    result = planted_transactions_2.find(name, seeds)
    assert result is not None, f"not found within {planted_transactions_2.MAX_SEEDS} seeds"
    print(f"{name}: found at seed {result.seed}: {result.error}")
