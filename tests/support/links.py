"""The connections between the nodes of a test cluster, each of which a test can cut.

Job: `Links` speaks to a process of its own, so that a busy test does not slow down the cluster.
`listen(target, port)` opens a port that leads to a node's real one; brokers register that
port, so all that they send each other passes here. Whose connection it is says the process that
owns its other end. `cut(a, b)` closes what is open between two nodes and refuses what is new;
`silence(a, b)` lets connections stand and carry nothing, as a pulled cable does; `heal()` undoes
both, and what was held back arrives.
Invariants: clients have another way to each broker, and are never touched.
Leaves out: delays and loss, which `tests.support.namespaces` has, and reordering, which the
simulation has.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parent.parent.parent
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
    """The proxies' process: one request and one answer at a time, a JSON line each."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.links"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def host(self, _place: int) -> str:
        return "127.0.0.1"

    def namespace(self, _place: int) -> str | None:
        return None

    def listen(self, target: int, target_port: int) -> int:
        """The port that leads to `target_port` of this node."""
        port = self._ask("listen", target, target_port)
        assert port is not None
        return port

    def started(self, node: int, pid: int) -> None:
        """From now on this process is the node."""
        self._ask("started", node, pid)

    def cut(self, a: int, b: int) -> None:
        self._ask("cut", a, b)

    def silence(self, a: int, b: int) -> None:
        self._ask("silence", a, b)

    def heal(self) -> None:
        self._ask("heal")

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _ask(self, name: str, *arguments: int) -> int | None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([name, *arguments]).encode() + b"\n")
        self._process.stdin.flush()
        answer: int | None = json.loads(self._process.stdout.readline())
        return answer


class Proxies:
    """What runs in that process."""

    def __init__(self) -> None:
        self._pids: dict[int, int] = {}
        self._changed = threading.Condition()
        self._cut: set[Pair] = set()
        self._silent: set[Pair] = set()
        self._connections: set[Connection] = set()

    def listen(self, target: int, target_port: int) -> int:
        listener = socket.create_server(("127.0.0.1", 0))
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

    def started(self, node: int, pid: int) -> None:
        self._pids[node] = pid

    # Threads

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
                    if pair in self._cut:
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
                        self._changed.wait_for(lambda: connection.pair not in self._silent)
                sink.sendall(data)
        connection.close()

    def _owner(self, port: int) -> int:
        """The node whose process has a connection from this port; -1 if there is none any more."""
        for node, pid in list(self._pids.items()):
            with contextlib.suppress(psutil.Error):
                for one in psutil.Process(pid).net_connections("tcp"):  # a JVM has IPv6 ones
                    if one.laddr.port == port:
                        return node
        return -1


def serve() -> None:
    proxies = Proxies()
    for line in sys.stdin.buffer:
        name, *arguments = json.loads(line)
        answer = getattr(proxies, name)(*arguments)
        os.write(1, json.dumps(answer).encode() + b"\n")


if __name__ == "__main__":
    serve()
