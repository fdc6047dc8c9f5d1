"""Drives the controller machine: election, watches, channels to the brokers, timers.

Job: give the machine its events one after the other, perform its ZooKeeper operations and its
effects, and bring the broker back after its ZooKeeper session has expired: register anew (with a
new broker epoch), then take part in elections again.

Invariants: one event at a time, to its end; effects are performed in the order in which the
machine emits them; when the machine resigns, its channels and timers end before anything else.

Mirrors kafka.controller.ControllerEventManager, ControllerChannelManager and the ZooKeeper state
handler of KafkaController.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import trio

from ...protocol.schema import Message
from ...protocol.wall_clock import WallClock
from ...protocol.zookeeper.operations import Flow, SessionExpired
from ...replication.controller import effects, events
from ...replication.controller.config import ControllerConfig
from ...replication.controller.kafka_controller import Controller
from ...replication.controller.partition_states import UNCLEAN_CONFIG
from ...replication.controller.request_batch import request_version
from ..zk.zookeeper import SessionEvent, WatchKind, ZooKeeper
from .broker_connection import REQUEST_TIMEOUT_MS, BrokerConnection, Connect, connect_plaintext
from .control_channel import ControlChannel

if TYPE_CHECKING:
    from ..observability.metrics import BrokerMetrics

logger = logging.getLogger("pybroker.broker.cluster.controller_runtime")

REREGISTER_DELAY_MS = 1_000
FAILURE_PAUSE_MS = 1_000


class _Question:
    """The token of a request event: the waiter for its answer."""

    __slots__ = ("answer", "answered")

    def __init__(self) -> None:
        self.answered = trio.Event()
        self.answer: Any = None


class ControllerRuntime:
    def __init__(
        self,
        zookeeper: ZooKeeper,
        config: ControllerConfig,
        *,
        clock: Callable[[], int],
        wall: WallClock,
        new_topic_id: Callable[[], bytes],
        register: Callable[[], Awaitable[None]],
        listener: str | None = None,
        connect: Connect = connect_plaintext,
        socket_timeout_ms: int = REQUEST_TIMEOUT_MS,
    ) -> None:
        """`register` registers this broker again after its session has expired. `listener` is each
        broker's listener for control requests; without it, the listener between brokers.
        """
        self.config = config
        self._listener = listener or config.inter_broker_listener
        self.machine = Controller(config, new_topic_id)
        self._zookeeper = zookeeper
        self._clock = clock
        self._wall = wall
        self._register = register
        self._connect = connect
        self._socket_timeout_ms = socket_timeout_ms
        self._send_event, self._events = trio.open_memory_channel[events.Event](math.inf)
        self._channels: dict[int, tuple[ControlChannel, trio.CancelScope]] = {}
        self._timers: set[trio.CancelScope] = set()
        self._event_done = trio.Event()
        self._session_generation = zookeeper.session_generation
        self._nursery: trio.Nursery | None = None
        self._on_watch = self._watch_fired  # one object, so that arming twice is noticed

    @property
    def is_active(self) -> bool:
        return self.machine.is_active

    def queued_requests(self, broker_id: int) -> int:
        """The number of a broker's queued control requests (QueueSize of the channel manager)."""
        channel = self._channels.get(broker_id)
        return len(channel[0]) if channel else 0

    # Configs and metrics

    def topic_config_changed(self, topic: str, config: Mapping[str, str]) -> None:
        """Allowing unclean election elects at once where no in-sync replica is left."""
        if config.get(UNCLEAN_CONFIG, "").strip().lower() == "true":
            self.post(events.UncleanElectionEnabled(topic))

    def unclean_default_changed(self, enabled: bool) -> None:
        was_enabled = self.config.unclean_leader_election_enable
        self.config.unclean_leader_election_enable = enabled
        if enabled and not was_enabled:
            self.post(events.UncleanElectionEnabled(None))

    def register_gauges(self, metrics: BrokerMetrics) -> None:
        """kafka.controller:type=KafkaController; all 0 on brokers that are not the controller."""
        prefix = "kafka_controller_kafkacontroller_"
        metrics.gauge(prefix + "activecontrollercount", lambda: int(self.is_active))
        stats = "kafka_controller_controllerstats_"
        elections = self.machine.partitions
        metrics.gauge(stats + "leaderelectionrateandtimems_count", lambda: elections.elections)
        metrics.gauge(stats + "uncleanleaderelections_total", lambda: elections.unclean_elections)
        for name in self.machine.context.counts():
            metrics.gauge(prefix + name.lower(), partial(self._count, name))

    def _count(self, name: str) -> int:
        return self.machine.context.counts()[name]

    # Events

    def post(self, event: events.Event) -> None:
        self._send_event.send_nowait(event)

    async def ask(self, make_event: Callable[[object], events.Event]) -> Any:
        """Deliver a request event and wait for the machine's answer."""
        question = _Question()
        self.post(make_event(question))
        await question.answered.wait()
        return question.answer

    async def event_processed(self) -> None:
        """Wait until the machine has handled its next event."""
        await self._event_done.wait()

    def _watch_fired(self, kind: WatchKind, path: str) -> None:
        if kind is WatchKind.CHILDREN:
            self.post(events.ChildrenChanged(path))
        else:
            self.post(events.NodeChanged(path))

    # Running

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run until cancelled; `started` when the first election is over, won or lost."""
        session_events = self._zookeeper.session_events()
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            nursery.start_soon(self._follow_session, session_events)
            # A session lost earlier must not be reported again: resigning from an election that
            # this session has won would leave /controller behind.
            self._session_generation = self._zookeeper.session_generation
            await self._process(events.Startup())
            task_status.started()
            async for event in self._events:
                # A lost session comes before queued events: otherwise the new session would win an
                # election that the machine then resigns from, with /controller left behind.
                if self._zookeeper.session_generation != self._session_generation:
                    self._session_generation = self._zookeeper.session_generation
                    await self._process(events.SessionLost())
                if not isinstance(event, events.SessionLost):
                    await self._process(event)

    async def _process(self, event: events.Event) -> None:
        flow = self.machine.process(event, self._wall.at_ms(self._clock()))
        try:
            await self._drive(flow)
        except Exception:
            # A broken invariant: another broker may do better with a fresh view.
            logger.exception("controller event %s failed", type(event).__name__)
            self._perform()
            if self.machine.is_active:
                await self._drive(self.machine.step_down())
                await trio.sleep(FAILURE_PAUSE_MS / 1000)
        done, self._event_done = self._event_done, trio.Event()
        done.set()

    async def _drive(self, flow: Flow[None]) -> None:
        """Like `ZooKeeper.run`, with our watches and the effects of each step.

        All operations run in one session: nothing read in one session is written in the next.
        """
        zookeeper = self._zookeeper
        generation = zookeeper.session_generation
        try:
            operations = next(flow)
            while True:
                self._perform()
                try:
                    if zookeeper.session_generation != generation:
                        raise SessionExpired
                    results = await zookeeper.execute(operations, self._on_watch)
                except SessionExpired as error:
                    operations = flow.throw(error)
                else:
                    operations = flow.send(results)
        except StopIteration:
            pass
        except SessionExpired:
            logger.info("the ZooKeeper session expired in the middle of a controller event")
        self._perform()

    async def _follow_session(
        self, session_events: trio.MemoryReceiveChannel[SessionEvent]
    ) -> None:
        expired = False
        async for event in session_events:
            if event is SessionEvent.EXPIRED:
                expired = True
                self.post(events.SessionLost())  # `run` checks for itself, once it is awake
            elif event is SessionEvent.CONNECTED and expired:
                await self._register_again()
                expired = False

    async def _register_again(self) -> None:
        while True:
            try:
                await self._register()
            except Exception:
                logger.exception("cannot register in ZooKeeper again, trying on")
                await trio.sleep(REREGISTER_DELAY_MS / 1000)
            else:
                self.post(events.Startup())
                return

    # Effects

    def _perform(self) -> None:
        for effect in self.machine.take_effects():
            if isinstance(effect, effects.SendRequest):
                self._send(effect.broker_id, effect.request)
            elif isinstance(effect, effects.Reply):
                question = effect.token
                assert isinstance(question, _Question)
                question.answer = effect.response
                question.answered.set()
            elif isinstance(effect, effects.OpenChannel):
                self._open_channel(effect)
            elif isinstance(effect, effects.CloseChannel):
                self._close_channel(effect.broker_id)
            elif isinstance(effect, effects.StartTimer):
                self._start_timer(effect)
            elif isinstance(effect, effects.Resigned):
                self._stop_all()

    def _send(self, broker_id: int, request: effects.ControlRequest) -> None:
        channel = self._channels.get(broker_id)
        if channel is None:
            logger.warning("no channel to broker %d for %s", broker_id, type(request).__name__)
            return
        version = request_version(request, self.config.protocol)
        channel[0].enqueue(request, version)

    def _open_channel(self, effect: effects.OpenChannel) -> None:
        broker = effect.broker
        endpoint = broker.endpoint(self._listener)
        if endpoint is None:
            logger.error(
                "broker %d has no listener %s, which takes control requests",
                broker.broker_id,
                self._listener,
            )
            return
        existing = self._channels.get(broker.broker_id)
        if existing is not None:
            existing[0].redirect(endpoint)
            return
        connection = BrokerConnection(
            endpoint,
            str(self.config.broker_id),
            connect=self._connect,
            timeout_ms=self._socket_timeout_ms,
        )
        broker_id = broker.broker_id

        def answered(request: Message, response: Message) -> None:
            self.post(events.BrokerResponse(broker_id, request, response))  # type: ignore[arg-type]

        channel = ControlChannel(connection, answered)
        scope = trio.CancelScope()
        self._channels[broker_id] = (channel, scope)
        self._spawn(scope, channel.run)

    def _close_channel(self, broker_id: int) -> None:
        channel = self._channels.pop(broker_id, None)
        if channel is not None:
            channel[1].cancel()

    def _start_timer(self, effect: effects.StartTimer) -> None:
        scope = trio.CancelScope()

        async def wait() -> None:
            await trio.sleep(effect.delay_ms / 1000)
            self._timers.discard(scope)
            self.post(effect.event)  # type: ignore[arg-type]

        self._timers.add(scope)
        self._spawn(scope, wait)

    def _stop_all(self) -> None:
        for broker_id in list(self._channels):
            self._close_channel(broker_id)
        for scope in self._timers:
            scope.cancel()
        self._timers.clear()

    def _spawn(self, scope: trio.CancelScope, task: Callable[[], Awaitable[None]]) -> None:
        async def run() -> None:
            with scope:
                await task()

        assert self._nursery is not None, "the controller runtime does not run"
        self._nursery.start_soon(run)
