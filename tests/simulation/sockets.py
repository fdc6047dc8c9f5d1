"""The sockets of a simulated broker: its end of the connections, as `broker.network` knows sockets.

Real on top of them: `SocketServer` with its acceptor, processors, request channel, handler pool,
dispatcher and connections. The operating system's part is here: a listening socket with its
backlog, sockets with bounded room for what is sent, a level-triggered set of them like epoll's, and
`sendfile`. Rules:
- bytes that have arrived are in the socket, also while the process is stopped; it is notified by an
  event of its own;
- a socket takes as many bytes as it has room for; the room is free again once they have arrived;
- what a dead process sends does not leave it.
"""

from __future__ import annotations

import errno
import socket
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import trio

from pybroker_kafka.broker.network import acceptor
from pybroker_kafka.broker.network.selector import (
    BROKEN,
    HANGUP,
    READ,
    WRITE,
    KernelSet,
    SelectorGroup,
)
from pybroker_kafka.broker.network.socket_server import Sockets
from pybroker_kafka.broker.resources import machine
from tests.simulation.disk import file_of, forget_numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.simulation.client_cluster import ServingBroker
    from tests.simulation.network import Network
    from tests.simulation.streams import Connection

FIRST_DESCRIPTOR = 100


class Descriptor(int):
    """The number of a set of sockets, for which tasks can wait."""

    source: ReadySet

    async def wait_readable(self) -> None:
        await self.source.wait_readable()


class Socket:
    """The broker's end of a connection."""

    def __init__(self, ground: Ground, connection: Connection, room: int) -> None:
        self._ground = ground
        self._connection = connection
        self._number = ground.new_descriptor(self)
        self._arrived = bytearray()
        self._room = room
        self._is_ended = False
        self._is_reset = False
        self.is_closed = False

    # For the network

    def take(self, data: bytes) -> None:
        self._arrived += data
        self._ground.notify(self._number)

    def end(self) -> None:
        """The client sends nothing more."""
        self._is_ended = True
        self._ground.notify(self._number)

    def reset(self) -> None:
        self._is_reset = True
        self._arrived.clear()
        self._ground.notify(self._number)

    def has_arrived(self, size: int) -> None:
        """So many bytes are at the client."""
        was_full = self._room <= 0
        self._room += size
        if was_full:
            self._ground.notify(self._number)

    @property
    def events(self) -> int:
        if self._is_reset:
            return READ | WRITE | HANGUP | BROKEN
        return (
            (READ if self._arrived or self._is_ended else 0)
            | (HANGUP if self._is_ended else 0)
            | (WRITE if self._room > 0 else 0)
        )

    # For the broker

    def fileno(self) -> int:
        return self._number

    def setblocking(self, _blocks: bool) -> None:
        pass

    def setsockopt(self, *_option: int) -> None:
        pass

    def getsockname(self) -> tuple[str, int]:
        return self._ground.address

    def recv_into(self, target: memoryview) -> int:
        self._check()
        if not self._arrived and not self._is_ended:
            raise BlockingIOError
        data = self._arrived[: len(target)]
        del self._arrived[: len(data)]
        target[: len(data)] = data
        return len(data)

    def recv(self, size: int, flags: int) -> bytes:
        assert flags == socket.MSG_PEEK
        self._check()
        if not self._arrived and not self._is_ended:
            raise BlockingIOError
        return bytes(self._arrived[:size])

    def send(self, data: Any, _flags: int = 0) -> int:
        self._check()
        if self._room <= 0:
            raise BlockingIOError
        taken = bytes(data[: self._room])
        self._room -= len(taken)
        if self._ground.is_alive:
            self._connection.answer(taken)
        return len(taken)

    def sendmsg(self, buffers: Sequence[Any], _ancillary: Any, _flags: int) -> int:
        return self.send(b"".join(buffers))

    def close(self) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        self._ground.forget(self._number)
        if self._ground.is_alive and not self._is_reset:
            self._connection.broker_closed()

    def _check(self) -> None:
        if self.is_closed:
            raise OSError(errno.EBADF, "the socket is closed")
        if self._is_reset:
            raise ConnectionResetError("reset by the client")


