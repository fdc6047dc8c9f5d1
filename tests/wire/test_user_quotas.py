"""A quota of a user is for whoever has logged in as that user."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pybroker_kafka.protocol.sasl import PlainClient
from tests.support.patience import until
from tests.support.processes import free_port, running_broker
from tests.support.sasl_client import handshake, talk
from tests.support.wire import WireClient
from tests.wire.test_client_quotas import HEARTBEAT, alter

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
CONFIG = {
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,USERS:SASL_PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.users.plain.sasl.jaas.config": f'{MODULE} user_alice="a" user_bob="b";',
}


@pytest.fixture(scope="module")
def listeners(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    found = {name: f"127.0.0.1:{free_port()}" for name in ("PLAINTEXT", "USERS")}
    texts = ",".join(f"{name}://{address}" for name, address in found.items())
    with running_broker(tmp_path_factory.mktemp("users"), {**CONFIG, "listeners": texts}):
        yield found


def test_a_quota_of_a_user_is_for_its_logins(listeners: dict[str, str]) -> None:
    clients = [WireClient(listeners[name]) for name in ("PLAINTEXT", "USERS", "USERS")]
    admin, alice, bob = clients
    for client, name, password in ((alice, "alice", "a"), (bob, "bob", "b")):
        assert handshake(client, "PLAIN").error_code == 0
        assert talk(client, PlainClient(name, password), 1).error_code == 0
    alter(admin, {"user": "alice"}, {"request_percentage": 1e-9})
    until(lambda: alice.call(HEARTBEAT, 4).throttle_time_ms)
    for other in (bob, admin):
        assert other.call(HEARTBEAT, 4).throttle_time_ms == 0
    for client in clients:
        client.close()
