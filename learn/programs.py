"""The blocks of a chapter, run as the reader would run them: each is a process of its own.

A block of sh runs in a shell that finds our own `pybroker` first; a block of python in the
interpreter of the course. Both find the course's cluster in `PYBROKER_DATA_DIR` and
`PYBROKER_BOOTSTRAP`, and where a block has Kafka's or ZooKeeper's usual address, the cluster's own
is put. A program in the background has its process id in a variable for the blocks that follow.

Invariants: only blocks of our own pages are run; a block that takes RUN_SECONDS is ended; at the
end of `opened` no program of it runs. Each program leads a process group, which is ended as a
whole.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

import trio

from .chapter import Run

RUN_SECONDS: Final = 180.0
FIRST_LINE_SECONDS: Final = 30.0  # of a program in the background
END_SECONDS: Final = 3.0
OUTPUT_MAX_CHARACTERS: Final = 8000
PIECE_BYTES: Final = 4096
USUAL_BROKER: Final = "127.0.0.1:9092"
USUAL_ZOOKEEPER: Final = "127.0.0.1:2181"
_PACKAGE: Final = __name__.partition(".")[0]
_PLACEHOLDER: Final = re.compile(r"\{([a-z][a-z-]*(?: [\w./-]+)*)\}")


class Place(NamedTuple):
    """The addresses of the course's cluster."""

    bootstrap: str
    zookeeper: str
    data_dir: Path


class Ran(NamedTuple):
    """The end of a block; what it printed, with errors."""

    is_well: bool
    output: str


@dataclass
class _Background:
    process: trio.Process
    has_spoken: trio.Event = field(default_factory=trio.Event)


def placeholders(block: Run) -> list[str]:
    """The facts whose present values stand in a block of sh, as in `pybroker kill {controller}`."""
    return _PLACEHOLDER.findall(block.code) if block.language == "sh" else []


def prepared(block: Run, place: Place, facts: Mapping[str, str]) -> str:
    """The code as it is shown and run: with this cluster's addresses and facts."""
    code = block.code.replace(USUAL_BROKER, place.bootstrap)
    code = code.replace(USUAL_ZOOKEEPER, place.zookeeper)
    if block.language != "sh":
        return code
    return _PLACEHOLDER.sub(lambda one: facts.get(one[1], one[0]), code)


@contextlib.asynccontextmanager
async def opened(place: Place) -> AsyncIterator[Programs]:
    """Programs for a cluster; those in the background end with the block."""
    with tempfile.TemporaryDirectory(prefix="learn-") as folder:
        _write_command(Path(folder, "pybroker"))
        async with trio.open_nursery() as nursery:
            programs = Programs(place, folder, nursery)
            try:
                yield programs
            finally:
                with trio.CancelScope(shield=True):
                    await programs.end()
                nursery.cancel_scope.cancel()


def _write_command(path: Path) -> None:
    path.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -P -m {_PACKAGE} "$@"\n')
    path.chmod(0o700)


class Programs:
    """Made by `opened`."""

    def __init__(self, place: Place, folder: str, nursery: trio.Nursery) -> None:
        self._place = place
        self._nursery = nursery
        self._background: dict[str, _Background] = {}
        self._said: list[str] = []  # by programs in the background, since the last block
        self._environment = {
            **os.environ,
            "PATH": f"{folder}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
            "PYBROKER_DATA_DIR": str(place.data_dir),
            "PYBROKER_BOOTSTRAP": place.bootstrap,
            "PYTHONUNBUFFERED": "1",
        }
        self._environment.pop("PYBROKER_PROFILE", None)

    async def run(self, block: Run, code: str) -> Ran:
        """Run a block to its end, or start a program in the background."""
        if block.background:
            return await self._start(block, code)
        process = await self._open(block.language, code)
        output = bytearray()
        with trio.move_on_after(RUN_SECONDS) as scope:
            try:
                await _read(process, output.extend)
                await process.wait()
            finally:
                await _end(process, signal.SIGKILL)
        text = output.decode(errors="replace")
        if scope.cancelled_caught:
            return Ran(False, f"{text}ended after {RUN_SECONDS:.0f} s\n")
        return Ran(process.returncode == 0, _short(text) + self.news())

    def news(self) -> str:
        """The lines of programs in the background since this was asked last."""
        said, self._said = self._said, []
        return "".join(said)

    async def end(self) -> None:
        """End all programs in the background."""
        for one in self._background.values():
            await _end(one.process, signal.SIGTERM)
        self._background.clear()
        self._said.clear()

    async def _start(self, block: Run, code: str) -> Ran:
        before = self._background.get(block.background)
        if before is not None:
            await _end(before.process, signal.SIGTERM)
        process = await self._open(block.language, code)
        found = _Background(process)
        self._background[block.background] = found
        self._environment[block.background] = str(process.pid)
        self._nursery.start_soon(self._listen, block.background, found)
        with trio.move_on_after(FIRST_LINE_SECONDS):
            await found.has_spoken.wait()
        return Ran(found.process.poll() is None, self.news())

    async def _listen(self, name: str, found: _Background) -> None:
        rest = bytearray()

        def take(piece: bytes) -> None:
            rest.extend(piece)
            end = rest.rfind(b"\n") + 1
            for line in rest[:end].decode(errors="replace").splitlines():
                self._said.append(f"{name}: {line}\n")
                found.has_spoken.set()
            del rest[:end]

        await _read(found.process, take)
        await found.process.wait()
        found.has_spoken.set()

    async def _open(self, language: str, code: str) -> trio.Process:
        command = (
            [sys.executable, "-P", "-c", code]
            if language == "python"
            else ["/bin/sh", "-e", "-c", code]
        )
        return await trio.lowlevel.open_process(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=self._environment,
            start_new_session=True,
        )


async def _read(process: trio.Process, take: Callable[[bytes], None]) -> None:
    stream = process.stdout
    assert stream is not None
    while piece := await stream.receive_some(PIECE_BYTES):
        take(bytes(piece))


async def _end(process: trio.Process, number: signal.Signals) -> None:
    """End a program and what it has started; nothing for one that has ended."""
    if process.poll() is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)
    with trio.move_on_after(END_SECONDS, shield=True) as scope:
        await process.wait()
    if scope.cancelled_caught:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with trio.CancelScope(shield=True):
            await process.wait()


def _short(text: str) -> str:
    if len(text) <= OUTPUT_MAX_CHARACTERS:
        return text
    return f"{text[: OUTPUT_MAX_CHARACTERS // 2]}\n...\n{text[-OUTPUT_MAX_CHARACTERS // 2 :]}"
