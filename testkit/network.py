"""Faults of the network of a test's cluster: `network_proxy` carries them out."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from typing import Any

from ..local.cluster_state import ClusterError
from .faults import Fault

CLIENT, ZOOKEEPER = "client", "zookeeper"

Ask = Callable[..., Any]


class NetworkFaults:
    """`KafkaCluster.network`, of a cluster that was started with `network=True`.

    Each fault is between two of: "client", a broker's id, "zookeeper". Clients are all alike.
    """

    def __init__(self, ask: Ask, brokers: int, faults: list[Fault]) -> None:
        self._ask = ask
        self._brokers = brokers
        self._faults = faults
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

    def isolate(self, broker: int) -> Fault:
        """Cut a broker off from the other brokers and from ZooKeeper; clients still reach it."""
        others = [one for one in range(1, self._brokers + 1) if one != broker]
        faults = [self.cut(broker, other) for other in others]
        faults.append(self.cut(broker, ZOOKEEPER))

        def undo() -> None:
            for fault in faults:
                fault.undo()

        return Fault(f"isolate {broker}", undo, self._faults)

    def _begin(self, what: str, a: int | str, b: int | str, **more: float) -> Fault:
        ends = {str(a), str(b)}
        known = {CLIENT, ZOOKEEPER, *map(str, range(1, self._brokers + 1))}
        if not ends <= known or len(ends) < 2 or ends == {CLIENT, ZOOKEEPER}:
            raise ClusterError(f"there is no link between {a!r} and {b!r}")
        if sys.platform != "linux" and not ends & {CLIENT, ZOOKEEPER}:
            raise ClusterError("whose connection it is between brokers is known on Linux only")
        number = next(self._numbers)
        self._ask(do=what, number=number, a=str(a), b=str(b), **more)
        return Fault(f"{what} {a} {b}", lambda: self._ask(do="heal", number=number), self._faults)
