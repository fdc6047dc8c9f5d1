"""Who has which meter, what is forgotten, and what a client that invents names gets."""

from __future__ import annotations

import pytest

from pybroker_kafka.broker.quotas import limits as limits_module
from pybroker_kafka.broker.quotas.client_quotas import ClientQuotas, MutationQuota
from pybroker_kafka.broker.quotas.entities import IpEntity, entity_at, path_of, sanitize
from pybroker_kafka.broker.quotas.limits import FORGET_AFTER_MS, Limits
from pybroker_kafka.broker.quotas.rates import LimitedRate, TokenBucket
from pybroker_kafka.protocol.errors import ErrorCode, KafkaError


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


def take(quotas: ClientQuotas, count: int, now_ms: float, user: str = "u") -> int:
    """How long a strict client is held for so many partitions; 0 if it may make them."""
    metered = quotas.mutation.find(user, "app", now_ms)
    if metered is None:
        return 0
    quota = MutationQuota(metered, lambda: now_ms, is_strict=True)
    try:
        quota.take(count)
    except KafkaError:
        return quota.throttle_ms(now_ms)
    return 0


def mutation_rate(quotas: ClientQuotas, user: str | None, rate: float | None) -> None:
    values = {} if rate is None else {"controller_mutation_rate": str(rate)}
    quotas.apply((user, ""), values)


def test_a_debt_is_gone_with_the_limit_if_somebody_asks_meanwhile() -> None:
    """As in Kafka, whose bucket is filled when it is looked at, by the rate of that time."""
    quotas = ClientQuotas()
    mutation_rate(quotas, "u", 2)
    assert take(quotas, 34, 0) == 0
    assert take(quotas, 1, 0) == 6_000
    mutation_rate(quotas, "u", None)
    assert take(quotas, 8, 1) == take(quotas, 8, 1) == 0
    mutation_rate(quotas, "u", 2)
    assert take(quotas, 8, 2) == 0


def test_a_debt_stays_while_a_limit_goes_and_comes_unnoticed() -> None:
    quotas = ClientQuotas()
    mutation_rate(quotas, "u", 2)
    take(quotas, 34, 0)
    mutation_rate(quotas, "u", None)
    assert list(quotas.mutation) == []
    mutation_rate(quotas, "u", 1)
    assert take(quotas, 1, 2_000) == 10_000


def test_a_debt_stays_where_a_default_takes_over() -> None:
    quotas = ClientQuotas()
    mutation_rate(quotas, None, 4)
    mutation_rate(quotas, "u", 2)
    take(quotas, 34, 0)
    mutation_rate(quotas, "u", None)
    assert take(quotas, 1, 0) == 3_000
    assert take(quotas, 1, 0, "another") == 0
    mutation_rate(quotas, None, None)
    assert take(quotas, 1, 1) == 0


def test_a_request_that_is_under_way_goes_by_the_limit_of_now() -> None:
    quotas = ClientQuotas()
    mutation_rate(quotas, "u", 2)
    metered = quotas.mutation.find("u", "app", 0)
    assert metered is not None
    now = [0.0]
    quota = MutationQuota(metered, lambda: now[0], is_strict=True)
    quota.take(34)
    mutation_rate(quotas, "u", None)
    now[0] = 1.0
    quota.take(8)
    quota.take(8)
    assert quota.throttle_ms(1.0) == 0


def test_what_was_had_counts_when_a_limit_comes_back(limits: Limits[LimitedRate]) -> None:
    limits.set(("", "app"), 100)
    metered = limits.find("u", "app", 0)
    assert metered is not None
    metered.meter.charge(2_000, 0)
    limits.set(("", "app"), None)
    assert limits.find("u", "app", 1_000) is None
    limits.set(("", "app"), 100)
    again = limits.find("u", "app", 2_000)
    assert again is metered
    assert again.meter.throttle_ms(2_000) > 0
    assert again.meter.throttle_ms(13_000) == 0


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
