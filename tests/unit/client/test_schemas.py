"""Values that a schema registry describes; golden bytes by hand, and a registry of our own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from pybroker_kafka.client.schemas import Registry, RegistryError, SchemaError, schema_of
from tests.support.schema_registry import schema_registry

pytest.importorskip("fastavro")
pytest.importorskip("jsonschema")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with schema_registry() as found:
        yield found


@pytest.mark.parametrize(
    ("number", "data", "value"),
    [
        (1, b"\x02\x04ab", {"id": 1, "name": "ab"}),
        (2, b'{"id": 7}', {"id": 7}),
        (3, b"\0\x08\x96\x01", {"id": "150"}),
        (3, b"\0\x12\x02\x08\x01", {"at": "1970-01-01T00:00:01Z"}),
    ],
)
async def test_both_ways(url: str, number: int, data: bytes, value: dict[str, Any]) -> None:
    registry = Registry(url)
    await registry.load([number])
    whole = b"\0" + number.to_bytes(4, "big") + data
    assert schema_of(whole) == number
    decoded = registry.decode(whole)
    assert decoded is not None
    assert json.loads(decoded) == value
    assert registry.encode(number, json.dumps(value).encode()) == whole
    assert registry.encode(number, None) is None


async def test_items_of_true_have_no_additional_ones(url: str) -> None:
    """Where the validator alone fails with a TypeError."""
    registry = Registry(url)
    await registry.load([8])
    assert registry.encode(8, b'[1, "a"]') == b'\0\0\0\0\x08[1, "a"]'
    with pytest.raises(SchemaError, match="is not of type 'array'"):
        registry.encode(8, b"1")


async def test_an_inner_message(url: str) -> None:
    registry = Registry(url)
    await registry.load([3])
    assert registry.decode(b"\0\0\0\0\3\x04\x00\x00\x0a\x01x") == b'{"name": "x"}'


async def test_plain_values(url: str) -> None:
    """Numbers of 64 bits as numbers, and what a message has not set."""
    registry = Registry(url)
    await registry.load([3])
    for data, value in (
        (b"\0\x08\x96\x01", {"id": 150}),
        (b"\0\x12\x02\x08\x01", {"id": 0, "at": "1970-01-01T00:00:01Z"}),
    ):
        decoded = registry.decode(b"\0\0\0\0\3" + data, plain=True)
        assert decoded is not None
        assert json.loads(decoded) == value


async def test_other_values_stay_as_they_are(url: str) -> None:
    for data in (None, b"", b"text", b"\0\0\0", b"\1\0\0\0\1x"):
        assert schema_of(data) is None
        assert Registry(url).decode(data) == data


@pytest.mark.parametrize(
    ("number", "told"),
    [
        (4, "schema 4 cannot be used: "),
        (5, "schema 5 refers to others, which is not read"),
        (6, "schema 6 is of a kind that is not known: THRIFT"),
        (7, "there is no schema 7"),
    ],
)
async def test_schemas_that_are_of_no_use(url: str, number: int, told: str) -> None:
    with pytest.raises(SchemaError) as error:
        await Registry(url).load([number])
    assert told in str(error.value)
    assert "u:p" not in str(error.value)


async def test_values_that_are_not_as_said(url: str) -> None:
    registry = Registry(url)
    await registry.load([1, 2, 3])
    for data in (b"\0\0\0\0\1\x02", b"\0\0\0\0\2{", b"\0\0\0\0\3\x80", b"\0\0\0\0\3\x02\x10"):
        with pytest.raises(SchemaError, match="a value does not match schema"):
            registry.decode(data)
    for number, text in ((1, b'{"id": "x"}'), (1, b"{"), (2, b"{}"), (3, b'{"nope": 1}')):
        with pytest.raises(SchemaError, match=f"does not match schema {number}: [^\n]+$"):
            registry.encode(number, text)


async def test_no_registry(url: str) -> None:
    with pytest.raises(SchemaError, match="is not http://HOST:PORT"):
        Registry("localhost:8081")
    with pytest.raises(RegistryError, match="no schema registry answers at http"):
        await Registry("http://127.0.0.1:1").load([1])
    with pytest.raises(RegistryError, match="status 401 for schema 1"):
        await Registry(url.replace("u:p@", "")).load([1])
