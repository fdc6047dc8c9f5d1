"""Clients of every kind log in by every mechanism: kafka-python, confluent-kafka, aiokafka, Java.

One broker, started once; about 15 s in all. What needs Java is skipped without it.
"""

from __future__ import annotations

import asyncio
import base64
import json
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiokafka
import kafka
import pytest
from aiokafka.abc import AbstractTokenProvider as AioTokens
from confluent_kafka import Consumer, KafkaException, Producer
from kafka.errors import KafkaError

from tests.support.kafka_tools import kafka_tool
from tests.support.processes import free_port, running_broker

KAFKA = "org.apache.kafka.common.security"
PLAIN = f'{KAFKA}.plain.PlainLoginModule required user_alice="alice-secret"'
BEARER = f"{KAFKA}.oauthbearer.OAuthBearerLoginModule required"
NAME, PASSWORD = "alice", "alice-secret"
WITH_PASSWORD = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
VALUES = [b"value %d" % number for number in range(20)]
WAIT_SECONDS = 120.0


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The bootstrap of a listener that is open; `secured` is beside it."""
    port = free_port(2)
    configs = {
        "listeners": f"PLAINTEXT://127.0.0.1:{port},USERS://127.0.0.1:{port + 1}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,USERS:SASL_PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": ",".join((*WITH_PASSWORD, "OAUTHBEARER")),
        "listener.name.users.plain.sasl.jaas.config": f"{PLAIN};",
        "listener.name.users.oauthbearer.sasl.jaas.config": f"{BEARER};",
        "listener.name.users.plain.connections.max.reauth.ms": "2000",
    }
    with running_broker(tmp_path_factory.mktemp("sasl"), configs):
        admin = kafka.KafkaAdminClient(bootstrap_servers=f"127.0.0.1:{port}")
        _add_user(admin)
        admin.close()
        yield f"127.0.0.1:{port}"


def _add_user(admin: Any) -> None:
    """By kafka-python's own classes of the API."""
    from kafka.admin import ScramMechanism, UserScramCredentialUpsertion

    admin.alter_user_scram_credentials(
        [
            UserScramCredentialUpsertion(NAME, mechanism, PASSWORD, iterations=4096)
            for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
        ]
    )


@pytest.fixture
def secured(plain: str) -> str:
    host, _, port = plain.rpartition(":")
    return f"{host}:{int(port) + 1}"


def topic() -> str:
    return f"topic-{uuid.uuid4().hex[:8]}"


