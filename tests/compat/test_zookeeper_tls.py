"""Clients with TLS at members of an ensemble, and Apache ZooKeeper's own client at ours."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from kazoo.security import make_acl

from tests.support.ensembles import OurMember, ensemble
from tests.support.kazoo_clients import started
from tests.support.nightly import chosen
from tests.support.processes import free_port
from tests.support.real_zookeeper import jars
from tests.support.secured_zookeeper import make_authority, make_store
from tests.support.short_lived_java import JVM_OPTIONS

OURS, MIXED = ("ours", "ours", "ours"), ("ours", "real", "ours")
CLIENT_CLASS = "org.apache.zookeeper.ZooKeeperMain"


def keys_in(directory: Path) -> dict[str, str]:
    """The keys of a server; clients `ann` and `bob` have stores beside."""
    authority = make_authority(directory, "ca")
    for name in ("ann", "bob"):
        make_store(directory, name, authority)
    store = make_store(directory, "server", authority, "subjectAltName=DNS:localhost")
    return {
        "secureClientPortAddress": "127.0.0.1",
        "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
        "authProvider.x509": "org.apache.zookeeper.server.auth.X509AuthenticationProvider",
        "ssl.keyStore.location": str(store),
        "ssl.trustStore.location": str(authority),
    }


def client_at(port: int, directory: Path, name: str) -> AbstractContextManager[KazooClient]:
    store = str(directory / f"{name}.pem")
    client = KazooClient(
        f"localhost:{port}",
        use_ssl=True,
        ca=str(directory / "ca.pem"),
        certfile=store,
        keyfile=store,
    )
    return started(client)


@pytest.mark.parametrize("kinds", chosen([OURS, MIXED], [OURS]), ids="-".join)
def test_clients_with_certificates_at_each_member(tmp_path: Path, kinds: tuple[str, ...]) -> None:
    """The leader checks the ACLs for clients of all members, by the names in their certificates."""
    if "real" in kinds and jars() is None:
        pytest.skip("no Java, or no pyspark with ZooKeeper's jars")
    settings = keys_in(tmp_path)
    ports = {number: free_port() for number in range(1, 4)}

    def own(number: int) -> Mapping[str, str]:
        return {"secureClientPort": str(ports[number])}

    with ensemble(tmp_path, kinds, settings=settings, own_settings=own) as running:
        running.launch()
        running.await_leader()
        for number, port in ports.items():
            with client_at(port, tmp_path, "ann") as ann, client_at(port, tmp_path, "bob") as bob:
                path = f"/of-ann-{number}"
                ann.create(path, b"hers", [make_acl("auth", "", all=True)])
                ann.set(path, b"mine")
                acl, _ = ann.get_acls(path)
                assert [(one.id.scheme, one.id.id) for one in acl] == [("x509", "CN=ann")]
                for refused in (bob.get, bob.get_acls, lambda at: bob.create(f"{at}/below")):
                    with pytest.raises(NoAuthError):
                        refused(path)
                bob.create(f"/for-ann-{number}", b"", [make_acl("x509", "CN=ann", all=True)])
                ann.set(f"/for-ann-{number}", b"seen")


@pytest.mark.nightly
@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_zookeepers_own_client(tmp_path: Path, version: str) -> None:
    if jars() is None:
        pytest.skip("no Java, or no pyspark with ZooKeeper's jars")
    port = free_port()
    settings = {**keys_in(tmp_path), "secureClientPort": str(port)}
    server = OurMember(tmp_path / "ours", 0, "", tick_ms=2000, settings=settings)
    server.start()
    options = {
        "client.secure": "true",
        "clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
        "ssl.keyStore.location": tmp_path / "ann.pem",
        "ssl.trustStore.location": tmp_path / "ca.pem",
        "ssl.enabledProtocols": version,
    }
    try:
        done = subprocess.run(
            [
                *("java", *JVM_OPTIONS),
                *(f"-Dzookeeper.{key}={value}" for key, value in options.items()),
                *("-cp", f"{jars()}/*", CLIENT_CLASS, "-server", f"localhost:{port}"),
            ],
            input="create /java hello auth::cdrwa\nget /java\ngetAcl /java\nwhoami\nquit\n",
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
    finally:
        server.kill()
    output = done.stdout + done.stderr
    assert "Created /java" in output, output
    assert "'x509,'CN=ann" in output, output
    assert "x509: CN=ann" in output, output
