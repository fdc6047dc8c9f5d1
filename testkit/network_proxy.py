"""The process through which connections between nodes go, so that a test can cut them.

A cluster with a network of its own (`NetworkPlan`) has ports here for each broker: for clients and
for brokers (they are what it advertises), and one to each ZooKeeper for this broker alone. For each
two members of an ensemble it has ports for the connections of one to the other.
The ports of a `Network` come one by one (`serve_network`). When a fault needs the node that has
connected to a port for all, it is looked up in Linux's tables of sockets, by both its addresses:
connections to different servers may have the same local port.

Invariants: a connection carries its bytes in order and whole, or is closed; without a fault it is
only carried. The process is forked from one without threads, and ends with it.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import signal
import socket
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from struct import pack
from typing import NamedTuple

import trio

from ..local.cluster_spec import HOST
from ..local.cluster_state import STATE_FILE, ClusterError
from ..local.free_ports import take_ports
from ..local.node_signals import die_with_parent
from ..local.secured import CLIENTS, INTERNAL
from ..local.zookeeper_nodes import ALONE, names_of
from .controls import serve_controls

CHUNK_BYTES = 1 << 16
CLIENT, BROKER = "client", "broker"
UNKNOWN = "unknown"
ZOOKEEPER_PORT = 2181  # where a server's is left out
# Below the ports for outgoing connections, so that none of those gets one of them by chance.
MAX_LOOKS = 3
_RESET = pack("ii", 1, 0)  # SO_LINGER: close with a reset

Pair = frozenset[str]
Address = tuple[str, int]
Targets = Callable[[], Sequence[Address]]  # the first that answers is connected to


def proxy_socket(data_dir: Path) -> Path:
    """The socket of the proxy's controls."""
    return data_dir / "network.sock"


