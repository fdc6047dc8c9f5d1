"""The cable of a private test net: frames between network namespaces, lost and delayed on demand.

Job: a process with one TAP device for each place of a net. It carries Ethernet frames between them,
as a switch does; the kernels at both ends speak their own TCP. A rule of a direction (from one
place to another) says which share of its frames is lost and how long the others take. A line on
its standard input replaces the rules (`Rules`), and is answered with what was carried and lost.
Invariants: a place's MAC address ends with its number; a frame that a full device does not take is
lost, as on a real cable; frames of a direction keep their order while its delay does.
Why not netem and iptables: not each kernel has them (that of many a CI machine has no netem), and
this needs nothing but /dev/net/tun.
"""

from __future__ import annotations

import fcntl
import heapq
import itertools
import json
import os
import random
import selectors
import struct
import sys
import time
from typing import NamedTuple

MTU_BYTES = 16_000
FRAME_BYTES = MTU_BYTES + 14
FRAMES_AT_ONCE = 64  # of one place, before the others have their turn
MAX_DELAYED_FRAMES = 100_000
TUNSETIFF = 0x400454CA
IFF_TAP, IFF_NO_PI = 0x0002, 0x1000
MULTICAST = 1


class Rule(NamedTuple):
    """What happens to frames from `source` to `target`."""

    source: int
    target: int
    loss: float  # the share that is lost, 1.0 for a cut
    delay_ms: float


def open_tap(name: str) -> int:
    """A new TAP device; it is there as long as its descriptor."""
    descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    flags = struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI)
    fcntl.ioctl(descriptor, TUNSETIFF, flags)
    return descriptor


class Switch:
    def __init__(self, taps: dict[int, str], seed: int) -> None:
        """`taps`: name of its device by place."""
        self._ports = {place: open_tap(name) for place, name in taps.items()}
        self._rules: dict[tuple[int, int], Rule] = {}
        self._random = random.Random(seed)
        self._delayed: list[tuple[float, int, int, bytes]] = []
        self._numbers = itertools.count()
        self.carried = 0
        self.lost = 0

    def serve(self) -> None:
        """Until standard input ends."""
        with selectors.DefaultSelector() as selector:
            for place, port in self._ports.items():
                selector.register(port, selectors.EVENT_READ, place)
            selector.register(0, selectors.EVENT_READ, None)
            print("switched on", flush=True)
            while True:
                for key, _ in selector.select(self._patience()):
                    if key.data is not None:
                        self._receive(key.data)
                    elif not self._obey():
                        return
                self._send_due()

    def _obey(self) -> bool:
        line = sys.stdin.buffer.readline()
        if not line:
            return False
        rules = [Rule(*one) for one in json.loads(line)]
        self._rules = {(rule.source, rule.target): rule for rule in rules}
        print(json.dumps([self.carried, self.lost]), flush=True)
        return True

    def _receive(self, source: int) -> None:
        port = self._ports[source]
        for _ in range(FRAMES_AT_ONCE):
            try:
                frame = os.read(port, FRAME_BYTES)
            except BlockingIOError:
                return
            if frame[0] & MULTICAST:
                for target in self._ports:
                    if target != source:
                        self._carry(source, target, frame)
            elif frame[5] in self._ports:
                self._carry(source, frame[5], frame)

    def _carry(self, source: int, target: int, frame: bytes) -> None:
        rule = self._rules.get((source, target))
        if rule is None:
            self._send(target, frame)
        elif self._random.random() < rule.loss or len(self._delayed) >= MAX_DELAYED_FRAMES:
            self.lost += 1
        elif rule.delay_ms:
            due = time.monotonic() + rule.delay_ms / 1000
            heapq.heappush(self._delayed, (due, next(self._numbers), target, frame))
        else:
            self._send(target, frame)

    def _send(self, target: int, frame: bytes) -> None:
        try:
            os.write(self._ports[target], frame)
            self.carried += 1
        except OSError:  # its queue is full, or the device is down
            self.lost += 1

    def _patience(self) -> float | None:
        return max(0.0, self._delayed[0][0] - time.monotonic()) if self._delayed else None

    def _send_due(self) -> None:
        now = time.monotonic()
        while self._delayed and self._delayed[0][0] <= now:
            _, _, target, frame = heapq.heappop(self._delayed)
            self._send(target, frame)


if __name__ == "__main__":
    settings = json.loads(sys.stdin.buffer.readline())
    Switch({int(place): name for place, name in settings["taps"].items()}, settings["seed"]).serve()
