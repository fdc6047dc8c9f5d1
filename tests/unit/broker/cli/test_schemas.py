"""Values that a schema registry describes; golden bytes by hand, and a registry of our own."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from pybroker.broker.cli.options import UserError
from pybroker.broker.cli.schemas import Registry, schema_of

pytest.importorskip("fastavro")
pytest.importorskip("jsonschema")
descriptor_pb2: Any = pytest.importorskip("google.protobuf.descriptor_pb2")

AVRO = {
    "type": "record",
    "name": "user",
    "fields": [{"name": "id", "type": "long"}, {"name": "name", "type": "string"}],
}
CHECKED = {"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}}}


def proto_file() -> bytes:
    """message outer { int64 id = 1; message inner { string name = 1; } }, and a timestamp."""
    file = descriptor_pb2.FileDescriptorProto(name="f.proto", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    outer = file.message_type.add(name="outer")
    outer.field.add(name="id", number=1, type=3, label=1)
    outer.field.add(name="at", number=2, type=11, label=1, type_name=".google.protobuf.Timestamp")
    inner = outer.nested_type.add(name="inner")
    inner.field.add(name="name", number=1, type=9, label=1)
    made: bytes = file.SerializeToString()
    return made


ANSWERS: dict[str, dict[str, Any]] = {
    "/schemas/ids/1": {"schema": json.dumps(AVRO)},
    "/schemas/ids/2": {"schema": json.dumps(CHECKED), "schemaType": "JSON"},
    "/schemas/ids/3": {"schema": "message outer {...}", "schemaType": "PROTOBUF"},
    "/schemas/ids/3?format=serialized": {"schema": base64.b64encode(proto_file()).decode()},
    "/schemas/ids/4": {"schema": "{", "schemaType": "AVRO"},
    "/schemas/ids/5": {"schema": "{}", "references": [{"name": "x"}]},
    "/schemas/ids/6": {"schema": "{}", "schemaType": "THRIFT"},
}


class Handler(BaseHTTPRequestHandler):
    """Answers as a registry does, to who logs in."""

    def do_GET(self) -> None:
        found = ANSWERS.get(self.path)
        is_known = self.headers["Authorization"] == f"Basic {base64.b64encode(b'u:p').decode()}"
        status = 401 if not is_known else 404 if found is None else 200
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(found or {}).encode())

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Not into the tests' output."""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://u:p@127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


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


async def test_an_inner_message(url: str) -> None:
    registry = Registry(url)
    await registry.load([3])
    assert registry.decode(b"\0\0\0\0\3\x04\x00\x00\x0a\x01x") == b'{"name": "x"}'


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
    with pytest.raises(UserError) as error:
        await Registry(url).load([number])
    assert told in error.value.message
    assert "u:p" not in error.value.message


async def test_values_that_are_not_as_said(url: str) -> None:
    registry = Registry(url)
    await registry.load([1, 2, 3])
    for data in (b"\0\0\0\0\1\x02", b"\0\0\0\0\2{", b"\0\0\0\0\3\x80", b"\0\0\0\0\3\x02\x10"):
        with pytest.raises(UserError, match="a value is not as schema"):
            registry.decode(data)
    for number, text in ((1, b'{"id": "x"}'), (1, b"{"), (2, b"{}"), (3, b'{"nope": 1}')):
        with pytest.raises(UserError, match=f"is not as schema {number} says"):
            registry.encode(number, text)


async def test_no_registry(url: str) -> None:
    with pytest.raises(UserError, match="is not http://HOST:PORT"):
        Registry("localhost:8081")
    with pytest.raises(UserError, match="no schema registry answers at http"):
        await Registry("http://127.0.0.1:1").load([1])
    with pytest.raises(UserError, match="status 401 for schema 1"):
        await Registry(url.replace("u:p@", "")).load([1])
