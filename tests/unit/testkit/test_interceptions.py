"""Which requests are harmed, against a twin that looks at the whole history."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.testkit.interceptions import Harm, Interceptions, Rule

APIS = [ApiKey.PRODUCE, ApiKey.FETCH]
CLIENTS = ["a", "b"]

rules = st.builds(
    lambda api, client, nth, times: (api, client, nth, times),
    st.sampled_from(APIS),
    st.sampled_from([None, *CLIENTS]),
    st.integers(1, 4),
    st.one_of(st.none(), st.integers(1, 3)),
)
requests = st.lists(st.tuples(st.sampled_from(APIS), st.sampled_from(CLIENTS)), max_size=12)


@given(st.lists(rules, max_size=4), requests)
def test_the_nth_requests_are_taken(
    wanted: list[tuple[ApiKey, str | None, int, int | None]],
    sent: list[tuple[ApiKey, str]],
) -> None:
    interceptions = Interceptions()
    for number, (api, client, nth, times) in enumerate(wanted):
        interceptions.add(Rule(number, api, Harm.DROP, client, nth, times))
    for place, request in enumerate(sent):
        expected = None
        for number, (api, client, nth, times) in enumerate(wanted):
            fitting = [
                at for at, one in enumerate(sent[: place + 1])
                if one[0] is api and client in (None, one[1])
            ]  # fmt: skip
            chosen = fitting[nth - 1 :] if times is None else fitting[nth - 1 : nth - 1 + times]
            if expected is None and place in chosen:
                expected = number
        rule = interceptions.decide(*request)
        assert (None if rule is None else rule.number) == expected


def test_rules_go() -> None:
    interceptions = Interceptions()
    assert not interceptions
    interceptions.add(Rule(7, ApiKey.FETCH, Harm.CLOSE, times=None))
    assert interceptions.names(ApiKey.FETCH)
    assert not interceptions.names(ApiKey.PRODUCE)
    for _ in range(3):
        assert interceptions.decide(ApiKey.FETCH, "x") is not None
    assert interceptions.taken(7) == interceptions.remove(7) == 3
    assert interceptions.remove(7) == interceptions.taken(7) == 0
    assert interceptions.decide(ApiKey.FETCH, "x") is None