class ReadySet:
    """A level-triggered set of sockets."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._number = Descriptor(ground.new_descriptor(None))
        self._number.source = self
        self._watched: dict[int, int] = {}
        # Sockets that may be ready: all that are, and some that are not.
        self._candidates: dict[int, None] = {}
        self._news = trio.Event()

    def fileno(self) -> int:
        return self._number

    def register(self, fileno: int, events: int) -> None:
        self._watched[fileno] = events
        self.notice(fileno)

    def modify(self, fileno: int, events: int) -> None:
        assert fileno in self._watched, f"{fileno} is not registered"
        self.register(fileno, events)

    def unregister(self, fileno: int) -> None:
        del self._watched[fileno]

    def poll(self, seconds: float = 0.0) -> list[tuple[int, int]]:
        assert not seconds, "a wait in the kernel stops all tasks of the process"
        found = []
        for number in list(self._candidates):
            watched = self._watched.get(number)
            if watched is not None:
                events = self._ground.sockets[number].events & (watched | BROKEN)
                if events:
                    found.append((number, events))
                    continue
            del self._candidates[number]
        return found

    def notice(self, fileno: int) -> None:
        """Something has happened to this socket."""
        if fileno in self._watched:
            self._candidates[fileno] = None
            self._news.set()

    async def wait_readable(self) -> None:
        await trio.lowlevel.checkpoint()
        while not self.poll():
            self._news = trio.Event()
            await self._news.wait()

    def close(self) -> None:
        self._watched.clear()


class Listening:
    """A listening socket with its backlog."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._backlog: deque[tuple[Socket, tuple[str, int]]] = deque()
        self._news = trio.Event()

    def add(self, new: Socket, address: tuple[str, int]) -> None:
        self._backlog.append((new, address))
        broker = self._ground.broker
        broker.kernel.after(0, broker.process, self._notice)

    def _notice(self) -> None:
        self._news.set()

    async def wait_readable(self) -> None:
        await trio.lowlevel.checkpoint()
        while not self._backlog:
            self._news = trio.Event()
            await self._news.wait()

    def accept(self) -> tuple[Socket, tuple[str, int]]:
        if not self._backlog:
            raise BlockingIOError
        return self._backlog.popleft()

    def getsockname(self) -> tuple[str, int]:
        return self._ground.address

    def close(self) -> None:
        self._backlog.clear()


class Ground:
    """The operating system below one life of a broker."""

    def __init__(self, broker: ServingBroker, address: tuple[str, int]) -> None:
        self.broker = broker
        self.address = address
        self.sockets: dict[int, Socket] = {}
        self.listening = Listening(self)
        self.seam = Sockets(self._bind, self._new_group)
        self._generation = broker.process.generation
        self._set: ReadySet | None = None

    @property
    def is_alive(self) -> bool:
        process = self.broker.process
        return process.alive and process.generation == self._generation

    def new_descriptor(self, of: Socket | None) -> int:
        number = next(self.broker.cluster.descriptors)
        if of is not None:
            self.sockets[number] = self.broker.cluster.sockets[number] = of
        return number

    def forget(self, number: int) -> None:
        del self.sockets[number], self.broker.cluster.sockets[number]

    def connect(self, connection: Connection, room: int) -> Socket:
        """The broker's end of a new connection, which waits to be accepted."""
        new = Socket(self, connection, room)
        self.listening.add(new, (connection.host.name, connection.number))
        return new

    def notify(self, number: int) -> None:
        broker = self.broker
        if self._set is not None and self.is_alive:
            broker.kernel.after(0, broker.process, self._set.notice, number)

    def _bind(self, _host: object, _port: int, _backlog: int, _buffer: object) -> Any:
        return self.listening

    def _new_group(self) -> SelectorGroup:
        ready: KernelSet = ReadySet(self)
        self._set = ready  # type: ignore[assignment]
        return SelectorGroup(ready)


class _Numbers:
    """Numbers of connections: those of a cluster are counted together."""

    def __init__(self, network: Network) -> None:
        self._network = network

    def __next__(self) -> int:
        self._network.exchange_count += 1
        return self._network.exchange_count


def new_descriptors() -> Iterator[int]:
    return count(FIRST_DESCRIPTOR)


@contextmanager
def simulated_sockets(network: Network, sockets: dict[int, Socket]) -> Iterator[None]:
    """The calls of the network that know files and sockets by their numbers."""

    def sendfile(target: int, source: int, position: int, size: int) -> int:
        return sockets[target].send(file_of(source).read_at(size, position))

    def pread(source: int, size: int, position: int) -> bytes:
        return file_of(source).read_at(size, position)

    with (
        patch.object(machine, "RWF_NOWAIT", 0),
        patch.object(machine, "HAS_SENDFILE", True),
        patch("os.sendfile", sendfile),
        patch("os.pread", pread),
        patch.object(acceptor, "_numbers", _Numbers(network)),
    ):
        try:
            yield
        finally:
            forget_numbers()
