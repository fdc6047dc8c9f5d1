"""Numbered records and who sends and reads them, whatever the client: the books of the fault runs.

Job: a producer notes the offset that each acknowledgement names, a consumer what it read and which
of its commits were acknowledged. Clients are in `tests.support.ledger` and `our_loads`.
Invariants: a record's value is its producer's name and number, its key is number modulo KEYS and
its partition key modulo the number of partitions, so that the order of a key is the order of its
numbers; a book has one writing thread and is read when that thread has ended, or for counts.
"""

from __future__ import annotations

import threading
import time
from collections import Counter

KEYS = 30
DELIVERY_TIMEOUT_MS = 300_000
END_TIMEOUT_SECONDS = 90.0
ROUND_RECORDS = 10
ROUND_SECONDS = 0.1
COMMIT_EVERY_SECONDS = 0.2

Place = tuple[int, int]  # partition, offset


class Worker(threading.Thread):
    """Works until told to end; an error of its client is noted as a crash."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.crash: BaseException | None = None
        self._ending = threading.Event()

    def end(self) -> None:
        self._ending.set()

    def run(self) -> None:
        try:
            self.work()
        except BaseException as error:
            self.crash = error

    def work(self) -> None:
        raise AssertionError


class ProducerLoad(Worker):
    """Sends numbered records at a steady rate until told to end, then waits for its answers.

    `is_ordered`: whether this client keeps the order of a key over retries.
    """

    is_ordered = True

    def __init__(self, name: str, topic: str, partitions: int, *, idempotent: bool) -> None:
        super().__init__(name)
        self.topic = topic
        self.partitions = partitions
        self.idempotent = idempotent
        self.sent = 0
        self.acknowledged: dict[int, Place] = {}
        self.errors: list[str] = []

    def record(self, number: int) -> tuple[bytes, bytes, int]:
        key = number % KEYS
        return b"%d" % key, f"{self.name}:{number}".encode(), key % self.partitions

    def work(self) -> None:
        while not self._ending.wait(ROUND_SECONDS):
            for _ in range(ROUND_RECORDS):
                self.send(self.sent)
                self.sent += 1
            self.serve()
        self.finish()

    def send(self, number: int) -> None:
        raise AssertionError

    def serve(self) -> None:
        """Called between rounds."""

    def finish(self) -> None:
        raise AssertionError

    def drop(self) -> None:
        """Give up what has no answer yet, if anything."""


class ConsumerLoad(Worker):
    """Reads as a group of one, commits what it has read, and notes both."""

    def __init__(self, name: str, topic: str) -> None:
        super().__init__(name)
        self.topic = topic
        self.read: dict[Place, bytes] = {}
        self.changed: list[str] = []
        self.times_read: Counter[Place] = Counter()
        self.positions: dict[int, int] = {}
        # The newest commit that was acknowledged, and all that may have been made since.
        self.committed: dict[int, int] = {}
        self.attempted: dict[int, set[int]] = {}
        self.failed_commits = 0
        self._next_commit = 0.0

    def work(self) -> None:
        while not self._ending.is_set():
            self.poll()
            if offsets := self.begin_commit():
                self.end_commit(offsets, is_good=self.commit(offsets))
        self.close()

    def note(self, partition: int, offset: int, value: bytes) -> None:
        place = (partition, offset)
        if self.read.setdefault(place, value) != value:
            self.changed.append(f"{place}: {self.read[place]!r}, then {value!r}")
        self.times_read[place] += 1
        self.positions[partition] = offset + 1

    def begin_commit(self) -> dict[int, int]:
        """What is to be committed now: partition -> offset; {} if it is not time yet."""
        if time.monotonic() < self._next_commit:
            return {}
        self._next_commit = time.monotonic() + COMMIT_EVERY_SECONDS
        offsets = {p: o for p, o in self.positions.items() if self.committed.get(p) != o}
        for partition, offset in offsets.items():
            self.attempted.setdefault(partition, set()).add(offset)
        return offsets

    def end_commit(self, offsets: dict[int, int], *, is_good: bool) -> None:
        if not is_good:
            self.failed_commits += 1
            return
        self.committed.update(offsets)
        for partition, offset in offsets.items():
            self.attempted[partition] = {offset}

    def poll(self) -> None:
        raise AssertionError

    def commit(self, offsets: dict[int, int]) -> bool:
        raise AssertionError

    def close(self) -> None:
        raise AssertionError

    def stored(self) -> dict[int, int]:
        """What the group coordinator has, asked through a client of its own."""
        raise AssertionError
