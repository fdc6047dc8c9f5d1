"""A connection from broker to broker: when it is opened anew, and by what settings."""

from __future__ import annotations

import logging
import math
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock, memory_stream_pair

from pybroker_kafka.broker.cluster.broker_connection import BrokerConnection, ChannelError
from pybroker_kafka.broker.cluster.broker_connector import BrokerConnectors
from pybroker_kafka.broker.config import ConfigError, KafkaConfig
from pybroker_kafka.broker.config.checks import check_config
from pybroker_kafka.broker.config.tls_listeners import TlsListeners
from pybroker_kafka.client.errors import LoginError
from pybroker_kafka.client.security.connector import Connector, Link
from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.apis.api_versions import ApiVersionsRequest, ApiVersionsResponse
from pybroker_kafka.replication.metadata_cache import Endpoint
from tests.support.broker_streams import answer_requests
from tests.support.certificates import AuthorityFiles

ENDPOINT = Endpoint("IN", "SASL_SSL", "h", 9092)
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
SECURED = {
    "zookeeper.connect": "localhost:2181",
    "listeners": "IN://localhost:9092,CONTROL://localhost:9093",
    "listener.security.protocol.map": "IN:SASL_PLAINTEXT,CONTROL:PLAINTEXT",
    "inter.broker.listener.name": "in",
    "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256",
    "listener.name.in.scram-sha-256.sasl.jaas.config": (
        f'{SCRAM} required username="broker" password="secret";'
    ),
}


def connectors_of(config: KafkaConfig) -> BrokerConnectors:
    return BrokerConnectors(config, TlsListeners(config), 1)


async def answer(_key: ApiKey, _version: int, _body: object) -> ApiVersionsResponse:
    return ApiVersionsResponse()


async def test_a_broker_that_is_not_let_in_says_so_at_once_and_what_to_do(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    is_known = False

    async def open_one(_connector: Connector, host: str, port: int, _client_id: str) -> Link:
        if not is_known:
            raise LoginError(f"{host}:{port}: the password is wrong")
        return Link(memory_stream_pair()[0])

    monkeypatch.setattr(Connector, "open", open_one)
    caplog.set_level(logging.INFO)
    connect = connectors_of(KafkaConfig(SECURED)).to("IN")

    async def try_for(seconds: int) -> list[logging.LogRecord]:
        caplog.clear()
        for _ in range(10 * seconds):
            with pytest.raises(LoginError):
                await connect(ENDPOINT)
            await trio.sleep(0.1)
        return list(caplog.records)

    with pytest.raises(LoginError):
        await connect(ENDPOINT)
    (told,) = caplog.records
    assert told.levelno == logging.ERROR
    for word in (
        "listener IN",
        "SASL_PLAINTEXT, SCRAM-SHA-256",
        "h:9092: the password is wrong",
        "listener.name.in.scram-sha-256.sasl.jaas.config",
    ):
        assert word in told.getMessage()
    assert "secret" not in told.getMessage()
    assert len(await try_for(59)) == 0
    assert len(await try_for(61)) in (1, 2)  # tried ten times a second, told once a minute
    is_known = True
    caplog.clear()
    await connect(ENDPOINT)
    await connect(ENDPOINT)
    (told,) = caplog.records
    assert "accepts the login of this broker now" in told.getMessage()


async def test_a_session_that_ends_is_left_before_that(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    opened = 0

    async def connect(_endpoint: Endpoint) -> Link:
        nonlocal opened
        opened += 1
        ours, theirs = memory_stream_pair()
        nursery.start_soon(answer_requests, theirs, answer)
        return Link(ours, trio.current_time() + 5 if opened < 3 else math.inf)

    connection = BrokerConnection(ENDPOINT, "1", connect=connect)
    for expected, pause in ((1, 4.9), (1, 0.1), (2, 5), (3, 1_000), (3, 0)):
        await connection.send(ApiVersionsRequest(), 0)
        assert opened == expected
        await trio.sleep(pause)
    connection.close()


async def test_a_refused_login_is_a_failed_channel() -> None:
    async def refuse(_endpoint: Endpoint) -> Link:
        raise LoginError("h:9092: the login of broker failed")

    with pytest.raises(ChannelError, match="the login of broker failed"):
        await BrokerConnection(ENDPOINT, "1", connect=refuse).send(ApiVersionsRequest(), 0)


def test_each_listener_has_its_own_settings() -> None:
    config = KafkaConfig(SECURED)
    assert (config.inter_broker_listener, config.control_plane_listener) == ("IN", "IN")
    connectors = connectors_of(config)
    assert connectors.to("IN") == connectors.to("IN")
    control = KafkaConfig({**SECURED, "control.plane.listener.name": "control"})
    assert control.control_plane_listener == "CONTROL"
    connectors_of(control).to("CONTROL")


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"sasl.mechanism.inter.broker.protocol": "PLAIN"}, "PLAIN must be one of sasl.enabled"),
        (
            {"listener.name.in.scram-sha-256.sasl.jaas.config": f"{SCRAM} required;"},
            "through IN: listener.name.in.scram-sha-256.sasl.jaas.config has no username",
        ),
        (
            {"control.plane.listener.name": "CONTROL",
             "listener.security.protocol.map": "IN:SASL_PLAINTEXT,CONTROL:SASL_PLAINTEXT"},
            "through CONTROL: listener.name.control.scram-sha-256.sasl.jaas.config is not set",
        ),
    ],
)  # fmt: skip
def test_a_login_that_cannot_work_stops_the_start(changes: dict[str, str], line: str) -> None:
    config = {**SECURED, "sasl.enabled.mechanisms": "SCRAM-SHA-256"}
    check_config(KafkaConfig(config))
    with pytest.raises(ConfigError, match=line) as caught:
        check_config(KafkaConfig(config | changes))
    assert "secret" not in str(caught.value)


