"""One broker process for all wire tests, and the last exchanges beside a failure."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import pytest

from tests.support.processes import BrokerProcess, running_broker
from tests.support.wire import WireClient


@pytest.fixture(scope="session")
def wire_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """Shared by all tests here: each makes its own topics and groups."""
    with running_broker(tmp_path_factory.mktemp("wire")) as broker:
        yield broker


@pytest.fixture
def kafka(wire_broker: BrokerProcess) -> Iterator[WireClient]:
    """A fresh connection."""
    with WireClient(wire_broker.bootstrap) as client:
        yield client


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: Any) -> Generator[None, Any, Any]:
    report = yield
    client = getattr(item, "funcargs", {}).get("kafka")
    if client is not None and report.failed:
        report.sections.append(("last requests and responses", "\n".join(client.exchanges)))
    return report
