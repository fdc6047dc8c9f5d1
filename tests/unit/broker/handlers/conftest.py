"""A broker that is its handlers and a replica manager."""

from pathlib import Path

import pytest

from tests.support.replication_handlers import HandlerBroker


@pytest.fixture
def broker(tmp_path: Path) -> HandlerBroker:
    return HandlerBroker(tmp_path)
