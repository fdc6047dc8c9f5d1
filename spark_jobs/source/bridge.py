"""A trio generator read by code without trio: Spark calls plain Python.

Invariants: at most `ahead` items wait; a reader that stops or closes the iterator cancels the
generator and waits until its connections are closed. An error of the generator reaches the reader
after all items before it.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, suppress
from typing import Generic, TypeVar

import trio

T = TypeVar("T")


def iterate(source: Callable[[], AsyncGenerator[T, None]], *, ahead: int = 1) -> Iterator[T]:
    """The items of `source`, which runs in a thread of its own, up to `ahead` items before the
    reader."""
    reading = _Reading(source, ahead)
    try:
        while True:
            item = reading.next()
            if item is None:
                break
            yield item[0]
    finally:
        reading.close()


class _Reading(Generic[T]):
    def __init__(self, source: Callable[[], AsyncGenerator[T, None]], ahead: int) -> None:
        self._source = source
        self._send, self._receive = trio.open_memory_channel[T](ahead)
        self._scope = trio.CancelScope()
        self._token: trio.lowlevel.TrioToken | None = None
        self._is_up = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="kafka-fetch", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            trio.run(self._serve)
        except BaseException as error:  # raised to the reader, in `next`
            self._error = error
        finally:
            self._is_up.set()

    async def _serve(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._is_up.set()
        with self._scope:
            try:
                async with self._send, aclosing(self._source()) as items:
                    async for item in items:
                        await self._send.send(item)
            except BaseException as error:
                if isinstance(error, trio.Cancelled):
                    raise
                self._error = error
            await trio.sleep_forever()  # the reader takes what is in the channel, then closes

    def next(self) -> tuple[T] | None:
        """The next item; None at the end. Raises the generator's error."""
        self._is_up.wait()
        if self._token is not None:
            with suppress(trio.EndOfChannel):
                return (trio.from_thread.run(self._receive.receive, trio_token=self._token),)
        if self._error is not None:
            raise self._error
        return None

    def close(self) -> None:
        self._is_up.wait()
        if self._token is not None:
            with suppress(trio.RunFinishedError):
                trio.from_thread.run_sync(self._scope.cancel, trio_token=self._token)
        self._thread.join()
