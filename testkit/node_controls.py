"""A test's actions inside of a broker's process: harm requests and the disk, move the clock, clean.

Runs beside the broker (`server.Companion`) in clusters that the fork server starts, and in no
other, and carries out the requests that come through `controls`.

Invariants: without a rule no request passes here; without a fault of the disk no write does.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import trio

from ..broker.resources.clock import wall_clock_ms
from ..protocol.api import ApiKey
from ..protocol.errors import ErrorCode
from ..replication.metadata_cache import MetadataUpdate
from .controls import serve_controls
from .disk_faults import DiskFault, break_disk, mend_disk
from .history import History
from .interceptions import Harm, Interceptions, Rule
from .node_cleaning import NodeCleaning

if TYPE_CHECKING:
    from ..broker.network.request import Request, ResponseSink
    from ..broker.server import Broker

logger = logging.getLogger("pybroker.testkit")

COMPACTION_SECONDS = 30.0
POLL_SECONDS = 0.02
_MS = 1000


def controls_socket(data_dir: Path, broker_id: int) -> Path:
    """The socket of this broker's controls."""
    return data_dir / f"controls-{broker_id}.sock"


def companion(data_dir: Path, broker_id: int) -> NodeControls:
    """The controls of a broker's process."""
    return NodeControls(controls_socket(data_dir, broker_id))


class NodeControls:
    """The controls of one broker."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._interceptions = Interceptions()
        self._history = History()
        self._broker: Broker
        self._nursery: trio.Nursery
        self._actions: dict[str, Callable[..., Any]] = {
            "harm": self._harm,
            "spare": self._spare,
            "taken": self._taken,
            "clock": self._set_clock,
            "advance": self._advance,
            "compact": self._compact,
            "disk": self._disk,
            "rebalance": self._rebalance,
            "registrations": self._registrations,
            "history": lambda: list(self._history.changes),
        }

    async def run(self, broker: Broker) -> None:
        self._broker = broker
        cleaning = NodeCleaning(broker)
        self._actions.update(
            content=cleaning.content,
            coordinated=cleaning.coordinated,
            forget=cleaning.forget,
            delete_topics=cleaning.delete_topics,
            restore=cleaning.restore,
            settled=cleaning.settled,
        )
        broker.parts.orders.on_metadata.append(self._note_change)
        known = set(broker.parts.cache.topics())
        self._note_change(MetadataUpdate(changed_topics=known))
        async with trio.open_nursery() as self._nursery:
            await serve_controls(self._path, self._actions)

    def _note_change(self, update: MetadataUpdate) -> None:
        self._history.note(self._broker.parts.cache, update, wall_clock_ms())

    # Requests

    def _harm(self, number: int, api: str, harm: str, error: str, **rule: Any) -> None:
        self._interceptions.add(
            Rule(number, ApiKey[api], Harm(harm), error=ErrorCode[error], **rule)
        )
        self._look_at_requests()

    def _spare(self, number: int) -> int:
        taken = self._interceptions.remove(number)
        self._look_at_requests()
        return taken

    def _taken(self, number: int) -> int:
        return self._interceptions.taken(number)

    def _look_at_requests(self) -> None:
        dispatcher = self._broker.parts.dispatcher
        dispatcher.intercept_with(self._intercept if self._interceptions else None)

    def _intercept(self, api: ApiKey, handle: Callable[[Request], Any]) -> Callable[[Request], Any]:
        return partial(self._decide, api, handle) if self._interceptions.names(api) else handle

    def _decide(self, api: ApiKey, handle: Callable[[Request], Any], request: Request) -> None:
        rule = self._interceptions.decide(api, request.client_id or "")
        if rule is None:
            handle(request)
            return
        logger.info("%s: %r", rule.harm, request)
        if rule.harm is Harm.FAIL:
            request.fail(rule.error)
        elif rule.harm is Harm.CLOSE:
            request.close()
        elif rule.harm is Harm.DELAY:
            self._nursery.start_soon(self._handle_later, rule.delay_seconds, handle, request)
        elif rule.harm is Harm.LOSE_ANSWER:
            request.connection = cast("ResponseSink", Deaf(request.connection))
            handle(request)
        # A dropped request stays unanswered: its connection is muted from now on, until it is
        # closed.

    async def _handle_later(
        self, seconds: float, handle: Callable[[Request], Any], request: Request
    ) -> None:
        await trio.sleep(seconds)
        if not request.connection.closed:
            self._broker.parts.dispatcher.perform(handle, request)

    # Time

    def _set_clock(self, ahead_ms: int) -> None:
        """Set the wall clock only: timers of the monotonic clock run on, as on a real machine."""
        clocks = self._broker.clocks
        clocks.ahead_ms = ahead_ms
        clocks.look()

    async def _advance(self, ms: int) -> None:
        """Let so much time pass at once, without any request meanwhile."""
        parts = self._broker.parts
        logs = self._broker.logs
        assert logs is not None
        self._broker.clocks.advance(ms)
        parts.replicas.runtime.look_again()
        for coordinator in parts.coordinators[:2]:
            coordinator.look_again()
        logs.maintenance.retain_soon()
        for _ in logs.retain(self._broker.clock()):
            await trio.lowlevel.checkpoint()
        parts.cleaner.configs_changed()

    async def _compact(self, topic: str) -> int:
        """Clean a topic's logs here, active segments included; the number of logs."""
        broker = self._broker
        assert broker.logs is not None
        cleaner = broker.parts.cleaner
        mine = [log for log in broker.logs.logs() if log.topic == topic and log.config.compact]
        for log in mine:
            if log.segments.active.size:
                log.roll(broker.clock())
        dirty = {
            (log.topic, log.partition)
            for log in mine
            if (log.first_dirty_offset or log.log_start_offset) < log.log_end_offset
        }
        for key in dirty:
            cleaner.manager.want(key)
        with trio.fail_after(COMPACTION_SECONDS):
            while any(cleaner.manager.is_wanted(key) for key in dirty):
                cleaner.configs_changed()
                await trio.sleep(POLL_SECONDS)
        return len(dirty)

    # Disk and groups

    def _disk(self, fault: str) -> None:
        if fault:
            break_disk(DiskFault(fault))
        else:
            mend_disk()

    def _registrations(self) -> int:
        """The number of registrations of this process: once a session."""
        return len(self._broker.sessions)

    def _rebalance(self, group: str) -> bool:
        groups = self._broker.parts.coordinators.groups
        begun = groups.machine.rebalance(group, groups.now_ms)
        groups.perform()
        return begun


class Deaf:
    """A connection that closes instead of each answer."""

    def __init__(self, connection: ResponseSink) -> None:
        self._connection = connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def respond(self, request: Request, _parts: list[Any] | None) -> None:
        self._connection.close_instead_of(request)
