"""What `controller_runtime` and `control_channel` of `broker.cluster` do, on virtual time.

One event at a time to its end; effects in their order; one request in flight to each broker, sent
again until it is answered or the channel is closed. An exception in the machine ends the run: it is
a broken invariant.
"""

from collections import deque
from typing import TYPE_CHECKING, Any

from pybroker_kafka.protocol.zookeeper.operations import Flow, SessionExpired
from pybroker_kafka.replication.controller import effects, events
from pybroker_kafka.replication.controller.config import ControllerConfig
from pybroker_kafka.replication.controller.kafka_controller import Controller
from pybroker_kafka.replication.controller.request_batch import request_version
from pybroker_kafka.replication.inter_broker import NEWEST
from tests.simulation.zookeeper import BEGIN, advance

if TYPE_CHECKING:
    from tests.simulation.broker import Broker

RESEND_DELAY_MS = 100


class _Channel:
    __slots__ = ("is_open", "is_sending", "queue", "target")

    def __init__(self, target: int) -> None:
        self.target = target
        self.queue: deque[tuple[Any, int]] = deque()
        self.is_sending = False
        self.is_open = True


class SimulatedController:
    def __init__(self, broker: "Broker", config: ControllerConfig) -> None:
        self._broker = broker
        self._kernel = broker.kernel
        self.machine = Controller(config, broker.cluster.new_topic_id)
        self._events: deque[Any] = deque()
        self._is_busy = False
        self._channels: dict[int, _Channel] = {}
        self._timers_alive = 0  # counts resignations: timers of before are dead

    @property
    def is_idle(self) -> bool:
        return not self._events and not self._is_busy

    # Events

    def post(self, event: Any) -> None:
        if isinstance(event, events.SessionLost):
            self._events.appendleft(event)  # before anything that the next session would do
        else:
            self._events.append(event)
        self._pump()

    def watch_fired(self, kind: str, path: str) -> None:
        self.post(events.ChildrenChanged(path) if kind == "children" else events.NodeChanged(path))

    def _pump(self) -> None:
        while self._events and not self._is_busy:
            self._is_busy = True
            event = self._events.popleft()
            self._advance(
                self.machine.process(event, self._broker.wall.at_ms(self._kernel.now_ms)), BEGIN
            )

    def _advance(self, flow: Flow[None], results: Any) -> None:
        was_active = self.machine.is_active
        try:
            operations = advance(flow, results)
        except (StopIteration, SessionExpired):
            self._is_busy = False
            self._perform()
        else:
            self._perform()
            self._broker.session.execute(operations, lambda answers: self._answered(flow, answers))
        if self.machine.is_active and not was_active:
            epoch = self.machine.context.epoch
            self._kernel.note(f"{self._broker.name} is controller of epoch {epoch}")

    def _answered(self, flow: Flow[None], results: Any) -> None:
        self._advance(flow, results)
        self._pump()

    # Effects

    def _perform(self) -> None:
        for effect in self.machine.take_effects():
            if isinstance(effect, effects.SendRequest):
                self._enqueue(effect.broker_id, effect.request)
            elif isinstance(effect, effects.Reply):
                answer: Any = effect.token
                answer(effect.response)
            elif isinstance(effect, effects.OpenChannel):
                broker_id = effect.broker.broker_id
                if broker_id not in self._channels:
                    self._channels[broker_id] = _Channel(broker_id)
            elif isinstance(effect, effects.CloseChannel):
                self._close(effect.broker_id)
            elif isinstance(effect, effects.StartTimer):
                self._kernel.after(
                    effect.delay_ms, self._broker.process, self._timer, self._timers_alive,
                    effect.event,
                )  # fmt: skip
            else:
                assert isinstance(effect, effects.Resigned)
                self._kernel.note(f"{self._broker.name} resigns as controller")
                self._timers_alive += 1
                for broker_id in list(self._channels):
                    self._close(broker_id)

    def _timer(self, life: int, event: Any) -> None:
        if life == self._timers_alive:
            self.post(event)

    def _close(self, broker_id: int) -> None:
        channel = self._channels.pop(broker_id, None)
        if channel is not None:
            channel.is_open = False

    # Channels

    def _enqueue(self, broker_id: int, request: Any) -> None:
        channel = self._channels.get(broker_id)
        if channel is None:
            return
        version = request_version(request, NEWEST)
        channel.queue.append((request, version))
        self._send(channel)

    def _send(self, channel: _Channel) -> None:
        if channel.is_sending or not channel.queue or not channel.is_open:
            return
        channel.is_sending = True
        request, version = channel.queue[0]
        self._broker.call(
            channel.target, request, version, lambda response: self._sent(channel, response)
        )

    def _sent(self, channel: _Channel, response: Any) -> None:
        if not channel.is_open:
            return
        if response is None:
            self._kernel.after(RESEND_DELAY_MS, self._broker.process, self._send_again, channel)
            return
        channel.is_sending = False
        request, _ = channel.queue.popleft()
        self.post(events.BrokerResponse(channel.target, request, response))
        self._send(channel)

    def _send_again(self, channel: _Channel) -> None:
        channel.is_sending = False
        self._send(channel)
