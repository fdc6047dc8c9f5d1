"""The sockets of the test kit: what a caller sends ends no process."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from pybroker_kafka.testkit import controls
from pybroker_kafka.testkit.controls import ask_controls, serve_controls
from pybroker_kafka.testkit.launching import PROGRAM

PATIENCE_SECONDS = 60.0  # the fork server imports the broker first, on a busy machine
ACTIONS: dict[str, Callable[..., Any]] = {"add": lambda a, b: a + b, "odd": lambda: object()}
BAD_LINES = [
    b"[]", b"3", b"\xff", b"[" * 20_000, b'{"do": []}', b'{"do": "nothing"}', b"{}",
    b'{"do": "add"}', b'{"do": "odd"}', b'{"do": "add", "a": {}, "b": 1}',
]  # fmt: skip


async def say(path: Path, line: bytes) -> bytes:
    with trio.fail_after(PATIENCE_SECONDS):
        async with await trio.open_unix_socket(path) as stream:
            await stream.send_all(line)
            return await stream.receive_some()


async def add(path: Path) -> int:
    return await trio.to_thread.run_sync(lambda: ask_controls(path, 5.0, do="add", a=1, b=2))


@pytest.mark.parametrize("line", BAD_LINES)
async def test_what_cannot_be_done_is_answered(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "controls.sock"
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_controls, path, ACTIONS)
        await trio.testing.wait_all_tasks_blocked()
        assert "error" in json.loads(await say(path, line + b"\n"))
        assert await add(path) == 3
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        nursery.cancel_scope.cancel()


async def test_slow_callers_make_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controls, "REQUEST_TIMEOUT_SECONDS", 0.2)
    path = tmp_path / "controls.sock"
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_controls, path, ACTIONS)
        await trio.testing.wait_all_tasks_blocked()
        slow = [await trio.open_unix_socket(path) for _ in range(controls.MAX_CALLERS)]
        assert await add(path) == 3
        for stream in slow:
            await stream.aclose()
        nursery.cancel_scope.cancel()


@pytest.fixture
def fork_server() -> Iterator[tuple[socket.socket, subprocess.Popen[bytes]]]:
    ours, theirs = socket.socketpair()
    ours.settimeout(PATIENCE_SECONDS)
    with ours, theirs:
        command = [sys.executable, "-P", "-c", PROGRAM, str(os.getpid())]
        process = subprocess.Popen(command, stdin=theirs.fileno())
        theirs.close()
        yield ours, process
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.wait()


def test_the_fork_server_outlives_a_bad_request(
    fork_server: tuple[socket.socket, subprocess.Popen[bytes]],
) -> None:
    requests, process = fork_server
    for line in (
        b"[]", b'{"unknown": 1}', b'{"cluster": []}', b'{"command": {"words": []}}', b"[" * 20_000,
    ):  # fmt: skip
        channel, theirs = socket.socketpair()
        with channel, theirs:
            channel.settimeout(PATIENCE_SECONDS)
            socket.send_fds(requests, [line + b"\n"], [theirs.fileno()])
            assert requests.recv(1) == b"+"
            assert b"nothing can be forked" in channel.recv(4096)
    requests.sendall(b'{"half a line')
    requests.close()
    assert process.wait(PATIENCE_SECONDS) == 0, "the end within a line is an end"
