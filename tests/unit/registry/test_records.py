"""Records as Confluent's registries of several releases write them, and what is none."""

from __future__ import annotations

import pytest

from pybroker_kafka.registry.records import BadRecord, Key, decode_key, decode_value
from tests.support.registry import Desk

# The order of fields and what is left out differ by release; a NOOP has no value.
CONFLUENTS: list[tuple[bytes, bytes | None]] = [
    (b'{"keytype":"NOOP","magic":0}', None),
    (b'{"keytype":"CONFIG","subject":null,"magic":0}', b'{"compatibilityLevel":"FULL"}'),
    (
        b'{"keytype":"SCHEMA","subject":"a","version":1,"magic":1}',
        b'{"subject":"a","version":1,"id":5,"md5":"AAAA","schemaType":"AVRO",'
        b'"schema":"\\"int\\"","deleted":false}',
    ),
    (
        b'{"keytype":"SCHEMA","subject":"b","version":1,"magic":0}',
        b'{"subject":"b","version":1,"id":6,"schemaType":"JSON","references":[{"name":"n",'
        b'"subject":"a","version":1}],"metadata":{"properties":{"k":"v"}},"schema":"true",'
        b'"deleted":false}',
    ),
    (
        b'{"keytype":"CONFIG","subject":"a","magic":0}',
        b'{"subject":"a","normalize":true,"compatibilityLevel":"NONE"}',
    ),
    (b'{"keytype":"MODE","subject":"a","magic":0}', b'{"subject":"a","mode":"READONLY"}'),
    (
        b'{"keytype":"CONTEXT","tenant":"default","context":".eu","magic":0}',
        b'{"tenant":"default","context":".eu"}',
    ),
    (b'{"keytype":"ASSOC","tenant":"default","magic":0}', b'{"new":true}'),
    (b'{"keytype":"DELETE_SUBJECT","subject":"b","magic":0}', b'{"subject":"b","version":1}'),
]


def test_their_topic_is_read() -> None:
    desk = Desk()
    for key, value in CONFLUENTS:
        assert desk.apply_bytes(key, value) == ""
    assert desk.state.config(None) == {"compatibilityLevel": "FULL"}
    assert desk.state.config("a") == {"compatibilityLevel": "NONE", "normalize": True}
    assert desk.state.mode("a") == "READONLY"
    assert desk.state.contexts() == [".", ".eu"]
    assert desk.reads.by_id(5, None).content.text == '"int"'
    (second,) = desk.state.versions("b", deleted=True)
    assert second.deleted
    assert second.content.metadata == {"properties": {"k": "v"}}
    assert [one.id for one in desk.state.referrers(("a", 1), deleted=True)] == [6]
    assert desk.state.next_id(".") == 7


@pytest.mark.parametrize(
    "key",
    [
        None, b"", b"{", b"5", b"\xff", b'{"keytype":"SCHEMA"}',
        b'{"keytype":"SCHEMA","subject":5}', b'{"keytype":"SCHEMA","subject":"a","version":"x"}',
    ],
)  # fmt: skip
def test_a_key_that_is_none(key: bytes | None) -> None:
    with pytest.raises(BadRecord):
        decode_key(key)


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"[]",
        b'{"schema":"x"}',
        b'{"schema":"x","id":1,"metadata":5}',
        b'{"id":"x","schema":"x"}',
        b'{"id":1,"schema":"x","references":[5]}',
    ],
)
def test_a_schema_that_is_none(value: bytes) -> None:
    desk = Desk()
    key = decode_key(CONFLUENTS[2][0])
    assert key is not None
    with pytest.raises(BadRecord):
        desk.state.apply(key, decode_value(value))
    assert desk.state.subjects() == []


@pytest.mark.parametrize(
    ("kind", "value"),
    [("MODE", {"mode": 5}), ("DELETE_SUBJECT", {"version": "x"}), ("DELETE_SUBJECT", {})],
)
def test_a_value_that_is_none(kind: str, value: dict[str, object]) -> None:
    with pytest.raises(BadRecord):
        Desk().state.apply(Key(kind, "a"), value)
