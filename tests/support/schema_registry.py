"""A schema registry of our own: what it knows, and to whom it tells it."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

AVRO = {
    "type": "record",
    "name": "user",
    "fields": [{"name": "id", "type": "long"}, {"name": "name", "type": "string"}],
}
CHECKED = {"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}}}
ANY_ITEMS = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "array",
    "items": True,
    "additionalItems": False,
}


def proto_file() -> bytes:
    """message outer { int64 id = 1; message inner { string name = 1; } }, and a timestamp."""
    from google.protobuf import descriptor_pb2

    file = descriptor_pb2.FileDescriptorProto(name="f.proto", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    outer = file.message_type.add(name="outer")
    outer.field.add(name="id", number=1, type=3, label=1)
    outer.field.add(name="at", number=2, type=11, label=1, type_name=".google.protobuf.Timestamp")
    inner = outer.nested_type.add(name="inner")
    inner.field.add(name="name", number=1, type=9, label=1)
    made: bytes = file.SerializeToString()
    return made


def answers() -> dict[str, dict[str, Any]]:
    """By path; some of them of no use."""
    return {
        "/schemas/ids/1": {"schema": json.dumps(AVRO)},
        "/schemas/ids/2": {"schema": json.dumps(CHECKED), "schemaType": "JSON"},
        "/schemas/ids/3": {"schema": "message outer {...}", "schemaType": "PROTOBUF"},
        "/schemas/ids/3?format=serialized": {"schema": base64.b64encode(proto_file()).decode()},
        "/schemas/ids/4": {"schema": "{", "schemaType": "AVRO"},
        "/schemas/ids/5": {"schema": "{}", "references": [{"name": "x"}]},
        "/schemas/ids/6": {"schema": "{}", "schemaType": "THRIFT"},
        "/schemas/ids/8": {"schema": json.dumps(ANY_ITEMS), "schemaType": "JSON"},
    }


class Handler(BaseHTTPRequestHandler):
    """Answers as a registry does, to who logs in."""

    def do_GET(self) -> None:
        found = answers().get(self.path)
        is_known = self.headers["Authorization"] == f"Basic {base64.b64encode(b'u:p').decode()}"
        status = 401 if not is_known else 404 if found is None else 200
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(found or {}).encode())

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Not into the tests' output."""


@contextmanager
def schema_registry() -> Iterator[str]:
    """Its URL, with a login."""
    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://u:p@127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
