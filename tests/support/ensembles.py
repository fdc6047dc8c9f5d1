"""Members of ZooKeeper ensembles as processes: `pybroker zookeeper zoo.cfg`, or the JVM server."""

import contextlib
import shutil
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from kazoo.client import KazooClient
from kazoo.handlers.threading import KazooTimeoutError

from tests.support.patience import Limit
from tests.support.processes import PYBROKER, ServerProcess, free_port
from tests.support.real_zookeeper import RealZooKeeper

START_TIMEOUT_S = 120.0


def four_letter_answer(port: int, word: bytes, host: str = "127.0.0.1") -> str:
    """The answer to a four-letter word; empty while the server does not answer."""
    with (
        contextlib.suppress(OSError),
        socket.create_connection((host, port), timeout=2) as sock,
    ):
        sock.sendall(word)
        with sock.makefile("rb") as answer:
            return answer.read().decode()
    return ""


class OurMember(ServerProcess):
    """One `pybroker zookeeper zoo.cfg`; it is ready once it leads or follows."""

    def __init__(
        self,
        directory: Path,
        member_id: int,
        servers: str,
        *,
        tick_ms: int,
        settings: Mapping[str, str],
        port: int = 0,
        host: str = "127.0.0.1",
    ) -> None:
        self.number = member_id
        self.port = port or free_port()
        self.host = host
        data = self.data = directory / "data"
        data.mkdir(parents=True, exist_ok=True)
        (data / "myid").write_text(str(member_id))
        config = directory / "zoo.cfg"
        config.write_text(
            f"dataDir={data}\nclientPort={self.port}\nclientPortAddress={host}\n"
            f"tickTime={tick_ms}\ninitLimit=10\nsyncLimit=5\nmaxClientCnxns=0\n{servers}"
            + "".join(f"{key}={value}\n" for key, value in settings.items())
        )
        super().__init__([*PYBROKER, "zookeeper", str(config)], directory / "server.log")

    @property
    def mode(self) -> str:
        for line in four_letter_answer(self.port, b"srvr", self.host).splitlines():
            if line.startswith("Mode: "):
                return line.removeprefix("Mode: ")
        return ""

    def is_ready(self) -> bool:
        return bool(self.mode)


def our_members(directory: Path, hosts: Mapping[int, str], *, tick_ms: int) -> list[OurMember]:
    """The members of one ensemble by number, none started yet."""
    servers = "".join(
        f"server.{number}={host}:{free_port()}:{free_port()}\n" for number, host in hosts.items()
    )
    return [
        OurMember(directory / str(n), n, servers, tick_ms=tick_ms, settings={}, host=host)
        for n, host in hosts.items()
    ]


Member = OurMember | RealZooKeeper
OTHER_KIND = {"ours": "real", "real": "ours"}


