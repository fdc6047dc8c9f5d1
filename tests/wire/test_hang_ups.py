"""A fetch may wait for 24 days: its place is free when its client is gone, and one that has shut
down its side gets its answer at once."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.apis.metadata import MetadataRequest
from tests.support.certificates import PASSWORD, Authority, pem
from tests.support.patience import until
from tests.support.processes import free_port, running_broker
from tests.support.wire import Topic, WireClient, fetch_request

PLACES = 12
FOR_EVER_MS = 2**31 - 1
PATIENCE_SECONDS = 20


class Full(NamedTuple):
    """A broker that has few places for connections."""

    addresses: dict[str, str]
    tls: ssl.SSLContext
    topic: Topic

    def client(self, protocol: str) -> WireClient:
        return WireClient(self.addresses[protocol], tls=self.tls if protocol == "SSL" else None)

    def waiting(self, protocol: str) -> WireClient:
        client = self.client(protocol)
        request = fetch_request(self.topic, version=12, max_wait_ms=FOR_EVER_MS, min_bytes=1 << 20)
        client.post(request, 12)
        return client

    def has_room_for(self, protocol: str, count: int) -> bool:
        """Whether so many new clients are answered, at the same time."""
        opened: list[WireClient] = []
        try:
            for _ in range(count):
                client = self.client(protocol)
                opened.append(client)
                client.call(MetadataRequest(topics=[]), 9)
        except (ConnectionError, ssl.SSLError):
            return False
        finally:
            for client in opened:
                client.close()
        return True


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Full]:
    directory = tmp_path_factory.mktemp("full")
    authority = Authority()
    plain = free_port(3)
    secure, own = plain + 1, plain + 2
    config = {
        "listeners": f"PLAINTEXT://127.0.0.1:{plain},SSL://127.0.0.1:{secure},"
        f"OWN://localhost:{own}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,OWN:PLAINTEXT",
        "inter.broker.listener.name": "OWN",
        "ssl.keystore.location": str(authority.server().write_pkcs12(directory / "server.p12")),
        "ssl.keystore.password": PASSWORD,
        "listener.name.plaintext.max.connections": str(PLACES),
        "max.connections.per.ip": str(PLACES),
    }
    with running_broker(directory, config) as broker:
        assert broker.is_running
        with WireClient(f"127.0.0.1:{plain}") as client:
            topic = client.create_topic()
        addresses = {"PLAINTEXT": f"127.0.0.1:{plain}", "SSL": f"127.0.0.1:{secure}"}
        tls = ssl.create_default_context(cadata=pem(authority.certificate))
        yield Full(addresses, tls, topic)


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL"])
def test_who_is_gone_holds_no_place(full: Full, protocol: str) -> None:
    for client in [full.waiting(protocol) for _ in range(PLACES - 4)]:
        client.close()
    until(lambda: full.has_room_for(protocol, PLACES - 4), seconds=PATIENCE_SECONDS)


def test_who_has_shut_down_its_side_is_answered(full: Full) -> None:
    with full.waiting("PLAINTEXT") as client:
        client.socket.shutdown(socket.SHUT_WR)
        with client.timeout(PATIENCE_SECONDS):
            answer = client.receive(ApiKey.FETCH, 12)
            assert answer.responses[0].partitions[0].error_code == 0
            assert client.is_closed_by_broker()
