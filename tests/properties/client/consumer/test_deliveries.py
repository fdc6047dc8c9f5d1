"""The ledger of ack mode beside a twin: a plain list of records and their states."""

from __future__ import annotations

import random
from typing import Any

import pytest

from pybroker_kafka.client.consumer.deliveries import Delivery, Ledger, RetryPolicy
from pybroker_kafka.client.consumer.received import Received

MAX_UNACKNOWLEDGED = 20
STEPS = 400


class Twin:
    """Of each record: fresh, held, due (and when), or finished; looked through from the start."""

    def __init__(self, policy: RetryPolicy) -> None:
        self.policy = policy
        self.records: list[dict[str, Any]] = []
        self.next_offsets: dict[int, int] = {}

    def unfinished(self) -> list[dict[str, Any]]:
        return [record for record in self.records if record["state"] != "finished"]

    def committable(self) -> dict[tuple[str, int], int]:
        found = dict(self.next_offsets)
        for record in reversed(self.unfinished()):
            found[record["partition"]] = record["offset"]
        return {("t", partition): offset for partition, offset in found.items()}

    def find(self, delivery: Delivery) -> dict[str, Any] | None:
        for record in self.records:
            if record["delivery"] is delivery:
                return record
        return None


@pytest.mark.parametrize("seed", range(40))
def test_any_order_of_acks_and_failures(seed: int) -> None:
    rng = random.Random(seed)
    policy = RetryPolicy(first_seconds=0.01, most_seconds=0.05, max_retries=rng.choice([-1, 0, 2]))
    ledger, twin = Ledger(policy, MAX_UNACKNOWLEDGED, lambda: None), Twin(policy)
    offsets = {0: 0, 1: 1000}
    held: list[Delivery] = []
    now = 0
    for _ in range(STEPS):
        now += rng.randint(0, 10)
        assert ledger.room == MAX_UNACKNOWLEDGED - len(twin.unfinished())
        choice = rng.random()
        if choice < 0.3 and ledger.room:
            partition = rng.choice(list(offsets))
            batch = []
            for _ in range(rng.randint(1, ledger.room)):
                offsets[partition] += rng.choice([1, 1, 5])
                batch.append(Received("t", partition, offsets[partition], now, None, b"v"))
                twin.records.append(
                    {"partition": partition, "offset": offsets[partition], "state": "fresh",
                     "attempts": 0, "due": 0, "order": 0, "delivery": None}
                )  # fmt: skip
            offsets[partition] += rng.choice([1, 3])
            twin.next_offsets[partition] = offsets[partition]
            ledger.add(batch, offsets[partition])
        elif choice < 0.6:
            delivery = ledger.next(now)
            due = [r for r in twin.records if r["state"] == "due" and r["due"] <= now]
            due.sort(key=lambda record: (record["due"], record["order"]))
            fresh = [r for r in twin.records if r["state"] == "fresh"]
            expected = next(iter(due or fresh), None)
            assert (delivery is None) == (expected is None)
            if delivery is not None and expected is not None:
                place = (delivery.record.partition, delivery.record.offset)
                assert place == (expected["partition"], expected["offset"])
                expected["attempts"] = expected["attempts"] + 1
                assert delivery.attempts == expected["attempts"]
                expected.update(state="held", delivery=delivery)
                held.append(delivery)
        elif choice < 0.97 and held:
            delivery = held.pop(rng.randrange(len(held)))
            record = twin.find(delivery)
            if rng.random() < 0.6:
                delivery.ack()
                if record is not None:
                    record["state"] = "finished"
            else:
                goes_on = delivery.fail()
                if record is not None:
                    gives_up = policy.max_retries >= 0 and record["attempts"] > max(
                        policy.max_retries, 0
                    )
                    assert goes_on == (not gives_up)
                    wait = policy.delay_ms(record["attempts"])
                    record.update(state="finished" if gives_up else "due", due=ledger.now_ms + wait)
                    record["order"] = max(r["order"] for r in twin.records) + 1
                else:
                    assert not goes_on
        elif choice >= 0.97:
            gone = rng.choice(list(offsets))
            ledger.drop([("t", gone)])
            twin.records = [r for r in twin.records if r["partition"] != gone]
            twin.next_offsets.pop(gone, None)
        assert ledger.committable() == twin.committable()


def test_settling_twice_is_settling_once() -> None:
    ledger = Ledger(RetryPolicy(), MAX_UNACKNOWLEDGED, lambda: None)
    ledger.add([Received("t", 0, 5, 0, None, None), Received("t", 0, 6, 0, None, None)], 9)
    first, second = ledger.next(0), ledger.next(0)
    assert first is not None
    assert second is not None
    second.ack()
    assert ledger.committable() == {("t", 0): 5}
    second.fail()
    first.ack()
    first.ack()
    assert ledger.committable() == {("t", 0): 9}
    assert ledger.room == MAX_UNACKNOWLEDGED
