"""The process through which all connections of a cluster go, so that a test can cut them.

Each broker has three ports here: for clients and for brokers (they are what it advertises), and one
to ZooKeeper for this broker alone. When a fault needs the broker behind an inner connection, it is
looked up in Linux's tables of sockets.

Invariants: a connection carries its bytes in order and whole, or is closed; without a fault it is
only carried. Forked by the supervisor's process before there is any thread; ends with it.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import socket
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from struct import pack

import trio

from ..local.cluster_spec import HOST
from ..local.cluster_state import STATE_FILE, ClusterError
from ..local.node_signals import die_with_parent
from ..local.secured import CLIENTS, INTERNAL
from .controls import serve_controls

CHUNK_BYTES = 1 << 16
CLIENT, BROKER, ZOOKEEPER = "client", "broker", "zookeeper"
UNKNOWN = "unknown"
ZOOKEEPER_PORT = 2181  # where a server's is left out
# Below the ports for outgoing connections, so that none of those gets one of them by chance.
LOWEST_PORT, HIGHEST_PORT = 10_000, 20_000
MAX_TRIES = 200
_RESET = pack("ii", 1, 0)  # SO_LINGER: close with a reset

Pair = frozenset[str]


def proxy_socket(data_dir: Path) -> Path:
    """The socket of the proxy's controls."""
    return data_dir / "network.sock"


@dataclass(slots=True)
class NetworkPlan:
    """The ports of a cluster's nodes, and those of the proxy in front of them.

    `zookeeper`: an external ensemble, `host:port,host:port/chroot`; None: the embedded one.
    """

    brokers: int
    zookeeper: str | None = None
    is_secure: bool = False
    zookeeper_port: int = 0  # of the embedded one
    ports: dict[int, tuple[int, int]] = field(default_factory=dict)  # for clients, for brokers
    fronts: dict[tuple[str, int], socket.socket] = field(default_factory=dict)  # by kind, broker
    front_ports: dict[tuple[str, int], int] = field(default_factory=dict)

    def reserve(self) -> None:
        """Choose ports that are free now, and listen in front of them. Raises ClusterError."""
        taken: set[int] = set()
        try:
            self.targets(ZOOKEEPER, 0)
        except ValueError:
            raise ClusterError(f"zookeeper={self.zookeeper!r} is not HOST:PORT") from None
        if self.zookeeper is None:
            self.zookeeper_port = _free_port(taken)
        for broker in range(1, self.brokers + 1):
            self.ports[broker] = (_free_port(taken), _free_port(taken))
            for kind in (CLIENT, BROKER, ZOOKEEPER):
                front = self.fronts[kind, broker] = socket.create_server((HOST, 0))
                self.front_ports[kind, broker] = front.getsockname()[1]

    def broker_keys(self, broker: int) -> Mapping[str, str]:
        """This broker's listeners, its advertised ones, and its address of ZooKeeper."""
        clients, inner = self.ports[broker]
        front, inner_front = self.front_ports[CLIENT, broker], self.front_ports[BROKER, broker]
        name = CLIENTS if self.is_secure else "PLAINTEXT"
        chroot = (self.zookeeper or "").partition("/")[1:]
        keys = {
            "listeners": f"{name}://{HOST}:{clients},{INTERNAL}://{HOST}:{inner}",
            "advertised.listeners": f"{name}://{HOST}:{front},{INTERNAL}://{HOST}:{inner_front}",
            "zookeeper.connect": f"{HOST}:{self.front_ports[ZOOKEEPER, broker]}{''.join(chroot)}",
        }
        if not self.is_secure:
            keys["listener.security.protocol.map"] = f"PLAINTEXT:PLAINTEXT,{INTERNAL}:PLAINTEXT"
            keys["inter.broker.listener.name"] = INTERNAL
        return keys

    def targets(self, kind: str, broker: int) -> list[tuple[str, int]]:
        """The targets of connections to it: the first of these that answers."""
        if kind != ZOOKEEPER:
            return [(HOST, self.ports[broker][kind == BROKER])]
        if self.zookeeper is None:
            return [(HOST, self.zookeeper_port)]
        servers = self.zookeeper.partition("/")[0].split(",")
        return random.sample([_address(server) for server in servers], len(servers))

    @contextlib.contextmanager
    def proxy_process(self, data_dir: Path, not_its: int) -> Iterator[None]:
        """The proxy while the block runs; it closes the descriptor `not_its`."""
        pid = os.fork()
        if pid == 0:
            try:
                os.close(not_its)
                die_with_parent()
                signal.signal(signal.SIGINT, signal.SIG_IGN)
                trio.run(Proxy(self, data_dir).run)
            finally:
                os._exit(1)
        for front in self.fronts.values():
            front.close()
        self.fronts.clear()
        try:
            yield
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _address(server: str) -> tuple[str, int]:
    """The address of a ZooKeeper server; the port may be left out."""
    host, separator, port = server.strip().rpartition(":")
    return (host.strip("[]"), int(port)) if separator else (server.strip(), ZOOKEEPER_PORT)


def _free_port(taken: set[int]) -> int:
    for _ in range(MAX_TRIES):
        port = random.randrange(LOWEST_PORT, HIGHEST_PORT)
        with contextlib.suppress(OSError), socket.socket() as probe:
            if port not in taken:
                probe.bind((HOST, port))
                taken.add(port)
                return port
    raise ClusterError("there is no free port for a cluster with a network of its own")


