"""A ZooKeeper to talk to: the embedded one, and the real one where Java is there; virtual time."""

from collections.abc import Iterator

import pytest
from trio.testing import MockClock

from pybroker_kafka.broker.resources import stopwatch
from pybroker_kafka.testing import Network
from tests.support.embedded_zookeeper import embedded_zookeeper
from tests.support.real_zookeeper import real_zookeeper


@pytest.fixture(scope="module", params=["embedded", "real"])
def zookeeper_port(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[int]:
    if request.param == "embedded":
        with embedded_zookeeper() as port:
            yield port
    else:
        with real_zookeeper(tmp_path_factory.mktemp("zookeeper"), tick_ms=200) as port:
            yield port


@pytest.fixture
def network() -> Iterator[Network]:
    with Network() as network:
        yield network


@pytest.fixture
def autojump_clock(autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> MockClock:
    """pytest-trio's clock beside an idle processor: its real share says nothing in virtual time."""
    monkeypatch.setattr(stopwatch, "cpu", lambda: 0.0)
    return autojump_clock
