"""Logins of a running listener, altered: who comes from then on meets the changed keys.

One broker with a plain listener and two with logins; about two seconds.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from kazoo.client import KazooClient

from pybroker_kafka.broker.security import password_encoder
from pybroker_kafka.protocol.apis.metadata import MetadataRequest
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.sasl import OAuthBearerClient, PlainClient
from tests.support.patience import until
from tests.support.processes import BrokerProcess, free_port, running_broker
from tests.support.sasl_client import handshake, talk
from tests.support.wire import WireClient
from tests.wire.test_configs import BROKER, DELETE, SET, change, describe

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
TOKEN_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
SIGNED_TOKENS = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
KEY = ec.generate_private_key(ec.SECP256R1())
SECRET = "the-encoder's-secret"
WAIT_SECONDS = 120.0
NAMES = ("PLAINTEXT", "USERS", "OWN")
ID = "1"


class Running:
    def __init__(self, broker: BrokerProcess, addresses: dict[str, str]) -> None:
        self.broker, self.addresses = broker, addresses

    def alter(self, *changes: tuple[int, str, str | None]) -> str | None:
        """The message of the refusal; None if it was done."""
        with WireClient(self.addresses["PLAINTEXT"]) as kafka:
            answer = change(kafka, 1, ID, *changes, kind=BROKER)
        assert answer.error_code in (ErrorCode.NONE, ErrorCode.INVALID_REQUEST)
        message: str | None = answer.error_message if answer.error_code else None
        return message

    def offered(self, listener: str) -> list[str]:
        """The mechanisms that a new connection is told of."""
        with WireClient(self.addresses[listener]) as kafka:
            return sorted(handshake(kafka, "NONE").mechanisms)

    def wait_for(self, listener: str, *mechanisms: str) -> None:
        until(
            lambda: self.offered(listener) == sorted(mechanisms),
            lambda: self.broker.log_text[-3000:],
        )

    def stored(self) -> dict[str, str]:
        """What ZooKeeper has of this broker's configs."""
        with WireClient(self.addresses["PLAINTEXT"]) as kafka:
            address = describe(kafka, ID, "zookeeper.connect", kind=BROKER)["zookeeper.connect"]
        client = KazooClient(address.value)
        client.start()
        try:
            config: dict[str, str] = json.loads(client.get(f"/config/brokers/{ID}")[0])["config"]
            return config
        finally:
            client.stop()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    addresses = {name: f"127.0.0.1:{free_port()}" for name in NAMES}
    config = {
        "listeners": ",".join(f"{name}://{address}" for name, address in addresses.items()),
        "listener.security.protocol.map": (
            "PLAINTEXT:PLAINTEXT,USERS:SASL_PLAINTEXT,OWN:SASL_PLAINTEXT"
        ),
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.users.plain.sasl.jaas.config": f'{MODULE} user_alice="alice-secret";',
        "listener.name.own.sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "password.encoder.secret": SECRET,
        "listener.name.users.oauthbearer.sasl.jaas.config": f"{TOKEN_MODULE};",
        "listener.name.users.oauthbearer.sasl.server.callback.handler.class": SIGNED_TOKENS,
    }
    directory = tmp_path_factory.mktemp("logins")
    jwk = {**jwt.algorithms.ECAlgorithm.to_jwk(KEY.public_key(), True), "kid": "one"}
    (directory / "keys.json").write_text(json.dumps({"keys": [jwk]}))
    config["sasl.oauthbearer.jwks.endpoint.url"] = (directory / "keys.json").as_uri()
    with running_broker(directory, config) as broker:
        yield Running(broker, addresses)


