"""ZooKeeper as the broker knows it: operations, watches, and the session with its end.

Job: the interface that runtimes are written against. `zookeeper_client` implements it with kazoo,
the simulation with the embedded ZooKeeper's machine over its own network.
- A lost connection is invisible to callers except as delay: operations whose outcome is unknown
  are sent again once connected, for as long as the session lives.
- An expired session raises `SessionExpired` in every waiting caller. Another session is opened by
  itself; `session_events` reports both, in order.
- A watch calls back once: for a change, or after the connection was lost, when there may be one.

Mirrors the interface of kafka.zookeeper.ZooKeeperClient.
"""

from __future__ import annotations

import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from enum import Enum
from typing import TypeVar

import trio

from ...protocol.zookeeper.operations import Flow, SessionExpired, ZkOperation, ZkResult

logger = logging.getLogger("pybroker.broker.zk.zookeeper")
T = TypeVar("T")

NO_SESSION = (0, bytes(16))
NEXT_SESSION_DELAY_MS = 100


class SessionEvent(Enum):
    CONNECTED = "connected"
    SUSPENDED = "suspended"
    EXPIRED = "expired"


class WatchKind(Enum):
    DATA = "data"
    CHILDREN = "children"


WatchCallback = Callable[[WatchKind, str], None]


class ZooKeeper(ABC):
    def __init__(self) -> None:
        self._listeners: list[trio.MemorySendChannel[SessionEvent]] = []

    # Session

    @property
    @abstractmethod
    def session(self) -> tuple[int, bytes]:
        """Session id and password of the live session, to be re-attached after a crash.

        NO_SESSION between one that expired and the next.
        """

    @property
    @abstractmethod
    def is_connected(self) -> bool: ...

    @property
    @abstractmethod
    def session_generation(self) -> int:
        """Grows by one with every expired session."""

    def session_events(self) -> trio.MemoryReceiveChannel[SessionEvent]:
        """The session's changes from now on."""
        send, receive = trio.open_memory_channel[SessionEvent](math.inf)
        self._listeners.append(send)
        return receive

    def _notify(self, event: SessionEvent) -> None:
        logger.info("ZooKeeper session %s", event.value)
        for listener in self._listeners:
            listener.send_nowait(event)

    # Operations

    @abstractmethod
    async def execute(
        self, operations: Sequence[ZkOperation], on_watch: WatchCallback | None = None
    ) -> list[ZkResult]:
        """Results in the order of the operations, which are sent pipelined in that order."""

    async def execute_one(
        self, operation: ZkOperation, on_watch: WatchCallback | None = None
    ) -> ZkResult:
        return (await self.execute((operation,), on_watch))[0]

    async def over_sessions(self, call: Callable[[], Awaitable[T]]) -> T:
        """The value of `call`, which is called again if a session expires in the middle of it.

        For operations that may happen twice.
        """
        while True:
            try:
                return await call()
            except SessionExpired:
                await trio.sleep(NEXT_SESSION_DELAY_MS / 1000)

    async def run(self, flow: Flow[T]) -> T:
        """Drive a flow to its end; an expired session is raised inside of it."""
        try:
            operations = next(flow)
            while True:
                try:
                    results = await self.execute(operations)
                except SessionExpired as error:
                    operations = flow.throw(error)
                else:
                    operations = flow.send(results)
        except StopIteration as stop:
            value: T = stop.value
            return value
