"""Sets of sockets: what each kind reports, and a group of them."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
import trio

from pybroker_kafka.broker.network import selector
from pybroker_kafka.broker.network.selector import BROKEN, READ, WRITE, EpollSelector, PollSelector

KINDS = (EpollSelector, PollSelector)
IDS = ("epoll", "poll")


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        yield ours, theirs


@pytest.mark.parametrize("kind", KINDS, ids=IDS)
def test_what_is_watched_is_reported(
    kind: type[selector.Selector], pair: tuple[socket.socket, socket.socket]
) -> None:
    ours, theirs = pair
    sockets = kind()
    sockets.register(ours.fileno(), READ)
    assert sockets.poll() == []
    theirs.sendall(b"x")
    assert sockets.poll() == [(ours.fileno(), READ)]
    assert sockets.poll() == [(ours.fileno(), READ)]  # as long as there is something
    sockets.modify(ours.fileno(), READ | WRITE)
    assert sockets.poll() == [(ours.fileno(), READ | WRITE)]
    sockets.modify(ours.fileno(), WRITE)
    assert sockets.poll() == [(ours.fileno(), WRITE)]
    sockets.modify(ours.fileno(), 0)
    assert sockets.poll() == []
    theirs.close()
    ((fileno, events),) = sockets.poll()
    assert fileno == ours.fileno()
    assert events & BROKEN
    sockets.unregister(ours.fileno())
    assert sockets.poll() == []
    sockets.close()


@pytest.mark.parametrize("kind", KINDS, ids=IDS)
async def test_a_group_looks_until_there_is_something(
    kind: type[selector.KernelSet], pair: tuple[socket.socket, socket.socket]
) -> None:
    ours, theirs = pair
    group = selector.SelectorGroup(kind())
    watched = group.new_selector(3)
    watched.register(ours.fileno(), READ)
    assert group.look(0.001) == set()
    theirs.sendall(b"x")
    assert group.look(10.0) == {3}
    assert watched.poll() == [(ours.fileno(), READ)]
    watched.unregister(ours.fileno())
    group.close()


async def sent_from_a_thread(end: socket.socket, data: bytes) -> None:
    await trio.to_thread.run_sync(end.sendall, data)


@pytest.mark.parametrize("kind", KINDS, ids=IDS)
async def test_a_group_tells_whose_socket_has_something(
    kind: type[selector.KernelSet], pair: tuple[socket.socket, socket.socket]
) -> None:
    ours, theirs = pair
    group = selector.SelectorGroup(kind())
    quiet, watched = group.new_selector(0), group.new_selector(1)
    watched.register(ours.fileno(), READ)
    assert group.ready() == set()
    with trio.fail_after(120):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sent_from_a_thread, theirs, b"x")
            while not group.ready():
                await group.wait()
    watched.poll()
    assert group.ready() == {1}
    assert watched.poll() == [(ours.fileno(), READ)]
    assert watched.poll() == quiet.poll() == []  # until the group is asked again
    watched.unregister(ours.fileno())
    assert group.ready() == set()
    for sockets in (quiet, watched):
        sockets.close()
    group.close()