@dataclass(slots=True)
class NetworkPlan:
    """The ports of a cluster's nodes, and those of the proxy in front of them.

    `zookeeper`: an external ensemble, `host:port,host:port/chroot`; None: embedded ones.
    """

    brokers: int
    zookeeper: str | None = None
    zookeepers: int = 1  # the number of embedded ones
    is_secure: bool = False
    zookeeper_port: int = 0  # of the first embedded one; the others follow
    ports: dict[int, tuple[int, int]] = field(default_factory=dict)  # for clients, for brokers
    ensemble_ports: dict[int, tuple[int, int]] = field(default_factory=dict)
    ensemble_detours: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    front_ports: dict[tuple[str, int], int] = field(default_factory=dict)  # by kind, broker
    _fronts: list[tuple[socket.socket, Route]] = field(default_factory=list)

    def reserve(self) -> None:
        """Choose ports that are free now, and listen in front of them. Raises ClusterError."""
        taken: set[int] = set()
        if self.zookeeper is None:
            self.zookeeper_port = take_ports(self.zookeepers, taken)
        zookeepers = self._zookeepers()
        for broker in range(1, self.brokers + 1):
            name = str(broker)
            clients, inner = self.ports[broker] = (take_ports(1, taken), take_ports(1, taken))
            routes = {
                CLIENT: Route(CLIENT, name, _at(clients)),
                BROKER: Route(None, name, _at(inner)),
                **{far: Route(name, far, targets) for far, targets in zookeepers.items()},
            }
            for kind, route in routes.items():
                self.front_ports[kind, broker] = self._front(route)
        if self.zookeepers > 1:
            self._reserve_for_ensemble(taken)

    def _reserve_for_ensemble(self, taken: set[int]) -> None:
        names = dict(enumerate(names_of(self.zookeepers), 1))
        for member in names:
            self.ensemble_ports[member] = (take_ports(1, taken), take_ports(1, taken))
        for near, far in itertools.permutations(names, 2):
            quorum, election = (
                self._front(Route(names[near], names[far], _at(port)))
                for port in self.ensemble_ports[far]
            )
            self.ensemble_detours[near, far] = (quorum, election)

    def _front(self, route: Route) -> int:
        """Listen in front of a route; the port."""
        front = socket.create_server((HOST, 0))
        self._fronts.append((front, route))
        port: int = front.getsockname()[1]
        return port

    def broker_keys(self, broker: int) -> Mapping[str, str]:
        """This broker's listeners, its advertised ones, and its address of ZooKeeper."""
        clients, inner = self.ports[broker]
        front, inner_front = self.front_ports[CLIENT, broker], self.front_ports[BROKER, broker]
        name = CLIENTS if self.is_secure else "PLAINTEXT"
        ports = [self.front_ports[far, broker] for far in self._zookeepers()]
        zookeepers = ",".join(f"{HOST}:{port}" for port in ports)
        chroot = (self.zookeeper or "").partition("/")[1:]
        keys = {
            "listeners": f"{name}://{HOST}:{clients},{INTERNAL}://{HOST}:{inner}",
            "advertised.listeners": f"{name}://{HOST}:{front},{INTERNAL}://{HOST}:{inner_front}",
            "zookeeper.connect": f"{zookeepers}{''.join(chroot)}",
            "pybroker.zookeeper.follow.members": "false",  # they are behind the proxy
        }
        if not self.is_secure:
            keys["listener.security.protocol.map"] = f"PLAINTEXT:PLAINTEXT,{INTERNAL}:PLAINTEXT"
            keys["inter.broker.listener.name"] = INTERNAL
        return keys

    def _zookeepers(self) -> dict[str, Targets]:
        """The addresses of each ZooKeeper, by its name: an external ensemble has one name."""
        if self.zookeeper is None:
            first = self.zookeeper_port
            return {
                name: _at(first + index) for index, name in enumerate(names_of(self.zookeepers))
            }
        try:
            servers = [_address(one) for one in self.zookeeper.partition("/")[0].split(",")]
        except ValueError:
            raise ClusterError(f"zookeeper={self.zookeeper!r} is not HOST:PORT") from None
        return {ALONE: lambda: random.sample(servers, len(servers))}

    async def _serve(self, data_dir: Path) -> None:
        proxy = Proxy(partial(_brokers, data_dir))
        fronts = [f"{HOST}:{self.front_ports[CLIENT, one + 1]}" for one in range(self.brokers)]
        actions = {**proxy.actions, "bootstrap": lambda: ",".join(fronts)}
        async with trio.open_nursery() as nursery:
            for front, route in self._fronts:
                nursery.start_soon(proxy.carry, front, route)
            await serve_controls(proxy_socket(data_dir), actions)

    @contextlib.contextmanager
    def proxy_process(self, data_dir: Path, not_its: int) -> Iterator[None]:
        """The proxy while the block runs; it closes the descriptor `not_its`."""
        pid = os.fork()
        if pid == 0:
            try:
                os.close(not_its)
                die_with_parent()
                signal.signal(signal.SIGINT, signal.SIG_IGN)
                trio.run(self._serve, data_dir)
            finally:
                os._exit(1)
        for front, _ in self._fronts:
            front.close()
        self._fronts.clear()
        try:
            yield
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _brokers(data_dir: Path) -> Iterator[tuple[str, int]]:
    """The process of each broker of a cluster."""
    with contextlib.suppress(OSError, ValueError):
        for node in json.loads((data_dir / STATE_FILE).read_text())["nodes"]:
            if node["kind"] == "broker":
                yield str(node["node_id"]), node["pid"]


def _at(port: int) -> Targets:
    return lambda: [(HOST, port)]


def _address(server: str) -> Address:
    """The address of a ZooKeeper server; the port may be left out."""
    host, separator, port = server.strip().rpartition(":")
    return (host.strip("[]"), int(port)) if separator else (server.strip(), ZOOKEEPER_PORT)


@dataclass(slots=True, eq=False)
class Link:
    """A connection that goes through here."""

    route: Route
    near: trio.SocketStream
    far: trio.SocketStream
    scope: trio.CancelScope
    near_ends: tuple[Address, Address]  # of the node that connected, and ours
    pair: Pair | None = None  # its two ends, once they are known

    def reset(self) -> None:
        for stream in (self.near, self.far):
            with contextlib.suppress(OSError):
                stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.scope.cancel()


class Route(NamedTuple):
    """A port that leads to the node `far`, by the first address that answers."""

    near: str | None  # the node that connects; None: the one whose process has the connection
    far: str
    addresses: Targets


