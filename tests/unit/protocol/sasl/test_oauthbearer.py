"""OAUTHBEARER: its message, extensions, and the end of a refusal."""

from __future__ import annotations

import pytest

from pybroker_kafka.protocol.sasl.errors import SaslAuthenticationError, SaslError
from pybroker_kafka.protocol.sasl.oauthbearer import (
    MAX_MESSAGE_BYTES,
    OAuthBearerClient,
    OAuthBearerMessage,
)

MESSAGE = b"n,,\x01auth=Bearer a.b.c\x01\x01"
EXTENDED = b"n,a=alice,\x01auth=Bearer a.b.c\x01traceId=1 2\x01\x01"


def test_the_message_of_a_client() -> None:
    assert OAuthBearerClient("a.b.c").step(b"") == MESSAGE
    assert OAuthBearerMessage.parse(MESSAGE) == OAuthBearerMessage("a.b.c")
    extended = OAuthBearerMessage("a.b.c", "alice", {"traceId": "1 2"})
    assert extended.to_bytes() == EXTENDED
    assert OAuthBearerMessage.parse(EXTENDED) == extended


def test_the_scheme_may_be_written_in_any_case() -> None:
    assert OAuthBearerMessage.parse(b"n,,\x01auth=bEARER  x==\x01\x01").token == "x=="


@pytest.mark.parametrize(
    "token",
    [
        b"", b"n,,", b"n,,\x01\x01", b"n,,\x01auth=Bearer a\x01", b"n,,\x01other=Bearer a\x01\x01",
        b"n,,\x01auth=Basic a\x01\x01", b"n,,\x01auth=Bearer\x01\x01",
        b"y,,\x01auth=Bearer a\x01\x01",
        b"n,,\x01auth=Bearer a=b\x01\x01", b"n,,\x01auth=Bearer a\x011=x\x01\x01",
        b"n,,\x01auth=Bearer a\x01b=\x01\x01", b"n,,\x01auth=Bearer \xff\x01\x01",
    ],
)  # fmt: skip
def test_what_is_no_message(token: bytes) -> None:
    with pytest.raises(SaslError):
        OAuthBearerMessage.parse(token)


def test_a_client_is_done_with_an_answer_without_content() -> None:
    client = OAuthBearerClient("a.b.c")
    client.step(b"")
    assert client.step(b"") == b""
    assert client.done


def test_a_client_acknowledges_the_reason_of_a_refusal() -> None:
    client = OAuthBearerClient("a.b.c")
    client.step(b"")
    assert client.step(b'{"status":"invalid_token"}') == b"\x01"
    with pytest.raises(SaslAuthenticationError, match="invalid_token"):
        client.step(b"")
    assert not client.done


def test_what_cannot_be_sent_is_told_at_once() -> None:
    with pytest.raises(ValueError, match="token"):
        OAuthBearerClient("a b")
    for extensions in ({"auth": "x"}, {"1": "x"}, {"a": "\x01"}):
        with pytest.raises(ValueError, match="extension"):
            OAuthBearerClient("a", extensions)


def test_the_token_is_not_shown() -> None:
    assert "a.b.c" not in repr(OAuthBearerMessage.parse(MESSAGE))


def test_long_messages_are_not_matched() -> None:
    rest = len(OAuthBearerMessage("").to_bytes())
    longest = OAuthBearerMessage("x" * (MAX_MESSAGE_BYTES - rest))
    assert len(longest.to_bytes()) == MAX_MESSAGE_BYTES
    assert OAuthBearerMessage.parse(longest.to_bytes()) == longest
    with pytest.raises(SaslError, match="Invalid OAUTHBEARER client first message"):
        OAuthBearerMessage.parse(OAuthBearerMessage(longest.token + "x").to_bytes())
