"""A seed does the same to the last step, whether the way of a request is compiled or not."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from pybroker_kafka.compiled import REQUEST_PATH, is_compiled
from tests.support.nightly import chosen

SEED = 123
KINDS = [(), ("--transactions",), ("--transactions-2",), ("--client",)]


def told(compiled: str, *kind: str) -> str:
    """How the seed ended, with the digest of all that was done; strings have other hashes each way,
    so that no order of a set may decide anything."""
    command = [sys.executable, "-m", "tests.simulation.run", f"--seed={SEED}", "--lines=0", *kind]
    hash_seed = {"all": "1", "loops": "2"}[compiled]
    environment = os.environ | {"PYBROKER_COMPILED": compiled, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    [line] = [line for line in done.stdout.splitlines() if "digest" in line]
    return line


@pytest.mark.skipif(not is_compiled(REQUEST_PATH), reason="not compiled here")
@pytest.mark.parametrize("kind", chosen(KINDS, [(), ("--client",)]))
def test_a_seed_is_the_same_both_ways(kind: tuple[str, ...]) -> None:
    assert told("all", *kind) == told("loops", *kind)
