"""A bell: whoever waits for it goes on when it rings, or after a while."""

from __future__ import annotations

import trio


class Bell:
    """A ring that nobody has waited for is kept for who comes next."""

    def __init__(self) -> None:
        self._rung = trio.Event()

    def ring(self) -> None:
        self._rung.set()

    async def wait(self, seconds: float) -> bool:
        """Whether it rang. Several may wait, one ring is for all of them."""
        with trio.move_on_after(max(0.0, seconds)):
            await self._rung.wait()
        if not self._rung.is_set():
            return False
        self._rung = trio.Event()
        return True
