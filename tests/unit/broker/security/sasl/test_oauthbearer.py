"""OAUTHBEARER: which tokens are believed, and how a client is told of the others."""

from __future__ import annotations

import base64
import json
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from pybroker_kafka.broker.security.principal import KafkaPrincipal
from pybroker_kafka.broker.security.sasl.oauthbearer import (
    OAuthBearerServer,
    TokenRefused,
    ValidToken,
)
from pybroker_kafka.broker.security.sasl.signed_tokens import KeySet, SignedTokens, TokenRules
from pybroker_kafka.broker.security.sasl.unsecured_tokens import UnsecuredTokens
from pybroker_kafka.protocol.sasl import OAuthBearerClient, SaslAuthenticationError, SaslError

NOW = 1_700_000_000
CLAIMS = {"sub": "alice", "iat": NOW - 10, "exp": NOW + 60}
RSA_KEY = rsa.generate_private_key(65537, 2048)
OTHER_KEY = rsa.generate_private_key(65537, 2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())
RULES = TokenRules("file:///keys", 1000, 1, 1)


def part(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def unsecured(claims: dict[str, Any], header: Any = None, signature: str = "") -> str:
    return f"{part(header or {'alg': 'none'})}.{part(claims)}.{signature}"


class TestUnsecured:
    @pytest.mark.parametrize(
        ("options", "claims"),
        [
            ({}, CLAIMS),
            ({}, {"sub": "alice", "exp": NOW + 60}),
            ({}, {"sub": "alice", "exp": NOW + 0.5}),
            ({"PrincipalClaimName": "who"}, {"who": "alice", "exp": NOW + 1}),
            ({"RequiredScope": "a b"}, {**CLAIMS, "scope": ["b", " a ", "c"]}),
            ({"RequiredScope": "a", "ScopeClaimName": "may"}, {**CLAIMS, "may": "a"}),
            ({"AllowableClockSkewMs": "5000"}, {**CLAIMS, "exp": NOW - 4}),
            ({"AllowableClockSkewMs": "5000"}, {**CLAIMS, "iat": NOW + 5}),
            ({}, {**CLAIMS, "iat": NOW + 0.000_999}),
            ({"AllowableClockSkewMs": "5000"}, {**CLAIMS, "iat": NOW + 5.000_5}),
        ],
    )
    def test_what_is_believed(self, options: dict[str, str], claims: dict[str, Any]) -> None:
        check = UnsecuredTokens.from_options(
            {f"unsecuredValidator{name}": text for name, text in options.items()}
        ).check
        valid = check(unsecured(claims), NOW * 1000)
        assert valid == ValidToken("alice", round(1000 * claims["exp"]))

    @pytest.mark.parametrize(
        "token",
        [
            "", "a", "a.b.c", "..", unsecured(CLAIMS, {"alg": "RS256"}),
            unsecured(CLAIMS, {"a": 1}),
            unsecured(CLAIMS, signature="x"), f"{part([])}.{part(CLAIMS)}.",
            f"{part({'alg': 'none'})}.{part([1])}.", f"{part({'alg': 'none'})}..",
            unsecured({}), unsecured({"sub": "alice"}), unsecured({"exp": NOW + 1}),
            unsecured({"sub": " ", "exp": NOW + 1}), unsecured({"sub": 5, "exp": NOW + 1}),
            unsecured({"sub": "alice", "exp": NOW}), unsecured({"sub": "alice", "exp": "soon"}),
            unsecured({"sub": "alice", "exp": True}), unsecured({"sub": "alice", "exp": 1e300}),
            unsecured({**CLAIMS, "iat": NOW + 1}), unsecured({**CLAIMS, "scope": 5}),
            unsecured({**CLAIMS, "iat": NOW + 0.001_001}),
            unsecured({"sub": "a" * 1001, "exp": NOW + 1}),
            f"{part({'alg': 'none'})}.{base64.b64encode(b'[' * 20000).decode()}.",
            unsecured(CLAIMS) + ".",
        ],
    )  # fmt: skip
    def test_what_is_not(self, token: str) -> None:
        with pytest.raises(TokenRefused) as caught:
            UnsecuredTokens().check(token, NOW * 1000)
        assert caught.value.scope is None

    def test_a_scope_that_is_not_there_is_told(self) -> None:
        check = UnsecuredTokens(required_scopes=("a", "b")).check
        with pytest.raises(TokenRefused) as caught:
            check(unsecured({**CLAIMS, "scope": "a"}), NOW * 1000)
        assert caught.value.scope == "[a, b]"

    @pytest.mark.parametrize("options", [{"AllowableClockSkewMs": "-1"}, {"RequiredScope": 'a "'}])
    def test_options_that_are_wrong(self, options: dict[str, str]) -> None:
        named = {f"unsecuredValidator{name}": text for name, text in options.items()}
        with pytest.raises(ValueError, match=next(iter(named))):
            UnsecuredTokens.from_options(named)


def jwk(key: Any, key_id: str | None = "one", **more: str) -> dict[str, Any]:
    public = key.public_key()
    if isinstance(key, rsa.RSAPrivateKey):
        found = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(public))
    else:
        found = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(public))
    named = {} if key_id is None else {"kid": key_id}
    return {**found, **named, **more}


