"""The simulation of the real client in CI: some seeds, one twice, and the planted faults.

`python -m tests.simulation.run --client --seed N` replays a failing seed, `--client-2` one with
transactions of version 2, the consumer protocol of groups, and queues.
"""

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.simulation import planted_client, planted_client_2, planted_queues
from tests.simulation.client_cluster import simulate_client, simulate_client_2
from tests.simulation.cluster import Result
from tests.simulation.test_simulation import ROOT
from tests.simulation.test_transactions import told
from tests.support.nightly import chosen
from tests.support.sources import needs_sources

SEEDS = 2
CHUNK = 2

# Those that CI looks for, and where it begins to: the first seed that finds each, by
# `python -m tests.simulation.run --client --planted`, which looks for all.
KNOWN_SEEDS = {
    "retry under a new sequence number": 2,
    "aborted records are handed out": 1,
    "leaders of older epochs are believed": 3,
    "what is fetched is committed": 3,
    "what is in hand is committed by who is cancelled": 6,
    "open records are committed": 0,
    "a cancelled poll loses records": 0,
}


FAULTS_IN_EVERY_RUN = ("what is fetched is committed",)

# The first seed that finds each fault of a queue.
QUEUE_SEEDS = {
    "acknowledgements are answered before they are written": 0,
    "locks of records never end": 0,
    "states of records are lost with their leader": 0,
    "the next leader skips what is in flight": 1,
    "replaced leaders of a queue may write": 0,
    "released records are archived": 1,
    "deliveries are not counted": 0,
    "records are accepted before they are done": 0,
    "records are handed out after their locks": 3,
    "results of lost sessions count as committed": 0,
}
QUEUE_FAULTS_IN_EVERY_RUN = ("deliveries are not counted",)


@pytest.mark.parametrize("simulate", [simulate_client, simulate_client_2])
@pytest.mark.parametrize("first_seed", range(0, SEEDS, CHUNK))
def test_the_client_keeps_its_promises(first_seed: int, simulate: Callable[[int], Result]) -> None:
    acknowledged = 0
    for seed in range(first_seed, first_seed + CHUNK):
        result = simulate(seed)
        if result.error is not None:
            pytest.fail(told(result), pytrace=False)
        acknowledged += result.batches
    assert acknowledged > 0


@pytest.mark.nightly  # test_both_ways compares two processes, too
def test_the_same_seed_is_the_same_run_in_two_processes() -> None:
    """Trio's schedule, the client's own draws and the order of its sets included."""
    script = (
        "from tests.simulation.client_cluster import simulate_client;"
        "print(*(simulate_client(seed).digest for seed in (3, 4)))"
    )
    digests = []
    for hash_seed in ("1", "2"):
        environment = dict(os.environ, PYTHONHASHSEED=hash_seed)
        done = subprocess.run(
            [sys.executable, "-c", script],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        digests.append(done.stdout.split())
    assert len(set(digests[0])) == 2
    assert digests[0] == digests[1]


@needs_sources
@pytest.mark.parametrize("name", chosen(planted_client_2.PLANTED, ["revoked partitions are kept"]))
def test_a_planted_fault_of_the_consumer_protocol_is_found(name: str) -> None:
    result = planted_client_2.find(name)
    assert result is not None, f"not found within {planted_client_2.MAX_SEEDS} seeds"
    print(f"{name}: found at seed {result.seed}: {result.error}")


@needs_sources
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", chosen(planted_queues.PLANTED, QUEUE_FAULTS_IN_EVERY_RUN))
def test_a_planted_fault_of_queues_is_found(name: str) -> None:
    result = planted_queues.find(name, range(QUEUE_SEEDS[name], planted_queues.MAX_SEEDS))
    assert result is not None, f"not found within {planted_queues.MAX_SEEDS} seeds"
    print(f"{name}: found at seed {result.seed}: {result.error}")


@needs_sources
@pytest.mark.timeout(600)  # Some are found after tens of seeds, should the known one not do.
@pytest.mark.parametrize("name", chosen(KNOWN_SEEDS, FAULTS_IN_EVERY_RUN))
def test_a_planted_fault_is_found(name: str) -> None:
    result = planted_client.find(name, range(KNOWN_SEEDS[name], planted_client.MAX_SEEDS))
    assert result is not None, f"not found within {planted_client.MAX_SEEDS} seeds"
    print(f"{name}: found at seed {result.seed}: {result.error}")
