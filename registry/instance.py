"""One instance of the registry: its content, its part in the election, and its writes.

Invariants: one change at a time is decided and written, by the primary alone, on a content that has
every record written before it: a new primary first writes a record without effect and reads up to
it. Mirrors: the shell part of KafkaSchemaRegistry.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

import trio

from ..client.cluster import Cluster
from .election import Identity
from .elector import SESSION_TIMEOUT_MS, Elector
from .errors import Rejected, unknown_leader
from .reads import Reads
from .state import State
from .store import TOPIC, Store
from .writes import Change, Writes

GROUP: Final = "schema-registry"
PRIMARY_SECONDS: Final = 20.0  # that a write waits for a primary

_log: Final = logging.getLogger("pybroker.registry")


class Instance:
    """`await nursery.start(instance.run)` returns once it can be read."""

    def __init__(
        self,
        cluster: Cluster,
        identity: Identity,
        *,
        topic: str = TOPIC,
        group: str = GROUP,
        session_timeout_ms: int = SESSION_TIMEOUT_MS,
    ) -> None:
        state = State()
        self.reads = Reads(state)
        self.writes = Writes(self.reads)
        self.store = Store(cluster, state, topic)
        self.identity = identity
        self._elector = Elector(cluster, group, identity, self._elected, session_timeout_ms)
        self._primary: Identity | None = None
        self._changed = trio.Event()
        self._writing = trio.Lock()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Raises ClientError."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self.store.run)
            nursery.start_soon(self._elector.run)
            task_status.started()

    async def _elected(self, primary: Identity | None) -> bool:
        """Whether the primary can begin."""
        can_begin = True
        if primary is not None and primary.url == self.identity.url and not self._is_mine():
            async with self._writing:
                try:
                    await self.store.reach_end()
                except Rejected as error:
                    _log.error("not primary yet: %s", error)
                    primary, can_begin = None, False
        if primary != self._primary:
            _log.info("primary: %s", "none" if primary is None else primary.url)
        self._primary = primary
        self._changed.set()
        self._changed = trio.Event()
        return can_begin

    def _is_mine(self) -> bool:
        return self._primary is not None and self._primary.url == self.identity.url

    def primary(self) -> Identity | None:
        """The primary; None while none is known, or while this one's session is in doubt."""
        if self._is_mine() and not self._elector.is_confirmed():
            return None
        return self._primary

    async def wait_for_primary(self) -> Identity:
        """Raises Rejected."""
        with trio.move_on_after(PRIMARY_SECONDS):
            while (found := self.primary()) is None:
                with trio.move_on_after(0.1):
                    await self._changed.wait()
            return found
        raise unknown_leader("Leader not known.")

    async def wait_for_change(self, primary: Identity) -> None:
        """Return once another instance is primary, or none."""
        while self._primary is not None and self._primary.url == primary.url:
            await self._changed.wait()

    async def change(self, decide: Callable[[Writes], Change]) -> Any:
        """Decide, write, and return the answer, as the primary. Raises Rejected."""
        async with self._writing:
            primary = self.primary()
            if primary is None or primary.url != self.identity.url:
                raise unknown_leader("Leader not known.")
            made = decide(self.writes)
            if made.records:
                await self.store.write(made.records)
            return made.answer
