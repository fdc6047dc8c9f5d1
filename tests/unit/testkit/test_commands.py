"""The end of a command of the test kit, asked for by several threads at once."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from pybroker_kafka.testkit.commands import Command

ROUNDS = 300
ASKING = 4
MANY_FILES = 1_100


def command() -> tuple[Command, socket.socket]:
    """A command, and the fork server's end of its channel."""
    made = Command.__new__(Command)
    made.words, made.returncode = ("broker",), None
    made._channel, server = socket.socketpair()
    made._received, made._reading = b"", threading.Lock()
    return made, server


def poll_until_it_has_ended(process: Command) -> int:
    while (status := process.poll()) is None:
        pass
    return status


def test_threads_see_one_end() -> None:
    with ThreadPoolExecutor(2 * ASKING) as pool:
        for _ in range(ROUNDS):
            process, server = command()
            asked = [pool.submit(process.wait) for _ in range(ASKING)]
            asked += [pool.submit(poll_until_it_has_ended, process) for _ in range(ASKING)]
            server.sendall(b'{"exit": -9}\n')
            server.close()
            assert {one.result(10) for one in asked} == {-9}


def test_a_process_with_many_open_files() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 2 * MANY_FILES)), hard))
        for _ in range(MANY_FILES):
            stack.enter_context(open(os.devnull))
        process, server = command()
        stack.callback(process._channel.close)
        assert process._channel.fileno() > MANY_FILES
        server.sendall(b'{"exit": 0}\n')
        server.close()
        assert process.wait(10) == 0


def test_a_wait_has_a_limit() -> None:
    process, server = command()
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.1)
    server.close()
    assert process.wait(10) == -9
