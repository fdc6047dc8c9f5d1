"""The news for all connected browsers: Server-Sent Events.

Invariant: a message is made once for all browsers; a browser that does not keep up is disconnected,
and reconnects by itself for the whole state.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

import trio

WAITING_MAX: Final = 256
BROWSERS_MAX: Final = 64
QUIET_SECONDS: Final = 15.0


class TooMany(Exception):
    """BROWSERS_MAX look on already."""


class Live:
    """`first` makes the first message to a new browser."""

    def __init__(self, first: Callable[[], dict[str, Any]]) -> None:
        self._first = first
        self._browsers: set[trio.MemorySendChannel[bytes]] = set()

    def send(self, message: dict[str, Any]) -> None:
        """Send to all browsers, without waiting for any."""
        if not self._browsers:
            return
        line = packed(message)
        for browser in list(self._browsers):
            try:
                browser.send_nowait(line)
            except (trio.WouldBlock, trio.BrokenResourceError):
                self._browsers.discard(browser)
                browser.close()

    def follow(self) -> AsyncIterator[bytes]:
        """Messages from now on, until the browser is disconnected. Raises TooMany."""
        if len(self._browsers) >= BROWSERS_MAX:
            raise TooMany
        return self._follow()

    async def _follow(self) -> AsyncIterator[bytes]:
        send, receive = trio.open_memory_channel[bytes](WAITING_MAX)
        self._browsers.add(send)
        try:
            yield packed(self._first())
            while True:
                line = b": nothing new\n\n"
                with trio.move_on_after(QUIET_SECONDS):
                    try:
                        line = await receive.receive()
                    except trio.EndOfChannel:
                        return
                yield line
        finally:
            self._browsers.discard(send)
            send.close()
            receive.close()


def packed(message: dict[str, Any]) -> bytes:
    """The message as an event; JSON has no line breaks of its own."""
    return b"data: " + json.dumps(message, separators=(",", ":")).encode() + b"\n\n"
