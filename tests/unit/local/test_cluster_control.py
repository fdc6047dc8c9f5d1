"""The supervisor's socket: what callers send ends nothing and holds nobody up."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import socket
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pybroker_kafka.local.cluster_control import (
    MAX_CALLERS,
    REQUEST_TIMEOUT_SECONDS,
    SOCKET_FILE,
    ControlSocket,
    Later,
    command_node,
)
from pybroker_kafka.local.cluster_state import ClusterError
from tests.support.patience import until

PATIENCE_SECONDS = 5.0
BAD_LINES = [
    b"[]", b"3", b'"text"', b"null", b"\xff\xfe", b"", b"{}", b"[" * 4000, b'{"a":' * 600,
    b'{"command": [], "node": ""}', b'{"command": "stop", "node": {}}', b'{"command": "stop"}',
    b'{"command": "stop", "node": "1"} {}', b"1" * 4000,
]  # fmt: skip


class Supervising:
    """The loop of a supervisor, in a thread."""

    def __init__(self, control: ControlSocket) -> None:
        self._control = control
        self.obeyed: list[tuple[str, str]] = []
        self.came_too_early = 0
        self.died_of: BaseException | None = None
        self._end_read, self._end_write = os.pipe()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            with selectors.DefaultSelector() as selector, self._control.watched_by(selector):
                selector.register(self._end_read, selectors.EVENT_READ)
                while True:
                    self._control.serve_waiting(self._obey)
                    for key, _ in selector.select(self._control.patience()):
                        if key.data is not self._control:
                            return
                        self._control.serve(key.fileobj, self._obey)
        except BaseException as error:
            self.died_of = error

    def _obey(self, command: str, node: str) -> str:
        self.obeyed.append((command, node))
        if command == "refuse":
            raise ClusterError("it is refused")
        if command == "wait":  # as for a node that starts: others are served meanwhile
            time.sleep(1.2 * REQUEST_TIMEOUT_SECONDS)
            self._control.patience()
        if command == "restart":
            self._wait_for_a_node()
        if command == "break":
            raise KeyError("a defect")
        return f"{command} {node}"

    def _wait_for_a_node(self) -> None:
        """Until `kill` comes; what comes before it is served, but for another restart."""
        with selectors.DefaultSelector() as selector, self._control.watched_by(selector):
            while ("kill", "") not in self.obeyed:
                for key, _ in selector.select(self._control.patience()):
                    self._control.serve(key.fileobj, self._obey_meanwhile)

    def _obey_meanwhile(self, command: str, node: str) -> str:
        if command == "restart":
            self.came_too_early += 1
            raise Later
        return self._obey(command, node)

    def end(self) -> None:
        os.write(self._end_write, b"x")
        self._thread.join(PATIENCE_SECONDS)
        os.close(self._end_read)
        os.close(self._end_write)
        assert self.died_of is None


@pytest.fixture
def supervising(tmp_path: Path) -> Iterator[Supervising]:
    with ControlSocket(tmp_path) as control:
        found = Supervising(control)
        yield found
        found.end()


@contextlib.contextmanager
def caller(directory: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(PATIENCE_SECONDS)
        connection.connect(str(directory / SOCKET_FILE))
        yield connection


def test_a_command_and_its_answer(supervising: Supervising, tmp_path: Path) -> None:
    assert command_node(tmp_path, "stop", "1") == "stop 1"
    with pytest.raises(ClusterError, match="it is refused"):
        command_node(tmp_path, "refuse", "")
    assert supervising.obeyed == [("stop", "1"), ("refuse", "")]


@pytest.mark.parametrize("line", BAD_LINES)
def test_what_is_no_request_is_answered_and_ends_nothing(
    supervising: Supervising, tmp_path: Path, line: bytes
) -> None:
    with caller(tmp_path) as connection:
        connection.sendall(line + b"\n")
        assert "this is no request" in json.loads(connection.recv(4096))["error"]
    assert command_node(tmp_path, "stop", "1") == "stop 1"
    assert supervising.obeyed == [("stop", "1")]


def test_a_command_that_fails_for_a_reason_of_ours(
    supervising: Supervising, tmp_path: Path
) -> None:
    with pytest.raises(ClusterError, match="break failed: KeyError"):
        command_node(tmp_path, "break", "")
    assert command_node(tmp_path, "stop", "1") == "stop 1"


def test_a_line_too_long(supervising: Supervising, tmp_path: Path) -> None:
    with caller(tmp_path) as connection:
        with contextlib.suppress(OSError):
            for _ in range(100):
                connection.sendall(b"x" * 4096)
        with contextlib.suppress(ConnectionError):
            assert connection.recv(1) == b""
    assert command_node(tmp_path, "stop", "1") == "stop 1"


def test_a_slow_caller_holds_nobody_up_and_is_dropped(
    supervising: Supervising, tmp_path: Path
) -> None:
    with caller(tmp_path) as slow:
        began = time.monotonic()
        slow.sendall(b"{")
        assert command_node(tmp_path, "stop", "1") == "stop 1"
        assert time.monotonic() - began < REQUEST_TIMEOUT_SECONDS, "it waited for the other caller"
        with contextlib.suppress(OSError):
            while time.monotonic() - began < PATIENCE_SECONDS:
                time.sleep(0.1)
                slow.sendall(b" ")
        assert time.monotonic() - began < PATIENCE_SECONDS, "a byte at a time kept it"


def test_more_callers_than_there_is_room_for(supervising: Supervising, tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        callers = [stack.enter_context(caller(tmp_path)) for _ in range(MAX_CALLERS + 3)]
        assert command_node(tmp_path, "stop", "1") == "stop 1"
        assert callers[0].recv(1) == b""


def test_a_caller_that_does_not_wait_for_its_answer(
    supervising: Supervising, tmp_path: Path
) -> None:
    with caller(tmp_path) as connection:
        connection.sendall(b'{"command": "stop", "node": "2"}\n')
    assert command_node(tmp_path, "stop", "1") == "stop 1"


@pytest.mark.parametrize("umask", [0, 0o777])
def test_it_is_its_owners_alone_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        with ControlSocket(tmp_path):
            mode = (tmp_path / SOCKET_FILE).stat().st_mode
    finally:
        os.umask(before)
    assert stat.S_IMODE(mode) == 0o600


def test_a_command_that_takes_longer_than_a_caller_may_is_answered(
    tmp_path: Path, supervising: Supervising
) -> None:
    assert command_node(tmp_path, "wait", "3") == "wait 3"
    assert command_node(tmp_path, "kill", "3") == "kill 3"
    assert supervising.died_of is None


def test_commands_wait_for_the_one_in_progress_in_the_order_in_which_they_came(
    supervising: Supervising, tmp_path: Path
) -> None:
    answers: dict[str, str] = {}

    def ask(node: str) -> None:
        try:
            answers[node] = command_node(tmp_path, "restart", node)
        except ClusterError as error:
            answers[node] = str(error)

    callers = []
    for number in range(MAX_CALLERS + 2):
        callers.append(threading.Thread(target=ask, args=[str(number)]))
        callers[-1].start()
        until(lambda: len(supervising.obeyed) + supervising.came_too_early == len(callers))
    callers[-1].join()
    assert answers == {str(MAX_CALLERS + 1): f"{MAX_CALLERS} commands wait already; try again"}
    assert command_node(tmp_path, "pause", "2") == "pause 2", (
        "what waits for nothing waits for none"
    )
    assert command_node(tmp_path, "kill", "") == "kill "
    for caller in callers:
        caller.join()
    executed = [str(number) for number in range(MAX_CALLERS + 1)]
    assert [node for command, node in supervising.obeyed if command == "restart"] == executed
    assert all(answers[node] == f"restart {node}" for node in executed)
