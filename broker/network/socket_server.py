"""All listeners of one broker: bind early, process late.

`bind` opens the sockets before anything else of the broker is ready (the port must be known for
the registration in ZooKeeper, and the kernel's backlog keeps early clients waiting); `run` starts
the acceptors, processors and handlers when the broker can answer.

Mirrors `kafka.network.SocketServer`.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Iterable, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

import trio

from ..resources import machine
from .acceptor import Acceptor, bind
from .cold_reads import ColdReads
from .connection import Connection
from .connection_quotas import ConnectionQuotas, MemoryPool
from .idle_connections import idlest
from .listener_security import OPEN, ListenerSecurity
from .memory_shortage import MemoryShortage
from .processor import ROUND_SECONDS, Processor
from .receive_buffer import DEFAULT_MEMORY_BYTES, ReceiveMemory
from .request_channel import RequestChannel
from .request_handler_pool import RequestHandlerPool
from .selector import SelectorGroup, new_group
from .short_waits import ShortWaits

if TYPE_CHECKING:
    from ..observability.metrics import BrokerMetrics
    from .dispatcher import Dispatcher

logger = logging.getLogger("pybroker.broker.network")

MAX_SWEEP_SECONDS = 1.0
TURN_SECONDS = 0.001


class ListenerSpec(NamedTuple):
    name: str
    protocol: str
    host: str | None
    port: int
    security: ListenerSecurity = OPEN


class SocketSettings(NamedTuple):
    """The broker's configuration of the network; None leaves the choice to the kernel."""

    network_threads: int = 3
    backlog: int = 50
    send_buffer: int | None = None
    receive_buffer: int | None = None
    max_frame_bytes: int = 104_857_600
    max_idle_ms: int = 600_000
    queued_requests: int = 500
    queued_bytes: int = -1
    receive_memory_bytes: int = DEFAULT_MEMORY_BYTES


class Sockets(NamedTuple):
    """The seam to the operating system's sockets: a simulation passes its own."""

    bind: Callable[[str | None, int, int, int | None], socket.socket] = bind
    new_group: Callable[[], SelectorGroup] = new_group


