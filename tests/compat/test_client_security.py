"""Our client and our commands at a secured broker: TLS, every mechanism, and what goes wrong.

Apache Kafka, then ours, each with a listener of each protocol and started once: about 40 s in all.
Skipped without Java and Maven.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import click.testing
import pytest
import trio

from pybroker_kafka import Cluster, Consumer, Producer, SimpleRecord, create_topic
from pybroker_kafka.cli.main import main
from pybroker_kafka.client.connection import Connections
from pybroker_kafka.client.errors import ClientError
from pybroker_kafka.client.security.settings import connector_from
from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.apis.metadata import MetadataRequest, MetadataResponse
from tests.support.apache_kafka import ApacheKafkaProcess, kafka_jars
from tests.support.certificates import PASSWORD, AuthorityFiles
from tests.support.kafka_tools import kafka_tool
from tests.support.patience import until
from tests.support.processes import PYBROKER, BrokerProcess, free_port, zookeeper_process

pytestmark = pytest.mark.timeout(300)

KAFKA = "org.apache.kafka.common.security"
LISTENERS = ("SSL", "SASL_PLAINTEXT", "SASL_SSL", "MUTUAL")
PLAIN = f"{KAFKA}.plain.PlainLoginModule required"
SCRAM = f"{KAFKA}.scram.ScramLoginModule required"
BEARER = f"{KAFKA}.oauthbearer.OAuthBearerLoginModule required"
SCRAM_LOGIN = f'{SCRAM} username="alice" password="alice-pass";'
LIFETIME_MS = 1_000
LOGINS = [
    ("PLAIN", f'{PLAIN} username="bob" password="bob-pass";'),
    ("SCRAM-SHA-256", SCRAM_LOGIN),
    ("SCRAM-SHA-512", SCRAM_LOGIN),
    ("OAUTHBEARER", f'{BEARER} unsecuredLoginStringClaim_sub="carol";'),
]
MECHANISMS = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER"


class Secured(NamedTuple):
    is_ours: bool
    ports: Mapping[str, int]
    authority: AuthorityFiles
    directory: Path

    def bootstrap(self, listener: str, host: str = "127.0.0.1") -> str:
        return f"{host}:{self.ports[listener]}"

    def settings(self, protocol: str, mechanism: str, jaas: str) -> dict[str, str]:
        return {
            "security.protocol": protocol,
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": jaas,
            **self.trust,
        }

    @property
    def trust(self) -> dict[str, str]:
        return {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.authority.ca)}


@pytest.fixture(scope="module", params=["ours", pytest.param("apache", marks=pytest.mark.at_kafka)])
def kafka(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Secured]:
    kafka_jars()
    is_ours = request.param == "ours"
    directory = tmp_path_factory.mktemp("secured")
    authority = AuthorityFiles(directory / "certificates")
    broker_pem = authority.issue("broker")
    plain_port = free_port(1 + len(LISTENERS))
    ports = {name: plain_port + 1 + index for index, name in enumerate(LISTENERS)}
    urls = [f"PLAINTEXT://127.0.0.1:{plain_port}"]
    urls += [f"{name}://127.0.0.1:{port}" for name, port in ports.items()]
    config = {
        "listeners": ",".join(urls),
        "listener.security.protocol.map": (
            "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL,MUTUAL:SSL"
        ),
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": MECHANISMS,
        "connections.max.reauth.ms": str(LIFETIME_MS),
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(broker_pem.with_suffix(".p12")),
        "ssl.keystore.password": PASSWORD,
        "ssl.key.password": PASSWORD,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.ca),
        "listener.name.mutual.ssl.client.auth": "required",
        "delegation.token.secret.key": "the-secret-of-all-brokers",
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
    for listener in ("sasl_plaintext", "sasl_ssl"):
        prefix = f"listener.name.{listener}"
        config[f"{prefix}.plain.sasl.jaas.config"] = f'{PLAIN} user_bob="bob-pass";'
        for number in (256, 512):
            config[f"{prefix}.scram-sha-{number}.sasl.jaas.config"] = f"{SCRAM};"
        config[f"{prefix}.oauthbearer.sasl.jaas.config"] = (
            f'{BEARER} unsecuredLoginStringClaim_sub="broker";'
        )
    with zookeeper_process(directory) as connect:
        kind = BrokerProcess if is_ours else ApacheKafkaProcess
        broker = kind(directory / "broker", connect, config, port=plain_port)
        try:
            broker.start()
            kafka_tool(
                "kafka.admin.ConfigCommand", "--bootstrap-server", broker.bootstrap, "--alter",
                "--entity-type", "users", "--entity-name", "alice", "--add-config",
                "SCRAM-SHA-256=[password=alice-pass],SCRAM-SHA-512=[password=alice-pass]",
            )  # fmt: skip
            yield Secured(is_ours, ports, authority, directory)
        finally:
            broker.kill()


async def write_and_read(
    bootstrap: str, security: Mapping[str, str], topic: str, pause_seconds: float = 0
) -> None:
    async with Cluster(bootstrap, security=security) as cluster, Producer(cluster) as producer:
        await create_topic(cluster, topic, partitions=1, replication_factor=1)
        values = [b"one", b"two"]
        await producer.send_all(topic, [SimpleRecord(1, None, value) for value in values])
        await trio.sleep(pause_seconds)
        await producer.send(topic, b"three")
    received: list[bytes | None] = []
    async with Consumer(bootstrap, security=security, auto_offset_reset="earliest") as consumer:
        await consumer.assign([(topic, 0)])
        with trio.fail_after(120):
            while len(received) < 3:
                received += [record.value for record in await consumer.poll(1)]
    assert received == [*values, b"three"]


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize(("mechanism", "jaas"), LOGINS)
async def test_every_mechanism(kafka: Secured, protocol: str, mechanism: str, jaas: str) -> None:
    settings = kafka.settings(protocol, mechanism, jaas)
    # Longer than a session: the next request comes after another login on the same stream.
    pause_seconds = 1.2 * LIFETIME_MS / 1000 if mechanism == "SCRAM-SHA-256" else 0
    topic = f"{protocol}-{mechanism}"
    await write_and_read(kafka.bootstrap(protocol), settings, topic, pause_seconds)


@pytest.mark.parametrize(("mechanism", "jaas"), LOGINS)
async def test_a_session_goes_on_on_its_stream(kafka: Secured, mechanism: str, jaas: str) -> None:
    """KIP-368, as if the session were near its end."""
    settings = kafka.settings("SASL_SSL", mechanism, jaas)
    async with Connections() as connections:
        port = kafka.ports["SASL_SSL"]
        client = await connections.open("127.0.0.1", port, connector_from(settings))
        first = client._link
        client._link = first._replace(good_until=0)
        answer = await client.request(ApiKey.METADATA, MetadataRequest(topics=[]), MetadataResponse)
        assert answer.brokers
        assert client._link.stream is first.stream
        assert client._link.good_until > 0


@pytest.mark.parametrize("kind", ["PEM", "PKCS12"])
async def test_a_clients_certificate(kafka: Secured, kind: str) -> None:
    pem = kafka.authority.issue(f"client-{kind}")
    store = pem if kind == "PEM" else pem.with_suffix(".p12")
    trust = kafka.authority.ca if kind == "PEM" else kafka.authority.trust
    settings = {
        "security.protocol": "SSL",
        "ssl.truststore.type": kind,
        "ssl.truststore.location": str(trust),
        "ssl.keystore.type": kind,
        "ssl.keystore.location": str(store),
    }
    if kind == "PKCS12":
        settings |= {"ssl.truststore.password": PASSWORD, "ssl.keystore.password": PASSWORD}
    await write_and_read(kafka.bootstrap("MUTUAL"), settings, f"mutual-{kind}")


async def test_a_token_from_a_file(kafka: Secured, tmp_path: Path) -> None:
    token = tmp_path / "token"
    settings = kafka.settings("SASL_SSL", "OAUTHBEARER", f"{BEARER};")
    settings["sasl.oauthbearer.token.endpoint.url"] = token.as_uri()
    with pytest.raises(ClientError, match=r"^sasl\.oauthbearer\.token\.endpoint\.url: .*No such"):
        await metadata(kafka.bootstrap("SASL_SSL"), settings)
    # `{"alg":"none"}` and `{"sub":"dave","iat":1,"exp":99999999999}`
    token.write_text(
        "eyJhbGciOiJub25lIn0.eyJzdWIiOiJkYXZlIiwiaWF0IjoxLCJleHAiOjk5OTk5OTk5OTk5fQ.\n"
    )
    await metadata(kafka.bootstrap("SASL_SSL"), settings)


async def metadata(bootstrap: str, security: Mapping[str, str]) -> None:
    with trio.fail_after(120):
        async with Cluster(bootstrap, security=security) as cluster:
            await cluster.metadata([])


async def test_a_wrong_password_is_told_at_once(kafka: Secured) -> None:
    jaas = f'{SCRAM} username="alice" password="oops-secret";'
    settings = kafka.settings("SASL_SSL", "SCRAM-SHA-512", jaas)
    line = r"the login of alice with SCRAM-SHA-512 failed: .*; see sasl.jaas.config"
    with pytest.raises(ClientError, match=line) as caught:
        await metadata(kafka.bootstrap("SASL_SSL"), settings)
    assert "oops-secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("listener", "changes", "line"),
    [
        ("SASL_SSL", {"ssl.truststore.location": "other"}, r"is not trusted .*truststore.location"),
        ("SSL", {"security.protocol": "PLAINTEXT"}, r"wants TLS .*security\.protocol"),
        ("SASL_SSL", {"security.protocol": "SSL"}, r"wants a login.*SASL_SSL"),
        ("SASL_PLAINTEXT", {"security.protocol": "PLAINTEXT"}, r"TLS or a login"),
        ("SASL_PLAINTEXT", {}, r"security\.protocol"),
        ("SSL", {}, r"no SASL on this port"),
        ("MUTUAL", {"security.protocol": "SSL"}, r"certificate .*ssl.keystore.location"),
        ("SASL_SSL", {"sasl.mechanism": "SCRAM-SHA-1"}, r"^sasl.mechanism=SCRAM-SHA-1"),
    ],
)
async def test_what_is_wrong_is_named(
    kafka: Secured, tmp_path: Path, listener: str, changes: dict[str, str], line: str
) -> None:
    settings = kafka.settings("SASL_SSL", "SCRAM-SHA-256", SCRAM_LOGIN) | changes
    if settings["ssl.truststore.location"] == "other":
        settings["ssl.truststore.location"] = str(AuthorityFiles(tmp_path, "other").ca)
    with pytest.raises(ClientError, match=line):
        await metadata(kafka.bootstrap(listener), settings)


def test_commands_take_a_file_of_settings(kafka: Secured, tmp_path: Path) -> None:
    def run(*command: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*PYBROKER, *command, "--bootstrap-server", kafka.bootstrap("SASL_SSL")],
            input=stdin, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip

    path = tmp_path / "client.properties"
    settings = kafka.settings("SASL_SSL", "SCRAM-SHA-512", SCRAM_LOGIN)
    path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    config = ("--command-config", str(path))
    assert run("topics", "create", "by-command", *config).returncode == 0
    assert run("produce", "by-command", *config, stdin="a\nb\n").returncode == 0
    read = run("consume", "by-command", "--from-beginning", "--max-records", "2", *config)
    assert sorted(read.stdout.split()) == ["a", "b"]
    assert "by-command" in run("topics", "list", *config).stdout
    without = run("topics", "list")
    assert without.returncode == 2
    assert "security.protocol" in without.stderr
    assert "Traceback" not in without.stderr


def test_users_acls_quotas_and_tokens(kafka: Secured, tmp_path: Path) -> None:
    """By our commands; whoever serves it obeys what they set."""
    eve = tmp_path / "eve.properties"
    for path, name in ((tmp_path / "alice.properties", "alice"), (eve, "eve")):
        jaas = SCRAM_LOGIN.replace("alice", name)
        settings = kafka.settings("SASL_SSL", "SCRAM-SHA-512", jaas)
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))

    def invoke(*words: str, text: str = "", who: str = "alice") -> click.testing.Result:
        config = str(eve if who == "eve" else tmp_path / "alice.properties")
        login = ("--bootstrap-server", kafka.bootstrap("SASL_SSL"), "--command-config", config)
        command, action, *rest = words
        return click.testing.CliRunner().invoke(main, [command, action, *login, *rest], input=text)

    def succeed(command: str, action: str, *words: str, text: str = "") -> Any:
        done = invoke(command, action, "--json", *words, text=text)
        assert done.exit_code == 0, done.stderr
        return json.loads(done.stdout)

    succeed("users", "add", "eve", "--password-file", "-", text="eve-pass\n")
    assert {one["user"] for one in succeed("users", "list")} >= {"alice", "eve"}
    succeed("users", "alter", "eve", "--password-file", "-", text="eve-pass\n")
    with_eve = partial(invoke, who="eve")
    until(lambda: with_eve("topics", "list").exit_code == 0)

    denied = ("acls", "add", "--deny", "eve", "--operation", "describe", "--topic", "eves-")
    (added,) = succeed(*denied, "--prefix")
    assert succeed("acls", "list", "--topic", "eves-own") == [added]
    refused = with_eve("topics", "describe", "eves-own")
    assert refused.exit_code == 2
    assert "User:eve is not allowed DESCRIBE on topic 'eves-own'" in refused.stderr
    assert succeed("acls", "remove", "--deny", "eve") == [added]

    whom = ("--user", "eve", "--client-id-default")
    succeed("quotas", "set", "consumer_byte_rate=1000", "request_percentage=12.5", *whom)
    found = {"consumer_byte_rate": 1000.0, "request_percentage": 12.5}
    described = [{"entity": {"user": "eve", "client-id": None}, "quotas": found}]
    until(lambda: succeed("quotas", "describe", *whom) == described)
    succeed("quotas", "remove", *found, *whom)

    token = succeed("tokens", "create", "--renewer", "eve", "--hours", "1")
    until(lambda: [t["token_id"] for t in succeed("tokens", "list")] == [token["token_id"]])
    # An id of Apache Kafka's may begin with a dash.
    assert succeed("tokens", "renew", "--", token["token_id"])["expires_ms"] <= token["ends_ms"]
    succeed("tokens", "expire", "--", token["token_id"])
    succeed("users", "remove", "eve")
    until(lambda: with_eve("topics", "list").exit_code == 2)


def test_their_tool_makes_tokens_with_which_java_and_we_log_in(
    kafka: Secured, tmp_path: Path
) -> None:
    def properties(name: str, jaas: str) -> str:
        settings = kafka.settings("SASL_SSL", "SCRAM-SHA-512", jaas)
        path = tmp_path / name
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        return str(path)

    def tool(name: str, config: str, *arguments: str) -> str:
        where = ("--bootstrap-server", kafka.bootstrap("SASL_SSL"), "--command-config", config)
        return kafka_tool(f"org.apache.kafka.tools.{name}", *where, *arguments)

    alice = properties("alice", SCRAM_LOGIN)
    tokens = partial(tool, "DelegationTokenCommand", alice)
    made = tokens("--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob")
    token_id, password = made.splitlines()[-1].split()[:2]
    described = tokens("--describe", "--owner-principal", "User:alice")
    assert token_id in described
    assert "User:bob" in described
    tokens("--renew", "--renew-time-period", "5000000", "--hmac", password)
    by_token = properties(
        "token", f'{SCRAM} username="{token_id}" password="{password}" tokenauth="true";'
    )
    tool("TopicCommand", by_token, "--create", "--topic", f"by-token-{kafka.is_ours}")
    ours = ["topics", "list", "--bootstrap-server", kafka.bootstrap("SASL_SSL")]
    listed = subprocess.run(
        [*PYBROKER, *ours, "--command-config", by_token],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert f"by-token-{kafka.is_ours}" in listed.stdout
    tokens("--expire", "--expiry-time-period", "-1", "--hmac", password)
    assert token_id not in tokens("--describe", "--owner-principal", "User:alice")
