"""One broker process for all wire tests, and the last exchanges beside a failure."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import pytest

from pybroker_kafka.protocol.features import Feature
from tests.support.processes import BrokerProcess, running_broker
from tests.support.wire import WireClient
from tests.wire.feature_steps import SAFE_DOWNGRADE, finalize


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


@pytest.fixture(scope="session")
def raised_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker whose features tests finalize, and lower again."""
    with running_broker(tmp_path_factory.mktemp("features")) as broker:
        yield broker


@pytest.fixture
def finalized(raised_broker: BrokerProcess) -> Iterator[WireClient]:
    """A fresh connection to a broker that serves the versions of Kafka 4."""
    with WireClient(raised_broker.bootstrap) as client:
        finalize(client, {Feature.GROUP: 1})
        yield client
    with WireClient(raised_broker.bootstrap) as client:
        finalize(client, {Feature.GROUP: 0}, SAFE_DOWNGRADE)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: Any) -> Generator[None, Any, Any]:
    report = yield
    arguments = getattr(item, "funcargs", {})
    client = arguments.get("kafka") or arguments.get("finalized")
    if client is not None and report.failed:
        report.sections.append(("last requests and responses", "\n".join(client.exchanges)))
    return report
