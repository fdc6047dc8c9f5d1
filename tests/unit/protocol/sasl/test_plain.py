"""PLAIN: its message, and what is none, with the words that Kafka has for it."""

from __future__ import annotations

import pytest

from pybroker_kafka.protocol.sasl.errors import SaslAuthenticationError, SaslError
from pybroker_kafka.protocol.sasl.plain import PlainClient, PlainMessage


def test_the_example_of_rfc_4616() -> None:
    assert PlainMessage.parse(b"Ursel\0Kurt\0xipj3plmq") == PlainMessage(
        "Ursel", "Kurt", "xipj3plmq"
    )


def test_a_client_says_it_once() -> None:
    client = PlainClient("tim", "tanstaaftanstaaf")
    assert client.step(b"") == b"\0tim\0tanstaaftanstaaf"
    assert not client.done
    assert client.step(b"") == b""
    assert client.done
    with pytest.raises(SaslError):
        client.step(b"")


@pytest.mark.parametrize(
    ("token", "message"),
    [
        (b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"a\0b", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"a\0b\0c\0d", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"a\0b\0c\0d\0e\0f", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0\0c", "Authentication failed: username not specified"),
        (b"\0b\0", "Authentication failed: password not specified"),
    ],
)
def test_what_is_no_message(token: bytes, message: str) -> None:
    with pytest.raises(SaslAuthenticationError) as caught:
        PlainMessage.parse(token)
    assert str(caught.value) == message


def test_names_and_passwords_may_have_any_characters() -> None:
    message = PlainMessage("", "Zoë", "pässwörd ☃")
    assert PlainMessage.parse(message.to_bytes()) == message
    assert PlainMessage.parse(b"\0\xff\0x").username == "�"
    with pytest.raises(ValueError, match="NUL"):
        PlainClient("a\0b", "x")


def test_the_password_is_not_shown() -> None:
    assert "secret" not in repr(PlainMessage("", "alice", "secret"))
