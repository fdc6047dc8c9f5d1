"""Delegation tokens beside a twin that keeps every token it ever saw and looks at all of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pybroker_kafka.broker.security.delegation_tokens import DelegationTokens, TokenInfo
from pybroker_kafka.broker.security.principal import KafkaPrincipal
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.sanitized_names import desanitize, sanitize
from tests.support.steps import finished

LONGEST, DEFAULT = 100, 40
PEOPLE = [KafkaPrincipal("User", name) for name in "abc"]

people = st.sampled_from(PEOPLE)
periods = st.integers(-2, LONGEST + 5) | st.sampled_from([2**63 - 1])
steps = st.lists(
    st.tuples(st.just("create"), people, st.lists(people, max_size=2), periods)
    | st.tuples(st.sampled_from(["renew", "end"]), people, st.integers(0, 4), periods)
    | st.tuples(st.just("wait"), st.none(), st.none(), st.integers(0, 60)),
    max_size=40,
)


class Twin:
    """(owner, renewers, max, expiry) of each token, None once it is gone."""

    def __init__(self) -> None:
        self.tokens: list[list[object] | None] = []

    def change(
        self, number: int, who: KafkaPrincipal, period: int, now: int, *, ends: bool
    ) -> ErrorCode:
        token = self.tokens[number] if number < len(self.tokens) else None
        if token is None:
            return ErrorCode.DELEGATION_TOKEN_NOT_FOUND
        owner, renewers, longest, expiry = token
        if who != owner and who not in renewers:  # type: ignore[operator]
            return ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
        if ends and period < 0:
            self.tokens[number] = None
            return ErrorCode.NONE
        if now > longest or now > expiry:  # type: ignore[operator]
            return ErrorCode.DELEGATION_TOKEN_EXPIRED
        wanted = now + (DEFAULT if period < 0 else period)
        token[3] = wanted if wanted < longest else longest  # type: ignore[operator]
        return ErrorCode.NONE


@given(steps)
def test_as_the_twin_says(script: list[tuple[str, KafkaPrincipal, object, int]]) -> None:
    tokens = DelegationTokens(b"k", max_lifetime_ms=LONGEST, expiry_ms=DEFAULT)
    twin = Twin()
    now = 0
    for kind, who, what, period in script:
        if kind == "wait":
            now += period
        elif kind == "create":
            name = str(len(twin.tokens))
            assert isinstance(what, list)
            made = tokens.new_token(name, who, who, what, period, now)
            assert isinstance(made, TokenInfo)
            tokens.put(made)
            lifetime = period if 0 < period < LONGEST else LONGEST
            twin.tokens.append([who, what, now + lifetime, now + min(lifetime, DEFAULT)])
        else:
            ends = kind == "end"
            decide = tokens.ended if ends else tokens.renewed
            outcome = decide(tokens.hmac_of(str(what)), who, period, now)
            assert isinstance(what, int)
            expected = twin.change(what, who, period, now, ends=ends)
            if isinstance(outcome, ErrorCode):
                assert outcome is expected
            else:
                assert expected is ErrorCode.NONE
                if ends and period < 0:
                    tokens.remove(outcome.token_id)
                else:
                    tokens.put(outcome)
        kept = {str(n): token for n, token in enumerate(twin.tokens) if token is not None}

        def anyone(_token: TokenInfo) -> bool:
            return True

        found = finished(tokens.described(PEOPLE[0], None, anyone))
        assert {t.token_id: [t.owner, [*t.renewers], t.max_ms, t.expiry_ms] for t in found} == kept
        gone = {n for n, token in kept.items() if now > token[2] or now > token[3]}  # type: ignore[operator]
        assert set(tokens.expired(now)) == gone


@given(st.text())
def test_sanitized_names_come_back_and_are_tame(name: str) -> None:
    text = sanitize(name)
    assert set(text) <= set("%-_.0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    assert desanitize(text) == name


def test_sanitized_as_java_does() -> None:
    assert sanitize("User:a b*c~+é") == "User%3Aa%20b%2Ac%7E%2B%C3%A9"
    assert desanitize("a+b%2") == "a b%2"
