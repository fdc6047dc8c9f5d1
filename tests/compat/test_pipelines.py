"""Pipelines as people run them: killed with SIGKILL in the middle, begun again, and all is right.

Each runs twice over records that come while it runs; Spark's start is most of what it costs.
`make test` runs flight_delays (20 s), `make spark` all.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import pipelines
from tests.support.pipelines import Ground
from tests.support.processes import BrokerProcess

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1800)]


@pytest.fixture
def ground(shared_broker: BrokerProcess, tmp_path: Path) -> Ground:
    servers = shared_broker.bootstrap
    return Ground(servers, tmp_path, "local[2]", "local[2]", pipelines.kill)


def test_flight_delays(ground: Ground) -> None:
    pipelines.check_flight_delays(ground)


@pytest.mark.parametrize("name", ["sessions", "enrich", "consumer_lag", "lake", "word_count"])
def test_other_pipelines(ground: Ground, name: str) -> None:
    getattr(pipelines, f"check_{name}")(ground)