class Proxy:
    """Carries connections along their routes, and harms those between two nodes."""

    def __init__(
        self, processes: Callable[[], Iterable[tuple[str, int]]], *, others: str = UNKNOWN
    ) -> None:
        """`processes`: the present process id of each node that connects by a port for all;
        `others`: the name of an end in another process."""
        self._processes = processes
        self._others = others
        self._links: set[Link] = set()
        self._cut: dict[int, Pair] = {}  # by the number of the fault
        self._silent: dict[int, Pair] = {}
        self._delays: dict[int, tuple[Pair, float]] = {}
        self._changed = trio.Event()
        self.actions: dict[str, Callable[..., object]] = {
            "cut": self._begin_cut,
            "silence": self._begin_silence,
            "delay": self._begin_delay,
            "heal": self._heal,
        }

    # Faults

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
        if link.pair is not None:
            return link.pair
        near = link.route.near or self._owner(*link.near_ends)
        pair = frozenset((near or self._others, link.route.far))
        if near:
            link.pair = pair
        return pair

    def _owner(self, near: Address, own: Address) -> str:
        """The node whose process has the connection from `near` to us; empty for no known one."""
        inode = _socket_inode(near, own)
        found = (node for node, pid in self._processes() if inode in _sockets_of(pid))
        return next(found, "") if inode else ""

    # Connections

    async def carry(self, front: socket.socket, route: Route) -> None:
        """Carry the connections to this listening socket until cancelled."""
        front.setblocking(False)
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(front))
        async with trio.open_nursery() as nursery:
            while True:
                try:
                    near = await listener.accept()
                except OSError:  # no descriptors: they may come again
                    await trio.sleep(0.1)
                    continue
                nursery.start_soon(self._serve, route, near)

    async def _serve(self, route: Route, near: trio.SocketStream) -> None:
        async with near:
            try:
                near_ends = (near.socket.getpeername(), near.socket.getsockname())
                far = await _reached(route)
            except OSError:
                return
            if far is None:
                return
            async with far, trio.open_nursery() as nursery:
                link = Link(route, near, far, nursery.cancel_scope, near_ends)
                if self._cut and self._pair(link) in self._cut.values():
                    link.reset()
                self._links.add(link)
                try:
                    nursery.start_soon(self._pump, link, near, far)
                    await self._pump(link, far, near)
                finally:
                    self._links.discard(link)

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


async def _reached(route: Route) -> trio.SocketStream | None:
    """A connection to the first address that answers; None if none does."""
    for host, port in route.addresses():
        with contextlib.suppress(OSError):
            return await trio.open_tcp_stream(host, port)
    return None


async def serve_network(directory: Path, channel: socket.socket) -> None:
    """The proxy of a `Network`, until its owner closes the channel."""
    pids: dict[str, int] = {}
    proxy = Proxy(pids.items, others=CLIENT)
    async with trio.open_nursery() as nursery:

        def front(far: str, near: str | None, host: str, port: int) -> int:
            listener = socket.create_server((HOST, 0))
            nursery.start_soon(proxy.carry, listener, Route(near, far, lambda: [(host, port)]))
            own: int = listener.getsockname()[1]
            return own

        def belongs(node: str, pid: int) -> None:
            pids[node] = pid

        actions = {**proxy.actions, "front": front, "belongs": belongs}
        await nursery.start(serve_controls, proxy_socket(directory), actions)
        channel.sendall(b'{"ready": true}\n')
        await trio.lowlevel.wait_readable(channel)
        nursery.cancel_scope.cancel()


def _socket_inode(local: Address, remote: Address) -> str:
    """The inode of the connected socket between these IPv4 addresses (Linux).

    A row can be missing once: the kernel shows a table in pieces while it changes.
    """
    ends = [f"{_table_address(host)}:{port:04X}" for host, port in (local, remote)]
    for _ in range(MAX_LOOKS):
        for table in ("/proc/net/tcp", "/proc/net/tcp6"):  # a JVM has IPv6 sockets for IPv4, too
            with contextlib.suppress(OSError), Path(table).open() as lines:
                for line in lines:
                    fields = line.split()
                    if fields[1].endswith(ends[0]) and fields[2].endswith(ends[1]):
                        return fields[9]
    return ""


def _table_address(host: str) -> str:
    """An IPv4 address as the tables write it: a word of the machine, in hexadecimal."""
    return f"{int.from_bytes(socket.inet_aton(host), sys.byteorder):08X}"


def _sockets_of(pid: int) -> set[str]:
    found = set()
    with contextlib.suppress(OSError):
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                target = os.readlink(entry)
                if target.startswith("socket:["):
                    found.add(target[len("socket:[") : -1])
    return found
