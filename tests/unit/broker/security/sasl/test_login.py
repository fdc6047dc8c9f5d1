"""The steps of a login: what comes in turn, how it ends, and the next login on the connection."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from pybroker_kafka.broker.security.principal import KafkaPrincipal
from pybroker_kafka.broker.security.sasl.login import Login, LoginRules, Outcome, Turn
from pybroker_kafka.broker.security.sasl.rules import MechanismConfig, login_rules
from pybroker_kafka.broker.security.sasl.scram import ScramCredentials
from pybroker_kafka.broker.security.sasl.unsecured_tokens import UnsecuredTokens
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.sasl import (
    MECHANISMS,
    PlainClient,
    SaslClient,
    ScramClient,
    ScramHash,
    credential_from_password,
)

ALICE = KafkaPrincipal("User", "alice")
EPOCH = 1_700_000_000_000


@dataclass(frozen=True)
class FakeToken:
    owner: KafkaPrincipal
    expiry_ms: int
    password: str


TOKEN = FakeToken(KafkaPrincipal("User", "owner"), EPOCH + 5000, "token-secret")


def rules(max_session_ms: int = 0) -> LoginRules:
    credentials = ScramCredentials(b"secret", {"token-id": TOKEN}.get)
    stored = {
        kind.mechanism: credential_from_password(kind, "a", b"salt").to_text() for kind in ScramHash
    }
    credentials.apply("alice", {**stored, "producer_byte_rate": "1"})
    options = {"user_alice": "a", "user_bob": "b", "username": "alice"}
    configs = {name: MechanismConfig(options, max_session_ms) for name in ("PLAIN", *MECHANISMS)}
    return login_rules(
        configs, credentials, lambda bits: (1 << bits) - 1, lambda _: UnsecuredTokens().check
    )


def client(mechanism: str, name: str = "alice", password: str = "a") -> SaslClient:
    if mechanism == "PLAIN":
        return PlainClient(name, password)
    return ScramClient(MECHANISMS[mechanism], name, password, "nonce")


def begin(login: Login, mechanism: str) -> None:
    outcome = login.handshake(mechanism, 1)
    assert outcome == Outcome()


def talk(login: Login, mine: SaslClient, now_ms: int = 0, epoch_ms: int = EPOCH) -> Outcome:
    """Until the broker has let it in or ended it."""
    outcome = login.take(mine.step(b""), now_ms, epoch_ms)
    while login.turn is Turn.TOKEN:
        outcome = login.take(mine.step(outcome.token), now_ms, epoch_ms)
    return outcome


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_login(mechanism: str) -> None:
    login = Login(rules())
    login.on_api_versions()
    begin(login, mechanism)
    outcome = talk(login, client(mechanism))
    assert (outcome.error, outcome.message, outcome.lifetime_ms) == (ErrorCode.NONE, "", 0)
    assert login.turn is Turn.ANYTHING
    assert login.principal == ALICE
    assert not login.is_expired(1 << 60)
    assert not login.may_begin_again(1 << 60)


@pytest.mark.parametrize(
    ("mechanism", "name", "password", "message"),
    [
        ("PLAIN", "alice", "b", "Authentication failed: Invalid username or password"),
        ("PLAIN", "mallory", "", "Authentication failed: password not specified"),
        ("PLAIN", "mallory", "a", "Authentication failed: Invalid username or password"),
        (
            "SCRAM-SHA-256", "alice", "b",
            "Authentication failed during authentication due to invalid credentials with SASL "
            "mechanism SCRAM-SHA-256",
        ),
        (
            "SCRAM-SHA-512", "mallory", "a",
            "Authentication failed during authentication due to invalid credentials with SASL "
            "mechanism SCRAM-SHA-512",
        ),
    ],
)  # fmt: skip
def test_a_refusal(mechanism: str, name: str, password: str, message: str) -> None:
    login = Login(rules())
    begin(login, mechanism)
    outcome = talk(login, client(mechanism, name, password))
    assert outcome.error is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert outcome.message == message
    assert outcome.token == b""
    assert outcome.ends is not None
    assert name not in outcome.ends
    assert login.turn is Turn.NOTHING
    assert login.principal is None


def test_a_mechanism_that_is_not_enabled() -> None:
    login = Login(rules())
    outcome = login.handshake("GSSAPI", 1)
    assert outcome.error is ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert outcome.ends
    assert login.turn is Turn.NOTHING


def test_the_names_are_told_in_the_order_of_a_hash_set() -> None:
    """As Apache Kafka 3.9 was seen to tell them."""
    mechanisms = dict.fromkeys(["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI"])
    names = LoginRules(mechanisms, {}).names  # type: ignore[arg-type]
    assert sorted(names) == sorted(mechanisms)
    assert names != list(mechanisms)


def test_a_failure_of_ours_refuses_as_any_other(caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        blocks = done = False

        def step(self, token: bytes, now_ms: int) -> bytes:
            raise ZeroDivisionError

    login = Login(LoginRules({"PLAIN": Broken}, {}))  # type: ignore[dict-item]
    begin(login, "PLAIN")
    outcome = login.take(b"", 0, 0)
    assert outcome.error is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "A login with PLAIN failed" in caplog.text


def test_a_login_by_token_is_that_of_its_owner_and_ends_with_it() -> None:
    login = Login(rules())
    begin(login, "SCRAM-SHA-256")
    mine = ScramClient(ScramHash.SHA_256, "token-id", "token-secret", "n", by_token=True)
    outcome = talk(login, mine, now_ms=100)
    assert login.principal == KafkaPrincipal("User", "owner", token_authenticated=True)
    assert outcome.lifetime_ms == 5000
    assert not login.is_expired(5099.9)
    assert login.is_expired(5100)


@pytest.mark.parametrize("password", ["token-secret", "x"])
def test_a_token_that_is_not_there(password: str) -> None:
    login = Login(rules())
    begin(login, "SCRAM-SHA-256")
    mine = ScramClient(ScramHash.SHA_256, "no-token", password, "n", by_token=True)
    assert talk(login, mine).error is ErrorCode.SASL_AUTHENTICATION_FAILED


def test_a_user_is_no_token_and_a_token_no_user() -> None:
    for name, password, by_token in (("alice", "a", True), ("token-id", "token-secret", False)):
        login = Login(rules())
        begin(login, "SCRAM-SHA-256")
        mine = ScramClient(ScramHash.SHA_256, name, password, "n", by_token=by_token)
        assert talk(login, mine).error is ErrorCode.SASL_AUTHENTICATION_FAILED


class TestAgain:
    """KIP-368."""

    def logged_in(self, session_ms: int = 3000) -> Login:
        login = Login(rules(session_ms))
        begin(login, "PLAIN")
        assert talk(login, client("PLAIN"), now_ms=0).lifetime_ms == session_ms
        return login

    def test_a_session_ends(self) -> None:
        login = self.logged_in()
        assert not login.is_expired(2999.999)
        assert login.is_expired(3000)

    def test_a_new_login_makes_it_longer(self) -> None:
        login = self.logged_in()
        assert login.may_begin_again(2000)
        begin(login, "PLAIN")
        assert talk(login, client("PLAIN"), now_ms=2001).lifetime_ms == 3000
        assert not login.is_expired(5000.999)
        assert login.is_expired(5001)
        assert not login.may_begin_again(2999)
        assert login.turn is Turn.ANYTHING
        assert login.may_begin_again(3000)

    def test_as_somebody_else_it_fails(self) -> None:
        login = self.logged_in()
        assert login.may_begin_again(2000)
        begin(login, "PLAIN")
        outcome = talk(login, client("PLAIN", "bob", "b"))
        assert outcome.message == (
            "Cannot change principals during re-authentication from User.alice: User.bob"
        )
        assert login.principal == ALICE
        assert login.turn is Turn.NOTHING

    def test_a_failure_says_that_it_was_another_login(self) -> None:
        login = Login(rules(3000))
        begin(login, "SCRAM-SHA-256")
        talk(login, client("SCRAM-SHA-256"))
        assert login.may_begin_again(2000)
        begin(login, "SCRAM-SHA-256")
        assert talk(login, client("SCRAM-SHA-256", "alice", "x")).message == (
            "Authentication failed during re-authentication due to invalid credentials with SASL "
            "mechanism SCRAM-SHA-256"
        )

    def test_with_another_mechanism_the_next_frame_ends_it(self) -> None:
        login = self.logged_in()
        assert login.may_begin_again(2000)
        begin(login, "SCRAM-SHA-256")
        assert login.turn is Turn.BAD_MECHANISM
        outcome = login.out_of_turn("anything")
        assert outcome.ends is not None
        assert "another mechanism than PLAIN" in outcome.ends


@pytest.mark.parametrize("ends_ms", [EPOCH - 1, EPOCH])
def test_a_token_that_has_just_expired_carries_no_request(ends_ms: int) -> None:
    class Expired:
        blocks, done, principal, expires_at_ms = False, True, ALICE, ends_ms

        def step(self, token: bytes, now_ms: int) -> bytes:
            return b""

    login = Login(LoginRules({"SCRAM-SHA-256": Expired}, {}))
    begin(login, "SCRAM-SHA-256")
    assert login.take(b"", 100.25, EPOCH).lifetime_ms == 0
    assert login.is_expired(100.25), "a request in the very moment of the login"


def test_a_token_that_ends_sooner_than_the_listener_wants() -> None:
    class Signed:
        blocks, done, principal = False, True, ALICE

        def __init__(self, expires_at_ms: int) -> None:
            self.expires_at_ms = expires_at_ms

        def step(self, token: bytes, now_ms: int) -> bytes:
            return b""

    for ends, longest, lasts in ((1000, 0, 1000), (1000, 400, 400), (300, 400, 300), (-5, 0, 0)):
        mechanisms = {"X": lambda ends=ends: Signed(EPOCH + ends)}
        login = Login(LoginRules(mechanisms, {"X": longest}))
        begin(login, "X")
        assert login.take(b"", 50, EPOCH).lifetime_ms == lasts
        assert login.expires_ms == 50 + lasts
