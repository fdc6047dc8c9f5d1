"""Background work: its nursery, and a bell by which tasks wake each other."""

from __future__ import annotations

from types import TracebackType

import trio


class Bell:
    """A ring without a waiting task is kept for the next `wait`."""

    def __init__(self) -> None:
        self._rung = trio.Event()

    def ring(self) -> None:
        self._rung.set()

    async def wait(self, seconds: float) -> bool:
        """Whether it rang. Several tasks may wait; one ring wakes all of them."""
        with trio.move_on_after(max(0.0, seconds)):
            await self._rung.wait()
        if not self._rung.is_set():
            return False
        self._rung = trio.Event()
        return True


class Background:
    """A nursery that is cancelled at its end; exceptions of the block pass through unchanged."""

    def __init__(self) -> None:
        self._nurseries = trio.open_nursery()
        self._nursery: trio.Nursery | None = None

    async def __aenter__(self) -> trio.Nursery:
        self._nursery = await self._nurseries.__aenter__()
        return self._nursery

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._nursery is not None
        self._nursery.cancel_scope.cancel()
        await self._nurseries.__aexit__(None, None, None)
