"""The connections between the nodes of a test cluster, each of which a test can cut.

Job: `listen(target, port)` opens a port that leads to a node's real one; brokers register that
port, so all that they send each other passes here. Whose connection it is says the process that
owns its other end. `cut(a, b)` closes what is open between two nodes and refuses what is new;
`silence(a, b)` lets connections stand and carry nothing, as a pulled cable does; `heal()` undoes
both, and what was held back arrives.
Invariants: clients have another way to each broker, and are never touched.
Leaves out: delays, loss and reordering, which the simulation has.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Mapping

import psutil

CHUNK_BYTES = 1 << 16
ZOOKEEPER = 0

Pair = frozenset[int]


class Connection:
    def __init__(self, pair: Pair, near: socket.socket, far: socket.socket) -> None:
        self.pair = pair
        self.near = near
        self.far = far

    def close(self) -> None:
        for end in (self.near, self.far):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


class Links:
    """`processes()` tells the process id of each running node."""

    def __init__(self, processes: Callable[[], Mapping[int, int]]) -> None:
        self._processes = processes
        self._changed = threading.Condition()
        self._cut: set[Pair] = set()
        self._silent: set[Pair] = set()
        self._connections: set[Connection] = set()
        self._listeners: list[socket.socket] = []
        self._closing = False

    def listen(self, target: int, target_port: int) -> int:
        listener = socket.create_server(("127.0.0.1", 0))
        self._listeners.append(listener)
        self._spawn(self._accept, listener, target, target_port)
        port: int = listener.getsockname()[1]
        return port

    def cut(self, a: int, b: int) -> None:
        with self._changed:
            self._cut.add(frozenset((a, b)))
            doomed = [one for one in self._connections if one.pair == {a, b}]
        for connection in doomed:
            connection.close()

    def silence(self, a: int, b: int) -> None:
        with self._changed:
            self._silent.add(frozenset((a, b)))

    def heal(self) -> None:
        with self._changed:
            self._cut.clear()
            self._silent.clear()
            self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            self._closing = True
            doomed = list(self._connections)
            self._changed.notify_all()
        for listener in self._listeners:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        for connection in doomed:
            connection.close()

    # -- threads ------------------------------------------------------------------------------

    def _spawn(self, work: Callable[..., None], *arguments: object) -> None:
        threading.Thread(target=work, args=arguments, daemon=True).start()

    def _accept(self, listener: socket.socket, target: int, target_port: int) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, (_, near_port) = listener.accept()
                self._spawn(self._serve, near, near_port, target, target_port)

    def _serve(self, near: socket.socket, near_port: int, target: int, target_port: int) -> None:
        pair = frozenset((self._owner(near_port), target))
        with near, socket.socket() as far:
            with self._changed:
                refused = pair in self._cut
            if refused:
                return
            with contextlib.suppress(OSError):
                far.connect(("127.0.0.1", target_port))
                for end in (near, far):
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connection = Connection(pair, near, far)
                with self._changed:
                    if pair in self._cut or self._closing:
                        return
                    self._connections.add(connection)
                self._spawn(self._pump, connection, far, near)
                self._pump(connection, near, far)
                self._connections.discard(connection)

    def _pump(self, connection: Connection, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(CHUNK_BYTES):
                if connection.pair in self._silent:
                    with self._changed:
                        self._changed.wait_for(
                            lambda: connection.pair not in self._silent or self._closing
                        )
                sink.sendall(data)
        connection.close()

    def _owner(self, port: int) -> int:
        """The node whose process has a connection from this port; -1 if there is none any more."""
        for node, pid in self._processes().items():
            with contextlib.suppress(psutil.Error):
                for one in psutil.Process(pid).net_connections("tcp4"):
                    if one.laddr.port == port:
                        return node
        return -1
