"""A member without a leader that serves clients which only read: the machine, and the member."""

import struct

import pytest

from pybroker_kafka.protocol.zookeeper import jute
from pybroker_kafka.protocol.zookeeper.constants import OPEN_ACL, Op, ZkCode
from pybroker_kafka.protocol.zookeeper.jute import (
    ConnectRequest,
    ConnectResponse,
    CreateRequest,
    DeleteRequest,
    MultiHeader,
    PathRequest,
    PathWatchRequest,
    SetACLRequest,
    SetDataRequest,
)
from pybroker_kafka.zookeeper.client_connection import Connection
from pybroker_kafka.zookeeper.passwords import member_password, passwords_of
from pybroker_kafka.zookeeper.quorum.ensemble_machine import EnsembleMachine
from pybroker_kafka.zookeeper.quorum.leader import Limits
from pybroker_kafka.zookeeper.quorum.learner import Epochs
from pybroker_kafka.zookeeper.quorum.member import EnsembleSpec, Member
from pybroker_kafka.zookeeper.sessions import SessionTable
from pybroker_kafka.zookeeper.tree import DataTree

NOW = 1_700_000_000_000
KNOWN = (2 << 56) + 7
WRITES = [
    (Op.CREATE, CreateRequest("/a", b"", list(OPEN_ACL), 0)),
    (Op.CREATE2, CreateRequest("/a", b"", list(OPEN_ACL), 0)),
    (Op.DELETE, DeleteRequest("/zookeeper", -1)),
    (Op.SET_DATA, SetDataRequest("/", b"x", -1)),
    (Op.SET_ACL, SetACLRequest("/", list(OPEN_ACL), -1)),
    (Op.SYNC, PathRequest("/")),
    (Op.MULTI, MultiHeader(-1, True, -1)),
    (Op.RECONFIG, MultiHeader(-1, True, -1)),
]


class Store:
    epochs = Epochs(0, 0)


class Lonely:
    """Member 1 of three, whose others are away."""

    def __init__(self, *, reads_alone: bool = True) -> None:
        self.now_ms = NOW
        sessions = SessionTable(100, passwords_of(None, None), NOW, 1)
        sessions.add(KNOWN, 1000, NOW)
        self.machine = EnsembleMachine(DataTree(), sessions, 1)
        limits = Limits(100, 10, 5)
        spec = EnsembleSpec(1, frozenset({1, 2, 3}), False, limits, reads_alone=reads_alone)
        self.member = Member(spec, Store(), self.machine, [], NOW)  # type: ignore[arg-type]
        self.frames: list[tuple[Connection, bytes | None]] = []

    def advance(self, ms: int) -> None:
        self.now_ms += ms
        self.member.tick(self.now_ms)
        self.settle()

    def settle(self) -> None:
        effects = self.member.take_effects(self.now_ms)
        assert not effects.records
        self.frames += effects.frames

    def connect(
        self, flag: bytes = b"\1", session_id: int = 0, seen: int = 0
    ) -> tuple[Connection, bytes | None]:
        """The answer is None if the connection was closed without one."""
        connection = self.machine.connected(None, "127.0.0.1")
        password = member_password(session_id)
        request = jute.encode(ConnectRequest(0, seen, 300, session_id, password)) + flag
        return connection, self.ask(connection, request)

    def ask(self, connection: Connection, frame: bytes) -> bytes | None:
        self.member.client_frame(connection, frame, self.now_ms)
        self.frames.clear()
        self.settle()
        return self.frames[0][1] if self.frames else None

    def call(self, connection: Connection, op: int, record: object) -> tuple[int, bytes]:
        frame = self.ask(connection, struct.pack(">ii", 5, op) + jute.encode(record))
        assert frame is not None
        xid, _, error = struct.unpack_from(">iqi", frame, 4)
        assert xid == 5
        return error, frame[20:]


@pytest.fixture
def lonely() -> Lonely:
    member = Lonely()
    member.settle()
    member.advance(2000)
    assert member.member.is_read_only
    return member


def test_it_begins_after_a_while() -> None:
    member = Lonely()
    member.settle()
    assert (member.member.next_deadline_ms() or 0) <= NOW + 2000
    member.advance(1999)
    assert not member.member.is_read_only
    assert member.connect()[1] is None
    member.advance(1)
    assert member.member.is_read_only
    assert not member.member.is_serving


def test_without_the_key_nobody_is_served() -> None:
    member = Lonely(reads_alone=False)
    member.advance(60_000)
    assert not member.member.is_read_only
    assert member.connect()[1] is None


def test_a_client_that_only_reads(lonely: Lonely) -> None:
    connection, answer = lonely.connect()
    assert answer is not None
    assert answer[-1] == 1  # its server reads only
    session = jute.decode(ConnectResponse, answer[4:])
    assert session.session_id >> 56 == 1
    assert session.timeout_ms == 300
    assert lonely.call(connection, Op.EXISTS, PathWatchRequest("/", True))[0] == 0
    for op, record in WRITES:
        assert lonely.call(connection, op, record) == (ZkCode.NOT_READ_ONLY, b""), op
    assert lonely.call(connection, Op.CLOSE_SESSION, MultiHeader(-1, True, -1)) == (0, b"")
    assert lonely.frames[1] == (connection, None)
    assert lonely.machine.tree.last_zxid == 0


@pytest.mark.parametrize("flag", [b"\0", b""])
def test_other_clients(lonely: Lonely, flag: bytes) -> None:
    connection, answer = lonely.connect(flag)
    assert answer is None
    assert lonely.frames == [(connection, None)]


def test_sessions_of_the_ensemble_are_left_alone(lonely: Lonely) -> None:
    connection, answer = lonely.connect(session_id=KNOWN)
    assert answer is None
    assert lonely.frames == [(connection, None)]
    lonely.advance(60_000)
    assert KNOWN in lonely.machine.sessions.sessions
    _, answer = lonely.connect(session_id=KNOWN + 1)  # of a time before this one
    assert answer is not None
    assert jute.decode(ConnectResponse, answer[4:]).timeout_ms == 0


def test_sessions_move_and_end(lonely: Lonely) -> None:
    first, answer = lonely.connect()
    assert answer is not None
    session_id = jute.decode(ConnectResponse, answer[4:]).session_id
    second, closed = lonely.connect(session_id=session_id)
    assert closed is None
    assert [one for one, _ in lonely.frames] == [first, second]
    answer = lonely.frames[1][1]
    assert answer is not None
    assert jute.decode(ConnectResponse, answer[4:]).session_id == session_id
    lonely.frames.clear()
    lonely.advance(500)
    assert lonely.frames == [(second, None)]


def test_it_ends_with_the_election(lonely: Lonely) -> None:
    connection, _ = lonely.connect()
    lonely.member._begin(2, lonely.now_ms)
    effects = lonely.member.take_effects(lonely.now_ms)
    assert effects.closes_clients
    assert effects.connect_to == 2
    assert not lonely.member.is_read_only
    assert lonely.ask(connection, struct.pack(">ii", 5, Op.PING)) is None
    lonely.member._look("it is gone", lonely.now_ms)
    lonely.advance(1999)
    assert not lonely.member.is_read_only
    lonely.advance(1)
    assert lonely.member.is_read_only
