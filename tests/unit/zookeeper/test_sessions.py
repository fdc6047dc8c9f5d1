"""Sessions in virtual time: negotiation, expiry, taking up again, closing."""

import pytest

from pybroker_kafka.protocol.errors import ProtocolError
from pybroker_kafka.protocol.zookeeper.constants import Op, ZkCode
from pybroker_kafka.protocol.zookeeper.jute import ConnectRequest, PathWatchRequest, encode
from pybroker_kafka.zookeeper.passwords import member_password
from tests.support.raw_zookeeper import Reply
from tests.support.zookeeper_machine import TICK_MS, World


@pytest.mark.parametrize(("wanted_ms", "given_ms"), [(1, 200), (777, 777), (99_999, 2000)])
def test_the_timeout_is_held_between_2_and_20_ticks(wanted_ms: int, given_ms: int) -> None:
    assert World().client(timeout_ms=wanted_ms).response.timeout_ms == given_ms


def test_a_silent_session_expires_and_its_ephemerals_go_at_one_zxid() -> None:
    world = World()
    owner, watcher = world.client(timeout_ms=500), world.client(timeout_ms=2000)
    owner.create("/a", flags=1)
    owner.create("/b", flags=1)
    watcher.call(Op.EXISTS, PathWatchRequest("/a", True))
    watcher.children("/", watch=True)
    before = world.machine.tree.last_zxid
    world.advance(500 - TICK_MS)
    assert watcher.children("/") == ["a", "b", "zookeeper"]
    world.advance(2 * TICK_MS)
    assert watcher.children("/") == ["zookeeper"]
    assert world.machine.tree.last_zxid == before + 1
    assert watcher.events() == [(2, "/a"), (4, "/")]
    assert owner.is_closed


def test_any_request_keeps_a_session_alive() -> None:
    world = World()
    owner = world.client(timeout_ms=500)
    owner.create("/a", flags=1)
    for _ in range(10):
        world.advance(400)
        assert owner.call(Op.PING).error == 0
    assert owner.children("/") == ["a", "zookeeper"]


def test_a_session_is_taken_up_again_with_its_password() -> None:
    world = World()
    first = world.client(timeout_ms=500)
    first.create("/a", flags=1)
    first.children("/", watch=True)
    again = world.client(session_id=first.session_id, password=first.response.password)
    assert again.session_id == first.session_id
    assert first.is_closed
    # The old connection is out: neither its requests nor its watches count any more.
    world.machine.receive(first.connection, b"\0\0\0\1\0\0\0\x0b", world.now_ms)
    again.create("/b")
    assert first.events() == []
    first.drop()
    again.call(Op.CLOSE_SESSION)
    assert again.is_closed
    assert world.client().children("/") == ["b", "zookeeper"]


@pytest.mark.parametrize("password", [b"", bytes(16), b"x" * 16])
def test_without_the_password_there_is_no_session(password: bytes) -> None:
    world = World()
    owner = world.client()
    thief = world.client(session_id=owner.session_id, password=password)
    assert (thief.response.session_id, thief.response.timeout_ms) == (0, 0)
    assert thief.response.password == bytes(16)
    assert thief.is_closed
    assert not owner.is_closed


def test_an_unknown_session_is_refused_though_the_password_fits() -> None:
    world = World()
    owner = world.client(timeout_ms=500)
    owner.drop()
    world.advance(1000)
    late = world.client(session_id=owner.session_id, password=owner.response.password)
    assert late.response.session_id == 0


def test_a_client_from_the_future_is_turned_away() -> None:
    world = World()
    connection = world.machine.connected(None, "127.0.0.1")
    with pytest.raises(ProtocolError, match="another server"):
        world.machine.receive(
            connection, encode(ConnectRequest(0, 99, 500, 0, bytes(16))), world.now_ms
        )


def test_an_unknown_operation_ends_the_connection() -> None:
    client = World().client()
    assert client.call(99).error == ZkCode.UNIMPLEMENTED
    assert client.is_closed


def test_the_reply_to_close_session_comes_before_the_end() -> None:
    client = World().client()
    reply = client.call(Op.CLOSE_SESSION)
    assert isinstance(reply, Reply)
    assert (reply.error, client.is_closed) == (0, True)


def test_session_ids_differ_between_two_runs() -> None:
    first = World()
    second = World()
    second.machine.sessions.__init__(TICK_MS, member_password, second.now_ms + 1)  # type: ignore[misc]
    ids = {first.client().session_id, first.client().session_id, second.client().session_id}
    assert len(ids) == 3