class SocketServer:
    def __init__(
        self,
        dispatcher: Dispatcher,
        quotas: ConnectionQuotas,
        settings: SocketSettings,
        metrics: BrokerMetrics,
        sockets: Sockets = Sockets(),  # noqa: B008
    ) -> None:
        self.settings = settings
        self.quotas = quotas
        self.channel = RequestChannel(settings.queued_requests)
        self.memory = MemoryPool(settings.queued_bytes) if settings.queued_bytes > 0 else None
        self.receive_memory = ReceiveMemory(settings.receive_memory_bytes)
        self._shortage = MemoryShortage(self.receive_memory, self.memory, self.connections)
        self.cold_reads = ColdReads()
        self.handlers = RequestHandlerPool(
            self.channel, dispatcher.handle_frame, self._shortage, self.cold_reads
        )
        self.short_waits = ShortWaits(can_look=machine.CORES > 1)
        self._sockets = sockets
        self._selectors = sockets.new_group()
        self.acceptors: list[Acceptor] = []
        self.processors: list[Processor] = []
        self._dispatcher = dispatcher
        self._register_metrics(metrics)

    def bind(self, listeners: Sequence[ListenerSpec]) -> dict[str, tuple[str, int]]:
        """Open all listeners; returns the bound address of each. OSError if one is taken."""
        try:
            for spec in listeners:
                self._bind_one(spec)
        except OSError:
            self.close()
            raise
        return {acceptor.listener: acceptor.address for acceptor in self.acceptors}

    def _bind_one(self, spec: ListenerSpec) -> None:
        settings = self.settings
        try:
            sock = self._sockets.bind(
                spec.host, spec.port, settings.backlog, settings.receive_buffer
            )
        except OSError as error:
            raise OSError(
                error.errno,
                f"listener {spec.name} cannot listen on {spec.host or '*'}:{spec.port}: "
                f"{error.strerror}",
            ) from error
        processors = [self._new_processor(spec) for _ in range(settings.network_threads)]
        self.acceptors.append(
            Acceptor(spec.name, spec.protocol, sock, processors, self.quotas, settings.send_buffer)
        )

    def _new_processor(self, spec: ListenerSpec) -> Processor:
        index = len(self.processors)
        processor = Processor(
            index,
            spec.name,
            self._selectors.new_selector(index),
            self.channel,
            self.handlers,
            self.quotas,
            self._shortage,
            max_frame_bytes=self.settings.max_frame_bytes,
            security=spec.security,
        )
        self.processors.append(processor)
        return processor

    def connections(self) -> Iterable[Connection]:
        return [c for p in self.processors for c in p.connections.values()]

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Process connections until cancelled; then close all of them."""
        try:
            async with trio.open_nursery() as nursery:
                await nursery.start(self._dispatcher.run_async_handlers)
                nursery.start_soon(self.handlers.run)
                nursery.start_soon(self.cold_reads.run, self.handlers.writable)
                nursery.start_soon(self._dispatcher.turns.run)
                nursery.start_soon(self.handlers.run_throttle_timer)
                nursery.start_soon(self._sweep_loop)
                nursery.start_soon(self._run_processors)
                for acceptor in self.acceptors:
                    nursery.start_soon(acceptor.run)
                task_status.started()
        finally:
            self.close()

    async def _run_processors(self) -> None:
        """Let every processor with something to do have its round, then serve their requests.

        While there is more work, or will be in a moment (`short_waits`), continue without a wait in
        the loop; other tasks get a turn once a millisecond, as long as a turn takes one.
        """
        selectors, processors, handlers = self._selectors, self.processors, self.handlers
        short_waits = self.short_waits
        turn_ends = 0.0
        while True:
            is_idle = not handlers.has_work
            wait = short_waits.seconds if is_idle and perf_counter() < turn_ends else 0.0
            ready = self._ready_soon(wait) if wait else selectors.ready()
            if not ready and is_idle:
                began = perf_counter()
                await selectors.wait()
                ready = selectors.ready()
                now = perf_counter()
                short_waits.waited(now - began)
                turn_ends = now + TURN_SECONDS
            elif perf_counter() > turn_ends:
                await trio.lowlevel.checkpoint()
                turn_ends = perf_counter() + TURN_SECONDS
            step_ends = perf_counter() + ROUND_SECONDS
            for index in ready:
                processors[index].round()
                if perf_counter() > step_ends:
                    await trio.lowlevel.checkpoint()
                    step_ends = perf_counter() + ROUND_SECONDS
            if handlers.has_work:
                handlers.serve_batch()

    def _ready_soon(self, seconds: float) -> set[int]:
        """The indexes of processors with something to do, after a short wait in the kernel."""
        selectors, short_waits = self._selectors, self.short_waits
        if look_seconds := short_waits.look_seconds:
            if ready := selectors.look(look_seconds):
                return ready
            short_waits.looked_in_vain()
        began = perf_counter()
        ready = selectors.ready(seconds)
        if ready:
            short_waits.waited_in_kernel(perf_counter() - began)
        else:
            short_waits.in_vain()
        return ready

    def close(self) -> None:
        for acceptor in self.acceptors:
            acceptor.close()
        for processor in self.processors:
            processor.close_all()
        self._selectors.close()

    async def _sweep_loop(self) -> None:
        max_idle = self.settings.max_idle_ms / 1000
        period = min(MAX_SWEEP_SECONDS, max(0.02, max_idle / 4)) if max_idle >= 0 else 1.0
        while True:
            await trio.sleep(period)
            now = perf_counter()
            for processor in self.processors:
                for _ in processor.sweep(now, max_idle):
                    await trio.lowlevel.checkpoint()
            if self.quotas.refused_descriptors:
                await self._shed_idle(now)
            if self.receive_memory.is_short:
                self._shortage.relieve(now)
                self.handlers.memory_released()

    async def _shed_idle(self, now: float) -> None:
        """Connections were refused for want of file descriptors: close some idle ones, in turns
        with others."""
        self.quotas.refused_descriptors = 0
        chosen = idlest(self.connections(), now)
        ends = perf_counter() + ROUND_SECONDS
        for connection in chosen:
            connection.close()
            if perf_counter() > ends:
                await trio.lowlevel.checkpoint()
                ends = perf_counter() + ROUND_SECONDS
        if chosen:
            logger.warning("Closed %d idle connections: file descriptors are short", len(chosen))

    def _register_metrics(self, metrics: BrokerMetrics) -> None:
        network = "kafka_network_"
        metrics.gauge(network + "requestchannel_requestqueuesize", lambda: len(self.channel))
        metrics.gauge(
            network + "requestchannel_responsequeuesize",
            lambda: sum(bool(c.out.parts) for c in self.connections()),
        )
        metrics.gauge(network + "socketserver_networkprocessoravgidlepercent", self._idle_share)
        metrics.gauge(
            network + "socketserver_memorypoolused",
            lambda: self.memory.used if self.memory else 0,
        )
        metrics.gauge(
            network + "socketserver_memorypoolavailable",
            lambda: self.memory.available if self.memory else float("inf"),
        )
        metrics.gauge(network + "socketserver_receivebufferbytes", lambda: self.receive_memory.used)
        metrics.gauge(
            network + "socketserver_expiredconnectionskilledcount",
            lambda: sum(p.expired_connections for p in self.processors),
        )
        metrics.gauge(
            "pybroker_failed_connections_total",
            lambda: sum(p.failed_connections for p in self.processors),
        )
        metrics.gauge("pybroker_cold_reads_total", lambda: self.cold_reads.count)
        metrics.gauge("kafka_server_socketservermetrics_connection_count", self._connection_count)
        metrics.gauge(
            "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
            lambda: self.handlers.idle_share(perf_counter()),
        )

    def _idle_share(self) -> float:
        now = perf_counter()
        shares = [processor.idle_share(now) for processor in self.processors]
        return sum(shares) / len(shares) if shares else 1.0

    def _connection_count(self) -> float:
        return float(self.quotas.total)
