"""Logins of clients by SASL DIGEST-MD5 at each member of an ensemble."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import (
    NoAuthError,
    SessionClosedRequireSaslError,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KeeperState
from kazoo.security import make_acl

from tests.support.ensembles import Ensemble, OurMember, ensemble
from tests.support.nightly import chosen
from tests.support.patience import until
from tests.support.real_zookeeper import RealZooKeeper, jars

OURS, ONE_REAL = ("ours", "ours", "ours"), ("ours", "real", "ours")
MODULE = "org.apache.zookeeper.server.auth.DigestLoginModule required"
JAAS = f"""
Server {{ {MODULE} user_ann="her secret" user_bob="his secret"; }};
"""
SASL_PROVIDER = {"authProvider.sasl": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"}


def skip_without_java(kinds: tuple[str, ...]) -> None:
    if "real" in kinds and jars() is None:
        pytest.skip("no Java, or no pyspark with ZooKeeper's jars")


def jaas_file(directory: Path) -> str:
    file = directory / "jaas.conf"
    file.write_text(JAAS)
    return f"-Djava.security.auth.login.config={file}"


@contextlib.contextmanager
def with_logins(
    directory: Path, kinds: tuple[str, ...], settings: Mapping[str, str]
) -> Iterator[Ensemble]:
    skip_without_java(kinds)
    option = jaas_file(directory)
    with ensemble(directory, kinds, settings=settings) as running:
        for member in running.members.values():
            use_jaas(member, option)
        running.launch()
        running.await_leader()
        yield running


def use_jaas(member: OurMember | RealZooKeeper, option: str) -> None:
    if isinstance(member, OurMember):
        member.environment = {"SERVER_JVMFLAGS": option}
    else:
        member.jvm_options = [option]


def client_of(address: str, user: str | None, password: str) -> KazooClient:
    options = None
    if user is not None:
        options = {"mechanism": "DIGEST-MD5", "username": user, "password": password}
    return KazooClient(address, sasl_options=options, connection_retry={"max_tries": 3})


@contextlib.contextmanager
def client_at(address: str, user: str | None, password: str = "") -> Iterator[KazooClient]:
    client = client_of(address, user, password)
    client.start(timeout=60)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def assert_refused(client: KazooClient) -> None:
    with contextlib.suppress(KazooTimeoutError):
        client.start(timeout=60)  # its session is there before it logs in
    ends = (KeeperState.AUTH_FAILED, KeeperState.CLOSED)
    until(lambda: client.client_state in ends)
    client.stop()
    client.close()


@pytest.mark.parametrize("kinds", chosen([OURS, ONE_REAL], [OURS]), ids="-".join)
def test_clients_log_in_at_each_member(tmp_path: Path, kinds: tuple[str, ...]) -> None:
    """The leader checks the ACLs for clients of all members, by the names of their logins."""
    with with_logins(tmp_path, kinds, SASL_PROVIDER) as running:
        for number, member in running.members.items():
            address = f"127.0.0.1:{member.port}"
            path = f"/of-ann-{number}"
            with (
                client_at(address, "ann", "her secret") as ann,
                client_at(address, "bob", "his secret") as bob,
                client_at(address, None) as nobody,
            ):
                ann.create(path, b"hers", [make_acl("auth", "", all=True)])
                acl, _ = ann.get_acls(path)
                assert [(one.id.scheme, one.id.id) for one in acl] == [("sasl", "ann")]
                for stranger in (bob, nobody):
                    with pytest.raises(NoAuthError):
                        stranger.get(path)
                    with pytest.raises(NoAuthError):
                        stranger.create(f"{path}/below")
                ann.create(f"{path}/below")
            assert_refused(client_of(address, "ann", "guessed"))


def test_members_that_want_a_login(tmp_path: Path) -> None:
    with with_logins(tmp_path, OURS, {"sessionRequireClientSASLAuth": "true"}) as running:
        for member in running.members.values():
            address = f"127.0.0.1:{member.port}"
            with client_at(address, "bob", "his secret") as bob:
                bob.get_children("/")
            with client_at(address, None) as nobody, pytest.raises(SessionClosedRequireSaslError):
                nobody.get_children("/")
