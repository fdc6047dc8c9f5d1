"""Requests that were valid once, with something changed: millions of them, as fast as they go.

Job: `corpus` has valid frames of every API and version: recorded from four clients and written by
Apache Kafka's own classes (tests/golden), and requests about a topic that exists. `mutated` changes
one: bytes, lengths, counts, order, end. `Attack` sends them over several connections, waits for an
answer or for the end of the connection, but not long.
Invariants: a seed gives the same frames; the frames of controllers stay stale ones, or the broker
would do as they say.

By hand: python -m tests.abuse.mutations --count 1000000 --seed 1
It prints a line for each window of frames with what the good client beside it saw, and ends with 1
if the broker died, logged a traceback or let the good client wait for more than 100 ms.
"""

from __future__ import annotations

import argparse
import json
import random
import selectors
import socket
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from pybroker_kafka.protocol import codec
from pybroker_kafka.protocol.api import API_TABLE, ApiKey
from pybroker_kafka.protocol.framing import encode_request_header
from tests.abuse.beside import TABLE, Bystander, Row, bystander, format_table
from tests.abuse.largest import PARTITIONS, largest_requests
from tests.support.kafka_classes import OF_4, OF_39, recorded
from tests.support.wire import Topic, WireClient
from tests.wire.test_advertised import SERVED

GOLDEN = Path(__file__).resolve().parent.parent / "golden"
CLIENTS = ("aiokafka", "confluent-kafka", "kafka-clients", "kafka-python")
WINDOW = 5_000  # frames between two looks at the good client
LONGEST_WAIT_MS = 100.0
CONNECTIONS = 16
# Some requests are answered much later, or never (acks=0): they are not waited for.
PATIENCE_SECONDS = 0.03
READ_BYTES = 1 << 16
CONNECT_SECONDS = 120.0
SMALL_BYTES = 3_000  # of the requests that we make ourselves
CLIENT_ID = "mutant"

# Where a body may be changed: behind the epochs of controllers and the ids of brokers.
UNTOUCHED_BYTES = {
    ApiKey.LEADER_AND_ISR: 17,
    ApiKey.STOP_REPLICA: 17,
    ApiKey.UPDATE_METADATA: 17,
    ApiKey.CONTROLLED_SHUTDOWN: 12,
    ApiKey.ALTER_PARTITION: 12,
    ApiKey.ALLOCATE_PRODUCER_IDS: 12,
}
EXTREMES = (
    b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\x00\x00\x00", b"\xff\xff\xff\xff\x07",
    b"\x7f\xff", b"\xff\xff", b"\x80\x00", b"\x00\x00\x00\x00", b"\xff\xff\xff\xff\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff\xff\xff\xff\xff",
)  # fmt: skip


class Seed:
    """A valid request: its header, and the body that may be changed from `start` on."""

    def __init__(self, key: ApiKey, version: int, body: bytes) -> None:
        self.header = encode_request_header(key, version, 7, CLIENT_ID)
        self.body = body
        self.start = min(UNTOUCHED_BYTES.get(key, 0), len(body))


def corpus(topic: Topic, newest: Mapping[ApiKey, int] = SERVED) -> list[Seed]:
    """Of the APIs and versions that the broker serves."""
    found = []
    for client in CLIENTS:
        for record in json.loads((GOLDEN / f"{client}.json").read_text())["frames"]:
            frame = bytes.fromhex(record["frame"])
            key, version = int.from_bytes(frame[:2], "big"), int.from_bytes(frame[2:4], "big")
            length = max(0, int.from_bytes(frame[8:10], "big", signed=True))
            tags = API_TABLE[ApiKey(key)].is_flexible(version)
            if version <= newest.get(ApiKey(key), -1):
                found.append(Seed(ApiKey(key), version, frame[10 + length + tags :]))
    by_name = {API_TABLE[key].name + "Request": key for key in newest}
    for record in (*recorded(OF_39), *recorded(OF_4)):
        named = by_name.get(record["message"])
        trusted = named in UNTOUCHED_BYTES
        if named is not None and record["version"] <= newest[named] and not trusted:
            found.append(Seed(named, record["version"], bytes.fromhex(record["bytes"])))
    for key, last in newest.items():
        for version in range(API_TABLE[key].min_version, last + 1):
            found += [
                Seed(key, version, codec.encode(message, version))
                for message in largest_requests(key, version, topic.name, topic.id, SMALL_BYTES)
            ]
    return found


def mutated(seeds: list[Seed], rng: random.Random) -> bytes:
    seed = rng.choice(seeds)
    body = bytearray(seed.body[seed.start :])
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        _change(body, seeds, rng)
    frame = seed.header + seed.body[: seed.start] + bytes(body)
    return len(frame).to_bytes(4, "big") + frame


