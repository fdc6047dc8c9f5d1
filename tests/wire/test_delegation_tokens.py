"""Delegation tokens: none on a plain listener, where nobody can prove who it is; all that can be
done with them on one with logins, of a broker of its own (about 5 s)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.apis.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
)
from pybroker_kafka.protocol.apis.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from pybroker_kafka.protocol.apis.expire_delegation_token import ExpireDelegationTokenRequest
from pybroker_kafka.protocol.apis.metadata import MetadataRequest
from pybroker_kafka.protocol.apis.renew_delegation_token import RenewDelegationTokenRequest
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.sasl import MECHANISMS, ScramClient
from tests.support.patience import until
from tests.support.processes import free_port, running_broker
from tests.support.sasl_client import handshake, log_in, talk
from tests.support.wire import WireClient, covers

REFUSED = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
SECRET, DAY_MS, WEEK_MS = "the-secret", 86_400_000, 7 * 86_400_000
LOGINS_WITH_AN_EXPIRED_TOKEN = 60
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
USERS = ("alice", "bob", "eve")
CONFIG = {
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,USERS:SASL_PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.users.plain.sasl.jaas.config": (
        MODULE + "".join(f' user_{name}="{name}-pass"' for name in USERS) + ";"
    ),
    "delegation.token.master.key": SECRET,
    "delegation.token.expiry.check.interval.ms": "100",
}


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where to log in."""
    found = {name: f"127.0.0.1:{free_port()}" for name in ("PLAINTEXT", "USERS")}
    spec = ",".join(f"{name}://{address}" for name, address in found.items())
    with running_broker(tmp_path_factory.mktemp("tokens"), {**CONFIG, "listeners": spec}):
        yield found["USERS"]


@pytest.fixture
def forgetful(tmp_path: Path) -> Iterator[str]:
    """Where to log in at a broker that does not remove what has expired."""
    found = {name: f"127.0.0.1:{free_port()}" for name in ("PLAINTEXT", "USERS")}
    spec = ",".join(f"{name}://{address}" for name, address in found.items())
    never = {"delegation.token.expiry.check.interval.ms": "3600000"}
    with running_broker(tmp_path, {**CONFIG, **never, "listeners": spec}):
        yield found["USERS"]


@pytest.fixture
def users(secured: str) -> Iterator[dict[str, WireClient]]:
    clients = {name: WireClient(secured) for name in USERS}
    for name, client in clients.items():
        assert log_in(client, "PLAIN", name, f"{name}-pass").error_code == 0
    yield clients
    for client in clients.values():
        client.close()


def create(client: WireClient, lifetime_ms: int = -1, version: int = 3, **more: Any) -> Any:
    renewers = [CreatableRenewers(principal_type="User", principal_name="bob")]
    request = CreateDelegationTokenRequest(renewers=renewers, max_lifetime_ms=lifetime_ms)
    for name, value in more.items():
        setattr(request, name, value)
    return client.call(request, version)


def renew(client: WireClient, given: bytes, period_ms: int, version: int = 2) -> Any:
    return client.call(RenewDelegationTokenRequest(hmac=given, renew_period_ms=period_ms), version)


def expire(client: WireClient, given: bytes, period_ms: int, version: int = 2) -> Any:
    request = ExpireDelegationTokenRequest(hmac=given, expiry_time_period_ms=period_ms)
    return client.call(request, version)


def described(client: WireClient, *owners: str, version: int = 3) -> dict[str, Any]:
    asked = [DescribeDelegationTokenOwner(principal_type="User", principal_name=o) for o in owners]
    answer = client.call(DescribeDelegationTokenRequest(owners=asked or None), version)
    assert answer.error_code == 0
    return {token.token_id: token for token in answer.tokens}


def log_in_by(client: WireClient, token: Any, mechanism: str = "SCRAM-SHA-256") -> Any:
    password = base64.b64encode(token.hmac).decode()
    kind, nonce = MECHANISMS[mechanism], secrets.token_hex(16)
    assert handshake(client, mechanism).error_code == 0
    return talk(client, ScramClient(kind, token.token_id, password, nonce, by_token=True))


