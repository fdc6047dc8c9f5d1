"""The channel from commands to a running supervisor: a Unix socket in the cluster's data directory.

One request a connection: a line of JSON `{"command": ..., "node": ...}`, answered by a line
`{"done": TEXT}` or `{"error": TEXT}`. `shutdown` is for the whole cluster and names no node. A
supervisor is reached by its socket alone, never by a process id out of a file: that may be another
process's by now. The socket is bound and reached by a name relative to the directory where its path
is longer than Unix allows.

Invariants: the socket is its owner's alone (mode 0600), under any umask. The supervisor waits for
no caller: it reads the bytes that have come, of MAX_CALLERS at once, each for
REQUEST_TIMEOUT_SECONDS; a further caller replaces the oldest. No bytes from a caller raise here,
and every error of a command is its answer. A command that must wait for another one (`Later`) is
executed after it, in the order of arrival; MAX_CALLERS commands wait at most.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from struct import Struct
from types import TracebackType

from .cluster_state import ClusterError

SOCKET_FILE = "cluster.sock"
ADDRESS_MAX_BYTES = 103  # that macOS allows; Linux 107
REQUEST_MAX_BYTES = 4096
SOCKET_MODE = 0o600
MAX_CALLERS = 16
REQUEST_TIMEOUT_SECONDS = 1.0
ANSWER_TIMEOUT_SECONDS = 120.0
CONNECT_PATIENCE_SECONDS = 1.0
POLL_SECONDS = 0.02

_CREDENTIALS = Struct("3i")  # process, user and group


@contextlib.contextmanager
def unix_address(path: Path) -> Iterator[str]:
    """The address to bind or connect to, at once: the path, or if it is too long for Unix, the name
    in its directory, which is the process's working directory meanwhile.
    """
    if len(os.fsencode(path)) <= ADDRESS_MAX_BYTES:
        yield str(path)
        return
    before = os.getcwd()
    os.chdir(path.parent)
    try:
        yield path.name
    finally:
        os.chdir(before)


def listen_privately(path: Path) -> socket.socket:
    """A non-blocking Unix socket that its owner alone may connect to. Raises OSError."""
    listener = socket.socket(socket.AF_UNIX)
    try:
        path.unlink(missing_ok=True)
        with unix_address(path) as address:
            listener.bind(address)
            os.chmod(address, SOCKET_MODE)  # no client can connect before it listens
        listener.listen()
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener


def parsed_request(line: bytes) -> dict[str, object]:
    """A line's JSON object; ValueError for all else, however deep."""
    try:
        request = json.loads(line)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    if not isinstance(request, dict):
        raise ValueError("it is no JSON object")
    return request


class Later(Exception):
    """A command cannot be executed while the present one is in progress."""


