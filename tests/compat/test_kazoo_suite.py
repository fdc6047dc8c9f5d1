"""A part of kazoo's own test suite against the embedded ZooKeeper; `kazoo_suite` runs all of it.

At one server, and at members of an ensemble of three. Its client tests: every operation,
authentication, lost connections and sessions, transactions. Not those that give a server five
seconds to start: on a busy machine it may take longer.
"""

import subprocess

import pytest

from tests.compat import kazoo_suite

TESTS = ["kazoo/tests/test_client.py", "kazoo/tests/test_counter.py"]
NOT_FOR_A_BUSY_MACHINE = ["-k", "not request_queuing"]
WORKERS = 4
FEWEST_PASSED = 100


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("members", [1, 3])
def test_kazoos_own_client_tests(members: int) -> None:
    try:
        sources = kazoo_suite.sources()
    except kazoo_suite.Unavailable as error:
        pytest.skip(f"kazoo's sdist comes from PyPI: {error}")
    workers = WORKERS if members == 1 else WORKERS // 2
    done = subprocess.run(
        kazoo_suite.command(workers, [*NOT_FOR_A_BUSY_MACHINE, *TESTS]),
        cwd=sources,
        env=kazoo_suite.environment(members),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-6000:]
    last = done.stdout.splitlines()[-1]
    assert int(last.partition(" passed")[0]) >= FEWEST_PASSED, last