@covers(ApiKey.CREATE_DELEGATION_TOKEN)
def test_none_is_made(kafka: WireClient) -> None:
    for version in kafka.versions(ApiKey.CREATE_DELEGATION_TOKEN):
        renewers = [CreatableRenewers(principal_type="Group", principal_name="bob")]
        request = CreateDelegationTokenRequest(renewers=renewers, max_lifetime_ms=5)
        owner = "ANONYMOUS"
        if version >= 3:
            request.owner_principal_type, request.owner_principal_name = "User", "alice"
            owner = "alice"
        answer = kafka.call(request, version)
        assert answer.error_code == REFUSED
        assert (answer.principal_type, answer.principal_name) == ("User", owner)
        times = (answer.issue_timestamp_ms, answer.expiry_timestamp_ms, answer.max_timestamp_ms)
        assert times == (-1, -1, -1)
        assert (answer.token_id, bytes(answer.hmac), answer.throttle_time_ms) == ("", b"", 0)
        if version >= 3:
            assert answer.token_requester_principal_name == "ANONYMOUS"


@covers(ApiKey.RENEW_DELEGATION_TOKEN, ApiKey.EXPIRE_DELEGATION_TOKEN)
def test_none_is_changed(kafka: WireClient) -> None:
    for version in kafka.versions(ApiKey.RENEW_DELEGATION_TOKEN):
        answer = kafka.call(RenewDelegationTokenRequest(hmac=b"x", renew_period_ms=1), version)
        assert (answer.error_code, answer.expiry_timestamp_ms) == (REFUSED, -1)
    for version in kafka.versions(ApiKey.EXPIRE_DELEGATION_TOKEN):
        request = ExpireDelegationTokenRequest(hmac=b"x", expiry_time_period_ms=-1)
        answer = kafka.call(request, version)
        assert (answer.error_code, answer.expiry_timestamp_ms) == (REFUSED, -1)


@covers(ApiKey.DESCRIBE_DELEGATION_TOKEN)
def test_none_is_shown(kafka: WireClient) -> None:
    owner = DescribeDelegationTokenOwner(principal_type="User", principal_name="alice")
    for version in kafka.versions(ApiKey.DESCRIBE_DELEGATION_TOKEN):
        for owners in (None, [], [owner]):
            answer = kafka.call(DescribeDelegationTokenRequest(owners=owners), version)
            assert (answer.error_code, answer.tokens) == (REFUSED, [])


def test_a_token_and_its_times(users: dict[str, WireClient]) -> None:
    alice = users["alice"]
    for version in alice.versions(ApiKey.CREATE_DELEGATION_TOKEN):
        token = create(alice, version=version)
        assert (token.error_code, token.principal_name) == (0, "alice")
        assert token.max_timestamp_ms - token.issue_timestamp_ms == WEEK_MS
        assert token.expiry_timestamp_ms - token.issue_timestamp_ms == DAY_MS
        expected = hmac.digest(SECRET.encode(), token.token_id.encode(), hashlib.sha512)
        assert bytes(token.hmac) == expected
        for name in ("alice", "bob", "eve"):
            shown = described(users[name], version=version)[token.token_id]
            assert (shown.principal_name, bytes(shown.hmac)) == ("alice", expected)
            assert [one.principal_name for one in shown.renewers] == ["bob"]
    short = create(alice, 1_000)
    assert short.max_timestamp_ms == short.expiry_timestamp_ms == short.issue_timestamp_ms + 1_000


def test_a_token_for_somebody_else(users: dict[str, WireClient]) -> None:
    """Nobody forbids it without an authorizer."""
    token = create(users["eve"], owner_principal_type="User", owner_principal_name="alice")
    assert (token.principal_name, token.token_requester_principal_name) == ("alice", "eve")
    shown = described(users["alice"], "alice")[token.token_id]
    assert (shown.principal_name, shown.token_requester_principal_name) == ("alice", "eve")
    assert token.token_id in described(users["alice"], "bob"), "whom it names as renewer"
    assert token.token_id not in described(users["alice"], "eve")
    group = [CreatableRenewers(principal_type="Group", principal_name="x")]
    refused = create(users["eve"], renewers=group)
    assert (refused.error_code, refused.token_id) == (ErrorCode.INVALID_PRINCIPAL_TYPE, "")