class ControlSocket:
    """The supervisor's end. Each selector of the supervisor watches it while it waits
    (`watched_by`); `serve` handles ready sockets.
    """

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self._listener = listen_privately(data_dir / SOCKET_FILE)
        self._callers: dict[socket.socket, _Caller] = {}  # the oldest first
        self._answered: list[socket.socket] = []  # with a command in progress, one inside the other
        self._waiting: deque[tuple[socket.socket, bytes]] = deque()  # the oldest first
        self._selectors: list[selectors.BaseSelector] = []

    def __enter__(self) -> ControlSocket:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for connection in list(self._callers):
            self._drop(connection)
        for connection, _ in self._waiting:
            connection.close()
        self._listener.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._data_dir / SOCKET_FILE)

    def descriptors(self) -> list[int]:
        """The descriptors that a forked node must close."""
        waiting = [connection for connection, _ in self._waiting]
        return [one.fileno() for one in (self._listener, *self._callers, *self._answered, *waiting)]

    @contextlib.contextmanager
    def watched_by(self, selector: selectors.BaseSelector) -> Iterator[None]:
        """The keys' data are this object."""
        for one in (self._listener, *self._callers):
            selector.register(one, selectors.EVENT_READ, self)
        self._selectors.append(selector)
        try:
            yield
        finally:
            self._selectors.remove(selector)
            for one in (self._listener, *self._callers):
                selector.unregister(one)

    def patience(self) -> float | None:
        """Seconds until the first caller is too late, if there is any; closes late ones."""
        now = time.monotonic()
        for connection, caller in list(self._callers.items()):
            if caller.deadline > now:
                return caller.deadline - now
            self._drop(connection)
        return None

    def serve(self, ready: object, execute: Callable[[str, str], str]) -> None:
        """Accept a caller, or read from one. A whole line is executed by `execute` and answered;
        no exception of `execute` passes. A line for which it raises Later waits.
        """
        if ready is self._listener:
            self._accept()
        elif isinstance(ready, socket.socket) and ready in self._callers:
            line = self._received(ready)
            if line is not None:
                self._forget(ready)
                self._execute(ready, line, execute)

    def serve_waiting(self, execute: Callable[[str, str], str]) -> None:
        """Execute and answer what waited for a command that has ended now."""
        for _ in range(len(self._waiting)):
            connection, line = self._waiting.popleft()
            self._execute(connection, line, execute)

    def _execute(
        self, connection: socket.socket, line: bytes, execute: Callable[[str, str], str]
    ) -> None:
        """Execute and answer. No time limit of a caller is running meanwhile; others are served, if
        the command waits for something."""
        self._answered.append(connection)
        try:
            answer = _answer(line, execute)
        except Later:
            if len(self._waiting) < MAX_CALLERS:
                self._waiting.append((connection, line))
                return
            answer = {"error": f"{MAX_CALLERS} commands wait already; try again"}
        finally:
            self._answered.remove(connection)
        with contextlib.suppress(OSError):
            connection.send(json.dumps(answer).encode() + b"\n")
        connection.close()

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except BlockingIOError:
            return  # the connection has been closed again
        except OSError:
            time.sleep(POLL_SECONDS)  # no descriptor is free for it now
            return
        connection.setblocking(False)
        if len(self._callers) >= MAX_CALLERS:
            self._drop(next(iter(self._callers)))
        self._callers[connection] = _Caller(time.monotonic() + REQUEST_TIMEOUT_SECONDS)
        for selector in self._selectors:
            selector.register(connection, selectors.EVENT_READ, self)

    def _received(self, connection: socket.socket) -> bytes | None:
        """A whole line; a caller that sends none is dropped."""
        received = self._callers[connection].received
        try:
            chunk = connection.recv(REQUEST_MAX_BYTES)
        except BlockingIOError:
            return None
        except OSError:
            chunk = b""
        received += chunk
        if received.endswith(b"\n"):
            return bytes(received)
        if not chunk or len(received) > REQUEST_MAX_BYTES:
            self._drop(connection)
        return None

    def _drop(self, connection: socket.socket) -> None:
        self._forget(connection)
        connection.close()

    def _forget(self, connection: socket.socket) -> None:
        del self._callers[connection]
        for selector in self._selectors:
            selector.unregister(connection)


class _Caller:
    __slots__ = ("deadline", "received")

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline
        self.received = bytearray()


def _answer(line: bytes, execute: Callable[[str, str], str]) -> Mapping[str, str]:
    try:
        request = parsed_request(line)
        command, node = request.get("command"), request.get("node")
        if not isinstance(command, str) or not isinstance(node, str):
            raise ValueError('"command" and "node" must be texts')
    except ValueError as error:
        return {"error": f"this is no request: {error}"}
    try:
        return {"done": execute(command, node)}
    except ClusterError as error:
        return {"error": str(error)}
    except Later:
        raise
    except Exception as error:
        return {"error": f"{command} failed: {type(error).__name__}: {error}"}


def _receive_line(connection: socket.socket) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        chunk = connection.recv(REQUEST_MAX_BYTES)
        if not chunk or len(line) > REQUEST_MAX_BYTES:
            raise ValueError("not one line")
        line += chunk
    return line


def _connect(data_dir: Path) -> socket.socket:
    """A supervisor that has just taken the directory opens its socket in a moment."""
    deadline = time.monotonic() + CONNECT_PATIENCE_SECONDS
    while True:
        connection = socket.socket(socket.AF_UNIX)
        try:
            with unix_address(data_dir / SOCKET_FILE) as address:
                connection.connect(address)
        except (ConnectionRefusedError, FileNotFoundError):
            connection.close()
            if time.monotonic() > deadline:
                raise
            time.sleep(POLL_SECONDS)
        except BaseException:
            connection.close()
            raise
        else:
            return connection


def _wake(connection: socket.socket) -> None:
    if sys.platform == "linux":
        peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        os.kill(_CREDENTIALS.unpack(peer)[0], signal.SIGCONT)


def command_node(data_dir: Path, command: str, node: str) -> str:
    """Ask the supervisor on `data_dir`; returns a text about its action. Raises ClusterError.

    A suspended supervisor (Ctrl-Z) is woken, since the socket identifies its process for certain.
    """
    request = json.dumps({"command": command, "node": node}).encode() + b"\n"
    try:
        with _connect(data_dir) as connection:
            _wake(connection)
            connection.settimeout(ANSWER_TIMEOUT_SECONDS)
            connection.sendall(request)
            answer = json.loads(_receive_line(connection))
    except PermissionError:
        raise ClusterError(
            f"permission denied: the cluster on {data_dir} is another user's"
        ) from None
    except (OSError, ValueError) as error:
        raise ClusterError(f"the supervisor on {data_dir} does not answer: {error}") from error
    if "error" in answer:
        raise ClusterError(answer["error"])
    done: str = answer["done"]
    return done
