"""Faults of networks, of a test's cluster or of its own servers: `network_proxy` does them."""

from __future__ import annotations

import itertools
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ..local.cluster_state import ClusterError
from .faults import Fault

CLIENT, ZOOKEEPER = "client", "zookeeper"

if TYPE_CHECKING:
    from .launching import Channel

ANSWER_SECONDS = 30.0

Ask = Callable[..., Any]


class NetworkFaults:
    """`KafkaCluster.network`, of a cluster that was started with `network=True`.

    Each fault is between two of: "client", a broker's id, "zookeeper", and in an ensemble
    "zookeeper-1" and so on; "zookeeper" means all of its members then. Clients are all alike, and
    have no link to ZooKeeper.
    """

    def __init__(
        self,
        ask: Ask,
        brokers: Iterable[int],
        faults: list[Fault],
        zookeepers: Sequence[str] = (ZOOKEEPER,),
    ) -> None:
        self._ask = ask
        self._brokers = brokers
        self._faults = faults
        self._zookeepers = zookeepers
        self._impossible = {frozenset((CLIENT, one)) for one in zookeepers}
        self._numbers = itertools.count(1)

    def cut(self, a: int | str, b: int | str) -> Fault:
        """Close their connections with a reset, and each new one until this is undone."""
        return self._begin("cut", a, b)

    def silence(self, a: int | str, b: int | str) -> Fault:
        """Keep connections and accept new ones, but carry nothing, as with a pulled cable;
        held-back bytes arrive when this is undone.
        """
        return self._begin("silence", a, b)

    def delay(self, a: int | str, b: int | str, seconds: float) -> Fault:
        """Delay the bytes between both by so much, each way: at most 64 KB at a time."""
        return self._begin("delay", a, b, seconds=seconds)

    def isolate(self, node: int | str) -> Fault:
        """Cut a broker off from the other brokers and from ZooKeeper, or a member of the ensemble
        from the others and from the brokers; clients still reach a broker.
        """
        others = [one for one in [*map(str, self._brokers), *self._zookeepers] if one != str(node)]
        faults = [self.cut(node, other) for other in others]

        def undo() -> None:
            for fault in faults:
                fault.undo()

        return Fault(f"isolate {node}", undo, self._faults)

    def _begin(self, what: str, a: int | str, b: int | str, **more: float) -> Fault:
        links = list(itertools.product(self._named(a), self._named(b)))
        known = {CLIENT, *self._zookeepers, *map(str, self._brokers)}
        for link in links:
            ends = frozenset(link)
            if not ends <= known or len(ends) < 2 or ends in self._impossible:
                raise ClusterError(f"there is no link between {a!r} and {b!r}")
            if sys.platform != "linux" and not ends & {CLIENT, *self._zookeepers}:
                raise ClusterError("whose connection it is between brokers is known on Linux only")
        numbers = []
        for near, far in links:
            numbers.append(next(self._numbers))
            self._ask(do=what, number=numbers[-1], a=near, b=far, **more)

        def undo() -> None:
            for number in numbers:
                self._ask(do="heal", number=number)

        return Fault(f"{what} {a} {b}", undo, self._faults)

    def _named(self, end: int | str) -> Sequence[str]:
        return self._zookeepers if end == ZOOKEEPER else (str(end),)


class Network(NetworkFaults):
    """A network between servers of your own (other brokers, a database), for the same faults.

    `front` gives a port that leads to a server. A connection to that port is one of "client",
    unless its process `belongs` to a server, or the port is for one server alone. `with Network()
    as network: ...`, or `close`.
    """

    def __init__(self) -> None:
        from .launching import shared_launcher

        self._names: list[Any] = []
        super().__init__(self._ask_proxy, self._names, [])
        self._impossible = set()
        self._directory = tempfile.TemporaryDirectory(prefix="pybroker-network-")
        self._channel: Channel = shared_launcher().carry(self._directory.name)
        self._channel.wait_until_ready()

    def front(
        self,
        server: int | str,
        port: int,
        host: str = "127.0.0.1",
        *,
        near: int | str | None = None,
    ) -> int:
        """A port that leads to this address, which is that of `server`; with `near`, the port is
        for connections of that server alone."""
        self._names.append(server)
        if near is not None:
            self._names.append(near)
        name = None if near is None else str(near)
        front: int = self._ask_proxy(do="front", far=str(server), near=name, host=host, port=port)
        return front

    def belongs(self, server: int | str, pid: int) -> None:
        """From now on the connections of this process are those of the server (Linux)."""
        self._names.append(server)
        self._ask_proxy(do="belongs", node=str(server), pid=pid)

    def heal(self) -> None:
        """Undo all faults."""
        for fault in self._faults[::-1]:
            fault.undo()

    def close(self) -> None:
        """Close all connections and ports."""
        self._faults.clear()
        self._channel.close()
        self._directory.cleanup()

    def __enter__(self) -> Network:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _ask_proxy(self, **request: Any) -> Any:
        from .controls import ask_controls
        from .network_proxy import proxy_socket

        try:
            return ask_controls(proxy_socket(Path(self._directory.name)), ANSWER_SECONDS, **request)
        except (OSError, RuntimeError) as error:
            raise ClusterError(f"the network: {error}") from error
