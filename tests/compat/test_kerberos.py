"""Logins with tickets: a KDC of MIT Kerberos, the broker's key table, and clients.

About 6 s. Skipped where MIT's KDC or the package `gssapi` is not installed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import kafka
import pytest

from pybroker.protocol.errors import ErrorCode
from pybroker.protocol.messages.metadata import MetadataRequest
from tests.support.kerberos import REALM, Kerberos, kerberos
from tests.support.processes import free_port, running_broker
from tests.support.sasl_client import authenticate, bare, handshake
from tests.support.wire import WireClient

MODULE = "com.sun.security.auth.module.Krb5LoginModule required"
SERVICE = f"kafka/localhost@{REALM}"


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kerberos]:
    with kerberos(tmp_path_factory.mktemp("kerberos") / "realm") as found:
        found.log_in("alice", found.key_table("alice"))
        yield found


@pytest.fixture(scope="module")
def secured(realm: Kerberos, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    port = free_port(2)
    configs = {
        "listeners": f"PLAINTEXT://localhost:{port},TICKETS://localhost:{port + 1}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,TICKETS:SASL_PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.kerberos.service.name": "kafka",
        "listener.name.tickets.gssapi.sasl.jaas.config": (
            f'{MODULE} useKeyTab=true storeKey=true keyTab="{realm.key_table(SERVICE)}" '
            f'principal="{SERVICE}";'
        ),
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in realm.environment.items():
            patch.setenv(name, value)
        with running_broker(tmp_path_factory.mktemp("broker"), configs):
            yield f"localhost:{port + 1}"


class GssClient:
    """The client's side of RFC 4752, without a layer."""

    def __init__(self) -> None:
        import gssapi

        name = gssapi.Name("kafka@localhost", gssapi.NameType.hostbased_service)
        self._context: Any = gssapi.SecurityContext(name=name, usage="initiate")
        self._established = False

    def step(self, token: bytes) -> bytes:
        if not self._established:
            answer: bytes = self._context.step(token or None) or b""
            self._established = self._context.complete
            return answer
        assert self._context.unwrap(token).message == b"\x01\0\0\0"
        wrapped: bytes = self._context.wrap(b"\x01\0\0\0alice", False).message
        return wrapped


def test_a_login_step_by_step(secured: str) -> None:
    with WireClient(secured) as client:
        assert handshake(client, "GSSAPI").mechanisms == ["GSSAPI"]
        mine = GssClient()
        answer = authenticate(client, mine.step(b""))
        assert answer.error_code == 0
        answer = authenticate(client, mine.step(bytes(answer.auth_bytes)))
        answer = authenticate(client, mine.step(bytes(answer.auth_bytes)))
        assert (answer.error_code, answer.auth_bytes, answer.session_lifetime_ms) == (0, b"", 0)
        assert client.call(MetadataRequest(topics=[]), 1).brokers


def test_a_client_of_kafka_0_9_begins_with_a_token(secured: str) -> None:
    with WireClient(secured) as client:
        mine = GssClient()
        token = bare(client, mine.step(b""))
        token = bare(client, mine.step(token))
        assert bare(client, mine.step(token)) == b""
        assert client.call(MetadataRequest(topics=[]), 1).brokers


@pytest.mark.parametrize("token", [b"", b"x", b"`" * 500, bytes(2000)])
def test_what_is_no_ticket(secured: str, token: bytes) -> None:
    with WireClient(secured) as client:
        handshake(client, "GSSAPI")
        answer = authenticate(client, token)
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert answer.error_message == (
            "Authentication failed during authentication due to invalid credentials with SASL "
            "mechanism GSSAPI"
        )
        assert client.is_closed_by_broker()


def test_kafka_python(secured: str) -> None:
    login: dict[str, Any] = {
        "bootstrap_servers": secured,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "GSSAPI",
        "sasl_kerberos_service_name": "kafka",
    }
    producer = kafka.KafkaProducer(**login)
    producer.send("tickets", b"value")
    producer.flush(20)
    producer.close()
    consumer = kafka.KafkaConsumer(
        "tickets", auto_offset_reset="earliest", consumer_timeout_ms=10_000, **login
    )
    assert next(consumer).value == b"value"
    consumer.close()