def key_set(*keys: dict[str, Any]) -> KeySet:
    found = KeySet()
    assert found.load(json.dumps({"keys": keys}).encode()) == len(keys)
    return found


def signed(claims: dict[str, Any], key: Any = RSA_KEY, alg: str = "RS256", **header: Any) -> str:
    return jwt.encode(claims, key, alg, headers=header or {"kid": "one"})


KEYS = key_set(jwk(RSA_KEY), jwk(EC_KEY, "two"))


class TestSigned:
    @pytest.mark.parametrize(
        ("rules", "token"),
        [
            (RULES, signed(CLAIMS)),
            (RULES, signed(CLAIMS, alg="PS256")),
            (RULES, signed(CLAIMS, EC_KEY, "ES256", kid="two")),
            (RULES, jwt.encode(CLAIMS, RSA_KEY, "RS256")),
            (RULES, signed({**CLAIMS, "iat": NOW - 60, "exp": NOW - 29})),
            (RULES._replace(issuer="me"), signed({**CLAIMS, "iss": "me"})),
            (RULES._replace(audiences=("a", "b")), signed({**CLAIMS, "aud": ["b", "c"]})),
            (RULES._replace(audiences=("a",)), signed({**CLAIMS, "aud": "a"})),
            (RULES._replace(subject_claim="who"), signed({**CLAIMS, "sub": "x", "who": "alice"})),
            (RULES, signed({**CLAIMS, "scope": "a b"})),
            (RULES._replace(clock_skew_ms=0), signed({**CLAIMS, "nbf": NOW + 0.000_999})),
            (RULES, signed({**CLAIMS, "nbf": NOW + 30.9})),
            (RULES, signed({**CLAIMS, "iat": NOW + 0.5, "exp": NOW + 0.9})),
        ],
    )
    def test_what_is_believed(self, rules: TokenRules, token: str) -> None:
        assert SignedTokens(rules, KEYS).check(token, NOW * 1000).name == "alice"

    @pytest.mark.parametrize(
        ("rules", "token"),
        [
            (RULES, unsecured(CLAIMS)),
            (RULES, unsecured(CLAIMS, signature="AAAA")),
            (RULES, ""),
            (RULES, "a.b.c"),
            (RULES, signed(CLAIMS, OTHER_KEY)),
            (RULES, signed(CLAIMS, kid="three")),
            (RULES, signed(CLAIMS, kid="two")),
            (RULES, signed(CLAIMS)[:-8] + "AAAAAAAA"),
            (RULES, signed({"sub": "alice", "exp": NOW + 1})),
            (RULES, signed({"sub": "alice", "iat": NOW})),
            (RULES, signed({**CLAIMS, "iat": NOW - 60, "exp": NOW - 30})),
            (RULES, signed({**CLAIMS, "nbf": NOW + 31})),
            (RULES._replace(clock_skew_ms=0), signed({**CLAIMS, "nbf": NOW + 1})),
            (RULES._replace(clock_skew_ms=0), signed({**CLAIMS, "exp": NOW + 0.9})),
            (RULES, signed({**CLAIMS, "iat": NOW + 2, "exp": NOW + 1})),
            (RULES, signed({**CLAIMS, "nbf": NOW + 2, "exp": NOW + 1})),
            (RULES, signed({**CLAIMS, "sub": ""})),
            (RULES, signed({**CLAIMS, "aud": "a"})),
            (RULES._replace(audiences=("a",)), signed(CLAIMS)),
            (RULES._replace(audiences=("a",)), signed({**CLAIMS, "aud": ["b"]})),
            (RULES._replace(issuer="me"), signed(CLAIMS)),
            (RULES._replace(issuer="me"), signed({**CLAIMS, "iss": "you"})),
            (RULES, signed(CLAIMS, kid="one", crit=["x"], x=1)),
            (RULES, signed(CLAIMS, "s" * 40, "HS256")),
        ],
    )
    def test_what_is_not(self, rules: TokenRules, token: str) -> None:
        with pytest.raises(TokenRefused):
            SignedTokens(rules, KEYS).check(token, NOW * 1000)

    def test_a_public_key_is_no_secret(self) -> None:
        """HS256 with the text of the public key, which everybody has."""
        text = json.dumps(jwk(RSA_KEY)).encode()
        header, claims = part({"alg": "HS256", "kid": "one"}), part(CLAIMS)
        import hashlib
        import hmac

        mac = hmac.digest(text, f"{header}.{claims}".encode(), hashlib.sha256)
        token = f"{header}.{claims}.{base64.urlsafe_b64encode(mac).decode().rstrip('=')}"
        with pytest.raises(TokenRefused):
            SignedTokens(RULES, KEYS).check(token, NOW * 1000)

    def test_a_key_may_say_what_it_is_for(self) -> None:
        for more, ok in (({"alg": "RS256"}, True), ({"alg": "RS512"}, False)):
            check = SignedTokens(RULES, key_set(jwk(RSA_KEY, **more))).check
            if ok:
                check(signed(CLAIMS), NOW * 1000)
            else:
                with pytest.raises(TokenRefused):
                    check(signed(CLAIMS), NOW * 1000)
        keys = KeySet()
        assert keys.load(json.dumps({"keys": [jwk(RSA_KEY, use="enc")]}).encode()) == 0

    def test_an_unknown_key_is_asked_for(self) -> None:
        keys, asked = key_set(jwk(RSA_KEY)), []
        keys.on_unknown = lambda: asked.append(1)
        with pytest.raises(TokenRefused):
            SignedTokens(RULES, keys).check(signed(CLAIMS, kid="new"), NOW * 1000)
        assert asked

    @pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'{"keys": 5}', b"[" * 100_000, b"\xff"])
    def test_what_is_no_jwks_changes_nothing(self, text: bytes) -> None:
        keys = key_set(jwk(RSA_KEY))
        with pytest.raises(ValueError):
            keys.load(text)
        assert SignedTokens(RULES, keys).check(signed(CLAIMS), NOW * 1000).name == "alice"


