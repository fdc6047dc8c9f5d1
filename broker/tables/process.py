"""The broker's end of the process that writes tables (`pybroker_kafka.tables.worker`).

The process gets the whole of its work in each message, so that its next start needs one alone. It
ends with its standard input.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

import trio

from ..resources.worker_process import start_worker, stop_worker

RECEIVE_BYTES: Final = 1 << 16


class TablesProcess:
    __slots__ = ("_process",)

    def __init__(self) -> None:
        self._process: trio.Process | None = None

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    async def start(self) -> None:
        self._process = await start_worker("pybroker_kafka.tables.worker")

    async def send(self, message: dict[str, Any]) -> None:
        """Raises trio.BrokenResourceError once it has ended."""
        assert self._process is not None
        assert self._process.stdin is not None
        await self._process.stdin.send_all(json.dumps(message).encode() + b"\n")

    async def receive(self, take: Callable[[dict[str, Any]], None]) -> None:
        """Its messages, until it ends."""
        assert self._process is not None
        assert self._process.stdout is not None
        held = b""
        while data := await self._process.stdout.receive_some(RECEIVE_BYTES):
            *lines, held = (held + data).split(b"\n")
            for line in lines:
                take(json.loads(line))

    async def stop(self) -> None:
        """End it; kill it if it does not end."""
        process, self._process = self._process, None
        if process is not None:
            await stop_worker(process)
