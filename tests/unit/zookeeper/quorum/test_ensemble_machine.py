"""Clients of a learner, whose leader is the test."""

import struct

import pytest

from pybroker_kafka.protocol.errors import ProtocolError
from pybroker_kafka.protocol.zookeeper import jute
from pybroker_kafka.protocol.zookeeper.constants import Op, ZkCode
from pybroker_kafka.protocol.zookeeper.jute import ConnectRequest, PathRequest
from pybroker_kafka.zookeeper.client_connection import Connection
from pybroker_kafka.zookeeper.passwords import member_password
from pybroker_kafka.zookeeper.quorum.ensemble_machine import (
    MAX_EARLY_FRAMES,
    EnsembleMachine,
)
from pybroker_kafka.zookeeper.quorum.packets import ForwardedRequest
from pybroker_kafka.zookeeper.sessions import SessionTable
from pybroker_kafka.zookeeper.transactions import CreateSessionTxn, ErrorTxn, Txn, TxnHeader
from pybroker_kafka.zookeeper.tree import DataTree
from pybroker_kafka.zookeeper.txn_bytes import decode_txn

NOW_MS = 1_700_000_000_000
CONNECT = jute.encode(ConnectRequest(0, 0, 1000, 0, bytes(16)))


def learner() -> EnsembleMachine:
    machine = EnsembleMachine(DataTree(), SessionTable(100, member_password, NOW_MS, 2), 2)
    machine.learn(1)
    return machine


def request(xid: int, op: Op, path: str) -> bytes:
    return struct.pack(">ii", xid, op) + jute.encode(PathRequest(path))


def client(machine: EnsembleMachine) -> Connection:
    """A connection whose session the leader has created."""
    connection = machine.connected(object(), "127.0.0.1")
    machine.receive(connection, CONNECT, NOW_MS)
    (forwarded,) = machine.forwards
    machine.forwards = []
    zxid = max(machine.tree.last_zxid, 1 << 32) + 1
    header = TxnHeader(forwarded.session_id, 0, zxid, NOW_MS, Op.CREATE_SESSION)
    machine.log_from_leader(Txn(header, CreateSessionTxn(1000)), may_be_there=False, now_ms=NOW_MS)
    assert connection.session_id == forwarded.session_id
    machine.take_effects()
    return connection


def answered(machine: EnsembleMachine) -> list[Connection]:
    return [connection for connection, _ in machine.take_effects().frames]


def test_an_answer_to_a_client_that_has_gone_is_nobody_elses() -> None:
    machine = learner()
    gone, stays = client(machine), client(machine)
    machine.receive(gone, request(1, Op.SYNC, "/"), NOW_MS)
    machine.receive(stays, request(1, Op.SYNC, "/"), NOW_MS)
    machine.disconnected(gone)
    machine.synced(NOW_MS)  # the leader had not seen the second one
    assert answered(machine) == []
    machine.synced(NOW_MS)
    assert answered(machine) == [stays]
    machine.synced(NOW_MS)
    assert answered(machine) == []


def test_a_member_closes_a_session_that_it_has_just_lost() -> None:
    leader = EnsembleMachine(DataTree(), SessionTable(100, member_password, NOW_MS, 1), 1)
    leader.lead(1, NOW_MS)
    session = leader.sessions.next_id()
    timeout = struct.pack(">i", 1000)
    leader.forwarded(2, ForwardedRequest(session, 0, Op.CREATE_SESSION, timeout, []), NOW_MS)
    assert leader.revalidate(session, 1000, 3, NOW_MS)
    leader.forwarded(2, ForwardedRequest(session, 5, Op.CLOSE_SESSION, b"", []), NOW_MS)
    assert session not in leader.sessions.sessions
    types = [decode_txn(proposal.data).header.type for proposal in leader.proposals]
    assert types == [Op.CREATE_SESSION, Op.CLOSE_SESSION]


def test_each_claim_of_a_session_is_answered() -> None:
    """Two connections want it; the later one has it in the end, and the other one is closed."""
    machine = learner()
    first = client(machine)
    session = first.session_id
    resume = ConnectRequest(0, 0, 1000, session, machine.sessions.password(session))
    second, gone, third = (machine.connected(object(), "127.0.0.1") for _ in range(3))
    for connection in (second, gone, third):
        machine.receive(connection, jute.encode(resume), NOW_MS)
    machine.disconnected(gone)
    assert [asked for asked, _ in machine.revalidations] == [session] * 3
    machine.revalidated(session, True, NOW_MS)
    assert answered(machine) == [first, second]  # closed; has the session
    machine.revalidated(session, True, NOW_MS)
    assert answered(machine) == []
    machine.revalidated(session, True, NOW_MS)
    assert answered(machine) == [second, third]
    assert machine.sessions.sessions[session].connection is third


def test_a_client_without_a_session_yet_cannot_queue_without_end() -> None:
    machine = learner()
    connection = machine.connected(object(), "127.0.0.1")
    machine.receive(connection, CONNECT, NOW_MS)
    frame = request(1, Op.EXISTS, "/")
    for _ in range(MAX_EARLY_FRAMES):
        machine.receive(connection, frame, NOW_MS)
    with pytest.raises(ProtocolError):
        machine.receive(connection, frame, NOW_MS)


def test_the_connection_of_a_session_that_has_moved_is_closed() -> None:
    """With an error as an answer it would never write again: its client would stay with it."""
    machine = learner()
    connection = client(machine)
    machine.receive(connection, request(7, Op.DELETE, "/a"), NOW_MS)
    zxid = machine.tree.last_zxid + 1
    header = TxnHeader(connection.session_id, 7, zxid, NOW_MS, Op.ERROR)
    moved = Txn(header, ErrorTxn(ZkCode.SESSION_MOVED))
    machine.log_from_leader(moved, may_be_there=False, now_ms=NOW_MS)
    assert machine.take_effects().frames == [(connection, None)]
