"""Clients of a learner that is closed to all but one login; the leader is the test."""

import struct

import pytest

from pybroker_kafka.protocol.zookeeper import jute
from pybroker_kafka.protocol.zookeeper.constants import Op
from pybroker_kafka.protocol.zookeeper.jute import AuthPacket, ConnectRequest, PathWatchRequest
from pybroker_kafka.zookeeper.acl import digest_id
from pybroker_kafka.zookeeper.client_connection import Connection
from pybroker_kafka.zookeeper.passwords import member_password, passwords_of
from pybroker_kafka.zookeeper.quorum.ensemble_machine import (
    EnsembleMachine,
)
from pybroker_kafka.zookeeper.sessions import SessionTable
from pybroker_kafka.zookeeper.transactions import CloseSessionTxn, CreateSessionTxn, Txn, TxnHeader
from pybroker_kafka.zookeeper.tree import DataTree

NOW_MS = 1_700_000_000_000
CREDENTIALS = b"cluster:secret"
AUTH_XID = -4


def learner() -> EnsembleMachine:
    sessions = SessionTable(100, passwords_of(None, CREDENTIALS), NOW_MS, 2)
    machine = EnsembleMachine(DataTree(), sessions, 2, admitted=digest_id(CREDENTIALS))
    machine.learn(1)
    return machine


def connect(machine: EnsembleMachine, session_id: int = 0, password: bytes = b"") -> Connection:
    connection = machine.connected(object(), "127.0.0.1")
    request = ConnectRequest(0, 0, 1000, session_id, password)
    machine.receive(connection, jute.encode(request), NOW_MS)
    return connection


def auth(credentials: bytes) -> bytes:
    packet = AuthPacket(0, "digest", credentials)
    return struct.pack(">ii", AUTH_XID, Op.AUTH) + jute.encode(packet)


def exists(xid: int) -> bytes:
    return struct.pack(">ii", xid, Op.EXISTS) + jute.encode(PathWatchRequest("/", False))


def sent(machine: EnsembleMachine) -> list[bytes | None]:
    return [frame for _, frame in machine.take_effects().frames]


def xids(machine: EnsembleMachine) -> list[int]:
    return [struct.unpack_from(">i", frame, 4)[0] for frame in sent(machine) if frame is not None]


def create_session(machine: EnsembleMachine, session_id: int) -> None:
    zxid = max(machine.tree.last_zxid, 1 << 32) + 1
    header = TxnHeader(session_id, 0, zxid, NOW_MS, Op.CREATE_SESSION)
    machine.log_from_leader(Txn(header, CreateSessionTxn(1000)), may_be_there=False, now_ms=NOW_MS)


@pytest.mark.parametrize("first", [exists(1), auth(b"cluster:guessed")])
def test_a_stranger_has_no_session_at_any_member(first: bytes) -> None:
    machine = learner()
    connection = connect(machine)
    assert len(sent(machine)) == 1  # the usual answer, so that it can log in
    machine.receive(connection, first, NOW_MS)
    machine.receive(connection, auth(CREDENTIALS), NOW_MS)
    assert sent(machine)[-1] is None
    assert machine.forwards == []
    assert machine.revalidations == []


def test_a_session_is_asked_for_after_the_login() -> None:
    machine = learner()
    connection = connect(machine)
    sent(machine)
    machine.receive(connection, auth(CREDENTIALS), NOW_MS)
    assert xids(machine) == [AUTH_XID]
    (forwarded,) = machine.forwards
    assert forwarded.op == Op.CREATE_SESSION
    machine.receive(connection, exists(1), NOW_MS)
    assert xids(machine) == []
    create_session(machine, forwarded.session_id)
    assert xids(machine) == [1]  # and no second answer to the connect request
    assert connection.session_id == forwarded.session_id
    assert digest_id(CREDENTIALS) in connection.identities


def test_a_session_is_resumed_with_its_password_and_the_login() -> None:
    machine = learner()
    session_id = 0x2_0000_0000_0001
    create_session(machine, session_id)
    guessed = connect(machine, session_id, member_password(session_id))
    assert sent(machine)[-1] is None
    assert guessed.is_refused
    assert machine.revalidations == []
    password = passwords_of(None, CREDENTIALS)(session_id)
    connection = connect(machine, session_id, password)
    assert [one for one, _ in machine.revalidations] == [session_id]
    assert sent(machine) == []
    machine.revalidated(session_id, True, NOW_MS)
    assert len(sent(machine)) == 1
    assert connection.session_id == 0  # not before the login
    machine.receive(connection, auth(CREDENTIALS), NOW_MS)
    assert xids(machine) == [AUTH_XID]
    assert connection.session_id == session_id
    machine.receive(connection, exists(1), NOW_MS)
    assert xids(machine) == [1]


def test_a_session_that_has_ended_is_refused_before_the_login() -> None:
    machine = learner()
    session_id = 0x2_0000_0000_0001
    connection = connect(machine, session_id, passwords_of(None, CREDENTIALS)(session_id))
    machine.revalidated(session_id, False, NOW_MS)
    assert sent(machine)[-1] is None
    assert connection.is_refused


def test_a_session_that_ends_before_the_login_is_not_claimed() -> None:
    """Its client would stay with a session that nobody else knows."""
    machine = learner()
    session_id = 0x2_0000_0000_0001
    create_session(machine, session_id)
    connection = connect(machine, session_id, passwords_of(None, CREDENTIALS)(session_id))
    machine.revalidated(session_id, True, NOW_MS)
    header = TxnHeader(session_id, 0, machine.tree.last_zxid + 1, NOW_MS, Op.CLOSE_SESSION)
    ended = Txn(header, CloseSessionTxn([]))
    machine.log_from_leader(ended, may_be_there=False, now_ms=NOW_MS)
    sent(machine)
    machine.receive(connection, auth(CREDENTIALS), NOW_MS)
    assert sent(machine)[-1] is None
    assert connection.session_id == 0
    assert session_id not in machine.sessions.sessions


def test_a_stranger_that_goes_takes_nobodys_claim_along() -> None:
    machine = learner()
    session_id = 0x2_0000_0000_0001
    create_session(machine, session_id)
    password = passwords_of(None, CREDENTIALS)(session_id)
    stranger = connect(machine, session_id, password)
    machine.revalidated(session_id, True, NOW_MS)
    resuming = connect(machine, session_id, password)
    machine.disconnected(stranger)
    sent(machine)
    machine.revalidated(session_id, True, NOW_MS)
    machine.receive(resuming, auth(CREDENTIALS), NOW_MS)
    assert resuming.session_id == session_id
