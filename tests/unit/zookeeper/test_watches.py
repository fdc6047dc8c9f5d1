"""Watches: when they fire, in what order, and how long they last."""

import pytest

from pybroker_kafka.protocol.zookeeper.constants import EventType, Op, ZkCode
from pybroker_kafka.protocol.zookeeper.jute import (
    ACL,
    CreateRequest,
    DeleteRequest,
    Id,
    PathWatchRequest,
    SetDataRequest,
    SetWatches2,
    WatchRequest,
)
from tests.support.raw_zookeeper import Event
from tests.support.zookeeper_machine import World

CREATED, DELETED, CHANGED, CHILD = EventType


def test_an_own_write_is_announced_before_it_is_answered() -> None:
    client = World().client()
    client.call(Op.EXISTS, PathWatchRequest("/a", True))
    client.create("/a")
    event, reply = client.log[-2:]
    assert isinstance(event, Event)
    assert (event.type, event.path, event.zxid) == (CREATED, "/a", reply.zxid)


def test_a_standard_watch_fires_once_and_a_deletion_is_told_once() -> None:
    world = World()
    client, other = world.client(), world.client()
    other.create("/a")
    client.call(Op.GET_DATA, PathWatchRequest("/a", True))
    client.children("/a", watch=True)
    other.call(Op.DELETE, DeleteRequest("/a", -1))
    other.create("/a")
    assert client.events() == [(DELETED, "/a")]


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (0, [(CHILD, "/a"), (CHANGED, "/a"), (CHILD, "/a"), (DELETED, "/a")]),
        (1, [(CREATED, "/a/b"), (CHANGED, "/a"), (DELETED, "/a/b"), (DELETED, "/a")]),
    ],
)
def test_persistent_watches_stay(mode: int, expected: list[tuple[int, str]]) -> None:
    world = World()
    client, other = world.client(), world.client()
    other.create("/a")
    client.call(Op.ADD_WATCH, WatchRequest("/a", mode))
    other.create("/a/b")
    other.call(Op.SET_DATA, SetDataRequest("/a", b"x", -1))
    other.call(Op.DELETE, DeleteRequest("/a/b", -1))
    other.call(Op.DELETE, DeleteRequest("/a", -1))
    assert client.events() == expected
    kind = 4 + mode
    assert client.call(Op.CHECK_WATCHES, WatchRequest("/a", kind)).error == 0
    assert client.call(Op.REMOVE_WATCHES, WatchRequest("/a", kind)).error == 0
    assert client.call(Op.REMOVE_WATCHES, WatchRequest("/a", kind)).error == ZkCode.NO_WATCHER
    other.create("/a")
    assert client.events() == expected


def test_who_may_not_read_a_node_does_not_hear_of_it() -> None:
    world = World()
    client, other = world.client(), world.client(host="10.0.0.9")
    client.call(Op.EXISTS, PathWatchRequest("/a", True))
    other.call(Op.EXISTS, PathWatchRequest("/a", True))
    secret = CreateRequest("/a", b"", [ACL(31, Id("ip", "127.0.0.1"))], 0)
    client.call(Op.CREATE, secret)
    assert (client.events(), other.events()) == ([(CREATED, "/a")], [])


def test_set_watches_tells_what_was_missed_and_watches_the_rest() -> None:
    world = World()
    client = world.client()
    for path in ("/same", "/changed", "/gone", "/parent"):
        client.create(path)
    seen_zxid = world.machine.tree.last_zxid
    client.drop()
    other = world.client()
    other.call(Op.SET_DATA, SetDataRequest("/changed", b"x", -1))
    other.call(Op.DELETE, DeleteRequest("/gone", -1))
    other.create("/parent/child")
    other.create("/new")
    back = world.client(session_id=client.session_id, password=client.response.password)
    back.call(
        Op.SET_WATCHES2,
        SetWatches2(
            seen_zxid,
            ["/same", "/changed", "/gone"],
            ["/new", "/later"],
            ["/parent", "/same", "/gone"],
            [],
            ["/tree"],
        ),
    )
    assert back.events() == [
        (CHANGED, "/changed"),
        (DELETED, "/gone"),
        (CREATED, "/new"),
        (CHILD, "/parent"),
        (DELETED, "/gone"),
    ]
    del back.log[:]
    other.call(Op.SET_DATA, SetDataRequest("/same", b"x", -1))
    other.create("/same/child")
    other.create("/later")
    other.create("/tree")
    other.create("/tree/leaf")
    assert back.events() == [
        (CHANGED, "/same"),
        (CHILD, "/same"),
        (CREATED, "/later"),
        (CREATED, "/tree"),
        (CREATED, "/tree/leaf"),
    ]


def test_a_connection_that_is_gone_leaves_no_watch_behind() -> None:
    world = World()
    client = world.client()
    client.children("/", watch=True)
    client.call(Op.ADD_WATCH, WatchRequest("/", 1))
    client.drop()
    watches = world.machine.watches
    for table in (watches.data, watches.children):
        assert (table.watch_count, table.path_count, table.watcher_count) == (0, 0, 0)
