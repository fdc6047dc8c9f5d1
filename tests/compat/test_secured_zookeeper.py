"""The broker's connection over TLS, with SASL, with digest, and its ACLs: to the real ZooKeeper and
to ours."""

from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
import trio
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from pybroker_kafka.broker.config import KafkaConfig
from pybroker_kafka.broker.zk.zookeeper_client import (
    ZooKeeperClient,
    ZooKeeperUnavailable,
    open_zookeeper,
)
from pybroker_kafka.broker.zk.zookeeper_security import zookeeper_security
from pybroker_kafka.protocol.zookeeper.operations import Create, Multi, SetData, create_recursive
from pybroker_kafka.testing import Network
from tests.support.secured_zookeeper import (
    SASL_PASSWORD,
    SASL_USER,
    SecuredZooKeeper,
    secured_zookeeper,
)

SESSION_TIMEOUT_MS = 4_000
SHORT_MS = 700
PATHS = (
    "/consumers",
    "/brokers",
    "/config",
    "/config/users",
    "/config/users/ann",
    "/config/brokers",
    "/config/topics",
    "/delegation_token",
    "/delegation_token/tokens",
)


@pytest.fixture(scope="module", params=["real", "ours"])
def zookeeper(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SecuredZooKeeper]:
    with secured_zookeeper(tmp_path_factory.mktemp("secured"), request.param) as running:
        yield running


def opened(
    connect: str, settings: dict[str, str], timeout_ms: int = 20_000
) -> AbstractAsyncContextManager[ZooKeeperClient]:
    config = KafkaConfig({"zookeeper.connect": connect, **settings})
    return open_zookeeper(
        connect,
        session_timeout_ms=SESSION_TIMEOUT_MS,
        connection_timeout_ms=timeout_ms,
        security=zookeeper_security(config),
    )


def tls(zookeeper: SecuredZooKeeper) -> dict[str, str]:
    return {
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.ssl.truststore.location": str(zookeeper.authority),
        "zookeeper.ssl.keystore.location": str(zookeeper.broker_store),
    }


def sasl(directory: Path, password: str = SASL_PASSWORD) -> dict[str, str]:
    file = directory / "client.jaas"
    file.write_text(
        "Client { org.apache.zookeeper.server.auth.DigestLoginModule required\n"
        f'  username="{SASL_USER}" password="{password}"; }};\n'
    )
    return {"pybroker.jaas.file": str(file)}


def digest(directory: Path) -> dict[str, str]:
    file = directory / "credentials"
    file.write_text("broker:its-password\n")
    file.chmod(0o600)
    return {"pybroker.zookeeper.credentials.file": str(file)}


async def create_paths(client: ZooKeeperClient) -> None:
    for path in PATHS[:-1]:
        await client.run(create_recursive(path))
    await client.execute_one(Multi((Create(PATHS[-1]),)))


def acls_below(client: ZooKeeperClient) -> dict[str, list[str]]:
    """As whom the broker is, which may see all of them."""
    found = {}
    for path in PATHS:
        acls, _ = client._kazoo.get_acls(client._operations.chroot + path)
        found[path] = sorted(f"{one.id.scheme}:{one.id.id}={one.perms}" for one in acls)
    return found


def expected(owner: str) -> dict[str, list[str]]:
    mine, readable = [f"{owner}=31"], sorted([f"{owner}=31", "world:anyone=1"])
    sensitive = ("/config/users", "/config/brokers", "/delegation_token/tokens")
    acls = {path: mine if path.startswith(sensitive) else readable for path in PATHS}
    return {**acls, "/consumers": ["world:anyone=31"]}


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
async def test_over_tls_with_a_certificate(zookeeper: SecuredZooKeeper, version: str) -> None:
    settings = {
        **tls(zookeeper),
        "zookeeper.set.acl": "true",
        "zookeeper.ssl.enabled.protocols": version,
    }
    async with opened(f"localhost:{zookeeper.secure_port}/{version}", settings) as client:
        await create_paths(client)
        assert acls_below(client) == expected("x509:CN=broker")
        # Many answers in a few TLS records: none waits for the next ping.
        results = await client.execute([Create(f"/brokers/{number}") for number in range(600)])
        assert all(result.ok for result in results)


