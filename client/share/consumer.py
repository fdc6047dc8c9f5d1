"""A consumer of a queue, for trio: a member of a share group (KIP-932).

    async with ShareConsumer("localhost:9092", group_id="mails") as queue:
        await queue.subscribe(["orders"])
        async for record in queue:
            await send(record.value)  # the request for the next record accepts this one

A partition's records go to any member, each to one at a time: the broker locks it for that member
until it is accepted (done), released (it comes again), rejected (it does not), or its lock expires
(it comes again). With `acknowledgement="explicit"` the application decides by `accept`, `release`,
`reject` and `renew` (a longer lock), in any order. Results are sent with the next fetch, or at once
by `commit`.

Its parts share a `ShareConsumerState`, which says how they are layered.

Invariants: a record counts as accepted implicitly once the next one is requested, or the block is
left without an error; a cancelled request for records loses none.

Mirrors: KafkaShareConsumer. Leaves out: acknowledgement callbacks (failures of results that a fetch
takes along go to `report`, and the next `commit` raises them).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Final, NoReturn

import trio

from ..cluster import Cluster
from ..consumer.background import Background
from ..errors import ClientError, Refused
from ..running import refuse_plain_with, require_trio
from ..security.connector import Reach
from .fetching import ShareFetching
from .heartbeats import ShareHeartbeats
from .options import ShareOptions
from .records import SharedRecord
from .results import ShareResults
from .session import Acknowledge
from .state import Held, ShareConsumerState, key_of

IDLE_SECONDS: Final = 1.0


class ShareConsumer:
    """The first argument names brokers, or is an open `Cluster`. Keywords are the fields of
    `ShareOptions`; the others are as in `Consumer`."""

    def __init__(
        self,
        bootstrap: str | Cluster,
        *,
        security: Mapping[str, str] | None = None,
        report: Callable[[str], None] | None = None,
        network: Reach | None = None,
        **options: object,
    ) -> None:
        self.options = ShareOptions(**options)  # type: ignore[arg-type]
        self._is_mine = isinstance(bootstrap, str)
        self._cluster = (
            Cluster(bootstrap, report, security=security, network=network)
            if isinstance(bootstrap, str)
            else bootstrap
        )
        self._state = ShareConsumerState(self._cluster, self.options)
        self._results = ShareResults(self._state)
        self._fetching = ShareFetching(self._state)
        self._heartbeats = ShareHeartbeats(self._state)
        self._stack = AsyncExitStack()
        self._nursery: trio.Nursery | None = None

    def __enter__(self) -> NoReturn:
        refuse_plain_with("ShareConsumer")

    def __exit__(self, *_: object) -> None:
        pass

    async def __aenter__(self) -> ShareConsumer:
        require_trio("ShareConsumer")
        if self._is_mine:
            await self._stack.enter_async_context(self._cluster)
        self._stack.callback(self._cluster.close_connections, self._state.purpose)
        self._nursery = await self._stack.enter_async_context(Background())
        self._nursery.start_soon(self._heartbeats.run)
        self._nursery.start_soon(self._fetching.run, self._nursery)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            with trio.move_on_after(self.options.close_timeout_seconds, shield=True):
                if error is None:
                    self._accept_held()
                assert self._nursery is not None
                self._nursery.cancel_scope.cancel()
                await self._results.end_sessions()
                await self._heartbeats.leave()
        finally:
            await self._stack.__aexit__(None, None, None)

    async def subscribe(self, topics: Iterable[str] | str) -> None:
        """Join the group for these topics."""
        state = self._state
        state.member.subscribe([topics] if isinstance(topics, str) else list(topics))
        state.metadata_due_ms = 0
        state.bell.ring()
        state.beats.ring()
        await trio.lowlevel.checkpoint()

    # Records

    async def __aiter__(self) -> AsyncIterator[SharedRecord]:
        """Records one by one, forever. Raises ClientError for errors that waiting cannot
        resolve."""
        while True:
            (record,) = await self._next(1, None)
            yield record

    async def poll(
        self, timeout_seconds: float = 0.0, max_records: int | None = None
    ) -> list[SharedRecord]:
        """Records, as soon as there are some; [] after the timeout."""
        return await self._next(max_records or self.options.max_poll_records, timeout_seconds)

    async def _next(self, count: int, timeout_seconds: float | None) -> list[SharedRecord]:
        if self._nursery is None:
            raise ClientError("a share consumer is used with `async with`")
        state = self._state
        deadline = trio.current_time() + (timeout_seconds or 0.0)
        self._accept_held()
        await trio.lowlevel.checkpoint()
        while True:
            self._raise_failure()
            found = state.take(count)
            if found:
                return found
            left = deadline - trio.current_time()
            if timeout_seconds is not None and left <= 0:
                return []
            state.is_waiting = True
            state.bell.ring()
            try:
                await state.arrived.wait(IDLE_SECONDS if timeout_seconds is None else left)
            finally:
                state.is_waiting = False

    def _raise_failure(self) -> None:
        state = self._state
        error, state.failure = state.failure, None
        if error is not None:
            raise error
        member = state.member
        if member.fatal is not None:
            (code, message), member.fatal = member.fatal, None
            member.subscribe(member.topics)
            name = self.options.group_id
            refusal = self._cluster.asks("read", name).refusal(code)
            text = message or code.description
            raise Refused(refusal or f"group {name!r}: {text} ({code.name})", code)

    # Results

    def accept(self, record: SharedRecord) -> None:
        """The record is done, and does not come again. Raises ClientError if it is not held."""
        self._acknowledge(record, Acknowledge.ACCEPT)

    def release(self, record: SharedRecord) -> None:
        """The record comes again, to any member; as `accept`."""
        self._acknowledge(record, Acknowledge.RELEASE)

    def reject(self, record: SharedRecord) -> None:
        """The record does not come again, as no member can process it; as `accept`."""
        self._acknowledge(record, Acknowledge.REJECT)

    async def renew(self, record: SharedRecord) -> None:
        """Lock the record for as long again; it stays held. Raises ClientError."""
        await self._results.renew(self._held_of(record))

    async def commit(self) -> None:
        """Send all results, and wait until the brokers have stored them. Raises ClientError if
        some since the last commit are not stored: their records come again."""
        self._accept_held()
        await self._results.commit()

    def _acknowledge(self, record: SharedRecord, kind: Acknowledge) -> None:
        held = self._held_of(record)
        del self._state.held[key_of(record)]
        self._state.note(held, kind)

    def _held_of(self, record: SharedRecord) -> Held:
        if self.options.acknowledgement != "explicit":
            raise ClientError("results are given with acknowledgement='explicit'")
        held = self._state.held.get(key_of(record))
        if held is None:
            raise ClientError(f"offset {record.offset} of {record.topic} is not held")
        return held

    def _accept_held(self) -> None:
        self._state.accept_held()
