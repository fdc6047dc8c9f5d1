"""The same logins, frame by frame, at Apache Kafka and at us: the answers and the ends are equal.

One broker of each kind, about 10 s. Skipped without Java and Maven. Not compared: at which message
a SCRAM login of a user that there is not ends (ours goes on to the proof, and tells nobody), and
requests of other APIs behind a handshake (theirs are answered with an error before the end),
and a scheme that is not Bearer, over which theirs stumbles.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.apis.api_versions import ApiVersionsRequest
from pybroker_kafka.protocol.apis.metadata import MetadataRequest
from pybroker_kafka.protocol.apis.sasl_authenticate import SaslAuthenticateRequest
from pybroker_kafka.protocol.apis.sasl_handshake import SaslHandshakeRequest
from pybroker_kafka.protocol.sasl import OAuthBearerClient, SaslClient
from pybroker_kafka.protocol.schema import Message
from tests.support.apache_kafka import ApacheKafkaProcess, kafka_jars
from tests.support.kafka_tools import kafka_tool
from tests.support.processes import BrokerProcess, free_port, zookeeper_process
from tests.support.sasl_client import sasl_client
from tests.support.wire import WireClient

pytestmark = pytest.mark.timeout(240)

KAFKA = "org.apache.kafka.common.security"
PLAIN = f'{KAFKA}.plain.PlainLoginModule required user_alice="secret" user_bob="bob";'
BEARER = (
    f"{KAFKA}.oauthbearer.OAuthBearerLoginModule required "
    'unsecuredLoginStringClaim_sub="broker" unsecuredValidatorRequiredScope="read write";'
)
SCRAM = f"{KAFKA}.scram.ScramLoginModule required;"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
CLOSED = "closed"

Step = Callable[[WireClient], Any]


def configs(port: int) -> dict[str, str]:
    users = "listener.name.users"
    return {
        "listeners": f"PLAINTEXT://127.0.0.1:{port},USERS://127.0.0.1:{port + 1}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,USERS:SASL_PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        f"{users}.plain.sasl.jaas.config": PLAIN,
        f"{users}.oauthbearer.sasl.jaas.config": BEARER,
        f"{users}.scram-sha-256.sasl.jaas.config": SCRAM,
        f"{users}.scram-sha-512.sasl.jaas.config": SCRAM,
        f"{users}.scram-sha-512.connections.max.reauth.ms": "60000",
        "connection.failed.authentication.delay.ms": "0",
        "sasl.server.max.receive.size": "4000",
    }


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The bootstraps of the SASL listeners, ours and theirs."""
    kafka_jars()
    directory = tmp_path_factory.mktemp("exchanges")
    found: dict[str, str] = {}
    processes = []
    with zookeeper_process(directory / "1") as one, zookeeper_process(directory / "2") as two:
        try:
            for name, kind, connect in (
                ("ours", BrokerProcess, one), ("theirs", ApacheKafkaProcess, two),
            ):  # fmt: skip
                port = free_port(2)
                process = kind(directory / name, connect, configs(port), 1, port)
                processes.append(process)
                process.launch()
                found[name] = f"127.0.0.1:{port + 1}"
            for process in processes:
                process.wait_until_ready()
                kafka_tool(
                    "kafka.admin.ConfigCommand", "--bootstrap-server", process.bootstrap,
                    "--entity-type", "users", "--entity-name", "alice", "--alter", "--add-config",
                    "SCRAM-SHA-256=[password=secret],SCRAM-SHA-512=[password=secret]",
                )  # fmt: skip
            time.sleep(1)  # until both have heard of it
            yield found
        finally:
            for process in processes:
                process.kill()


def call(request: Message, version: int) -> Step:
    def step(client: WireClient) -> Any:
        answer = client.call(request, version)
        if isinstance(request, MetadataRequest):
            return "in"
        if isinstance(request, ApiVersionsRequest):
            keys = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
            return answer.error_code, keys
        if isinstance(request, SaslHandshakeRequest):
            return answer.error_code, answer.mechanisms
        data = bytes(answer.auth_bytes)
        return answer.error_code, answer.error_message, data, answer.session_lifetime_ms

    return step


def hello(mechanism: str, version: int = 1) -> Step:
    return call(SaslHandshakeRequest(mechanism=mechanism), version)


def token(data: bytes, version: int = 1) -> Step:
    return call(SaslAuthenticateRequest(auth_bytes=data), version)


def raw(data: bytes) -> Step:
    def step(client: WireClient) -> Any:
        client.socket.sendall(len(data).to_bytes(4, "big") + data)
        return client.exactly(int.from_bytes(client.exactly(4), "big"))

    return step


def unknown_versions(client: WireClient) -> Any:
    client.post_bytes(ApiKey.API_VERSIONS, 99, b"\0\x01\x01\0")
    return client.receive(ApiKey.API_VERSIONS, 0).error_code


