"""The rules of delegation tokens, case by case."""

import hashlib
import hmac
from collections.abc import Callable

import pytest

from pybroker_kafka.broker.security.delegation_tokens import (
    MAX_TOKENS_OF_ONE,
    DelegationTokens,
    TokenInfo,
)
from pybroker_kafka.broker.security.principal import KafkaPrincipal
from pybroker_kafka.protocol.errors import ErrorCode
from tests.support.steps import finished

ALICE, BOB, EVE = (KafkaPrincipal("User", name) for name in ("alice", "bob", "eve"))
NOW, DAY, WEEK = 1_000_000, 86_400_000, 7 * 86_400_000


@pytest.fixture
def tokens() -> DelegationTokens:
    return DelegationTokens(b"secret", max_lifetime_ms=WEEK, expiry_ms=DAY)


def made(tokens: DelegationTokens, max_lifetime_ms: int = -1) -> TokenInfo:
    token = tokens.new_token("id", ALICE, ALICE, [BOB], max_lifetime_ms, NOW)
    assert isinstance(token, TokenInfo)
    tokens.put(token)
    return token


def test_the_hmac_is_of_the_id() -> None:
    tokens = DelegationTokens(b"secret", max_lifetime_ms=1, expiry_ms=1)
    assert tokens.hmac_of("id") == hmac.new(b"secret", b"id", hashlib.sha512).digest()


@pytest.mark.parametrize("secret", [None, b""])
def test_without_a_secret_there_are_none(secret: bytes | None) -> None:
    assert not DelegationTokens(secret, max_lifetime_ms=1, expiry_ms=1).enabled


@pytest.mark.parametrize(
    ("asked", "max_ms", "expiry_ms"),
    [(-1, WEEK, DAY), (0, WEEK, DAY), (5, 5, 5), (2 * DAY, 2 * DAY, DAY), (WEEK + 1, WEEK, DAY)],
)
def test_lifetimes(tokens: DelegationTokens, asked: int, max_ms: int, expiry_ms: int) -> None:
    token = made(tokens, asked)
    assert (token.issue_ms, token.max_ms, token.expiry_ms) == (NOW, NOW + max_ms, NOW + expiry_ms)


def test_owner_and_renewers_may_renew(tokens: DelegationTokens) -> None:
    made(tokens)
    given = tokens.hmac_of("id")
    later = NOW + 10
    for who in (ALICE, BOB, ALICE._replace(token_authenticated=True)):
        renewed = tokens.renewed(given, who, -1, later)
        assert isinstance(renewed, TokenInfo)
        assert renewed.expiry_ms == later + DAY
    assert tokens.renewed(given, EVE, -1, later) is ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert tokens.renewed(b"other", ALICE, -1, NOW) is ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    cut = tokens.renewed(given, ALICE, 2**63 - 1, later)
    assert isinstance(cut, TokenInfo)
    assert cut.expiry_ms == NOW + WEEK


def test_an_expired_token_is_not_renewed_but_may_be_ended(tokens: DelegationTokens) -> None:
    token = made(tokens)
    given, late = tokens.hmac_of("id"), token.expiry_ms + 1
    assert not token.is_expired(token.expiry_ms)
    assert tokens.expired(token.expiry_ms) == []
    assert tokens.expired(late) == ["id"]
    assert tokens.renewed(given, ALICE, 1, late) is ErrorCode.DELEGATION_TOKEN_EXPIRED
    assert tokens.ended(given, ALICE, 1, late) is ErrorCode.DELEGATION_TOKEN_EXPIRED
    assert tokens.ended(given, EVE, -1, late) is ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    ended = tokens.ended(given, ALICE, -1, late)
    assert isinstance(ended, TokenInfo)
    assert ended.expiry_ms == late


def test_ending_it_later_changes_its_expiry(tokens: DelegationTokens) -> None:
    made(tokens)
    ended = tokens.ended(tokens.hmac_of("id"), BOB, 7, NOW + 1)
    assert isinstance(ended, TokenInfo)
    assert ended.expiry_ms == NOW + 8


def told(
    tokens: DelegationTokens,
    requester: KafkaPrincipal,
    owners: list[KafkaPrincipal] | None,
    may_see: Callable[[TokenInfo], bool],
) -> list[TokenInfo]:
    names = None if owners is None else [owner[:2] for owner in owners]
    return finished(tokens.described(requester, names, may_see))


def test_who_sees_it(tokens: DelegationTokens) -> None:
    token = made(tokens)

    def nobody(_token: TokenInfo) -> bool:
        return False

    def anyone(_token: TokenInfo) -> bool:
        return True

    assert told(tokens, ALICE, None, nobody) == [token]
    assert told(tokens, BOB, [ALICE], nobody) == [token]
    assert told(tokens, EVE, [BOB], anyone) == [token]
    assert told(tokens, EVE, None, nobody) == []
    assert told(tokens, ALICE, [EVE], anyone) == []
    assert told(tokens, ALICE, [], anyone) == []


def test_a_login_gets_its_owner_and_password_until_it_is_removed(tokens: DelegationTokens) -> None:
    token = made(tokens)
    found = tokens.token_credentials("id")
    assert found is not None
    assert (found.owner, found.expiry_ms) == (ALICE, token.expiry_ms)
    assert found.password not in repr(found)
    tokens.remove("id")
    tokens.remove("id")
    assert tokens.token_credentials("id") is None
    assert tokens.renewed(tokens.hmac_of("id"), ALICE, 1, NOW) is (
        ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    )


def test_one_has_so_many_and_no_more(tokens: DelegationTokens) -> None:
    for number in range(MAX_TOKENS_OF_ONE):
        token = tokens.new_token(str(number), EVE, BOB, [], -1, NOW)
        assert isinstance(token, TokenInfo)
        tokens.put(token)
    assert tokens.new_token("x", ALICE, BOB, [], -1, NOW) is ErrorCode.POLICY_VIOLATION
    assert isinstance(tokens.new_token("x", EVE, EVE, [], -1, NOW), TokenInfo)
    tokens.remove("7")
    assert isinstance(tokens.new_token("x", ALICE, BOB, [], -1, NOW), TokenInfo)
