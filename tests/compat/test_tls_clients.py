"""Real clients over TLS, known by certificates: kafka-python, librdkafka, aiokafka, Java's tools.

One broker with AclAuthorizer, whose super user is what a mapping rule makes of the certificates:
a client whose certificate says something else sees nothing. About 15 s, most of it Java's; that
part is skipped without Java and Maven.
"""

from __future__ import annotations

import ssl
import time
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError

from tests.support.apache_kafka import kafka_jars
from tests.support.certificates import PASSWORD, Authority, Pair, pem
from tests.support.kafka_tools import kafka_tool
from tests.support.processes import BrokerProcess, free_port, running_broker
from tests.support.wire import WireClient

pytestmark = pytest.mark.timeout(180)

WAIT_SECONDS = 120.0
AUTHORITY = Authority()
VALUES = [b"%d" % number * 3000 for number in range(200)]


class Secured(NamedTuple):
    broker: BrokerProcess
    bootstrap: str
    directory: Path

    def files(self, pair: Pair) -> dict[str, str]:
        """Of a client: its key, its certificates, and whom it trusts."""
        name = uuid.uuid4().hex
        key, chain = self.directory / f"{name}.key", self.directory / f"{name}.crt"
        key.write_text(pair.key_pem())
        chain.write_text(pair.chain_pem())
        trust = AUTHORITY.write_pem(self.directory / "authority.pem")
        return {"key": str(key), "chain": str(chain), "trust": str(trust)}

    def context(self, pair: Pair) -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=pem(AUTHORITY.certificate))
        context.load_cert_chain(pair.write_pem(self.directory / f"{uuid.uuid4().hex}.pem"))
        return context

    def new_topic(self) -> str:
        with WireClient(self.bootstrap, tls=self.context(GOOD)) as kafka:
            return kafka.create_topic().name


GOOD = AUTHORITY.client("svc.orders")
STRANGER = AUTHORITY.client("app.orders")


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    directory = tmp_path_factory.mktemp("tls-clients")
    plain = free_port(2)
    config = {
        "listeners": f"PLAINTEXT://127.0.0.1:{plain},SSL://localhost:{plain + 1}",
        "ssl.keystore.location": str(AUTHORITY.server().write_pkcs12(directory / "server.p12")),
        "ssl.keystore.password": PASSWORD,
        "ssl.truststore.location": str(AUTHORITY.write_jks(directory / "trust.jks")),
        "ssl.truststore.password": PASSWORD,
        "ssl.client.auth": "required",
        "ssl.principal.mapping.rules": "RULE:^CN=svc\\.(.*)$/$1-service/U,DEFAULT".replace(
            "\\", "\\\\"
        ),
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:ORDERS-SERVICE;User:ANONYMOUS",
    }
    with running_broker(directory, config) as broker:
        yield Secured(broker, f"localhost:{plain + 1}", directory)


def test_kafka_python(secured: Secured) -> None:
    topic, files = secured.new_topic(), secured.files(GOOD)
    settings: dict[str, Any] = {
        "bootstrap_servers": secured.bootstrap,
        "security_protocol": "SSL",
        "ssl_cafile": files["trust"],
        "ssl_certfile": files["chain"],
        "ssl_keyfile": files["key"],
    }
    with closing(KafkaProducer(**settings)) as producer:
        for value in VALUES:
            producer.send(topic, value)
        producer.flush(WAIT_SECONDS)
    consumer = KafkaConsumer(
        topic, auto_offset_reset="earliest", consumer_timeout_ms=10_000, group_id=topic, **settings
    )
    with closing(consumer):
        read = [next(consumer).value for _ in VALUES]
    assert read == VALUES
    other = secured.files(STRANGER)
    settings.update(ssl_certfile=other["chain"], ssl_keyfile=other["key"])
    with (
        closing(KafkaProducer(max_block_ms=5000, **settings)) as producer,
        pytest.raises(KafkaError),
    ):
        producer.send(topic, b"x").get(WAIT_SECONDS)


def test_librdkafka(secured: Secured) -> None:
    topic, files = secured.new_topic(), secured.files(GOOD)

    def settings_of(files: dict[str, str]) -> dict[str, Any]:
        return {
            "bootstrap.servers": secured.bootstrap,
            "security.protocol": "ssl",
            "ssl.ca.location": files["trust"],
            "ssl.certificate.location": files["chain"],
            "ssl.key.location": files["key"],
        }

    producer = Producer(settings_of(files))
    for value in VALUES:
        producer.produce(topic, value)
    assert producer.flush(WAIT_SECONDS) == 0
    consumer = Consumer({**settings_of(files), "group.id": topic, "auto.offset.reset": "earliest"})
    with closing(consumer):
        consumer.subscribe([topic])
        read: list[bytes | None] = []
        ends = time.monotonic() + WAIT_SECONDS
        while len(read) < len(VALUES) and time.monotonic() < ends:
            read += [message.value() for message in consumer.consume(100, 1.0)]
    assert read == VALUES
    stranger = AdminClient(settings_of(secured.files(STRANGER)))
    assert topic not in stranger.list_topics(timeout=WAIT_SECONDS).topics
    unknown = AdminClient(settings_of(secured.files(Authority("Another").client("svc.orders"))))
    with pytest.raises(KafkaException):
        unknown.list_topics(timeout=3)


def test_aiokafka(secured: Secured) -> None:
    import asyncio

    topic = secured.new_topic()

    async def round_trip() -> list[bytes | None]:
        settings: dict[str, Any] = {
            "bootstrap_servers": secured.bootstrap,
            "security_protocol": "SSL",
            "ssl_context": secured.context(GOOD),
        }
        producer = AIOKafkaProducer(**settings)
        await producer.start()
        try:
            for value in VALUES:
                await producer.send(topic, value)
            await producer.flush()
        finally:
            await producer.stop()
        consumer = AIOKafkaConsumer(topic, auto_offset_reset="earliest", **settings)
        await consumer.start()
        try:
            return [(await asyncio.wait_for(consumer.getone(), 20)).value for _ in VALUES]
        finally:
            await consumer.stop()

    assert asyncio.run(round_trip()) == VALUES


def test_tools_of_java(secured: Secured) -> None:
    kafka_jars()
    topic = secured.new_topic()
    store = GOOD.write_pkcs12(secured.directory / "java.p12")
    properties = secured.directory / "client.properties"
    trust = AUTHORITY.write_jks(secured.directory / "java-trust.jks")
    properties.write_text(
        f"security.protocol=SSL\nssl.keystore.location={store}\nssl.keystore.password={PASSWORD}\n"
        f"ssl.key.password={PASSWORD}\nssl.truststore.location={trust}\n"
        f"ssl.truststore.password={PASSWORD}\n"
    )
    where = ("--bootstrap-server", secured.bootstrap, "--command-config", str(properties))
    told = kafka_tool("org.apache.kafka.tools.TopicCommand", *where, "--describe", "--topic", topic)
    assert f"Topic: {topic}" in told
    told = kafka_tool(
        "org.apache.kafka.tools.ProducerPerformance", "--topic", topic, "--num-records", "3000",
        "--record-size", "1000", "--throughput", "-1",
        "--producer-props", f"bootstrap.servers={secured.bootstrap}",
        "--producer.config", str(properties),
    )  # fmt: skip
    assert "3000 records sent" in told
    told = kafka_tool(
        "org.apache.kafka.tools.ConsumerPerformance", "--topic", topic, "--messages", "3000",
        "--bootstrap-server", secured.bootstrap, "--consumer.config", str(properties),
        "--hide-header",
    )  # fmt: skip
    assert ", 3000, " in told
