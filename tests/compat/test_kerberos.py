"""Logins with tickets: a KDC of MIT Kerberos, the broker's key table, and clients.

About 15 s. Skipped where MIT's KDC or the package `gssapi` is not installed.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import kafka
import pytest
import trio

from pybroker_kafka.client.admin.admin import Admin
from pybroker_kafka.client.cluster import Cluster
from pybroker_kafka.client.errors import ClientError, LoginError
from pybroker_kafka.client.producer.producer import Producer
from pybroker_kafka.protocol.apis.metadata import MetadataRequest
from pybroker_kafka.protocol.errors import ErrorCode
from tests.support.kerberos import REALM, Kerberos, kerberos
from tests.support.processes import (
    PYBROKER,
    ROOT,
    BrokerProcess,
    free_port,
    running_broker,
    zookeeper_process,
)
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
    """The client of RFC 4752, without a layer."""

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


class Nodes(NamedTuple):
    """Brokers that log in at each other with tickets; clients do, too."""

    realm: Kerberos
    brokers: list[BrokerProcess]
    bootstrap: str
    settings: dict[str, str]  # of a client


@pytest.fixture(scope="module")
def nodes(realm: Kerberos, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    """Two of them. One has its login module in its keys, the other in a JAAS file."""
    directory = tmp_path_factory.mktemp("nodes")
    key_table = realm.key_table(SERVICE)
    module = f'{MODULE} useKeyTab=true storeKey=true keyTab="{key_table}" principal="{SERVICE}";'
    jaas = directory / "server_jaas.conf"
    jaas.write_text(f"KafkaServer {{\n {module}\n}};\n")
    ports = [free_port(), free_port()]
    with contextlib.ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        for name, value in realm.environment.items():
            patch.setenv(name, value)
        connect = stack.enter_context(zookeeper_process(directory))
        brokers = []
        for number, port in enumerate(ports, 1):
            login = (
                {"listener.name.tickets.gssapi.sasl.jaas.config": module}
                if number == 1
                else {"pybroker.jaas.file": str(jaas)}
            )
            brokers.append(
                BrokerProcess(
                    directory / str(number),
                    connect,
                    {
                        "broker.id": str(number),
                        "listeners": f"TICKETS://localhost:{port}",
                        "listener.security.protocol.map": "TICKETS:SASL_PLAINTEXT",
                        "inter.broker.listener.name": "TICKETS",
                        "sasl.kerberos.service.name": "kafka",
                        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
                        "super.users": "User:kafka;User:alice",
                        "default.replication.factor": "2",
                        "min.insync.replicas": "2",
                        "offsets.topic.replication.factor": "2",
                        "connections.max.reauth.ms": "3000",
                        **login,
                    },
                )
            )
        for broker in brokers:
            broker.start()
            stack.callback(broker.kill)
        settings = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "GSSAPI",
            "sasl.kerberos.service.name": "kafka",
            "sasl.jaas.config": f"{MODULE} useTicketCache=true;",
        }
        yield Nodes(realm, brokers, f"localhost:{ports[0]},localhost:{ports[1]}", settings)


async def produce_to(bootstrap: str, settings: dict[str, str], topic: str) -> int:
    """Returns how many replicas the topic's partition has in its ISR."""
    async with Producer(bootstrap, security=settings, acks="all") as producer:
        await producer.send(topic, b"value")
    async with Cluster(bootstrap, security=settings) as cluster:
        (found,) = (one for one in await Admin(cluster).topics.list() if one.name == topic)
        return len(found.partitions[0].isr_nodes)


def test_brokers_log_in_at_each_other(nodes: Nodes) -> None:
    """A record with acks=all is on both: the follower fetches, the controller gives orders."""
    assert trio.run(produce_to, nodes.bootstrap, nodes.settings, "replicated") == 2
    for broker in nodes.brokers:
        assert "Traceback" not in broker.log_text


def test_our_client_with_a_key_table(nodes: Nodes) -> None:
    """Without a ticket of kinit, and with a new one for each process that needs it."""
    table = nodes.realm.key_table("bob")
    jaas = f'{MODULE} useKeyTab=true keyTab="{table}" principal="bob@{REALM}";'
    settings = {**nodes.settings, "sasl.jaas.config": jaas}

    async def who() -> None:
        async with Producer(nodes.bootstrap, security=settings) as producer:
            await producer.send("replicated", b"value")

    with pytest.raises(ClientError, match="not allowed DESCRIBE on topic"):
        trio.run(who)  # bob is known, and may not


def test_what_goes_wrong_is_said(nodes: Nodes, tmp_path: Path) -> None:
    for change, complaint in (
        ({"sasl.kerberos.service.name": "nobody"}, "service nobody@localhost"),
        ({"sasl.jaas.config": f'{MODULE} useTicketCache=true ticketCache="{tmp_path}/none";'},
         "the login of whoever kinit has got a ticket for with GSSAPI failed"),
    ):  # fmt: skip

        async def ask(change: dict[str, str] = change) -> None:
            security = {**nodes.settings, **change}
            async with Cluster(nodes.bootstrap, security=security) as cluster:
                await Admin(cluster).topics.list()

        with pytest.raises(LoginError, match=complaint):
            trio.run(ask)


def test_commands_with_a_jaas_file_in_kafka_opts(nodes: Nodes, tmp_path: Path) -> None:
    (tmp_path / "client.conf").write_text(f"KafkaClient {{ {MODULE} useTicketCache=true; }};")
    properties = tmp_path / "client.properties"
    properties.write_text(
        "".join(f"{k}={v}\n" for k, v in nodes.settings.items() if k != "sasl.jaas.config")
    )
    options = f"-Djava.security.auth.login.config={tmp_path / 'client.conf'}"
    for words in (["create", "by-jaas-file", "-p", "1"], ["list"]):
        told = subprocess.run(
            [*PYBROKER, "topics", *words, "--bootstrap-server", nodes.bootstrap,
             "--command-config", str(properties)],
            cwd=ROOT, env={**os.environ, **nodes.realm.environment, "KAFKA_OPTS": options},
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert told.returncode == 0, told.stderr
    assert "by-jaas-file" in told.stdout


def test_a_session_is_renewed_with_another_ticket(nodes: Nodes) -> None:
    """The brokers end sessions after 3 s, their own among themselves as well."""

    async def send_for_a_while() -> None:
        async with Producer(nodes.bootstrap, security=nodes.settings, acks="all") as producer:
            for _ in range(5):
                await producer.send("replicated", b"value")
                await trio.sleep(1)

    trio.run(send_for_a_while)
    for broker in nodes.brokers:
        assert "did not log in again" not in broker.log_text
