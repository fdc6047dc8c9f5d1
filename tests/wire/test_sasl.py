"""Logins on the wire: who is let in and how it is told to the others, in every version."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from pybroker_kafka.client.connection import Connections
from pybroker_kafka.client.security.settings import connector_from
from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.apis.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    OpData,
)
from pybroker_kafka.protocol.apis.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from pybroker_kafka.protocol.apis.api_versions import ApiVersionsRequest
from pybroker_kafka.protocol.apis.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
)
from pybroker_kafka.protocol.apis.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from pybroker_kafka.protocol.apis.metadata import MetadataRequest, MetadataResponse
from pybroker_kafka.protocol.apis.sasl_authenticate import SaslAuthenticateRequest
from pybroker_kafka.protocol.apis.sasl_handshake import SaslHandshakeRequest
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.sasl import OAuthBearerClient, PlainClient, ScramHash
from tests.support.patience import fair
from tests.support.processes import free_port, running_broker
from tests.support.sasl_client import authenticate, bare, handshake, log_in, talk
from tests.support.wire import WireClient, covers, unique

AFTER_LOGIN = "SaslAuthenticate request received after successful authentication"
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
TOKEN_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
SIGNED_TOKENS = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
KEY = ec.generate_private_key(ec.SECP256R1())
USERS = 'user_alice="alice-secret" user_bob="bob-secret"'
MAX_SIZE = 2000
SESSION_MS = 1500
CONFIG = {
    "listener.security.protocol.map": (
        "PLAINTEXT:PLAINTEXT,USERS:SASL_PLAINTEXT,SHORT:SASL_PLAINTEXT,TOKENS:SASL_PLAINTEXT"
    ),
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "listener.name.users.plain.sasl.jaas.config": f"{MODULE} {USERS};",
    "listener.name.short.plain.sasl.jaas.config": f"{MODULE} {USERS};",
    "listener.name.short.connections.max.reauth.ms": str(SESSION_MS),
    "listener.name.users.sasl.server.max.receive.size": str(MAX_SIZE),
    "listener.name.tokens.sasl.enabled.mechanisms": "OAUTHBEARER",
    "listener.name.tokens.oauthbearer.sasl.jaas.config": f"{TOKEN_MODULE};",
    "listener.name.tokens.oauthbearer.sasl.server.callback.handler.class": SIGNED_TOKENS,
    "connection.failed.authentication.delay.ms": "300",
}


@pytest.fixture(scope="module")
def listeners(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The bootstrap of each listener of a broker."""
    directory = tmp_path_factory.mktemp("sasl")
    keys = {"keys": [{**jwt.algorithms.ECAlgorithm.to_jwk(KEY.public_key(), True), "kid": "one"}]}
    (directory / "keys.json").write_text(json.dumps(keys))
    names = ("PLAINTEXT", "USERS", "SHORT", "TOKENS")
    found = {name: f"127.0.0.1:{free_port()}" for name in names}
    configs = {
        **CONFIG,
        "listeners": ",".join(f"{name}://{address}" for name, address in found.items()),
        "sasl.oauthbearer.jwks.endpoint.url": (directory / "keys.json").as_uri(),
    }
    with running_broker(directory, configs):
        yield found


@pytest.fixture
def users(listeners: dict[str, str]) -> Iterator[WireClient]:
    with WireClient(listeners["USERS"]) as client:
        yield client


@pytest.fixture
def short(listeners: dict[str, str]) -> Iterator[WireClient]:
    """Where a login lasts for a second and a half."""
    with WireClient(listeners["SHORT"]) as client:
        yield client


def signed_token(name: str, seconds: float = 60, key_id: str = "one") -> str:
    claims = {"sub": name, "iat": time.time(), "exp": time.time() + seconds}
    return jwt.encode(claims, KEY, "ES256", headers={"kid": key_id})


def is_in(client: WireClient) -> bool:
    return bool(client.call(MetadataRequest(topics=[]), 9).brokers)


