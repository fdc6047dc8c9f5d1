"""The broker's end of one cleaner process: starts it when a log is due, sends it plans, asks it to
abort, and ends it after an idle while to free its memory.

`clean` talks with the other end (`worker`) until the plan is done; any other end of the talk ends
the process too, so that no answer to an old plan can be taken for an answer to a new plan.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import trio

from ...storage.cleaner.plan import CleanedGroup, CleaningPlan, CleaningStats
from ..resources.worker_process import start_worker, stop_worker

RECEIVE_BYTES = 1 << 16


class CleaningFailed(Exception):
    """The worker could not clean this log."""

    def __init__(self, reason: str, *, is_io: bool) -> None:
        super().__init__(reason)
        self.is_io = is_io


class WorkerStopped(Exception):
    """The worker stopped on request."""


class WorkerDied(Exception):
    """The process ended before it had answered."""


class CleanerProcess:
    __slots__ = ("_held", "_process", "_rate", "_sending")

    def __init__(self) -> None:
        self._process: trio.Process | None = None
        self._held = b""
        self._rate: float | None = None
        self._sending = trio.Lock()

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    async def clean(
        self, plan: CleaningPlan, rate: float | None, take_group: Callable[[CleanedGroup], None]
    ) -> tuple[int, CleaningStats]:
        """Have a log cleaned; returns up to which offset. `take_group` gets each new segment."""
        is_answered = False
        try:
            await self._start()
            self._rate = rate
            for piece in plan.producers:
                if piece:
                    await self._send({"producers": piece})
                else:
                    await trio.lowlevel.checkpoint()
            await self._send({"clean": plan.to_json(), "rate": rate})
            while True:
                message = await self._receive()
                if "group" in message:
                    take_group(CleanedGroup(**message["group"]))
                    continue
                is_answered = True
                if "done" in message:
                    return message["done"], CleaningStats(**message["stats"])
                if "aborted" in message:
                    raise WorkerStopped
                raise CleaningFailed(message["failed"], is_io=message["io"])
        finally:
            if not is_answered:
                await self.stop()

    async def set_rate(self, rate: float | None) -> None:
        """Bytes a second that the worker may read and write; None for no limit."""
        if self._process is not None and rate != self._rate:
            self._rate = rate
            await self._send({"rate": rate})

    async def abort(self) -> None:
        """End the cleaning that is under way."""
        if self._process is not None:
            await self._send({"abort": True})

    async def stop(self) -> None:
        """End the process; kill it if it does not end."""
        process, self._process = self._process, None
        self._held = b""
        if process is not None:
            await stop_worker(process)

    async def _start(self) -> None:
        if self._process is not None and self._process.poll() is not None:
            await self.stop()  # it died while it was idle
        if self._process is None:
            self._process = await start_worker("pybroker_kafka.broker.cleaner.worker")

    async def _send(self, message: dict[str, Any]) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            async with self._sending:
                await self._process.stdin.send_all(json.dumps(message).encode() + b"\n")
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise WorkerDied from None

    async def _receive(self) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdout is not None
        while b"\n" not in self._held:
            data = await self._process.stdout.receive_some(RECEIVE_BYTES)
            if not data:
                raise WorkerDied
            self._held += data
        line, self._held = self._held.split(b"\n", 1)
        message: dict[str, Any] = json.loads(line)
        return message
