"""Members of ZooKeeper ensembles as processes: `pybroker zookeeper zoo.cfg`, or the JVM server."""

import contextlib
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from kazoo.client import KazooClient
from kazoo.handlers.threading import KazooTimeoutError

from tests.support.patience import Limit
from tests.support.processes import free_port
from tests.support.real_zookeeper import RealZooKeeper

START_TIMEOUT_S = 120.0


def four_letter_answer(port: int, word: bytes) -> str:
    """The answer to a four-letter word; empty while the server does not answer."""
    with (
        contextlib.suppress(OSError),
        socket.create_connection(("127.0.0.1", port), timeout=2) as sock,
    ):
        sock.sendall(word)
        with sock.makefile("rb") as answer:
            return answer.read().decode()
    return ""


class OurMember:
    """One `pybroker zookeeper zoo.cfg`."""

    def __init__(
        self,
        directory: Path,
        member_id: int,
        servers: str,
        *,
        tick_ms: int,
        settings: Mapping[str, str],
        port: int = 0,
    ) -> None:
        self.port = port or free_port()
        self.directory = directory
        data = directory / "data"
        data.mkdir(parents=True, exist_ok=True)
        (data / "myid").write_text(str(member_id))
        self.log = directory / "server.log"
        self._config = directory / "zoo.cfg"
        self._config.write_text(
            f"dataDir={data}\nclientPort={self.port}\nclientPortAddress=127.0.0.1\n"
            f"tickTime={tick_ms}\ninitLimit=10\nsyncLimit=5\nmaxClientCnxns=0\n{servers}"
            + "".join(f"{key}={value}\n" for key, value in settings.items())
        )
        self.process: subprocess.Popen[bytes] | None = None

    def launch(self) -> None:
        command = [sys.executable, "-m", "pybroker_kafka", "zookeeper", str(self._config)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    @property
    def mode(self) -> str:
        for line in four_letter_answer(self.port, b"srvr").splitlines():
            if line.startswith("Mode: "):
                return line.removeprefix("Mode: ")
        return ""


Member = OurMember | RealZooKeeper


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
    ) -> None:
        self._settings = settings
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
        if kind == "ours":
            member: Member = OurMember(
                directory,
                number,
                self._servers,
                tick_ms=self._tick_ms,
                settings=self._settings,
                port=port,
            )
        else:
            member = RealZooKeeper(
                directory,
                tick_ms=self._tick_ms,
                member_id=number,
                members=self._ports,
                settings=self._settings,
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
) -> Iterator[Ensemble]:
    running = Ensemble(directory, kinds, tick_ms=tick_ms, observers=observers, settings=settings)
    try:
        yield running
    finally:
        for member in running.members.values():
            member.kill()