@covers(ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
def test_on_a_listener_without_sasl_they_are_refused(kafka: WireClient) -> None:
    for version in kafka.versions(ApiKey.SASL_HANDSHAKE):
        answer = handshake(kafka, "PLAIN", version)
        assert (answer.error_code, answer.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, [])
    for version in kafka.versions(ApiKey.SASL_AUTHENTICATE):
        answer = authenticate(kafka, b"x", version)
        assert (answer.error_code, answer.error_message, answer.auth_bytes) == (
            ErrorCode.ILLEGAL_SASL_STATE, AFTER_LOGIN, b"",
        )  # fmt: skip
    assert is_in(kafka)


@covers(ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_login(users: WireClient, version: int) -> None:
    assert users.call(ApiVersionsRequest(), 0).error_code == 0
    answer = handshake(users, "PLAIN")
    assert answer.error_code == 0
    assert sorted(answer.mechanisms) == ["PLAIN", "SCRAM-SHA-256"]
    answer = talk(users, PlainClient("alice", "alice-secret"), version)
    assert (answer.error_code, answer.error_message, answer.auth_bytes) == (0, "", b"")
    assert answer.session_lifetime_ms == 0
    assert is_in(users)
    assert handshake(users, "PLAIN").error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert authenticate(users, b"").error_message == AFTER_LOGIN
    assert is_in(users)


def test_a_login_with_bare_tokens(users: WireClient) -> None:
    assert handshake(users, "PLAIN", version=0).error_code == 0
    assert bare(users, b"\0alice\0alice-secret") == b""
    assert is_in(users)


def test_a_bare_token_that_is_wrong_is_not_answered(users: WireClient) -> None:
    handshake(users, "PLAIN", version=0)
    with pytest.raises(ConnectionError):
        bare(users, b"\0alice\0wrong")


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_wrong_password_is_told_late_and_once(users: WireClient, version: int) -> None:
    handshake(users, "PLAIN")
    began = time.monotonic()
    answer = talk(users, PlainClient("alice", "wrong"), version)
    assert time.monotonic() - began >= 0.3
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer.error_message == "Authentication failed: Invalid username or password"
    assert answer.auth_bytes == b""
    assert users.is_closed_by_broker()


def test_a_user_that_is_not_there_fails_where_a_wrong_password_does(users: WireClient) -> None:
    answer = log_in(users, "SCRAM-SHA-256", "mallory", "x")
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer.error_message == (
        "Authentication failed during authentication due to invalid credentials with SASL "
        "mechanism SCRAM-SHA-256"
    )
    assert users.is_closed_by_broker()


def test_one_that_is_refused_holds_up_nobody_else(users: WireClient) -> None:
    others = [users.another() for _ in range(20)]
    for other in others:
        handshake(other, "PLAIN")
        other.post(SaslAuthenticateRequest(auth_bytes=b"\0alice\0wrong"), 2)
    began = fair.now()
    log_in(users, "PLAIN", "bob", "bob-secret")
    assert fair.now() - began < 0.25
    for other in others:
        answer = other.receive(ApiKey.SASL_AUTHENTICATE, 2)
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        other.close()
    assert fair.now() - began < 2


def test_an_unknown_mechanism(users: WireClient) -> None:
    answer = handshake(users, "CRAM-MD5")
    assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert sorted(answer.mechanisms) == ["PLAIN", "SCRAM-SHA-256"]
    assert users.is_closed_by_broker()


def test_versions_may_be_asked_once(users: WireClient) -> None:
    users.post_bytes(ApiKey.API_VERSIONS, 99, b"")
    assert users.receive(ApiKey.API_VERSIONS, 0).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert users.call(ApiVersionsRequest(), 0).error_code == 0
    users.post(ApiVersionsRequest(), 0)
    assert users.is_closed_by_broker()


@pytest.mark.parametrize(
    "request_", [ApiVersionsRequest(), SaslHandshakeRequest(mechanism="PLAIN")]
)
def test_between_handshake_and_token_only_a_token_may_come(
    users: WireClient, request_: ApiVersionsRequest | SaslHandshakeRequest
) -> None:
    handshake(users, "PLAIN")
    assert users.call(request_, 0).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert users.is_closed_by_broker()


def test_before_a_login_nothing_else_may_come(users: WireClient) -> None:
    for request in (MetadataRequest(topics=[]), SaslAuthenticateRequest(auth_bytes=b"\0a\0b")):
        with users.another() as client:
            client.post(request, 0)
            assert client.is_closed_by_broker()
    handshake(users, "PLAIN")
    users.post(MetadataRequest(topics=[]), 0)
    assert users.is_closed_by_broker()


def test_before_a_login_frames_are_small(users: WireClient) -> None:
    with users.another() as client:
        client.socket.sendall((MAX_SIZE + 1).to_bytes(4, "big"))
        assert client.is_closed_by_broker()
    log_in(users, "PLAIN", "alice", "alice-secret")
    assert users.call(MetadataRequest(topics=[]), 9).brokers
    users.client_id = "x" * 2 * MAX_SIZE
    assert is_in(users)


def test_a_login_that_comes_in_one_piece_with_the_first_request(users: WireClient) -> None:
    frames = []
    for number, (request, version) in enumerate(
        [
            (SaslHandshakeRequest(mechanism="PLAIN"), 1),
            (SaslAuthenticateRequest(auth_bytes=b"\0alice\0alice-secret"), 2),
            (MetadataRequest(topics=[]), 9),
        ]
    ):
        users._correlation_id = number
        frames.append(users.frame(request, version))
    users.socket.sendall(b"".join(frames))
    assert users.receive(ApiKey.SASL_HANDSHAKE, 1, 0).error_code == 0
    assert users.receive(ApiKey.SASL_AUTHENTICATE, 2, 1).error_code == 0
    assert users.receive(ApiKey.METADATA, 9, 2).brokers


class TestTokens:
    """OAUTHBEARER."""

    @pytest.fixture
    def tokens(self, listeners: dict[str, str]) -> Iterator[WireClient]:
        with WireClient(listeners["TOKENS"]) as client:
            yield client

    def test_a_session_lasts_as_long_as_the_token(self, tokens: WireClient) -> None:
        assert handshake(tokens, "OAUTHBEARER").error_code == 0
        answer = talk(tokens, OAuthBearerClient(signed_token("alice", 60)))
        assert (answer.error_code, answer.auth_bytes) == (0, b"")
        assert 50_000 < answer.session_lifetime_ms <= 60_000
        assert is_in(tokens)

    def test_a_refusal_is_told_twice(self, tokens: WireClient) -> None:
        handshake(tokens, "OAUTHBEARER")
        client = OAuthBearerClient(signed_token("alice", key_id="two"))
        answer = authenticate(tokens, client.step(b""))
        reason = '{"status":"invalid_token"}'
        assert (answer.error_code, answer.auth_bytes) == (0, reason.encode())
        answer = authenticate(tokens, client.step(bytes(answer.auth_bytes)))
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert answer.error_message == reason
        assert tokens.is_closed_by_broker()

    def test_a_long_token(self, tokens: WireClient) -> None:
        """It is read in turns with others."""
        handshake(tokens, "OAUTHBEARER")
        extensions = {"note": "x" * 20_000}
        answer = talk(tokens, OAuthBearerClient(signed_token("alice"), extensions))
        assert answer.error_code == 0
        assert is_in(tokens)


class TestAgain:
    """KIP-368."""

    def test_a_session_that_is_not_renewed_ends_at_the_next_request(
        self, short: WireClient
    ) -> None:
        answer = log_in(short, "PLAIN", "alice", "alice-secret")
        assert answer.session_lifetime_ms == SESSION_MS
        assert is_in(short)
        time.sleep(SESSION_MS / 1000 + 0.1)
        short.post(MetadataRequest(topics=[]), 0)
        assert short.is_closed_by_broker()

    def test_a_session_that_is_renewed_goes_on(self, short: WireClient) -> None:
        log_in(short, "PLAIN", "alice", "alice-secret")
        time.sleep(1)
        answer = log_in(short, "PLAIN", "alice", "alice-secret")
        assert (answer.error_code, answer.session_lifetime_ms) == (0, SESSION_MS)
        assert handshake(short, "PLAIN").error_code == ErrorCode.ILLEGAL_SASL_STATE
        time.sleep(1)
        assert is_in(short)

    def test_nobody_becomes_somebody_else(self, short: WireClient) -> None:
        log_in(short, "PLAIN", "alice", "alice-secret")
        answer = log_in(short, "PLAIN", "bob", "bob-secret")
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert answer.error_message == (
            "Cannot change principals during re-authentication from User.alice: User.bob"
        )
        assert short.is_closed_by_broker()

    def test_with_another_mechanism_the_next_frame_is_the_last(self, short: WireClient) -> None:
        log_in(short, "PLAIN", "alice", "alice-secret")
        assert handshake(short, "SCRAM-SHA-256").error_code == 0
        short.post(SaslAuthenticateRequest(auth_bytes=b"n,,n=alice,r=x"), 2)
        assert short.is_closed_by_broker()

    async def test_our_client_stays_on_its_stream(self, listeners: dict[str, str]) -> None:
        """Each request finds its session near the end; one login a second is taken in place."""
        settings = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f'{MODULE} username="alice" password="alice-secret";',
        }
        host, port = listeners["SHORT"].split(":")
        async with Connections() as connections:
            client = await connections.open(host, int(port), connector_from(settings))
            streams = [client._link.stream]
            for _ in range(2):
                client._link = client._link._replace(good_until=0)
                request = MetadataRequest(topics=[])
                answer = await client.request(ApiKey.METADATA, request, MetadataResponse)
                assert answer.brokers
                assert client._link.good_until > 0
                streams.append(client._link.stream)
            assert streams[0] is streams[1] is not streams[2]


SHA_256, SHA_512, UNKNOWN = 1, 2, 9
SALT = b"some salt"


def upsertion(
    name: str, password: str = "x", mechanism: int = SHA_256, iterations: int = 4096
) -> ScramCredentialUpsertion:
    kind = ScramHash.SHA_512 if mechanism == SHA_512 else ScramHash.SHA_256
    return ScramCredentialUpsertion(
        name=name,
        mechanism=mechanism,
        iterations=iterations,
        salt=SALT,
        salted_password=kind.salted_password(password, SALT, max(1, iterations)),
    )


def alter(client: WireClient, *changes: Any) -> dict[str, tuple[int, str | None]]:
    request = AlterUserScramCredentialsRequest(
        deletions=[one for one in changes if isinstance(one, ScramCredentialDeletion)],
        upsertions=[one for one in changes if isinstance(one, ScramCredentialUpsertion)],
    )
    results = client.call(request, 0).results
    return {result.user: (result.error_code, result.error_message) for result in results}


def describe(client: WireClient, *names: str) -> list[tuple[str, int, list[tuple[int, int]]]]:
    users = [UserName(name=name) for name in names] or None
    answer = client.call(DescribeUserScramCredentialsRequest(users=users), 0)
    assert (answer.error_code, answer.error_message) == (0, "")
    return [
        (one.user, one.error_code, [(i.mechanism, i.iterations) for i in one.credential_infos])
        for one in answer.results
    ]


@pytest.fixture
def admin(listeners: dict[str, str]) -> Iterator[WireClient]:
    with WireClient(listeners["PLAINTEXT"]) as client:
        yield client


def wait_until_in(client: WireClient, mechanism: str, name: str, password: str) -> None:
    """A change reaches the broker through ZooKeeper, after its answer."""
    deadline = time.monotonic() + 120
    while True:
        with client.another() as other:
            if log_in(other, mechanism, name, password).error_code == 0:
                return
        assert time.monotonic() < deadline


@covers(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, ApiKey.ALTER_USER_SCRAM_CREDENTIALS)
def test_users_come_and_go(admin: WireClient, users: WireClient) -> None:
    name = unique("a user/")
    assert alter(admin, upsertion(name, "one"), upsertion(name, mechanism=SHA_512)) == {
        name: (0, "")
    }
    assert describe(admin, name) == [(name, 0, [(SHA_256, 4096), (SHA_512, 4096)])]
    assert (name, 0, [(SHA_256, 4096), (SHA_512, 4096)]) in describe(admin)
    wait_until_in(users, "SCRAM-SHA-256", name, "one")
    assert alter(admin, upsertion(name, "two", iterations=8192)) == {name: (0, "")}
    wait_until_in(users, "SCRAM-SHA-256", name, "two")
    with users.another() as other:
        assert log_in(other, "SCRAM-SHA-256", name, "one").error_code != 0
    gone = ScramCredentialDeletion(name=name, mechanism=SHA_256)
    assert alter(admin, gone) == {name: (0, "")}
    assert describe(admin, name) == [(name, 0, [(SHA_512, 4096)])]
    assert alter(admin, gone, upsertion(name, mechanism=SHA_512, iterations=5000)) == {
        name: (
            ErrorCode.RESOURCE_NOT_FOUND,
            "Attempt to delete a user credential that does not exist",
        )
    }
    assert describe(admin, name) == [(name, 0, [(SHA_512, 4096)])]
    deadline = time.monotonic() + 120
    while True:
        with users.another() as other:
            if log_in(other, "SCRAM-SHA-256", name, "two").error_code != 0:
                break
        assert time.monotonic() < deadline


def test_what_is_no_credential(admin: WireClient) -> None:
    fine = unique("fine")
    told = alter(
        admin,
        upsertion(fine),
        upsertion(""),
        upsertion("few", iterations=4095),
        upsertion("many", iterations=16385),
        upsertion("unknown", mechanism=UNKNOWN),
        upsertion("twice"),
        upsertion("twice"),
        ScramCredentialDeletion(name="both", mechanism=SHA_256),
        upsertion("both"),
    )
    assert told == {
        fine: (0, ""),
        "": (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
        "few": (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"),
        "many": (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"),
        "unknown": (ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        "twice": (
            ErrorCode.DUPLICATE_RESOURCE,
            "A user credential cannot be altered twice in the same request",
        ),
        "both": (
            ErrorCode.DUPLICATE_RESOURCE,
            "A user credential cannot be altered twice in the same request",
        ),
    }


def test_users_that_cannot_be_described(admin: WireClient) -> None:
    alter(admin, upsertion("known"))
    answer = admin.call(
        DescribeUserScramCredentialsRequest(
            users=[UserName(name=name) for name in ("known", "", "nobody", "two", "two")]
        ),
        0,
    )
    assert {one.user: (one.error_code, one.error_message) for one in answer.results} == {
        "known": (0, ""),
        "": (ErrorCode.RESOURCE_NOT_FOUND, "Username must not be empty"),
        "nobody": (
            ErrorCode.RESOURCE_NOT_FOUND,
            "Attempt to describe a user credential that does not exist: nobody",
        ),
        "two": (
            ErrorCode.DUPLICATE_RESOURCE,
            "Cannot describe SCRAM credentials for the same user twice in a single request: two",
        ),
    }


def test_quotas_of_a_user_stay(admin: WireClient) -> None:
    name = unique("user")
    alter(admin, upsertion(name))
    entity = [AlterClientQuotasRequestEntityData(entity_type="user", entity_name=name)]
    ops = [OpData(key="producer_byte_rate", value=1e6)]
    entry = AlterClientQuotasRequestEntryData(entity=entity, ops=ops)
    answer = admin.call(AlterClientQuotasRequest(entries=[entry]), 1)
    assert answer.entries[0].error_code == 0
    assert alter(admin, upsertion(name, mechanism=SHA_512)) == {name: (0, "")}
    assert describe(admin, name) == [(name, 0, [(SHA_256, 4096), (SHA_512, 4096)])]
    ask = [ComponentData(entity_type="user", match_type=0, match=name)]
    answer = admin.call(DescribeClientQuotasRequest(components=ask, strict=True), 1)
    ((values,),) = [one.values for one in answer.entries]
    assert (values.key, values.value) == ("producer_byte_rate", 1e6)


def test_a_salt_has_a_limit(admin: WireClient) -> None:
    """Beyond Kafka: larger than a znode, it would be sent to ZooKeeper again and again."""
    change = upsertion(unique())
    change.salt = b"s" * 1025
    unacceptable = ErrorCode.UNACCEPTABLE_CREDENTIAL
    assert alter(admin, change) == {change.name: (unacceptable, "The salt is too long")}
    change.salt = b"s" * 1024
    assert alter(admin, change) == {change.name: (0, "")}