class Ensemble:
    """`kinds`: "ours" or "real" for each member, in the order of their numbers."""

    def __init__(
        self,
        directory: Path,
        kinds: Sequence[str],
        *,
        tick_ms: int = 500,
        observers: int = 0,
        settings: Mapping[str, str] = MappingProxyType({}),
        own_settings: Callable[[int], Mapping[str, str]] = lambda number: {},
    ) -> None:
        """`own_settings`: those of one member, by its number."""
        self._settings, self._own_settings = settings, own_settings
        ports = {n: (free_port(), free_port()) for n in range(1, len(kinds) + 1)}
        voters = len(kinds) - observers
        servers = "".join(
            f"server.{n}=127.0.0.1:{quorum}:{election}{'' if n <= voters else ':observer'}\n"
            for n, (quorum, election) in ports.items()
        )
        self._directory = directory
        self._ports = ports
        self._servers = servers
        self._tick_ms = tick_ms
        self.members: dict[int, Member] = {}
        for number, kind in enumerate(kinds, 1):
            self.place(number, kind)

    def place(self, number: int, kind: str, *, port: int = 0) -> None:
        """A member of this kind with an empty directory, in place of an older one; `port` for its
        clients, 0 for a free one."""
        directory = self._directory / f"{number}-{kind}"
        shutil.rmtree(directory, ignore_errors=True)
        settings = {**self._settings, **self._own_settings(number)}
        if kind == "ours":
            member: Member = OurMember(
                directory,
                number,
                self._servers,
                tick_ms=self._tick_ms,
                settings=settings,
                port=port,
            )
        else:
            member = RealZooKeeper(
                directory,
                tick_ms=self._tick_ms,
                member_id=number,
                members=self._ports,
                settings=settings,
                port=port,
            )
        self.members[number] = member

    def launch(self, *numbers: int) -> None:
        for number in numbers or tuple(self.members):
            self.members[number].launch()

    def kill(self, number: int) -> None:
        self.members[number].kill()

    def await_leader(self, *numbers: int) -> int:
        """Wait until all these (by default all) have a role; returns the leader's number."""
        awaited = numbers or tuple(self.members)
        limit = Limit(START_TIMEOUT_S)
        modes: dict[int, str] = {}
        while not limit.is_over:
            modes = {number: self.members[number].mode for number in awaited}
            if all(modes.values()) and "leader" in modes.values():
                return next(number for number, mode in modes.items() if mode == "leader")
            time.sleep(0.05)
        raise AssertionError(f"no leader: {modes}")

    def zxid(self, number: int) -> str:
        """Of the last transaction that a member has applied."""
        answer = four_letter_answer(self.members[number].port, b"srvr")
        return next(line for line in answer.splitlines() if line.startswith("Zxid: "))

    def connect_string(self, *numbers: int) -> str:
        awaited = numbers or tuple(self.members)
        return ",".join(f"127.0.0.1:{self.members[number].port}" for number in awaited)

    @contextlib.contextmanager
    def client(self, *numbers: int, timeout: float = 10.0) -> Iterator[KazooClient]:
        client = KazooClient(hosts=self.connect_string(*numbers), timeout=timeout)
        limit = Limit(START_TIMEOUT_S)
        while True:
            try:
                client.start(timeout=15)
                break
            except KazooTimeoutError:
                if limit.is_over:
                    raise
        try:
            yield client
        finally:
            with contextlib.suppress(Exception):
                client.stop()
            client.close()


def tree_at(address: str) -> dict[str, tuple[object, ...]]:
    """Of one server, with all that its ensemble has decided."""
    client = KazooClient(address)
    client.start(timeout=START_TIMEOUT_S)
    try:
        client.sync("/")
        return tree_of(client)
    finally:
        client.stop()
        client.close()


def tree_of(client: KazooClient, path: str = "/") -> dict[str, tuple[object, ...]]:
    """All nodes but ZooKeeper's own, with their data, ACLs and stats."""
    found: dict[str, tuple[object, ...]] = {}
    waiting = [path]
    while waiting:
        path = waiting.pop()
        data, stat = client.get(path)
        acls, _ = client.get_acls(path)
        found[path] = (data, tuple(stat), tuple(acls))
        children = client.get_children(path)
        waiting += [
            f"{path.rstrip('/')}/{child}"
            for child in children
            if (path, child) != ("/", "zookeeper")
        ]
    return found


@contextlib.contextmanager
def ensemble(
    directory: Path,
    kinds: Sequence[str],
    *,
    tick_ms: int = 500,
    observers: int = 0,
    settings: Mapping[str, str] = MappingProxyType({}),
    own_settings: Callable[[int], Mapping[str, str]] = lambda number: {},
) -> Iterator[Ensemble]:
    running = Ensemble(
        directory,
        kinds,
        tick_ms=tick_ms,
        observers=observers,
        settings=settings,
        own_settings=own_settings,
    )
    try:
        yield running
    finally:
        for member in running.members.values():
            member.kill()
