"""Rates, buckets and precedence of quotas against twins that are written out step by step."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from pybroker_kafka.broker.quotas.entities import Entity
from pybroker_kafka.broker.quotas.limits import Limits, bucket_of
from pybroker_kafka.broker.quotas.rates import LimitedRate, TokenBucket

steps = st.lists(
    st.tuples(st.integers(0, 4_000), st.integers(-50, 1_000), st.booleans()), max_size=60
)


class RingTwin:
    """A ring of samples, all of which are looked at each time."""

    def __init__(self, samples: int, window_ms: int) -> None:
        self.samples, self.window_ms = samples, window_ms
        self.ring: list[dict[str, float]] = []
        self.current = 0

    def record(self, value: float, now: float) -> None:
        if not self.ring:
            self.ring.append({"start": now, "last": now, "value": 0.0})
        if now - self.ring[self.current]["start"] >= self.window_ms:
            self.current = (self.current + 1) % (self.samples + 1)
            fresh = {"start": now, "last": now, "value": 0.0}
            if self.current >= len(self.ring):
                self.ring.append(fresh)
            else:
                self.ring[self.current] = fresh
        self.ring[self.current]["value"] += value
        self.ring[self.current]["last"] = now

    def window(self, now: float) -> float:
        for sample in self.ring:
            if now - sample["last"] >= self.samples * self.window_ms:
                sample.update(start=now, last=now, value=0.0)
        elapsed = now - min(sample["start"] for sample in self.ring)
        full = int(elapsed / self.window_ms)
        if full < self.samples - 1:
            elapsed += (self.samples - 1 - full) * self.window_ms
        return max(elapsed, 1)

    def rate(self, now: float) -> float:
        window = self.window(now)
        return sum(sample["value"] for sample in self.ring) / (window / 1000)

    def wait_ms(self, now: float, limit: float) -> float:
        return max((self.rate(now) - limit) / limit * self.window(now), 0)


@given(steps, st.integers(1, 12), st.sampled_from([1, 700, 1000, 3000]), st.floats(0.5, 5_000))
def test_a_rate_is_what_its_twin_says(
    taken: list[tuple[int, int, bool]], samples: int, window_ms: int, limit: float
) -> None:
    rate = LimitedRate(limit, samples=samples, window_ms=window_ms)
    twin = RingTwin(samples, window_ms)
    now = 10_000.0
    for pause, value, is_looked_at in taken:
        now += pause
        rate.record(value, now)
        twin.record(value, now)
        if is_looked_at:
            assert math.isclose(rate.measure(now), twin.rate(now), abs_tol=1e-9)
            # Rounded: half a millisecond goes either way, by the last bit of a float.
            assert abs(rate.throttle_ms(now) - twin.wait_ms(now, limit)) <= 0.5 + 1e-6


@given(steps, st.integers(1, 12), st.floats(0.5, 5_000))
def test_a_bucket_is_what_its_twin_says(
    taken: list[tuple[int, int, bool]], samples: int, limit: float
) -> None:
    now = 10_000.0
    bucket = TokenBucket(limit, now, samples=samples, window_ms=1_000)
    burst = samples * limit
    tokens = burst
    for pause, value, is_looked_at in taken:
        now += pause
        tokens = min(burst, tokens + limit * pause / 1000)
        if is_looked_at:
            assert math.isclose(bucket.tokens(now), tokens, abs_tol=1e-6)
            wait = 0 if tokens >= 0 else math.floor(-tokens / limit * 1000 + 0.5)
            assert abs(bucket.throttle_ms(now) - wait) <= 1
        tokens = min(burst, tokens - value)
        bucket.take(value, now)


names = st.sampled_from(["a", "b", ""])
entities = st.tuples(st.sampled_from(["a", "b", None, ""]), st.sampled_from(["a", "b", None, ""]))


def entity_of(user: str, client: str, limits: dict[Entity, float]) -> Entity | None:
    """As KIP-13 and KIP-55 list them."""
    for entity in (
        (user, client), (user, None), (user, ""), (None, client), (None, None), (None, ""),
        ("", client), ("", None),
    ):  # fmt: skip
        needs_client = entity[1] != ""
        if entity != ("", "") and entity in limits and (client or not needs_client):
            return entity
    return None


@given(
    st.lists(st.tuples(entities, st.none() | st.floats(1, 9)), max_size=12),
    st.lists(st.tuples(st.sampled_from(["a", "b", "c"]), names), max_size=12),
)
def test_the_most_specific_quota_counts(
    changes: list[tuple[Entity, float | None]], clients: list[tuple[str, str]]
) -> None:
    limits: Limits[LimitedRate] = Limits(lambda limit, _now: LimitedRate(limit))
    known: dict[Entity, float] = {}
    for entity, limit in changes:
        if entity == ("", ""):
            continue
        limits.set(entity, limit)
        if limit is None:
            known.pop(entity, None)
        else:
            known[entity] = limit
        for user, client in clients:
            found = limits.find(user, client, 0)
            entity_found = entity_of(user, client, known)
            if entity_found is None:
                assert found is None
                continue
            assert found is not None
            assert found.meter.limit == known[entity_found] == limits.limit_of(user, client)
            assert found.entity == bucket_of(entity_found, user, client)
            assert limits.find(user, client, 0) is found
    assert bool(limits) == bool(known)
