"""The cluster that the tests of this directory share, over either ZooKeeper."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.mixed.cluster import MixedCluster, mixed_cluster
from tests.mixed.complaints import unexplained


@pytest.fixture(scope="session", params=["real", "embedded"])
def shared_cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MixedCluster]:
    with mixed_cluster(tmp_path_factory.mktemp("mixed"), request.param) as started:
        yield started


@pytest.fixture
def cluster(shared_cluster: MixedCluster) -> Iterator[MixedCluster]:
    """The shared cluster; no broker may log a complaint that the test does not explain."""
    marks = {node: len(broker.log_text) for node, broker in shared_cluster.nodes.items()}
    yield shared_cluster
    for node, broker in shared_cluster.nodes.items():
        complaints = unexplained(broker.log_text[marks[node] :].splitlines())
        told = "\n".join([f"node {node} complains", *complaints, *shared_cluster.story[-40:]])
        assert complaints == [], told
