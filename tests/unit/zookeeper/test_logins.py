"""Logins of clients by SASL, and servers that want one, as machines: alone, and at a learner."""

import pytest

from pybroker_kafka.protocol.errors import ProtocolError
from pybroker_kafka.protocol.sasl.digest_md5 import DigestClient
from pybroker_kafka.protocol.zookeeper import jute
from pybroker_kafka.protocol.zookeeper.constants import OPEN_ACL, Op, ZkCode
from pybroker_kafka.protocol.zookeeper.jute import (
    ACL,
    AuthPacket,
    CreateRequest,
    Id,
    PathWatchRequest,
    SaslToken,
)
from pybroker_kafka.zookeeper.access import Access
from pybroker_kafka.zookeeper.sasl_login import SASL_NAME, SASL_SERVICE
from tests.support.zookeeper_machine import MachineClient, World

SCHEMES = frozenset({"digest", "sasl"})
USERS = {"ann": "her secret", "super": "over all"}
OPEN = Access(SCHEMES, USERS)
CLOSED = OPEN._replace(required=frozenset({"sasl"}))
READ = PathWatchRequest("/", False)


def log_in(client: MachineClient, user: str = "ann", password: str | None = None) -> int:
    """Returns the error of the last answer."""
    of_client = DigestClient(
        SASL_SERVICE, SASL_NAME, user, password or USERS[user], client.session_id.to_bytes(8, "big")
    )
    token: bytes | None = b""
    while True:
        reply = client.call(Op.SASL, SaslToken(token))
        if reply.error:
            assert jute.decode(SaslToken, reply.body).token is None
            return reply.error
        token = of_client.respond(jute.decode(SaslToken, reply.body).token or b"")
        if token is None:
            return 0


def create(client: MachineClient, path: str, *entries: Id) -> int:
    acl = [ACL(31, entry) for entry in entries] or list(OPEN_ACL)
    return client.call(Op.CREATE, CreateRequest(path, b"", acl, 0)).error


def test_acls_by_sasl() -> None:
    world = World(access=OPEN)
    ann, other = world.client(), world.client()
    assert log_in(ann) == 0
    assert create(ann, "/hers", Id("auth", "")) == 0
    assert create(ann, "/also", Id("sasl", "ann")) == 0
    read = PathWatchRequest("/hers", False)
    assert ann.call(Op.GET_DATA, read).error == 0
    assert other.call(Op.GET_DATA, read).error == ZkCode.NO_AUTH
    assert create(other, "/bad", Id("sasl", "a@b@c")) == ZkCode.INVALID_ACL
    assert log_in(other, "super") == 0
    assert other.call(Op.GET_DATA, read).error == 0


def test_a_server_without_sasl() -> None:
    world = World()
    client = world.client()
    assert create(client, "/x", Id("sasl", "ann")) == ZkCode.INVALID_ACL
    assert client.call(Op.SASL, SaslToken(b"")).error == ZkCode.UNIMPLEMENTED
    assert client.is_closed


def test_a_wrong_password() -> None:
    world = World(access=OPEN)
    client = world.client()
    assert log_in(client, "ann", "wrong") == ZkCode.AUTH_FAILED
    assert client.is_closed
    assert world.machine.refused_logins == 1
    count = len(client.log)
    world.machine.receive(client.connection, b"\0\0\0\1\0\0\0\1", world.now_ms)
    assert len(client.log) == count  # nothing more is read from it


def test_a_client_stays_as_nobody_where_that_is_wanted() -> None:
    world = World(access=OPEN._replace(keeps_failed=True))
    client = world.client()
    for _ in range(2):
        assert client.call(Op.SASL, SaslToken(b"early")).error == 0
    assert client.call(Op.GET_DATA, READ).error == 0
    assert [one.scheme for one in client.connection.identities] == ["ip"]


@pytest.mark.parametrize("op", [Op.GET_DATA, Op.PING, Op.CLOSE_SESSION, Op.MULTI, Op.SET_WATCHES])
def test_a_server_that_wants_a_login(op: Op) -> None:
    world = World(access=CLOSED)
    stranger, ann = world.client(), world.client()
    records = len(world.records)
    reply = stranger.call(op, READ)
    assert (reply.error, reply.body) == (ZkCode.SESSION_CLOSED_REQUIRE_SASL_AUTH, b"")
    assert stranger.is_closed
    assert len(world.records) == records
    assert ann.call(Op.AUTH, AuthPacket(0, "digest", b"a:b")).error == 0  # another scheme
    assert log_in(ann) == 0
    assert ann.call(Op.GET_DATA, READ).error == 0


def test_a_wrong_password_where_a_login_is_wanted() -> None:
    world = World(access=CLOSED._replace(keeps_failed=True))
    client = world.client()
    code = ZkCode.SESSION_CLOSED_REQUIRE_SASL_AUTH
    assert log_in(client, "ann", "wrong") == code
    assert client.is_closed


def test_any_digest_where_that_is_wanted() -> None:
    world = World(access=Access(required=frozenset({"digest"})))
    client = world.client()
    assert client.call(Op.AUTH, AuthPacket(0, "digest", b"a:b")).error == 0
    assert client.call(Op.GET_DATA, READ).error == 0


def test_a_token_after_the_login() -> None:
    client = World(access=OPEN).client()
    assert log_in(client) == 0
    with pytest.raises(ProtocolError, match="after the login"):
        client.call(Op.SASL, SaslToken(b""))