def token(name: str = NAME, seconds: float = 300) -> str:
    now = int(time.time())

    def part(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    return f"{part({'alg': 'none'})}.{part({'sub': name, 'iat': now, 'exp': now + seconds})}."


@pytest.mark.parametrize("mechanism", WITH_PASSWORD)
def test_kafka_python(secured: str, mechanism: str) -> None:
    name = topic()
    login = {
        "bootstrap_servers": secured,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": NAME,
        "sasl_plain_password": PASSWORD,
    }
    producer = kafka.KafkaProducer(**login)
    for value in VALUES:
        producer.send(name, value)
    producer.flush(WAIT_SECONDS)
    producer.close()
    consumer = kafka.KafkaConsumer(
        name, auto_offset_reset="earliest", consumer_timeout_ms=10_000, **login
    )
    found = [next(consumer).value for _ in VALUES]
    consumer.close()
    assert found == VALUES
    with pytest.raises(KafkaError):
        kafka.KafkaAdminClient(
            **{**login, "sasl_plain_password": "wrong", "bootstrap_timeout_ms": 500}
        )


def oauth_tokens(_config: str) -> tuple[str, float]:
    return token(), time.time() + 300


@pytest.mark.parametrize("mechanism", [*WITH_PASSWORD, "OAUTHBEARER"])
def test_confluent(secured: str, mechanism: str) -> None:
    name = topic()
    login: dict[str, Any] = {
        "bootstrap.servers": secured,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
    }
    if mechanism == "OAUTHBEARER":
        login["oauth_cb"] = oauth_tokens
    else:
        login |= {"sasl.username": NAME, "sasl.password": PASSWORD}
    producer = Producer(login)
    for value in VALUES:
        producer.produce(name, value)
    assert producer.flush(WAIT_SECONDS) == 0
    consumer = Consumer({**login, "group.id": name, "auto.offset.reset": "earliest"})
    consumer.subscribe([name])
    found: list[bytes] = []
    deadline = time.monotonic() + WAIT_SECONDS
    while len(found) < len(VALUES) and time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            found.append(message.value() or b"")
    consumer.close()
    assert found == VALUES
    if mechanism != "OAUTHBEARER":
        stranger = Producer({**login, "sasl.password": "wrong"})
        with pytest.raises(KafkaException):
            stranger.list_topics(timeout=2)


class Tokens(AioTokens):  # type: ignore[misc]
    async def token(self) -> str:
        return token()


@pytest.mark.parametrize("mechanism", [*WITH_PASSWORD, "OAUTHBEARER"])
def test_aiokafka(secured: str, mechanism: str) -> None:
    name = topic()
    login: dict[str, Any] = {
        "bootstrap_servers": secured,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
    }
    if mechanism == "OAUTHBEARER":
        login["sasl_oauth_token_provider"] = Tokens()
    else:
        login |= {"sasl_plain_username": NAME, "sasl_plain_password": PASSWORD}

    async def round_trip() -> list[bytes]:
        producer = aiokafka.AIOKafkaProducer(**login)
        await producer.start()
        for value in VALUES:
            await producer.send_and_wait(name, value)
        await producer.stop()
        consumer = aiokafka.AIOKafkaConsumer(name, auto_offset_reset="earliest", **login)
        await consumer.start()
        found = [(await asyncio.wait_for(consumer.getone(), WAIT_SECONDS)).value for _ in VALUES]
        await consumer.stop()
        return found

    assert asyncio.run(round_trip()) == VALUES


def test_java_tools(plain: str, secured: str, tmp_path: Path) -> None:
    """A user made, shown and removed by kafka-configs; a session that Java renews in between."""
    users = ("--bootstrap-server", plain, "--entity-type", "users", "--entity-name", "bob")
    configs = "kafka.admin.ConfigCommand"
    add = "SCRAM-SHA-256=[iterations=8192,password=bob-secret],SCRAM-SHA-512=[password=bob-secret]"
    kafka_tool(configs, *users, "--alter", "--add-config", add)
    shown = kafka_tool(configs, *users, "--describe")
    assert "SCRAM-SHA-256=iterations=8192" in shown
    assert "SCRAM-SHA-512=iterations=4096" in shown
    name = topic()
    for mechanism, user, module in (
        ("SCRAM-SHA-512", "bob", "scram.ScramLoginModule"),
        ("PLAIN", "alice", "plain.PlainLoginModule"),
    ):
        settings = tmp_path / f"{mechanism}.properties"
        settings.write_text(
            "security.protocol=SASL_PLAINTEXT\n"
            f"sasl.mechanism={mechanism}\n"
            f"sasl.jaas.config={KAFKA}.{module} required "
            f'username="{user}" password="{user}-secret";\n'
        )
        kafka_tool(
            "org.apache.kafka.tools.ProducerPerformance", "--topic", name, "--num-records", "40",
            "--record-size", "10", "--throughput", "10", "--producer.config", str(settings),
            "--producer-props", f"bootstrap.servers={secured}",
        )  # fmt: skip
        listed = kafka_tool(
            "org.apache.kafka.tools.GetOffsetShell", "--bootstrap-server", secured,
            "--command-config", str(settings), "--topic", name,
        )  # fmt: skip
    assert f"{name}:0:80" in listed
    kafka_tool(configs, *users, "--alter", "--delete-config", "SCRAM-SHA-256,SCRAM-SHA-512")
    assert "SCRAM" not in kafka_tool(configs, *users, "--describe")