def test_who_may_change_it(users: dict[str, WireClient]) -> None:
    token = create(users["alice"])
    given = bytes(token.hmac)
    for version in users["bob"].versions(ApiKey.RENEW_DELEGATION_TOKEN):
        before = int(time.time() * 1000) - 1000  # the broker's clock may be some ms behind
        answer = renew(users["bob"], given, 5_000_000, version)
        assert answer.error_code == 0
        assert 0 <= answer.expiry_timestamp_ms - before - 5_000_000 < 10_000
    for version in users["alice"].versions(ApiKey.EXPIRE_DELEGATION_TOKEN):
        answer = expire(users["alice"], given, 2 * WEEK_MS, version)
        assert (answer.error_code, answer.expiry_timestamp_ms) == (0, token.max_timestamp_ms)
    for change in (renew, expire):
        answer = change(users["eve"], given, 1)
        assert answer.error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
        answer = change(users["alice"], b"other", 1)
        assert answer.error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
        assert answer.expiry_timestamp_ms == -1
    assert expire(users["alice"], given, -1).error_code == 0
    assert renew(users["alice"], given, 1).error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_login_by_token(secured: str, users: dict[str, WireClient], mechanism: str) -> None:
    token = create(users["alice"])
    with WireClient(secured) as client:
        answer = log_in_by(client, token, mechanism)
        assert answer.error_code == 0
        left_ms = token.expiry_timestamp_ms - time.time() * 1000
        assert -1 < answer.session_lifetime_ms - left_ms < 10_000  # in whole milliseconds
        assert client.call(MetadataRequest(topics=[]), 9).brokers
        assert create(client).error_code == REFUSED
        assert expire(client, bytes(token.hmac), -1).error_code == REFUSED
    assert expire(users["alice"], bytes(token.hmac), -1).error_code == 0
    with WireClient(secured) as client:
        assert log_in_by(client, token, mechanism).error_code == (
            ErrorCode.SASL_AUTHENTICATION_FAILED
        )


def test_an_expired_token_is_gone_soon(users: dict[str, WireClient]) -> None:
    token = create(users["alice"], 50)
    assert token.expiry_timestamp_ms == token.issue_timestamp_ms + 50
    until(lambda: token.token_id not in described(users["alice"]))
    given = bytes(token.hmac)
    assert renew(users["alice"], given, 1).error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


def test_no_request_gets_through_with_a_token_that_has_just_expired(forgetful: str) -> None:
    """The login succeeds with a session of 0 ms, as Kafka's: the request behind it is too late."""
    with WireClient(forgetful) as alice:
        assert log_in(alice, "PLAIN", "alice", "alice-pass").error_code == 0
        token = create(alice)
        assert expire(alice, bytes(token.hmac), 0).error_code == 0
    served = 0
    for _ in range(LOGINS_WITH_AN_EXPIRED_TOKEN):
        with WireClient(forgetful) as client:
            answer = log_in_by(client, token)
            assert (answer.error_code, answer.session_lifetime_ms) == (0, 0)
            client.post(MetadataRequest(topics=[]), 9)
            served += not client.is_closed_by_broker()
    assert served == 0


def test_a_token_has_so_many_renewers_and_no_more(users: dict[str, WireClient]) -> None:
    """Beyond Kafka, which takes as many as there is room for."""
    eve = users["eve"]

    def created(count: int, name: str = "r") -> int:
        renewers = [
            CreatableRenewers(principal_type="User", principal_name=f"{name}{n}")
            for n in range(count)
        ]
        request = CreateDelegationTokenRequest(renewers=renewers, max_lifetime_ms=-1)
        return int(eve.call(request, 3).error_code)

    assert created(1000) == 0
    assert created(1001) == ErrorCode.INVALID_REQUEST
    assert created(10, "long" * 2_000) == ErrorCode.INVALID_REQUEST
