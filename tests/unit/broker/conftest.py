"""A ZooKeeper to talk to: the embedded one, and the real one where Java is there."""

from collections.abc import Iterator

import pytest

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
