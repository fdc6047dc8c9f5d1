"""DIGEST-MD5: the RFC's example, any name and password, a foreign client, and mutated tokens."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from puresasl.client import SASLClient  # type: ignore[import-untyped]

from pybroker_kafka.protocol.sasl.digest_md5 import MAX_TOKEN_BYTES, DigestClient, DigestServer
from pybroker_kafka.protocol.sasl.errors import SaslError

SERVICE, NAME = "zookeeper", "zk-sasl-md5"
USERS = {"ann": "her secret", "bob": "his"}
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


def server(users: dict[str, str]) -> DigestServer:
    return DigestServer(SERVICE, NAME, users, b"1" * 30)


def client(user: str, password: str) -> DigestClient:
    return DigestClient(SERVICE, NAME, user, password, b"2" * 30)


def test_the_example_of_the_rfc() -> None:
    name = "elwood.innosoft.com"
    of_server = DigestServer("imap", name, {"chris": "secret"}, b"")
    of_client = DigestClient("imap", name, "chris", "secret", b"")
    of_server._nonce, of_client._cnonce = b"OA6MG9tEQGm2hh", b"OA6MHXh6VqTrRk"
    answer = of_client.respond(of_server.respond(b""))
    assert answer is not None
    assert b"response=d388dad90d4bbd760a152321f2143af7" in answer
    last = of_server.respond(answer)
    assert last == b"rspauth=ea40f60335c427b5527b84dbabcdfffd"
    assert of_client.respond(last) is None
    assert (of_client.is_complete, of_server.user) == (True, "chris")


@given(TEXTS, TEXTS, TEXTS)
def test_any_name_and_password(user: str, password: str, other: str) -> None:
    of_server, of_client = server({user: password}), client(user, password)
    answer = of_client.respond(of_server.respond(b""))
    assert answer is not None
    assert of_client.respond(of_server.respond(answer)) is None
    assert of_server.user == user
    wrong = server({user: password + other})
    answer = client(user, password).respond(wrong.respond(b""))
    assert answer is not None
    with pytest.raises(SaslError):
        wrong.respond(answer)
    assert wrong.user is None


@pytest.mark.parametrize(("user", "password"), [("ann", "his"), ("carl", ""), ("", "")])
def test_who_does_not_get_in(user: str, password: str) -> None:
    of_server = server(USERS)
    answer = client(user, password).respond(of_server.respond(b""))
    assert answer is not None
    with pytest.raises(SaslError):
        of_server.respond(answer)
    right = client("ann", "her secret")
    with pytest.raises(SaslError, match="over"):  # a connection has one login
        of_server.respond(right.respond(server(USERS).respond(b"")) or b"")
    assert of_server.user is None


def test_a_server_that_does_not_know_the_password() -> None:
    of_client = client("ann", "her secret")
    of_client.respond(server(USERS).respond(b""))
    with pytest.raises(SaslError):
        of_client.respond(b"rspauth=" + b"0" * 32)
    assert not of_client.is_complete


def test_a_foreign_client() -> None:
    foreign = SASLClient(NAME, SERVICE, mechanism="DIGEST-MD5", username="bob", password="his")
    of_server = server(USERS)
    foreign.process(of_server.respond(foreign.process(of_server.respond(b""))))
    assert foreign.complete
    assert of_server.user == "bob"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"nc=00000001", b"nc=00000002"), (b"qop=auth", b"qop=auth-int"),
        (b'realm="zk-sasl-md5"', b'realm="other"'), (b"zookeeper/", b"imap/"),
        (b'nonce="MTEx', b'nonce="MTEy'), (b"charset=utf-8,", b"charset=utf-16,"),
        (b"response=", b"response=0"), (b"response=", b"answer="), (b"username", b"user"),
        (b",qop=auth", b",qop=auth,qop=auth"), (b'="ann"', b'="ann'), (b",nc=", b",,,;nc="),
        (b",qop=auth", b',qop=auth,authzid="bob"'), (b'"ann"', b'"\xff\xfe"'),
    ],
)  # fmt: skip
def test_a_changed_answer(old: bytes, new: bytes) -> None:
    of_server = server(USERS)
    answer = client("ann", "her secret").respond(of_server.respond(b""))
    assert answer is not None
    assert old in answer
    with pytest.raises(SaslError):
        of_server.respond(answer.replace(old, new, 1))
    assert of_server.user is None


@given(st.binary(max_size=200))
def test_tokens_of_any_bytes(token: bytes) -> None:
    of_server = server(USERS)
    of_server.respond(b"")
    with pytest.raises(SaslError):
        of_server.respond(token)
    with contextlib.suppress(SaslError):
        client("ann", "x").respond(token)


def test_large_tokens_and_early_ones() -> None:
    with pytest.raises(SaslError, match="empty"):
        server(USERS).respond(b"x=y")
    of_server = server(USERS)
    of_server.respond(b"")
    with pytest.raises(SaslError, match="bytes"):
        of_server.respond(b"a" * (MAX_TOKEN_BYTES + 1))