def login(new: Callable[[], SaslClient], version: int = 2) -> Step:
    """A whole one; what is random in it is left out."""

    def step(client: WireClient) -> Any:
        mine = new()
        told: list[Any] = []
        answer = client.call(SaslAuthenticateRequest(auth_bytes=mine.step(b"")), version)
        while True:
            lifetime = answer.session_lifetime_ms
            # What is left of a token depends on when it comes.
            told.append((answer.error_code, answer.error_message, (lifetime + 5000) // 10_000))
            if answer.error_code:
                return told
            data = bytes(answer.auth_bytes)
            if data.startswith(b"{"):
                told.append(data)
            try:
                said = mine.step(data)
            except Exception as error:
                return [*told, type(error).__name__]
            if mine.done:
                return told
            answer = client.call(SaslAuthenticateRequest(auth_bytes=said), version)

    return step


def password(mechanism: str, name: str, text: str) -> Step:
    return login(lambda: sasl_client(mechanism, name, text))


def jws(**claims: Any) -> Step:
    def part(value: object) -> str:
        return base64.b64encode(json.dumps(value).encode()).decode().rstrip("=")

    text = f"{part({'alg': 'none'})}.{part(claims)}."
    return login(lambda: OAuthBearerClient(text))


ASK = call(MetadataRequest(topics=[]), 1)
VERSIONS = call(ApiVersionsRequest(), 0)
NOW = int(time.time())
BOTH_SCOPES = ["write", "read", "more"]
EXCHANGES: dict[str, list[Step]] = {
    "plain": [VERSIONS, hello("PLAIN"), token(b"\0alice\0secret"), ASK, hello("PLAIN"), token(b"")],
    "plain, handshake 0": [hello("PLAIN", 0), raw(b"\0alice\0secret"), ASK],
    "plain, wrong, handshake 0": [hello("PLAIN", 0), raw(b"\0alice\0x")],
    "plain, other versions": [hello("PLAIN"), token(b"alice\0alice\0secret", 0), ASK, VERSIONS],
    **{
        f"plain {text!r}": [hello("PLAIN"), token(text, version), ASK]
        for text in (
            b"", b"\0", b"\0\0", b"\0alice\0", b"\0\0secret", b"\0alice\0x", b"bob\0alice\0secret",
            b"\0eve\0x", b"a\0b\0c\0d", b"\0\xff\0x",
        )
        for version in (0, 2)
    },
    "versions twice": [VERSIONS, VERSIONS],
    "versions of no known version first": [unknown_versions, VERSIONS, hello("PLAIN")],
    "versions behind the handshake": [hello("PLAIN"), VERSIONS],
    "two handshakes": [hello("PLAIN"), hello("PLAIN")],
    "a token without handshake": [token(b"\0alice\0secret")],
    "a request without login": [ASK],
    "an unknown mechanism": [hello("CRAM-MD5")],
    "an unknown mechanism, version 0": [hello("", 0)],
    "a frame that is too large": [hello("PLAIN"), token(b"x" * 5000)],
    **{
        f"{mechanism} with {text}": [hello(mechanism), password(mechanism, "alice", text), ASK]
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
        for text in ("secret", "x")
    },
    **{
        f"scram {text!r}": [hello("SCRAM-SHA-256"), token(text)]
        for text in (b"", b"n,,n=alice,r=", b"n,a=bob,n=alice,r=x", b"y,,n=alice,r=x", b"\xff")
    },
    "again": [
        hello("SCRAM-SHA-512"), password("SCRAM-SHA-512", "alice", "secret"), ASK,
        hello("SCRAM-SHA-512"), password("SCRAM-SHA-512", "alice", "secret"), ASK,
        hello("SCRAM-SHA-512"), ASK,
    ],
    "again, wrong": [
        hello("SCRAM-SHA-512"), password("SCRAM-SHA-512", "alice", "secret"),
        hello("SCRAM-SHA-512"), password("SCRAM-SHA-512", "alice", "x"),
    ],
    "again, otherwise": [
        hello("SCRAM-SHA-512"), password("SCRAM-SHA-512", "alice", "secret"),
        hello("PLAIN"), token(b"\0alice\0secret"),
    ],
    "again, with bare tokens": [
        hello("SCRAM-SHA-512"), password("SCRAM-SHA-512", "alice", "secret"),
        hello("SCRAM-SHA-512", 0), raw(b"x"),
    ],
    **{
        f"token {name}": [hello("OAUTHBEARER"), step, ASK]
        for name, step in {
            "valid": jws(sub="alice", exp=NOW + 9000, scope=BOTH_SCOPES),
            "without scopes": jws(sub="alice", exp=NOW + 9000),
            "with one scope": jws(sub="alice", exp=NOW + 9000, scope="read write"),
            "expired": jws(sub="alice", exp=NOW - 9000, scope=BOTH_SCOPES),
            "of tomorrow": jws(sub="alice", iat=NOW + 80_000, exp=NOW + 90_000, scope=BOTH_SCOPES),
            "without end": jws(sub="alice", scope=BOTH_SCOPES),
            "of nobody": jws(exp=NOW + 9000, scope=BOTH_SCOPES),
            "of a number": jws(sub=5, exp=NOW + 9000, scope=BOTH_SCOPES),
        }.items()
    },
    **{
        f"oauthbearer {text!r}": [hello("OAUTHBEARER"), token(text)]
        for text in (
            b"", b"\x01", b"n,,\x01auth=Bearer a.b.c\x01\x01",
        )
    },
}  # fmt: skip


def transcript(bootstrap: str, steps: list[Step]) -> list[Any]:
    told = []
    with WireClient(bootstrap) as client, client.timeout(5):
        for step in steps:
            try:
                told.append(step(client))
            except (ConnectionError, TimeoutError) as error:
                told.append(CLOSED if isinstance(error, ConnectionError) else "silence")
                return told
        client.socket.settimeout(0.15)
        try:
            told.append(CLOSED if client.socket.recv(1) == b"" else "more")
        except TimeoutError:
            told.append("open")
        except ConnectionError:
            told.append(CLOSED)
    return told


@pytest.mark.parametrize("name", EXCHANGES)
def test_an_exchange(both: dict[str, str], name: str) -> None:
    steps = EXCHANGES[name]
    assert transcript(both["ours"], steps) == transcript(both["theirs"], steps)