def test_a_key_store_that_cannot_be_read_stops_the_start() -> None:
    changes = {
        "listener.security.protocol.map": "IN:SSL,CONTROL:PLAINTEXT",
        "listener.name.in.ssl.keystore.location": "/none",
        "listener.name.in.ssl.keystore.type": "PEM",
    }
    with pytest.raises(ConfigError, match=r"listener\.name\.in\.ssl\.keystore\.location=/none"):
        connectors_of(KafkaConfig(SECURED | changes)).to("IN")


async def test_a_changed_key_store_is_that_of_the_next_connection(tmp_path: Path) -> None:
    """Two brokers that know each other by certificates, whose authority is replaced."""
    old, new = (AuthorityFiles(tmp_path / name, name) for name in ("old", "new"))
    store, trust = tmp_path / "broker.pem", tmp_path / "ca.pem"

    store.write_bytes(old.issue("broker").read_bytes())
    trust.write_bytes(old.ca.read_bytes())
    ssl_keys = {
        "keystore.type": "PEM", "keystore.location": store, "client.auth": "required",
        "truststore.type": "PEM", "truststore.location": trust,
    }  # fmt: skip
    config = KafkaConfig(
        {
            "zookeeper.connect": "localhost:2181",
            "listeners": "SSL://localhost:9092",
            "security.inter.broker.protocol": "SSL",
            **{f"ssl.{key}": str(value) for key, value in ssl_keys.items()},
        }
    )
    tls = TlsListeners(config)
    server = tls.of("SSL")
    assert server is not None
    connect = BrokerConnectors(config, tls, 1).to("SSL")

    async def serve(stream: trio.SocketStream) -> None:
        encrypted = trio.SSLStream(stream, server.context, server_side=True)
        await encrypted.send_all(b"welcome")

    async with trio.open_nursery() as nursery:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, serve, [listener])
        endpoint = Endpoint("SSL", "SSL", "localhost", listener.socket.getsockname()[1])

        async def is_welcome() -> bool:
            try:
                link = await connect(endpoint)
            except LoginError:
                return False
            assert await link.stream.receive_some(7) == b"welcome"
            link.close()
            return True

        assert await is_welcome()
        # First all know both, then the new one issues, then the old one goes: at each step brokers
        # that have taken it and those that have not reach each other.
        authorities = old.ca.read_bytes() + new.ca.read_bytes()
        for path, content in (
            (trust, authorities),
            (store, new.issue("broker").read_bytes()),
            (trust, new.ca.read_bytes()),
        ):
            path.write_bytes(content)
            assert await is_welcome(), "nobody has looked at the files yet"
            assert tls.apply(tls.load(tls.wanted(config))) == ["SSL"]
            assert await is_welcome()
        nursery.cancel_scope.cancel()
