"""Watches of the broker on znodes: each notifies its owner of one change, on the trio loop.

When a connection drops, kazoo forgets its watches, or calls them with that event. Here they are
kept, and after a reconnect every one of them fires once: its owner reads again and sees changes
that it may have missed. Arming an armed watch does nothing: one change calls an owner back once.

Mirrors ZNodeChangeHandler and ZNodeChildChangeHandler of kafka.zookeeper.ZooKeeperClient.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import trio
from kazoo.protocol.states import EventType, WatchedEvent

from ...protocol.zookeeper.operations import Exists, GetChildren, GetData, ZkOperation
from .zookeeper import WatchCallback, WatchKind

logger = logging.getLogger("pybroker.broker.zk.zookeeper_watches")


Watcher = Callable[[WatchedEvent], None]  # for kazoo


class ZooKeeperWatches:
    def __init__(self, token: trio.lowlevel.TrioToken) -> None:
        self._token = token
        self._armed: set[tuple[WatchKind, str, WatchCallback]] = set()
        self._closed = False

    def arm(self, operation: ZkOperation, on_watch: WatchCallback | None) -> Watcher | None:
        """The watcher for kazoo; None if the read has no watch, or an armed one."""
        if not isinstance(operation, GetData | Exists | GetChildren) or not operation.watch:
            return None
        assert on_watch is not None, "a watch needs a listener"
        watch = (_kind(operation), operation.path, on_watch)
        if watch in self._armed:
            return None  # or it has fired, and its owner is about to be called
        # Armed from now on, not from the answer on: it may fire before the answer is read.
        self._armed.add(watch)

        def fired(event: WatchedEvent) -> None:  # on a thread of kazoo
            if event.type == EventType.NONE:
                return  # the connection is lost: `fire_all` follows with the next one
            try:
                self._token.run_sync_soon(self._fire, watch)
            except trio.RunFinishedError:
                logger.debug("a watch fired after the loop ended")

        return fired

    def not_armed(self, operation: ZkOperation, on_watch: WatchCallback | None) -> None:
        """A read failed or was lost with its connection, and its watch, if it had one, with it."""
        if isinstance(operation, GetData | Exists | GetChildren) and operation.watch:
            assert on_watch is not None
            self._armed.discard((_kind(operation), operation.path, on_watch))

    def fire_all(self) -> None:
        watches, self._armed = self._armed, set()
        for kind, path, on_watch in watches:
            on_watch(kind, path)

    def close(self) -> None:
        """No watch calls back any more."""
        self._closed = True

    def _fire(self, watch: tuple[WatchKind, str, WatchCallback]) -> None:
        self._armed.discard(watch)
        if not self._closed:
            kind, path, on_watch = watch
            on_watch(kind, path)


def _kind(operation: GetData | Exists | GetChildren) -> WatchKind:
    return WatchKind.CHILDREN if isinstance(operation, GetChildren) else WatchKind.DATA