async def test_over_tls_the_host_name_is_checked(zookeeper: SecuredZooKeeper) -> None:
    """The certificate names localhost; the broker asks for 127.0.0.1."""
    connect = f"127.0.0.1:{zookeeper.secure_port}"
    with pytest.raises(ZooKeeperUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
        async with opened(connect, tls(zookeeper), SHORT_MS):
            pass
    unchecked = {"zookeeper.ssl.endpoint.identification.algorithm": ""}
    async with opened(connect, {**tls(zookeeper), **unchecked}) as client:
        assert client.is_connected


async def test_strangers_are_refused_on_both_sides(zookeeper: SecuredZooKeeper) -> None:
    connect = f"localhost:{zookeeper.secure_port}"
    foreign = {"zookeeper.ssl.truststore.location": str(zookeeper.stranger_store)}
    with pytest.raises(ZooKeeperUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
        async with opened(connect, {**tls(zookeeper), **foreign}, SHORT_MS):
            pass
    unknown = {"zookeeper.ssl.keystore.location": str(zookeeper.stranger_store)}
    with pytest.raises(ZooKeeperUnavailable, match="no ZooKeeper answered"):
        async with opened(connect, {**tls(zookeeper), **unknown}, SHORT_MS):
            pass


async def test_with_sasl(zookeeper: SecuredZooKeeper, tmp_path: Path) -> None:
    settings = {**sasl(tmp_path), "zookeeper.set.acl": "true"}
    connect = f"127.0.0.1:{zookeeper.port}/sasl"
    async with opened(connect, settings) as client:
        await create_paths(client)
        assert acls_below(client) == expected(f"sasl:{SASL_USER}")
    with pytest.raises(ZooKeeperUnavailable, match="refuses this broker's name or password"):
        async with opened(connect, sasl(tmp_path, "wrong")):
            pass


async def test_with_digest(zookeeper: SecuredZooKeeper, tmp_path: Path) -> None:
    settings = {**digest(tmp_path), "zookeeper.set.acl": "true"}
    async with opened(f"127.0.0.1:{zookeeper.port}/digest", settings) as client:
        await create_paths(client)
        found = acls_below(client)
    owner = found["/config/users"][0].removesuffix("=31")
    assert owner.startswith("digest:broker:")
    assert found == expected(owner)
    stranger = KazooClient(f"127.0.0.1:{zookeeper.port}/digest")
    stranger.start()
    try:
        stranger.get("/config/topics")
        stranger.create("/consumers/of-anybody")
        with pytest.raises(NoAuthError):
            stranger.get("/config/users/ann")
        with pytest.raises(NoAuthError):
            stranger.set("/config/topics", b"")
        with pytest.raises(NoAuthError):
            stranger.create("/config/users/bob")
        with pytest.raises(NoAuthError):
            stranger.delete("/config/users/ann")
    finally:
        stranger.stop()
        stranger.close()


async def test_reconnects_log_in_again(zookeeper: SecuredZooKeeper, tmp_path: Path) -> None:
    """Over TLS with SASL, cut again and again: what needs the login goes on."""
    settings = {**tls(zookeeper), **sasl(tmp_path), "zookeeper.set.acl": "true"}
    with Network() as network:
        port = network.front("zookeeper", zookeeper.secure_port)
        async with opened(f"localhost:{port}/cut", settings) as client:
            await create_paths(client)
            session = client.session

            async def write() -> None:
                for _ in range(300):
                    assert (await client.execute_one(SetData("/config/users/ann", b"x"))).ok

            async with trio.open_nursery() as writing:
                writing.start_soon(write)
                for _ in range(5):
                    await trio.sleep(0.1)
                    network.cut("client", "zookeeper").undo()
            assert client.session == session
