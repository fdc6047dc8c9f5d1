"""A replica manager with real logs, alone and with handlers."""

from pathlib import Path

import pytest

from tests.support.replication import ReplicaCluster
from tests.support.replication_handlers import HandlerBroker


@pytest.fixture
def cluster(tmp_path: Path) -> ReplicaCluster:
    return ReplicaCluster(tmp_path)


@pytest.fixture
def broker(tmp_path: Path) -> HandlerBroker:
    return HandlerBroker(tmp_path)
