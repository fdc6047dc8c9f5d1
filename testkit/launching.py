"""The test process's side of the fork server: started once, at the first cluster.

`launch` returns a `Channel`: while it is open the cluster runs, and when it is closed, by us or by
the system, the cluster ends. `run` is for single commands (`commands`). A process that was itself
forked (multiprocessing, xdist's boxed tests) starts a fork server of its own. The fork server is in
a session of its own: Ctrl-C is for the tests, which then stop their clusters in order.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from dataclasses import asdict

from ..local.cluster_state import ClusterError
from .options import ClusterOptions, CommandOptions

# Without the garbage collector until all is imported: objects of imports stay, and a tenth of
# their time would go into scanning them.
PROGRAM = "import gc; gc.disable(); from pybroker_kafka.testkit.fork_server import main; main()"
START_TIMEOUT_SECONDS = 120.0
STOP_TIMEOUT_SECONDS = 60.0
LINE_MAX_BYTES = 1 << 16


class Channel:
    """The owner's end of one cluster's supervisor."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def wait_until_ready(self) -> None:
        """Raises ClusterError, with the supervisor's error."""
        self._connection.settimeout(START_TIMEOUT_SECONDS)
        received = b""
        try:
            while not received.endswith(b"\n") and len(received) < LINE_MAX_BYTES:
                chunk = self._connection.recv(LINE_MAX_BYTES)
                if not chunk:
                    raise ClusterError("the cluster's supervisor died while starting")
                received += chunk
        except TimeoutError:
            raise ClusterError(f"no cluster after {START_TIMEOUT_SECONDS:.0f} s") from None
        message = json.loads(received)
        if "error" in message:
            raise ClusterError(message["error"])

    def close(self) -> None:
        """Stop the cluster, and return when its supervisor is gone."""
        with self._connection:
            with contextlib.suppress(OSError):
                self._connection.shutdown(socket.SHUT_WR)
            self._connection.settimeout(STOP_TIMEOUT_SECONDS)
            with contextlib.suppress(OSError):
                while self._connection.recv(LINE_MAX_BYTES):
                    pass


class Launcher:
    """One fork server, and the lock that lets threads share it."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._lock = threading.Lock()
        self._requests, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", PROGRAM, str(self.pid)],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )

    @property
    def is_alive(self) -> bool:
        """Whether it runs, and belongs to this process, not to a parent that forked this one."""
        return self.pid == os.getpid() and self._process.poll() is None

    def launch(self, options: ClusterOptions) -> Channel:
        """Have a supervisor forked. Raises ClusterError."""
        return Channel(self._fork({"cluster": asdict(options)}))

    def run(self, options: CommandOptions) -> socket.socket:
        """Have a command forked; returns our end of its channel. Raises ClusterError."""
        return self._fork({"command": asdict(options)})

    def carry(self, directory: str) -> Channel:
        """Have the proxy of a network forked, with its controls there. Raises ClusterError."""
        return Channel(self._fork({"network": directory}))

    def _fork(self, request: dict[str, object]) -> socket.socket:
        ours, theirs = socket.socketpair()
        line = json.dumps(request).encode() + b"\n"
        try:
            with theirs, self._lock:
                sent = socket.send_fds(self._requests, [line], [theirs.fileno()])
                self._requests.sendall(line[sent:])
                if not self._requests.recv(1):
                    raise ConnectionError("it has ended")
        except OSError as error:
            ours.close()
            raise ClusterError(f"the fork server of test clusters is gone: {error}") from None
        return ours


_shared: Launcher | None = None
_shared_lock = threading.Lock()


def shared_launcher() -> Launcher:
    """The launcher of this process, which is started with the first call."""
    global _shared
    with _shared_lock:
        if _shared is None or not _shared.is_alive:
            _shared = Launcher()
        return _shared