def test_new_connections_meet_the_altered_mechanisms(running: Running) -> None:
    with WireClient(running.addresses["USERS"]) as old:
        changed = (SET, "sasl.enabled.mechanisms", "SCRAM-SHA-512")
        assert running.alter(changed) is None
        running.wait_for("USERS", "SCRAM-SHA-512")
        assert handshake(old, "PLAIN").error_code == ErrorCode.NONE
        assert talk(old, PlainClient("alice", "alice-secret")).error_code == ErrorCode.NONE
        assert old.call(MetadataRequest(topics=[]), 9).brokers
    with WireClient(running.addresses["USERS"]) as late:
        refused = handshake(late, "PLAIN")
        assert refused.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert running.offered("OWN") == ["SCRAM-SHA-256"], "it has a key of its own"

    assert running.alter((DELETE, "sasl.enabled.mechanisms", None)) is None
    running.wait_for("USERS", "PLAIN")
    with WireClient(running.addresses["USERS"]) as late:
        handshake(late, "PLAIN")
        assert talk(late, PlainClient("alice", "alice-secret")).error_code == ErrorCode.NONE


def test_users_of_plain_come_and_go(running: Running) -> None:
    def may_log_in(name: str) -> bool:
        with WireClient(running.addresses["USERS"]) as kafka:
            handshake(kafka, "PLAIN")
            return not talk(kafka, PlainClient(name, f"{name}-secret")).error_code

    key = "listener.name.users.plain.sasl.jaas.config"
    assert running.alter((SET, key, f'{MODULE} user_bob="bob-secret";')) is None
    deadline = time.monotonic() + WAIT_SECONDS
    while not may_log_in("bob"):
        assert time.monotonic() < deadline
    assert not may_log_in("alice")
    stored = running.stored()[key]
    assert "bob-secret" not in stored
    assert "bob-secret" in password_encoder.decode(SECRET, stored)
    assert "bob-secret" not in running.broker.log_text
    assert running.alter((DELETE, key, None)) is None
    while not may_log_in("alice"):
        assert time.monotonic() < deadline


def test_keys_of_tokens_are_read_once_tokens_are_taken(running: Running) -> None:
    assert running.alter((SET, "sasl.enabled.mechanisms", "PLAIN,OAUTHBEARER")) is None
    running.wait_for("USERS", "OAUTHBEARER", "PLAIN")
    claims = {"sub": "alice", "iat": time.time(), "exp": time.time() + 60}
    token = jwt.encode(claims, KEY, "ES256", headers={"kid": "one"})

    def may_log_in() -> bool:
        with WireClient(running.addresses["USERS"]) as kafka:
            handshake(kafka, "OAUTHBEARER")
            return not talk(kafka, OAuthBearerClient(token)).error_code

    until(may_log_in, lambda: running.broker.log_text[-3000:])
    assert running.alter((DELETE, "sasl.enabled.mechanisms", None)) is None
    running.wait_for("USERS", "PLAIN")


def test_what_nobody_could_log_in_with_is_refused(running: Running) -> None:
    for mechanisms, why in (
        ("GSSAPI", "gssapi.sasl.jaas.config is not set"),
        ("PLAIN,MAGIC", "MAGIC is not known"),
    ):
        told = running.alter((SET, "sasl.enabled.mechanisms", mechanisms))
        assert told is not None
        assert why in told
    told = running.alter((SET, "listener.name.users.plain.sasl.jaas.config", "eve-secret"))
    assert told is not None
    assert "eve-secret" not in told
    assert running.offered("USERS") == ["PLAIN"]


def test_passwords_of_a_listener_to_come_are_kept_encrypted(running: Running) -> None:
    key = "listener.name.later.plain.sasl.jaas.config"
    text = f'{MODULE} user_carol="carol-secret";'
    assert running.alter((SET, key, text)) is None
    stored = running.stored()[key]
    assert "carol-secret" not in stored
    assert password_encoder.decode(SECRET, stored) == text
    deadline = time.monotonic() + WAIT_SECONDS
    with WireClient(running.addresses["PLAINTEXT"]) as kafka:
        while key not in (configs := describe(kafka, ID, kind=BROKER)):
            assert time.monotonic() < deadline
            time.sleep(0.02)
    assert (configs[key].value, configs[key].is_sensitive) == (None, True)
    assert "carol-secret" not in running.broker.log_text
    assert running.alter((DELETE, key, None)) is None
