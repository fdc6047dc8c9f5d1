"""Fixtures of the replication tests."""

from pathlib import Path

import pytest

from tests.support.replication import ReplicaCluster


@pytest.fixture
def cluster(tmp_path: Path) -> ReplicaCluster:
    return ReplicaCluster(tmp_path)
