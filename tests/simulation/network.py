"""The network between processes: delays, cut links, broken connections, late requests.

An exchange is one request and its answer on a connection of one requester, which sends one at a
time; so order holds within a connection and not across them. Rules:
- a cut link swallows what is under way and what is sent; the requester only notices by its timeout;
- a broken connection is noticed by the requester at once, whether or not the request had arrived;
- a request that its sender has given up may still arrive: it sits in the socket's buffer.
- a process that dies resets its connections.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from tests.simulation.kernel import Event, Kernel, Process

CONNECT_REFUSED_MS = 2
LONG_DELAY_MS = 400


class Server(Protocol):
    process: Process

    def receive(self, exchange: "Exchange") -> None:
        """Handle the request; `exchange.respond` now or later."""


class Exchange:
    __slots__ = ("done", "is_open", "message", "network", "number", "server", "source", "target",
                 "timeout", "version")  # fmt: skip

    def __init__(
        self,
        network: "Network",
        source: Process,
        target: str,
        server: Server,
        message: Any,
        version: int,
        done: Callable[[Any], None],
    ) -> None:
        self.network = network
        self.source = source
        self.target = target
        self.server = server
        self.message = message
        self.version = version
        self.done = done
        self.is_open = True
        self.timeout: Event | None = None
        network.exchange_count += 1
        # In the order in which they began: what is told of connections, whose requests it orders.
        self.number = network.exchange_count

    def respond(self, response: Any) -> None:
        """Called by the server; the answer travels."""
        network = self.network
        network.kernel.after(network.delay_ms(), self.source, self._answered, response)

    def appended(self) -> None:
        """A simulated requester sends nothing while it waits."""

    def _answered(self, response: Any) -> None:
        if not self.is_open or not self.network.is_up(self.source.name, self.target):
            return
        self._close(response)

    def fail(self) -> None:
        """The requester learns that there is no answer to come."""
        if self.is_open:
            self._close(None)

    def give_up(self) -> None:
        """The requester has closed the connection, or is dead: no answer counts any more."""
        self.is_open = False
        self.network.discard(self)

    def _close(self, response: Any) -> None:
        self.is_open = False
        self.network.discard(self)
        if self.timeout is not None:
            self.network.kernel.cancel(self.timeout)
        self.done(response)


class Network:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        # Those that are open, in the order in which they began.
        self._open: dict[Exchange, None] = {}
        self._cut: set[frozenset[str]] = set()
        # The usual delay of a message lies in [0, this].
        self.usual_delay_ms = 3
        self.slow_share = 0.01
        # Of the requests that arrive when their sender has given them up: those that come late.
        self.late_share = 0.0
        # Of the requests of a kind: those whose connection breaks while they are under way.
        self.broken_shares: Mapping[type, float] = {}
        self.exchange_count = 0

    # Links

    def is_up(self, one: str, other: str) -> bool:
        return not self._cut or frozenset((one, other)) not in self._cut

    def cut(self, one: str, other: str) -> None:
        self._cut.add(frozenset((one, other)))

    def mend(self, one: str, other: str) -> None:
        self._cut.discard(frozenset((one, other)))

    def mend_all(self) -> None:
        self._cut.clear()

    def delay_ms(self) -> int:
        draw = self.kernel.random.random
        most_ms = LONG_DELAY_MS if draw() < self.slow_share else self.usual_delay_ms
        return int(draw() * (most_ms + 1))

    # Exchanges

    def call(
        self,
        source: Process,
        target: str,
        server: Server,
        message: Any,
        version: int,
        done: Callable[[Any], None],
        timeout_ms: int | None,
    ) -> Exchange:
        """Send a request; `done` gets the answer, or None for none, exactly once while we live.

        Without a timeout only if something comes, or the connection breaks.
        """
        exchange = Exchange(self, source, target, server, message, version, done)
        self._open[exchange] = None
        kernel = self.kernel
        if not server.process.alive:
            kernel.after(CONNECT_REFUSED_MS, source, exchange.fail)
            return exchange
        if timeout_ms is not None:
            exchange.timeout = kernel.after(timeout_ms, source, exchange.fail)
        if self.is_up(source.name, target):
            kernel.after(self.delay_ms(), server.process, self._arrived, exchange)
        broken_share = self.broken_shares.get(type(message))
        if broken_share and kernel.chance(broken_share):
            kernel.after(0, source, exchange.fail)
        return exchange

    def discard(self, exchange: Exchange) -> None:
        self._open.pop(exchange, None)

    def _arrived(self, exchange: Exchange) -> None:
        if not exchange.is_open and self.late_share and self.kernel.chance(self.late_share):
            delay_ms = self.kernel.random.randint(0, LONG_DELAY_MS)
            process = exchange.server.process
            self.kernel.after(delay_ms, process, exchange.server.receive, exchange)
        elif self.is_up(exchange.source.name, exchange.target):
            exchange.server.receive(exchange)

    def break_connections(self, one: str, other: str) -> int:
        """All connections between two are reset; half of what is under way arrives all the same."""
        pair = {one, other}
        broken = 0
        for exchange in list(self._open):
            if {exchange.source.name, exchange.target} == pair:
                broken += 1
                self.kernel.after(0, exchange.source, exchange.fail)
        return broken

    def process_died(self, name: str) -> None:
        """The connections of a dead process are reset."""
        for exchange in list(self._open):
            if exchange.target == name:
                self.kernel.after(self.delay_ms(), exchange.source, exchange.fail)
            elif exchange.source.name == name:
                exchange.give_up()
