"""SASL: client and server of SCRAM agree if and only if the password is right, and no bytes do
anything but fail."""

from __future__ import annotations

import contextlib

from hypothesis import given, settings
from hypothesis import strategies as st

from pybroker_kafka.protocol.sasl import (
    FoundCredential,
    OAuthBearerMessage,
    PlainMessage,
    SaslError,
    ScramClient,
    ScramHash,
    ScramServer,
    credential_from_password,
)
from pybroker_kafka.protocol.sasl.scram import (
    ClientFinal,
    ClientFirst,
    ScramCredential,
    ServerFinal,
    ServerFirst,
)

NAMES = st.text(st.characters(min_codepoint=1, max_codepoint=0x7F), min_size=1, max_size=20)
PASSWORDS = st.text(st.characters(codec="utf-8"), max_size=20)
NONCES = st.text("abcXYZ0189+/=", min_size=1, max_size=30)
SALTS = st.binary(min_size=1, max_size=40)
PIECES = st.sampled_from(
    [b"n,,", b"n=a", b",", b"=", b"r=x", b"a=", b"m=1,", b"s=AAAA", b"i=4096", b"c=biws", b"p=",
     b"v=", b"e=x", b"\x00", b"\x01", b"auth=Bearer t", b"=2C", b"=3D", b"\xc3\xa4", b"AAAA", b"=="]
)  # fmt: skip
BYTES = st.lists(PIECES | st.binary(max_size=3), max_size=12).map(b"".join)


def log_in(client: ScramClient, server: ScramServer) -> None:
    token = client.step(b"")
    while not client.done:
        token = client.step(server.step(token))


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from(ScramHash), NAMES, PASSWORDS, PASSWORDS, SALTS, NONCES, NONCES, st.booleans()
)
def test_a_login_succeeds_if_and_only_if_the_password_is_right(
    kind: ScramHash, name: str, password: str, tried: str, salt: bytes, mine: str, theirs: str,
    by_token: bool,
) -> None:  # fmt: skip
    credential = credential_from_password(kind, password, salt)
    server = ScramServer(kind, theirs, lambda *_: FoundCredential(credential))
    with contextlib.suppress(SaslError):
        log_in(ScramClient(kind, name, tried, mine, by_token=by_token), server)
    # Trailing NULs do not change the key of an HMAC.
    assert server.done == (tried.rstrip("\0") == password.rstrip("\0"))
    if server.done:
        assert (server.username, server.by_token) == (name, by_token)


@settings(max_examples=300)
@given(BYTES, BYTES)
def test_no_bytes_do_anything_but_fail(first: bytes, second: bytes) -> None:
    credential = ScramCredential(b"salt", bytes(32), bytes(32), 4096)
    server = ScramServer(ScramHash.SHA_256, "x", lambda *_: FoundCredential(credential))
    for step in (server.step, ScramClient(ScramHash.SHA_256, "a", "b", "c").step):
        with contextlib.suppress(SaslError):
            step(first)
            step(second)
    assert not server.done
    for parse in (
        ClientFirst.parse, ServerFirst.parse, ClientFinal.parse, ServerFinal.parse,
        PlainMessage.parse, OAuthBearerMessage.parse,
    ):  # fmt: skip
        with contextlib.suppress(SaslError):
            parse(first)


@given(NAMES, PASSWORDS.filter(lambda text: text and "\0" not in text))
def test_plain_and_oauthbearer_messages_come_back(name: str, password: str) -> None:
    plain = PlainMessage("", name, password)
    assert PlainMessage.parse(plain.to_bytes()) == plain


@given(SALTS, st.binary(max_size=64), st.binary(max_size=64), st.integers(1, 2**31 - 1))
def test_credentials_come_back(salt: bytes, stored: bytes, server: bytes, iterations: int) -> None:
    credential = ScramCredential(salt, stored, server, iterations)
    assert ScramCredential.parse(credential.to_text()) == credential