class TestServer:
    def server(self, **rules: Any) -> OAuthBearerServer:
        return OAuthBearerServer(UnsecuredTokens(**rules).check)

    def test_a_login(self) -> None:
        server, client = self.server(), OAuthBearerClient(unsecured(CLAIMS), {"traceId": "x"})
        assert server.step(client.step(b""), NOW * 1000) == b""
        assert server.principal == KafkaPrincipal("User", "alice")
        assert server.expires_at_ms == (NOW + 60) * 1000
        with pytest.raises(SaslError):
            server.step(b"\x01", NOW * 1000)

    @pytest.mark.parametrize(
        ("rules", "reason"),
        [
            ({"principal_claim": "who"}, '{"status":"invalid_token"}'),
            ({"required_scopes": ("a",)}, '{"status":"insufficient_scope", "scope":"[a]"}'),
        ],
    )
    def test_a_refusal_is_acknowledged(self, rules: dict[str, Any], reason: str) -> None:
        server, client = self.server(**rules), OAuthBearerClient(unsecured(CLAIMS))
        answer = server.step(client.step(b""), NOW * 1000)
        assert answer.decode() == reason
        with pytest.raises(SaslAuthenticationError) as caught:
            server.step(client.step(answer), NOW * 1000)
        assert str(caught.value) == reason
        assert not server.done

    def test_another_authorization_id(self) -> None:
        with pytest.raises(SaslAuthenticationError, match="authorization id"):
            self.server().step(
                b"n,a=bob,\x01auth=Bearer " + unsecured(CLAIMS).encode() + b"\x01\x01", NOW * 1000
            )

    def test_an_acknowledgement_of_nothing_is_no_message(self) -> None:
        with pytest.raises(SaslError):
            self.server().step(b"\x01", NOW * 1000)
