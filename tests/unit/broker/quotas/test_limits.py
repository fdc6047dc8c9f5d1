"""Who has which meter, what is forgotten, and what a client that invents names gets."""

from __future__ import annotations

import pytest

from pybroker.broker.quotas import limits as limits_module
from pybroker.broker.quotas.client_quotas import ClientQuotas, MutationQuota
from pybroker.broker.quotas.entities import IpEntity, entity_at, path_of, sanitize
from pybroker.broker.quotas.limits import FORGET_AFTER_MS, Limits
from pybroker.broker.quotas.rates import LimitedRate, TokenBucket
from pybroker.protocol.errors import ErrorCode, KafkaError


@pytest.fixture
def limits() -> Limits[LimitedRate]:
    return Limits(lambda limit, _now: LimitedRate(limit))


def test_a_changed_limit_keeps_what_was_had(limits: Limits[LimitedRate]) -> None:
    limits.set(("", "app"), 100)
    metered = limits.find("u", "app", 0)
    assert metered is not None
    assert metered.meter.charge(2_000, 0) == 10_000
    limits.set(("", "app"), 200)
    again = limits.find("u", "app", 0)
    assert again is metered
    assert metered.meter.throttle_ms(0) == 0
    limits.set(("", "app"), None)
    assert limits.find("u", "app", 0) is None
    assert not limits


def test_who_invents_names_shares_one_meter_with_others_who_do(
    limits: Limits[LimitedRate], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits_module, "MAX_METERS", 10)
    limits.set(("", None), 100)
    limits.set(("", "known"), 100)
    inventions = [limits.find("u", f"app-{number}", 0) for number in range(30)]
    for metered in inventions:
        assert metered is not None
        metered.meter.charge(100, 0)
    assert len({id(metered) for metered in inventions}) == 11
    assert inventions[29] is not None
    assert inventions[29].meter.throttle_ms(0) > 0
    known = limits.find("u", "known", 0)
    assert known is not None
    assert known.entity == ("", "known")
    long_name = limits.find("u", "x" * 10_000, 0)
    assert long_name is inventions[29]
    # When what they had is long ago, there is room again.
    fresh = limits.find("u", "fresh", 60_000)
    assert fresh is not None
    assert fresh.entity == ("", "fresh")
    assert len(list(limits)) <= 3


def test_what_is_not_used_is_forgotten(limits: Limits[LimitedRate]) -> None:
    limits.set(("", None), 100)
    for number in range(5):
        limits.find("u", f"app-{number}", 0)
    limits.find("u", "late", 10)
    limits.find("u", "app-1", FORGET_AFTER_MS)
    limits.find("u", "another", FORGET_AFTER_MS + 1)
    assert {metered.entity[1] for metered in limits} == {"app-1", "late", "another"}


def test_a_quota_of_nothing_holds_back_for_the_windows() -> None:
    assert LimitedRate(0).charge(1, 0) == 11_000
    assert LimitedRate(0, max_throttle_ms=1_000).charge(1, 0) == 1_000
    bucket = TokenBucket(0, 0)
    assert bucket.throttle_ms(0) == 0
    bucket.take(1, 0)
    assert bucket.throttle_ms(0) == 11_000
    assert LimitedRate(1e-300).charge(1e9, 0) == 2**31 - 1


def test_one_change_may_go_into_debt() -> None:
    now = [0.0]
    quotas = ClientQuotas()
    quotas.apply(("", "app"), {"controller_mutation_rate": "2.0"})
    metered = quotas.mutation.find("u", "app", 0)
    assert metered is not None
    strict = MutationQuota(metered, lambda: now[0], is_strict=True)
    strict.take(30)  # of 22
    assert strict.throttle_ms(0) == 0
    with pytest.raises(KafkaError) as refused:
        strict.take(1)
    assert refused.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert strict.throttle_ms(0) == 4_000
    assert strict.throttle_ms(1_500) == 2_500
    lenient = MutationQuota(metered, lambda: now[0], is_strict=False)
    lenient.take(2)
    assert lenient.throttle_ms(0) == 5_000
    now[0] = 5_000.0
    MutationQuota(metered, lambda: now[0], is_strict=True).take(1)


def test_quotas_are_active_while_there_are_any() -> None:
    heard: list[bool] = []
    quotas = ClientQuotas()
    quotas.on_change(heard.append)
    quotas.apply(("u", ""), {"producer_byte_rate": "100"})
    quotas.apply(("u", ""), {"producer_byte_rate": "no number"})
    assert quotas.produce.limit_of("u", "any") == 100
    quotas.apply(("u", ""), {"SCRAM-SHA-256": "salt"})
    assert heard == [False, True, True, False]
    assert quotas.most_to_fetch("u", "any") == float("inf")
    quotas.apply((None, ""), {"consumer_byte_rate": "100"})
    assert quotas.most_to_fetch("u", "any") == 1_000


@pytest.mark.parametrize(
    ("name", "sanitized"),
    [
        ("plain", "plain"),
        ("a b*c~d+e", "a%20b%2Ac%7Ed%2Be"),
        ("CN=ü, O=x/y", "CN%3D%C3%BC%2C%20O%3Dx%2Fy"),
        ("<default>", "%3Cdefault%3E"),
        (None, "<default>"),
    ],
)
def test_names_in_paths(name: str | None, sanitized: str) -> None:
    assert sanitize(name) == sanitized
    assert path_of(("", name)) == f"clients/{sanitized}"
    assert entity_at(f"clients/{sanitized}") == ("", name)
    assert entity_at(f"users/{sanitized}") == (name, "")
    assert entity_at(path_of((name, name))) == (name, name)
    assert entity_at(f"ips/{sanitized}") == IpEntity(name)
    assert entity_at(f"topics/{sanitized}") is None
