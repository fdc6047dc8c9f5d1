"""The load generator beside a broker that is slower than the load."""

from __future__ import annotations

import shutil
import socket
import struct
import threading
import time

import pytest

from benchmarks.native import Lines, run_load

REQUEST = struct.pack(">i", 200_000) + bytes(200_000)
ANSWER = struct.pack(">i", 60_000) + bytes(60_000)
REQUESTS = 60
SHORT = struct.pack(">i", 4) + bytes(4)


def serve(listener: socket.socket) -> None:
    """One request after the other; none is received until the answer before it has left."""
    connection, _ = listener.accept()
    with connection, connection.makefile("rb") as requests:
        for _ in range(REQUESTS):
            (size,) = struct.unpack(">i", requests.read(4))
            requests.read(size)
            connection.sendall(ANSWER)


@pytest.mark.skipif(shutil.which("cc") is None, reason="the load generator is in C")
def test_a_full_send_buffer_is_waited_for() -> None:
    """Both sides' buffers are full: who waited for the other to receive would wait for ever."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 * 1024)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16 * 1024)
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        broker = threading.Thread(target=serve, args=(listener,), daemon=True)
        broker.start()
        lines = [Lines(listener.getsockname(), [REQUEST])]
        answered = run_load(lines, rate=REQUESTS / 0.001, warm_up=0.0, seconds=0.001)
        broker.join()
    assert answered.requests == REQUESTS
    assert not answered.unanswered


TICKS = 60_000
PAUSE_SECONDS = 0.09


def note_pauses(listener: socket.socket, pauses: list[float]) -> None:
    """Answers only when all requests are there, so that no answer wakes the load."""
    connection, _ = listener.accept()
    with connection:
        left, last = TICKS * len(SHORT), time.monotonic()
        while left:
            left -= len(connection.recv(1 << 16))
            now = time.monotonic()
            pauses.append(now - last)
            last = now
        connection.sendall(SHORT * TICKS)


@pytest.mark.skipif(shutil.which("cc") is None, reason="the load generator is in C")
def test_no_tick_of_the_timer_is_lost() -> None:
    """The load that took a tick that it had not seen sent nothing for a tenth of a second."""
    pauses: list[float] = []
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        broker = threading.Thread(target=note_pauses, args=(listener, pauses), daemon=True)
        broker.start()
        lines = [Lines(listener.getsockname(), [SHORT])]
        answered = run_load(lines, rate=TICKS / 2.0, warm_up=0.0, seconds=2.0)
        broker.join()
    assert answered.requests == TICKS
    # Some are those of a busy machine; of lost ticks there were twenty in these two seconds.
    assert sum(pause > PAUSE_SECONDS for pause in pauses) < 9
