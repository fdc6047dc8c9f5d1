"""Error codes, the API table, UUIDs and varints."""

from __future__ import annotations

import uuid

import pytest

from pybroker_kafka.protocol.api import API_TABLE, ApiKey, request_class, response_class
from pybroker_kafka.protocol.errors import ErrorCode, KafkaError, ProtocolError
from pybroker_kafka.protocol.primitives import decode_uvarint, encode_uvarint
from pybroker_kafka.protocol.schema import version_range
from pybroker_kafka.protocol.uuids import ZERO_UUID, new_uuid, uuid_from_text, uuid_to_text


def test_every_error_code_is_there_once() -> None:
    assert [int(code) for code in ErrorCode] == list(range(-1, 134))
    assert ErrorCode(3) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ErrorCode.NOT_LEADER_OR_FOLLOWER.retriable
    assert not ErrorCode.INVALID_REQUEST.retriable
    assert all(code.description for code in ErrorCode)
    assert len({code.description for code in ErrorCode}) == 135


def test_a_kafka_error_carries_its_code() -> None:
    error = KafkaError(ErrorCode.INVALID_CONFIG, "retention.ms is not a number")
    assert (error.code, error.message) == (40, "retention.ms is not a number")
    assert str(error) == "INVALID_CONFIG: retention.ms is not a number"
    assert KafkaError(ErrorCode.INVALID_CONFIG).message == ErrorCode.INVALID_CONFIG.description


def test_the_table_and_the_messages_agree() -> None:
    of_39 = [spec for spec in API_TABLE.values() if spec.highest() >= spec.min_version]
    assert len(of_39) == 62
    assert list(API_TABLE) == list(ApiKey)
    for key, spec in API_TABLE.items():
        for cls, kind in ((request_class(key), "request"), (response_class(key), "response")):
            assert cls._spec.api_key == key
            assert cls._spec.kind == kind
            assert version_range(cls._spec.valid) == (spec.min_version, spec.max_version)
            first = version_range(cls._spec.flexible)[0]
            assert spec.first_flexible == (None if cls._spec.flexible == "none" else first)


def test_an_api_knows_its_versions() -> None:
    spec = API_TABLE[ApiKey.FETCH]
    assert (spec.name, spec.min_version, spec.max_version) == ("Fetch", 0, 18)
    assert [version for version in range(-1, 20) if spec.supports(version)] == list(range(19))
    assert not spec.is_flexible(11)
    assert spec.is_flexible(12)
    assert not API_TABLE[ApiKey.SASL_HANDSHAKE].is_flexible(1)


def test_uuids_as_text() -> None:
    assert uuid_to_text(ZERO_UUID) == "AAAAAAAAAAAAAAAAAAAAAA"
    value = uuid.UUID("fbfffefd-fcfb-4af9-b8f7-f6f5f4f3f2f1").bytes
    text = uuid_to_text(value)
    assert len(text) == 22
    assert set(text) & set("-_")
    assert uuid_from_text(text) == value
    for bad in ("", "AAAA", text + "A", text[:-1] + "!", "Ä" * 22):
        with pytest.raises(ValueError, match="base64"):
            uuid_from_text(bad)
    with pytest.raises(ValueError, match="16 bytes"):
        uuid_to_text(b"short")


def test_new_uuids_are_of_version_4() -> None:
    made = new_uuid(bytes(range(16)))
    assert made is not None
    assert uuid.UUID(bytes=made).version == 4
    assert uuid_to_text(made)[0] != "-"
    assert new_uuid(b"\xfb" * 16) is None  # its text would begin with a dash


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"),
        (127, "7f"),
        (128, "8001"),
        (300, "ac02"),
        (16383, "ff7f"),
        (16384, "808001"),
        (0x1FFFFF, "ffff7f"),
        (0x200000, "80808001"),
        (0x7FFFFFFF, "ffffffff07"),
    ],
)
def test_unsigned_varints(value: int, encoded: str) -> None:
    assert encode_uvarint(value).hex() == encoded
    assert decode_uvarint(b"x" + bytes.fromhex(encoded) + b"x", 1) == (value, 1 + len(encoded) // 2)


def test_varints_that_do_not_end() -> None:
    with pytest.raises(ProtocolError, match="longer than"):
        decode_uvarint(b"\x80" * 6, 0)
    with pytest.raises(IndexError):
        decode_uvarint(b"\x80\x80", 0)
