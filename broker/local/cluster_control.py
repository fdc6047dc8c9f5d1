"""How commands reach a running supervisor: a Unix socket in the cluster's data directory.

One request a connection: a line of JSON `{"command": ..., "node": ...}`, answered by a line
`{"done": TEXT}` or `{"error": TEXT}`. `shutdown` is for the whole cluster and names no node. A
supervisor is reached by its socket alone, never by a process id out of a file: that may be another
process's by now. Only who may enter the directory may speak to it. The socket
is bound and reached by a name relative to the directory where its path is longer than Unix allows.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from struct import Struct
from types import TracebackType

from .cluster_state import ClusterError

SOCKET_FILE = "cluster.sock"
ADDRESS_MAX_BYTES = 103  # that macOS allows; Linux 107
REQUEST_MAX_BYTES = 4096
REQUEST_TIMEOUT_SECONDS = 1.0
ANSWER_TIMEOUT_SECONDS = 120.0
CONNECT_PATIENCE_SECONDS = 1.0
POLL_SECONDS = 0.02

_CREDENTIALS = Struct("3i")  # process, user and group


@contextlib.contextmanager
def unix_address(path: Path) -> Iterator[str]:
    """What to bind or connect to, at once: the path, or where that is too long for Unix, the name
    in its directory, which is the process's working directory meanwhile."""
    if len(os.fsencode(path)) <= ADDRESS_MAX_BYTES:
        yield str(path)
        return
    before = os.getcwd()
    os.chdir(path.parent)
    try:
        yield path.name
    finally:
        os.chdir(before)


class ControlSocket:
    """The supervisor's end. `serve_one` answers the next request."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self._listener = socket.socket(socket.AF_UNIX)
        path = data_dir / SOCKET_FILE
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
        with unix_address(path) as address:
            self._listener.bind(address)
        self._listener.listen()

    def __enter__(self) -> ControlSocket:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._listener.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._data_dir / SOCKET_FILE)

    def fileno(self) -> int:
        return self._listener.fileno()

    def serve_one(self, obey: Callable[[str, str], str]) -> None:
        """Accept one connection and answer it; a caller that misbehaves is only dropped."""
        connection, _ = self._listener.accept()
        with connection, contextlib.suppress(OSError, ValueError, KeyError):
            connection.settimeout(REQUEST_TIMEOUT_SECONDS)
            request = json.loads(_receive_line(connection))
            try:
                answer = {"done": obey(request["command"], request["node"])}
            except ClusterError as error:
                answer = {"error": str(error)}
            connection.sendall(json.dumps(answer).encode() + b"\n")


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
    """Ask the supervisor on `data_dir`; returns what it did. Raises ClusterError.

    One that is suspended (Ctrl-Z) is woken, since the socket says for certain which process it is.
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