def _change(body: bytearray, seeds: list[Seed], rng: random.Random) -> None:
    at = rng.randrange(len(body) + 1)
    kind = rng.randrange(7)
    if kind == 0 and body:
        body[at % len(body)] = rng.randrange(256)
    elif kind == 1 and body:
        body[at % len(body)] ^= 1 << rng.randrange(8)
    elif kind == 2:
        extreme = rng.choice(EXTREMES)
        body[at : at + len(extreme)] = extreme
    elif kind == 3:
        del body[at:]
    elif kind == 4:
        del body[at : at + rng.randint(1, 16)]
    elif kind == 5:
        body[at:at] = body[at : at + rng.randint(1, 64)] * rng.randint(1, 4)
    else:
        other = rng.choice(seeds).body
        begin = rng.randrange(len(other) + 1)
        body[at:at] = other[begin : begin + rng.randint(1, 64)]


class _Slot:
    """A connection with one request under way."""

    def __init__(self) -> None:
        self.socket: socket.socket | None = None
        self.sent_at = 0.0
        self.received = bytearray()

    def is_answered(self) -> bool:
        data = self.received
        return len(data) >= 4 and len(data) >= 4 + int.from_bytes(data[:4], "big")


class Attack:
    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._address = (host, int(port))
        self._selector = selectors.DefaultSelector()
        self._slots = [_Slot() for _ in range(CONNECTIONS)]
        self.answered = self.closed = self.left = 0

    def run(self, frames: Iterable[bytes]) -> None:
        """Send all; each is answered, ends its connection, or is left after a while."""
        waiting = iter(frames)
        free = list(self._slots)
        busy: set[_Slot] = set()
        is_over = False
        while busy or not is_over:
            while free and not is_over:
                frame = next(waiting, None)
                if frame is None:
                    is_over = True
                    break
                slot = free.pop()
                self._send(slot, frame)
                busy.add(slot)
            done = [key.data for key, _ in self._selector.select(0.005) if self._read(key.data)]
            now = time.monotonic()
            for slot in busy:
                if now - slot.sent_at > PATIENCE_SECONDS and slot not in done:
                    self.left += 1
                    self._close(slot)
                    done.append(slot)
            busy.difference_update(done)
            free += done

    def _send(self, slot: _Slot, frame: bytes) -> None:
        if slot.socket is None:
            slot.socket = socket.create_connection(self._address, CONNECT_SECONDS)
            slot.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._selector.register(slot.socket, selectors.EVENT_READ, slot)
        slot.received.clear()
        slot.sent_at = time.monotonic()
        slot.socket.sendall(frame)

    def _read(self, slot: _Slot) -> bool:
        """Whether its request is over."""
        assert slot.socket is not None
        try:
            data = slot.socket.recv(READ_BYTES)
        except ConnectionError:
            data = b""
        if not data:
            self.closed += 1
            self._close(slot)
            return True
        slot.received += data
        if slot.is_answered():
            self.answered += 1
            return True
        return False

    def _close(self, slot: _Slot) -> None:
        assert slot.socket is not None
        self._selector.unregister(slot.socket)
        slot.socket.close()
        slot.socket = None

    def close(self) -> None:
        for slot in self._slots:
            if slot.socket is not None:
                self._close(slot)
        self._selector.close()


def is_good(row: Row) -> bool:
    window = row.window
    longest_ms = max(window.acknowledged_max_ms, window.consumed_max_ms)
    if row.is_starved:
        longest_ms = row.longest_hold_ms
    return longest_ms < LONGEST_WAIT_MS and not window.errors and not window.lost


def attack(
    good: Bystander, count: int, seed: int, newest: Mapping[ApiKey, int] = SERVED
) -> Iterator[Row]:
    """Send `count` mutated frames, a window at a time; what the good client saw of each."""
    with WireClient(good.bootstrap) as client:
        seeds = corpus(client.create_topic(PARTITIONS, name="target"), newest)
        client.coordinator("abuse")
        client.coordinator("abuse", 1)
    for first in range(0, count, WINDOW):
        size = min(WINDOW, count - first)

        def send(first: int = first, size: int = size) -> None:
            rng = random.Random(f"{seed}-{first}")
            attacker = Attack(good.bootstrap)
            attacker.run(mutated(seeds, rng) for _ in range(size))
            attacker.close()

        name = f"mutated frames from {first} (seed {seed})"
        yield good.measure(name, send, is_good)
        assert good.broker.is_running, f"seed {seed}, from {first}: {good.broker.log_text[-3000:]}"
        assert good.complaints() == [], f"seed {seed}, from {first}: {good.complaints()[:5]}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    arguments = parser.parse_args()
    bad = 0
    with tempfile.TemporaryDirectory() as directory, bystander(Path(directory)) as good:
        for row in attack(good, arguments.count, arguments.seed):
            bad += not is_good(row)
            print(format_table([row]).splitlines()[-1], "" if is_good(row) else "  TOO LONG",
                  flush=True)  # fmt: skip
    print(f"{arguments.count} frames, {len(TABLE)} windows, {bad} with a wait of more than "
          f"{LONGEST_WAIT_MS:.0f} ms")  # fmt: skip
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
