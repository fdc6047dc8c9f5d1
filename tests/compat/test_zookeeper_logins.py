"""Logins by SASL DIGEST-MD5 at ensembles: of clients at each member, and of members at others."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
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
from tests.support.kazoo_clients import started
from tests.support.nightly import chosen
from tests.support.patience import until
from tests.support.real_zookeeper import RealZooKeeper, jars

OURS, ONE_REAL = ("ours", "ours", "ours"), ("ours", "real", "ours")
TWO_REAL = ("real", "ours", "real")
MODULE = "org.apache.zookeeper.server.auth.DigestLoginModule required"
JAAS = f"""
Server {{ {MODULE} user_ann="her secret" user_bob="his secret"; }};
QuorumServer {{ {MODULE} user_member="of the ensemble"; }};
QuorumLearner {{ {MODULE} username="member" password="of the ensemble"; }};
"""
BETWEEN = {
    "quorum.auth.enableSasl": "true",
    "quorum.auth.learnerRequireSasl": "true",
    "quorum.auth.serverRequireSasl": "true",
    "quorum.cnxn.threads.size": "20",
}
SASL_PROVIDER = {"authProvider.sasl": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"}


def skip_without_java(kinds: tuple[str, ...]) -> None:
    if "real" in kinds and jars() is None:
        pytest.skip("no Java, or no pyspark with ZooKeeper's jars")


def jaas_file(directory: Path, text: str = JAAS) -> str:
    file = directory / "jaas.conf"
    file.write_text(text)
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


def client_at(
    address: str, user: str | None, password: str = ""
) -> AbstractContextManager[KazooClient]:
    return started(client_of(address, user, password))


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


@pytest.mark.nightly
def test_members_that_want_a_login(tmp_path: Path) -> None:
    with with_logins(tmp_path, OURS, {"sessionRequireClientSASLAuth": "true"}) as running:
        for member in running.members.values():
            address = f"127.0.0.1:{member.port}"
            with client_at(address, "bob", "his secret") as bob:
                bob.get_children("/")
            with client_at(address, None) as nobody, pytest.raises(SessionClosedRequireSaslError):
                nobody.get_children("/")


@pytest.mark.parametrize("kinds", chosen([OURS, ONE_REAL, TWO_REAL], [OURS]), ids="-".join)
def test_members_log_in_at_each_other(tmp_path: Path, kinds: tuple[str, ...]) -> None:
    """One after the other is away, and the rest goes on; a wrong password keeps one outside."""
    with with_logins(tmp_path, kinds, BETWEEN) as running:
        for number in (1,) if kinds == OURS else running.members:
            running.kill(number)
            rest = [other for other in running.members if other != number]
            running.await_leader(*rest)
            with running.client(*rest) as client:
                client.retry(client.create, f"/without-{number}")
            running.launch(number)
            running.await_leader()
        last = len(kinds)
        running.kill(last)
        wrong = tmp_path / "wrong"
        wrong.mkdir()
        use_jaas(running.members[last], jaas_file(wrong, JAAS.replace("of the", "of no")))
        running.launch(last)
        rest = [number for number in running.members if number != last]
        running.await_leader(*rest)
        if kinds[last - 1] == "ours":
            log = tmp_path / f"{last}-ours" / "server.log"
            until(lambda: "refuses our name and password" in log.read_text())
            assert "of no" not in log.read_text()
        assert running.members[last].mode == ""
        with running.client(*rest) as client:
            client.create("/still")
        running.kill(last)
        use_jaas(running.members[last], jaas_file(tmp_path))
        running.launch(last)
        running.await_leader()
        with running.client(last) as client:
            client.sync("/")
            assert client.exists("/still")
