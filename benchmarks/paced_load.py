"""Single-record produce requests at a fixed rate, with the latency of each.

The load is open: a request is due at its time whatever became of those before it, and its latency
counts from when it was due, so that a broker that stalls cannot hide what waited meanwhile.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from collections import deque
from typing import NamedTuple

RECEIVE_BYTES = 1 << 16
DRAIN_SECONDS = 10.0
_SIZE = struct.Struct(">i").unpack_from


class PacedResult(NamedTuple):
    latencies_ms: list[float]  # sorted
    unanswered: int

    def percentile(self, percent: float) -> float:
        """In ms; a request without an answer is slower than all others."""
        count = len(self.latencies_ms) + self.unanswered
        index = min(count - 1, int(count * percent / 100))
        return self.latencies_ms[index] if index < len(self.latencies_ms) else float("inf")


class _Line:
    """One connection with the due times of its requests that wait for answers."""

    def __init__(self, address: tuple[str, int], frame: bytes) -> None:
        self.sock = socket.create_connection(address)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.frame = frame
        self.waiting: deque[float] = deque()
        self._held = b""

    def take_answers(self) -> int:
        """How many whole answers have come."""
        data = self.sock.recv(RECEIVE_BYTES)
        if not data:
            raise ConnectionError("the broker closed the connection")
        self._held += data
        count = position = 0
        while len(self._held) - position >= 4:
            end = position + 4 + _SIZE(self._held, position)[0]
            if end > len(self._held):
                break
            position = end
            count += 1
        self._held = self._held[position:]
        return count


def run_paced_load(
    frames: list[tuple[tuple[str, int], bytes]], *, rate: float, seconds: float
) -> PacedResult:
    """Send `rate` requests a second, to each (address, frame) in turn, for `seconds`."""
    lines = [_Line(address, frame) for address, frame in frames]
    by_fileno = {line.sock.fileno(): line for line in lines}
    epoll = select.epoll()
    for fileno in by_fileno:
        epoll.register(fileno, select.EPOLLIN)
    latencies: list[float] = []
    total, sent, answered = int(rate * seconds), 0, 0
    started = time.perf_counter()
    deadline = started + seconds + DRAIN_SECONDS
    try:
        while answered < total:
            now = time.perf_counter()
            while sent < total and (due := started + sent / rate) <= now:
                line = lines[sent % len(lines)]
                line.waiting.append(due)
                line.sock.sendall(line.frame)
                sent += 1
            if now > deadline:
                break
            wait = started + sent / rate - now if sent < total else 0.1
            for fileno, _ in epoll.poll(max(0.0, wait)):
                line = by_fileno[fileno]
                now = time.perf_counter()
                for _ in range(line.take_answers()):
                    latencies.append((now - line.waiting.popleft()) * 1000)
                    answered += 1
    finally:
        epoll.close()
        for line in lines:
            line.sock.close()
    return PacedResult(sorted(latencies), total - answered)
