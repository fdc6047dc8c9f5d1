"""How commands reach a running supervisor: a Unix socket in the cluster's data directory.

One request a connection: a line of JSON `{"command": ..., "node": ...}`, answered by a line
`{"done": TEXT}` or `{"error": TEXT}`. Only who may enter the directory may speak to it. The socket
is bound and reached by a name relative to the directory, since Unix limits such paths to 107 bytes.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType

from broker.cluster_state import ClusterError

SOCKET_FILE = "cluster.sock"
REQUEST_MAX_BYTES = 4096
REQUEST_TIMEOUT_SECONDS = 5.0
ANSWER_TIMEOUT_SECONDS = 120.0


@contextlib.contextmanager
def _inside(directory: Path) -> Iterator[None]:
    """The process's working directory, for the length of one bind or connect."""
    before = os.getcwd()
    os.chdir(directory)
    try:
        yield
    finally:
        os.chdir(before)


class ControlSocket:
    """The supervisor's end. `serve_one` answers the next request."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self._listener = socket.socket(socket.AF_UNIX)
        with _inside(data_dir):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(SOCKET_FILE)
            self._listener.bind(SOCKET_FILE)
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


def command_node(data_dir: Path, command: str, node: str) -> str:
    """Ask the supervisor on `data_dir`; returns what it did. Raises ClusterError."""
    request = json.dumps({"command": command, "node": node}).encode() + b"\n"
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            with _inside(data_dir):
                connection.connect(SOCKET_FILE)
            connection.settimeout(ANSWER_TIMEOUT_SECONDS)
            connection.sendall(request)
            answer = json.loads(_receive_line(connection))
    except (OSError, ValueError) as error:
        raise ClusterError(f"the supervisor on {data_dir} does not answer: {error}") from error
    if "error" in answer:
        raise ClusterError(answer["error"])
    done: str = answer["done"]
    return done
