"""A closed server: strangers get an answer to their connect request and nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybroker_kafka.protocol.errors import ProtocolError
from pybroker_kafka.protocol.zookeeper.constants import AUTH_XID, OPEN_ACL, Op, ZkCode
from pybroker_kafka.protocol.zookeeper.jute import (
    ACL,
    AuthPacket,
    CreateRequest,
    Id,
    PathRequest,
    PathWatchRequest,
)
from pybroker_kafka.zookeeper.acl import digest_id
from tests.support.raw_zookeeper import Reply
from tests.support.zookeeper_machine import MachineClient, World

CREDENTIALS = b"cluster:secret"
RIGHT = AuthPacket(0, "digest", CREDENTIALS)
LOGIN = (Op.AUTH, RIGHT)
STRANGERS = [
    (Op.AUTH, AuthPacket(0, "digest", b"cluster:wrong")),
    (Op.AUTH, AuthPacket(0, "digest", b"")),
    (Op.AUTH, AuthPacket(0, "digest", None)),
    (Op.AUTH, AuthPacket(0, "ip", b"127.0.0.1")),
    (Op.AUTH, AuthPacket(0, "world", CREDENTIALS)),
    (Op.AUTH, AuthPacket(0, None, CREDENTIALS)),
    (Op.CREATE, CreateRequest("/n", b"", list(OPEN_ACL), 0)),
    (Op.GET_CHILDREN, PathWatchRequest("/", True)),
    (Op.EXISTS, PathWatchRequest("/kept", True)),
    (Op.SYNC, PathRequest("/")),
    (Op.PING, None),
    (Op.WHO_AM_I, None),
    (Op.CLOSE_SESSION, None),
    (Op.MULTI, None),
    (Op.SET_WATCHES, None),
    (99, None),
]


def closed_world() -> World:
    return World(admitted=digest_id(CREDENTIALS))


def ask(client: MachineClient, op: int, record: object) -> int:
    return client.call(op, *([] if record is None else [record])).error


def test_who_logs_in_is_served() -> None:
    world = closed_world()
    client = world.client()
    assert world.records == [], "there is no session yet"
    assert ask(client, *LOGIN) == 0
    assert world.machine.sessions.sessions.keys() == {client.session_id}
    assert client.create("/n").error == 0
    assert client.children("/") == ["n", "zookeeper"]
    mine = [ACL(31, Id("auth", ""))]
    assert ask(client, Op.CREATE, CreateRequest("/mine", b"", mine, 0)) == 0
    assert world.machine.tree.nodes["/mine"].acl == (ACL(31, digest_id(CREDENTIALS)),)


@pytest.mark.parametrize(("op", "record"), STRANGERS)
def test_anything_else_ends_the_connection(op: int, record: object) -> None:
    world = closed_world()
    client = world.client()
    code = ZkCode.AUTH_FAILED if op == Op.AUTH else ZkCode.SESSION_CLOSED_REQUIRE_SASL_AUTH
    assert ask(client, op, record) == code
    assert client.is_closed
    said = len(client.log)
    # What is on its way already is heard by nobody, the right words neither.
    world.machine.receive(client.connection, b"\0" * 44, world.now_ms)
    world.machine.receive(client.connection, b"\0\0\0\1\0\0\0\x64", world.now_ms)
    world.settle()
    assert len(client.log) == said
    assert (world.records, dict(world.machine.sessions.sessions)) == ([], {})
    assert world.machine.watches.data.watch_count == 0
    assert world.machine.refused_logins == (op == Op.AUTH)


def test_a_session_is_taken_up_only_with_the_login() -> None:
    world = closed_world()
    owner = world.client()
    assert ask(owner, *LOGIN) == 0
    password = owner.response.password
    thief = world.client(session_id=owner.session_id, password=password)
    assert thief.session_id == owner.session_id
    assert not owner.is_closed
    assert ask(owner, Op.SYNC, PathRequest("/")) == 0
    assert ask(thief, Op.CLOSE_SESSION, None) == ZkCode.SESSION_CLOSED_REQUIRE_SASL_AUTH
    assert world.machine.sessions.sessions.keys() == {owner.session_id}
    again = world.client(session_id=owner.session_id, password=password)
    assert ask(again, *LOGIN) == 0
    assert owner.is_closed
    assert ask(again, Op.SYNC, PathRequest("/")) == 0


def test_a_session_that_ends_before_the_login() -> None:
    world = closed_world()
    owner = world.client()
    assert ask(owner, *LOGIN) == 0
    late = world.client(session_id=owner.session_id, password=owner.response.password)
    world.advance(60_000)
    assert not world.machine.sessions.sessions
    frame = b"\xff\xff\xff\xfc\0\0\0\x64" + bytes(4) + b"\0\0\0\6digest\0\0\0\x0e" + CREDENTIALS
    world.machine.receive(late.connection, frame, world.now_ms)
    world.settle()
    assert late.is_closed
    assert late.log == []


def test_a_malformed_login_is_bad_input() -> None:
    world = closed_world()
    client = world.client()
    for frame in (b"", b"\0\0\0\1", b"\0\0\0\1\0\0\0\x64", b"\0\0\0\1\0\0\0\x64\0\0\0\0\xff\xff"):
        with pytest.raises(ProtocolError):
            world.machine.receive(client.connection, frame, world.now_ms)
    assert world.records == []


@given(
    steps=st.lists(st.tuples(st.integers(0, 3), st.sampled_from([LOGIN, *STRANGERS])), max_size=20)
)
def test_only_those_who_logged_in_have_sessions(
    steps: list[tuple[int, tuple[int, object]]],
) -> None:
    """The twin: a set of those who said the right thing first."""
    world = closed_world()
    clients = [world.client() for _ in range(4)]
    inside: set[int] = set()
    for number, (op, record) in steps:
        client = clients[number]
        if client.is_closed:
            continue
        if number not in inside and (op, record) == LOGIN:
            inside.add(number)
        try:
            reply = ask(client, op, record)
        except ProtocolError:
            assert number in inside
            continue
        if number not in inside:
            assert client.is_closed
            assert reply in (ZkCode.AUTH_FAILED, ZkCode.SESSION_CLOSED_REQUIRE_SASL_AUTH)
        elif op == Op.CLOSE_SESSION:
            inside.discard(number)
    open_sessions = {clients[number].session_id for number in inside}
    assert world.machine.sessions.sessions.keys() == open_sessions


def test_the_login_s_xid_is_given_back() -> None:
    world = closed_world()
    client = world.client()
    world.machine.receive(
        client.connection,
        AUTH_XID.to_bytes(4, "big", signed=True) + b"\0\0\0\x64" + bytes(4)
        + b"\0\0\0\6digest\0\0\0\x0e" + CREDENTIALS,
        world.now_ms,
    )  # fmt: skip
    world.settle()
    (reply,) = client.log
    assert isinstance(reply, Reply)
    assert (reply.xid, reply.error, reply.body) == (AUTH_XID, 0, b"")


login_frame = (
    AUTH_XID.to_bytes(4, "big", signed=True) + b"\0\0\0\x64" + bytes(4)
    + b"\0\0\0\6digest\0\0\0\x0e" + CREDENTIALS
)  # fmt: skip


@st.composite
def nearly_logins(draw: st.DrawFn) -> bytes:
    """The right frame with something wrong in it."""
    frame = bytearray(login_frame)
    for _ in range(draw(st.integers(1, 3))):
        position = draw(st.integers(4, len(frame) - 1))
        frame[position] = draw(st.integers(0, 255))
    return bytes(frame[: draw(st.integers(0, len(frame)))])


@given(frames=st.lists(st.one_of(st.binary(max_size=60), nearly_logins()), max_size=4))
def test_no_bytes_but_the_right_ones_open_it(frames: list[bytes]) -> None:
    world = closed_world()
    client = world.client()
    for frame in frames:
        # Its type and anything behind the credentials are no part of them.
        if frame[4:8] + frame[12:] == login_frame[4:8] + login_frame[12:]:
            return
        try:
            world.machine.receive(client.connection, frame, world.now_ms)
        except ProtocolError:
            break
        world.settle()
    assert (world.records, dict(world.machine.sessions.sessions)) == ([], {})
    assert world.machine.tree.node_count == 5
