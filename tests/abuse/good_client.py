"""A well-behaved producer and consumer in a process of their own, measured while others misbehave.

Job: confluent-kafka with acks=all, the settings by which it comes to the broker (JSON, its first
argument) and everything else at its defaults sends records at a steady
rate and reads them back as a member of a group. `begin` and `end NAME` on the standard input cut
out a window; its answer is one line of JSON: how many records were sent in it, how long their
acknowledgement and their way to the consumer took, errors and losses.
Invariants: a record counts as lost only SETTLE_SECONDS after the end of its window; a record that
is still on its way then is lost, whatever happens later. All times are the machine's monotonic
clock. The process has no other work, so that its own interpreter does not colour the figures.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from confluent_kafka import Consumer, Message, Producer

from tests.support.consumed import value_of

SETTLE_SECONDS = 60.0
SETTLE_POLL_SECONDS = 0.005
MAX_ERRORS_TOLD = 5


class Window(NamedTuple):
    """What a window of time was like for a good client; milliseconds."""

    sent: int
    lost: int
    errors: list[str]
    acknowledged_p50_ms: float
    acknowledged_p99_ms: float
    acknowledged_max_ms: float
    consumed_p99_ms: float
    consumed_max_ms: float


class GoodClient:
    def __init__(self, comes_by: Mapping[str, Any], topic: str, rate: float) -> None:
        self.topic = topic
        self.period = 1 / rate
        self.sent: list[float] = []  # by number, when
        self.acknowledged: dict[int, float] = {}
        self.consumed: dict[int, float] = {}
        self.errors: list[tuple[float, str]] = []
        self.is_reading = threading.Event()
        common = {
            **comes_by,
            "error_cb": lambda error: self.note(f"client: {error}"),
        }
        # librdkafka's own waiting for more records is no latency of the broker.
        self.producer = Producer({**common, "acks": "all", "linger.ms": 0})
        self.consumer = Consumer(
            {**common, "group.id": f"good-{os.getpid()}", "auto.offset.reset": "earliest"}
        )

    def note(self, problem: str) -> None:
        self.errors.append((time.monotonic(), problem))

    def produce(self) -> None:
        """Send for ever, as evenly as the machine lets us."""
        due = time.monotonic()
        while True:
            number = len(self.sent)
            self.sent.append(time.monotonic())
            self.producer.produce(self.topic, b"%d" % number, on_delivery=self.delivered)
            due += self.period
            while True:
                left = due - time.monotonic()
                self.producer.poll(max(0.0, left))
                if left <= 0:
                    break

    def delivered(self, error: Any, message: Message) -> None:
        number = int(value_of(message))
        if error is not None:
            self.note(f"record {number}: {error}")
        else:
            self.acknowledged[number] = time.monotonic()

    def consume(self) -> None:
        self.consumer.subscribe([self.topic])
        while True:
            message = self.consumer.poll(1.0)
            if message is None:
                continue
            if message.error():
                self.note(f"consumer: {message.error()}")
                continue
            self.consumed.setdefault(int(value_of(message)), time.monotonic())
            self.is_reading.set()

    def measure(self, begin: float, end: float) -> Window:
        numbers = [n for n, at in enumerate(self.sent) if begin <= at < end]
        give_up = time.monotonic() + SETTLE_SECONDS
        while time.monotonic() < give_up and not all(
            n in self.acknowledged and n in self.consumed for n in numbers
        ):
            time.sleep(SETTLE_POLL_SECONDS)
        acknowledged = sorted(
            (self.acknowledged[n] - self.sent[n]) * 1000 for n in numbers if n in self.acknowledged
        )
        consumed = sorted(
            (self.consumed[n] - self.sent[n]) * 1000 for n in numbers if n in self.consumed
        )
        errors = [text for at, text in self.errors if begin <= at]
        return Window(
            len(numbers),
            len(numbers) - min(len(acknowledged), len(consumed)),
            errors[:MAX_ERRORS_TOLD],
            percentile(acknowledged, 0.50),
            percentile(acknowledged, 0.99),
            percentile(acknowledged, 1.0),
            percentile(consumed, 0.99),
            percentile(consumed, 1.0),
        )


def percentile(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0


def main(comes_by: str, topic: str, rate: str) -> None:
    client = GoodClient(json.loads(comes_by), topic, float(rate))
    for work in (client.produce, client.consume):
        threading.Thread(target=work, daemon=True).start()
    client.is_reading.wait()
    print(json.dumps("ready"), flush=True)
    begin = time.monotonic()
    for line in sys.stdin:
        if line.strip() == "begin":
            begin = time.monotonic()
        else:
            print(json.dumps(client.measure(begin, time.monotonic())), flush=True)
    os._exit(0)  # librdkafka's threads would be waited for


if __name__ == "__main__":
    main(*sys.argv[1:])