@dataclass(slots=True, eq=False)
class Link:
    """A connection that goes through here."""

    kind: str
    broker: int
    near: trio.SocketStream
    far: trio.SocketStream
    scope: trio.CancelScope
    near_port: int

    def reset(self) -> None:
        for stream in (self.near, self.far):
            with contextlib.suppress(OSError):
                stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.scope.cancel()


class Proxy:
    def __init__(self, plan: NetworkPlan, data_dir: Path) -> None:
        self._plan = plan
        self._data_dir = data_dir
        self._links: set[Link] = set()
        self._cut: dict[int, Pair] = {}  # by the number of the fault
        self._silent: dict[int, Pair] = {}
        self._delays: dict[int, tuple[Pair, float]] = {}
        self._changed = trio.Event()

    async def run(self) -> None:
        actions: dict[str, Callable[..., object]] = {
            "bootstrap": self._bootstrap,
            "cut": self._begin_cut,
            "silence": self._begin_silence,
            "delay": self._begin_delay,
            "heal": self._heal,
        }
        async with trio.open_nursery() as nursery:
            for (kind, broker), front in self._plan.fronts.items():
                front.setblocking(False)
                nursery.start_soon(self._accept, nursery, kind, broker, front)
            await serve_controls(proxy_socket(self._data_dir), actions)

    # Faults

    def _bootstrap(self) -> str:
        brokers = range(1, self._plan.brokers + 1)
        return ",".join(f"{HOST}:{self._plan.front_ports[CLIENT, one]}" for one in brokers)

    def _begin_cut(self, number: int, a: str, b: str) -> None:
        self._cut[number] = frozenset((a, b))
        for link in list(self._links):
            if self._pair(link) == self._cut[number]:
                link.reset()

    def _begin_silence(self, number: int, a: str, b: str) -> None:
        self._silent[number] = frozenset((a, b))

    def _begin_delay(self, number: int, a: str, b: str, seconds: float) -> None:
        self._delays[number] = (frozenset((a, b)), seconds)

    def _heal(self, number: int) -> None:
        for faults in (self._cut, self._silent, self._delays):
            faults.pop(number, None)
        self._changed.set()
        self._changed = trio.Event()

    def _pair(self, link: Link) -> Pair:
        """The two ends of a link."""
        if link.kind == CLIENT:
            return frozenset((CLIENT, str(link.broker)))
        if link.kind == ZOOKEEPER:
            return frozenset((str(link.broker), ZOOKEEPER))
        return frozenset((self._owner(link.near_port), str(link.broker)))

    def _owner(self, port: int) -> str:
        """The broker whose process has a connection from this port."""
        try:
            nodes = json.loads((self._data_dir / STATE_FILE).read_text())["nodes"]
        except (OSError, ValueError):
            return UNKNOWN
        inode = _socket_inode(port)
        for node in nodes:
            if node["kind"] == "broker" and inode in _sockets_of(node["pid"]):
                return str(node["node_id"])
        return UNKNOWN

    # Connections

    async def _accept(
        self, nursery: trio.Nursery, kind: str, broker: int, front: socket.socket
    ) -> None:
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(front))
        while True:
            try:
                near = await listener.accept()
            except OSError:  # no descriptors: they may come again
                await trio.sleep(0.1)
                continue
            nursery.start_soon(self._serve, kind, broker, near)

    async def _serve(self, kind: str, broker: int, near: trio.SocketStream) -> None:
        async with near:
            try:
                near_port: int = near.socket.getpeername()[1]
                far = await self._reach(kind, broker)
            except OSError:
                return
            if far is None:
                return
            async with far, trio.open_nursery() as nursery:
                link = Link(kind, broker, near, far, nursery.cancel_scope, near_port)
                if self._cut and self._pair(link) in self._cut.values():
                    link.reset()
                self._links.add(link)
                try:
                    nursery.start_soon(self._pump, link, near, far)
                    await self._pump(link, far, near)
                finally:
                    self._links.discard(link)

    async def _reach(self, kind: str, broker: int) -> trio.SocketStream | None:
        """A connection to the first target that answers; None if there is none."""
        for host, port in self._plan.targets(kind, broker):
            with contextlib.suppress(OSError):
                return await trio.open_tcp_stream(host, port)
        return None

    async def _pump(self, link: Link, source: trio.SocketStream, sink: trio.SocketStream) -> None:
        try:
            while data := await source.receive_some(CHUNK_BYTES):
                if self._silent or self._delays:
                    await self._hold(self._pair(link))
                await sink.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        link.scope.cancel()

    async def _hold(self, pair: Pair) -> None:
        while pair in self._silent.values():
            await self._changed.wait()
        await trio.sleep(sum(seconds for one, seconds in self._delays.values() if one == pair))


def _socket_inode(port: int) -> str:
    """The inode of the connected socket that is bound to this local port (Linux)."""
    with contextlib.suppress(OSError), Path("/proc/net/tcp").open() as table:
        for line in table:
            fields = line.split()
            if fields[1].endswith(f":{port:04X}") and fields[3] == "01":
                return fields[9]
    return ""


def _sockets_of(pid: int) -> set[str]:
    found = set()
    with contextlib.suppress(OSError):
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                target = os.readlink(entry)
                if target.startswith("socket:["):
                    found.add(target[len("socket:[") : -1])
    return found
