"""Ctrl-C before a command has begun to work: it ends without a word, and with status 130.

Each process is heard as it imports (`-X importtime` says so line by line), and interrupted at
another place; what it asks is taken and never answered, so that it never ends by itself.
"""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support.processes import ROOT

TIMEOUT_SECONDS = 120
LISTENED_TO = re.compile(r"^import time: .*\n", re.MULTILINE)


@pytest.fixture(scope="module")
def silent() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


@contextmanager
def listing(listener: socket.socket, *options: str) -> Iterator[subprocess.Popen[str]]:
    bootstrap = f"127.0.0.1:{listener.getsockname()[1]}"
    command = [sys.executable, *options, "-P", "-m", "pybroker_kafka", "topics", "list"]
    with subprocess.Popen(
        [*command, "--bootstrap-server", bootstrap],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell that runs us in the background would have it ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def check_end(process: subprocess.Popen[str], heard: str) -> None:
    process.send_signal(signal.SIGINT)
    said, more = process.communicate(timeout=TIMEOUT_SECONDS)
    assert process.returncode in (130, -signal.SIGINT)
    assert said == ""
    assert LISTENED_TO.sub("", heard + more) == ""


@pytest.mark.parametrize(
    "module",
    ["pybroker_kafka.cli", "click", "pybroker_kafka.cli.target", "pybroker_kafka.client.cluster"],
)
def test_while_it_imports(silent: socket.socket, module: str) -> None:
    with listing(silent, "-X", "importtime") as process:
        assert process.stderr is not None
        heard = ""
        while not heard.rstrip().endswith(f" {module}"):
            line = process.stderr.readline()
            assert line, heard
            heard += line
        check_end(process, heard)


def test_while_it_waits(silent: socket.socket) -> None:
    silent.settimeout(TIMEOUT_SECONDS)
    with listing(silent) as process, silent.accept()[0]:
        check_end(process, "")
