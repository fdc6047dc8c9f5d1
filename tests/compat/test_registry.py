"""The schema registry with confluent-kafka-python's client and serializers."""

from __future__ import annotations

import importlib
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient, SchemaRegistryError
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.schema_registry.schema_registry_client import SchemaReference
from confluent_kafka.serialization import MessageField, SerializationContext, SerializationError
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from pybroker_kafka.client.schemas import Registry
from pybroker_kafka.testing import KafkaCluster
from tests.support.registry import AGE, ID, MAIL, registry_process, with_fields

ONE, TWO = with_fields(ID), with_fields(ID, MAIL)


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaCluster]:
    with KafkaCluster() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def url(kafka: KafkaCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    output = tmp_path_factory.mktemp("registry") / "output"
    with registry_process(kafka.bootstrap, output) as (found, _command):
        yield found


@pytest.fixture
def client(url: str) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": url})


def ask(
    url: str,
    method: str = "GET",
    body: object = None,
    kind: str = "application/json",
    accept: str = "*/*",
) -> tuple[int, Any]:
    """Status and JSON of an answer."""
    data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
    headers = {"content-type": kind, "accept": accept}
    request = urllib.request.Request(url, data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def context(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


def test_avro_there_and_back(client: SchemaRegistryClient) -> None:
    written = AvroSerializer(client, ONE)({"id": 7}, context("avro"))
    assert written is not None
    assert AvroDeserializer(client)(written, context("avro")) == {"id": 7}
    newer = AvroSerializer(client, TWO)({"id": 8, "mail": "a@b"}, context("avro"))
    assert newer is not None
    assert AvroDeserializer(client, TWO)(written, context("avro")) == {"id": 7, "mail": None}
    assert AvroDeserializer(client, ONE)(newer, context("avro")) == {"id": 8}
    assert client.get_versions("avro-value") == [1, 2]


def test_the_clients_calls(client: SchemaRegistryClient) -> None:
    subject = "calls/of a client-value"  # its name is encoded in paths
    number = client.register_schema(subject, Schema(ONE, "AVRO"))
    found = client.lookup_schema(subject, Schema(ONE, "AVRO"))
    assert (found.schema_id, found.subject, found.version) == (number, subject, 1)
    assert client.get_schema(number).schema_str == ONE.replace(" ", "")
    assert found.guid is not None
    assert client.get_schema_by_guid(found.guid).schema_str == ONE.replace(" ", "")
    assert subject in client.get_subjects()
    assert subject in client.get_subjects_by_schema_id(number)
    assert client.get_version(subject, 1).schema_id == number
    assert client.get_latest_version(subject).version == 1
    assert client.test_compatibility(subject, Schema(TWO, "AVRO"))
    assert not client.test_compatibility(subject, Schema(with_fields(ID, AGE), "AVRO"))
    with pytest.raises(SchemaRegistryError, match="incompatible with an earlier") as error:
        client.register_schema(subject, Schema(with_fields(ID, AGE), "AVRO"))
    assert (error.value.http_status_code, error.value.error_code) == (409, 409)
    client.set_compatibility(subject, "FULL_TRANSITIVE")
    assert client.get_compatibility(subject) == "FULL_TRANSITIVE"
    assert client.get_compatibility() == "BACKWARD"
    assert client.update_mode(subject, "READONLY") == "READONLY"
    with pytest.raises(SchemaRegistryError, match="read-only") as error:
        client.register_schema(subject, Schema(TWO, "AVRO"))
    assert error.value.error_code == 42205
    assert client.delete_mode(subject) == "READONLY"
    assert client.get_global_mode() == "READWRITE"
    assert client.delete_version(subject, 1) == 1
    assert client.delete_version(subject, 1, permanent=True) == 1
    assert subject not in client.get_subjects()
    assert client.get_contexts() == ["."]


def test_references(client: SchemaRegistryClient) -> None:
    client.register_schema("inner", Schema(ONE, "AVRO"))
    outer = Schema(
        with_fields({"name": "user", "type": "User"}, name="Order"),
        "AVRO",
        [SchemaReference("User", "inner", 1)],
    )
    written = AvroSerializer(client, outer)({"user": {"id": 1}}, context("orders"))
    assert AvroDeserializer(client)(written, context("orders")) == {"user": {"id": 1}}
    number = client.lookup_schema("orders-value", outer).schema_id
    assert client.get_referenced_by("inner", 1) == [number]
    with pytest.raises(SchemaRegistryError) as error:
        client.delete_subject("inner")
    assert error.value.error_code == 42206


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/schemas/ids/99999", 404, 40403),
        ("/schemas/ids/none", 404, 404),
        ("/subjects/none/versions", 404, 40401),
        ("/subjects/none/versions/1", 404, 40401),
        ("/subjects/none/versions/0", 422, 42202),
        ("/subjects/none/versions/none", 422, 42202),
        ("/config/none", 404, 40408),
        ("/mode/none", 404, 40409),
        ("/nowhere", 404, 404),
        ("/subjects/%ff/versions", 400, 400),
    ],
)
def test_errors(url: str, path: str, status: int, code: int) -> None:
    answer = ask(url + path)
    assert (answer[0], answer[1]["error_code"]) == (status, code)
    assert answer[1]["message"]


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"{", "application/json", 400),
        (b"[]", "application/json", 400),
        (b"[" * 100_000, "application/json", 400),
        (b'{"schema": "\\ud800"}', "application/json", 400),
        (b'{"schema": 5}', "application/json", 422),
        (b'{"schema": "\\"int\\"", "references": [{}]}', "application/json", 422),
        (b'{"schema": "\\"int\\"", "id": "x"}', "application/json", 422),
        (b"{}", "text/xml", 415),
        (b" " * 3_000_000, "application/json", 413),
    ],
)
def test_bodies_that_are_none(url: str, body: bytes, kind: str, status: int) -> None:
    answer = ask(f"{url}/subjects/bad/versions", "POST", body, kind)
    assert (answer[0], answer[1]["error_code"]) == (status, status)


def test_content_types(url: str) -> None:
    for kind in ("application/vnd.schemaregistry.v1+json", "application/json"):
        request = urllib.request.Request(f"{url}/subjects", headers={"accept": kind})
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert answer.headers["content-type"] == kind
    assert ask(f"{url}/subjects", accept="text/html")[0] == 406
    assert ask(f"{url}/subjects", "PATCH")[0] == 405


def test_contexts_in_paths(url: str) -> None:
    body = {"schema": ONE}
    assert ask(f"{url}/contexts/:.eu:/subjects/a/versions", "POST", body)[1]["id"] == 1
    assert ask(f"{url}/subjects/:.eu:a/versions")[1] == [1]
    assert ask(f"{url}/contexts/:.eu:/subjects")[1] == [":.eu:a"]
    assert ask(f"{url}/contexts/:.eu:/schemas/ids/1")[1]["schema"] == ONE.replace(" ", "")
    assert ask(f"{url}/contexts")[1] == [".", ".eu"]
    ask(f"{url}/subjects/:.eu:a", "DELETE")
    ask(f"{url}/subjects/:.eu:a?permanent=true", "DELETE")
    ask(f"{url}/contexts/.eu", "DELETE")
    assert ask(f"{url}/contexts")[1] == ["."]


def test_the_schemas_outlive_their_instance(kafka: KafkaCluster, tmp_path: Path) -> None:
    options = ("--topic", "_other", "--group", "other")
    with registry_process(kafka.bootstrap, tmp_path / "1", *options) as (url, _):
        ask(f"{url}/subjects/a/versions", "POST", {"schema": ONE})
        ask(f"{url}/config", "PUT", {"compatibility": "NONE"})
    with registry_process(kafka.bootstrap, tmp_path / "2", *options) as (url, _):
        assert ask(f"{url}/schemas/ids/1")[1]["schema"] == ONE.replace(" ", "")
        assert ask(f"{url}/config")[1] == {"compatibilityLevel": "NONE"}
        assert ask(f"{url}/subjects/b/versions", "POST", {"schema": TWO})[1]["id"] == 2


CHECKED = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "User",
    "type": "object",
    "properties": {"id": {"type": "integer"}},
    "required": ["id"],
    "additionalProperties": False,
}


def test_json_schema_there_and_back(client: SchemaRegistryClient) -> None:
    written = JSONSerializer(json.dumps(CHECKED), client)({"id": 7}, context("json"))
    assert written is not None
    read = JSONDeserializer(json.dumps(CHECKED), schema_registry_client=client)
    assert read(written, context("json")) == {"id": 7}
    more = {**CHECKED, "properties": {"id": {"type": "integer"}, "name": {"type": "string"}}}
    JSONSerializer(json.dumps(more), client)({"id": 7, "name": "x"}, context("json"))
    assert client.get_versions("json-value") == [1, 2]
    less = {**CHECKED, "properties": {}}
    with pytest.raises(SchemaRegistryError, match="incompatible"):
        client.register_schema("json-value", Schema(json.dumps(less), "JSON"))


def test_json_schemas_refer_to_others(client: SchemaRegistryClient) -> None:
    client.register_schema("user", Schema(json.dumps(CHECKED), "JSON"))
    order = {"title": "Order", "type": "object", "properties": {"user": {"$ref": "user.json"}}}
    outer = Schema(json.dumps(order), "JSON", [SchemaReference("user.json", "user", 1)])
    written = JSONSerializer(outer, client)({"user": {"id": 1}}, context("json-orders"))
    assert written is not None
    read = JSONDeserializer(outer, schema_registry_client=client)
    assert read(written, context("json-orders")) == {"user": {"id": 1}}
    with pytest.raises(SerializationError):
        JSONSerializer(outer, client)({"user": {"id": "x"}}, context("json-orders"))


def message_class(extra: bool = False) -> Any:
    """A class for `message User { int64 id = 1; google.protobuf.Timestamp at = 2; }`."""
    importlib.import_module("google.protobuf.timestamp_pb2")
    file = descriptor_pb2.FileDescriptorProto(name="user.proto", package="p", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    user = file.message_type.add(name="User")
    user.field.add(name="id", number=1, type=3, label=1)
    user.field.add(name="at", number=2, type=11, label=1, type_name=".google.protobuf.Timestamp")
    if extra:
        user.field.add(name="mail", number=3, type=9, label=1)
    pool = descriptor_pool.DescriptorPool()
    known = descriptor_pb2.FileDescriptorProto()
    descriptor_pool.Default().FindFileByName(file.dependency[0]).CopyToProto(known)
    pool.Add(known)
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("p.User"))


def test_protobuf_there_and_back(client: SchemaRegistryClient, url: str) -> None:
    settings = {"use.deprecated.format": False}
    user = message_class()
    written = ProtobufSerializer(user, client, settings)(user(id=7), context("proto"))
    assert written is not None
    assert ProtobufDeserializer(user, settings, client)(written, context("proto")).id == 7
    newer = message_class(extra=True)
    ProtobufSerializer(newer, client, settings)(newer(id=7, mail="x"), context("proto"))
    assert client.get_versions("proto-value") == [1, 2]
    text = client.get_version("proto-value", 1).schema.schema_str
    assert text is not None
    assert text.startswith('syntax = "proto3";\npackage p;\n\nimport "google/protobuf/timestamp')
    changed = text.replace("int64 id", "string id")
    with pytest.raises(SchemaRegistryError, match="incompatible"):
        client.register_schema("proto-value", Schema(changed, "PROTOBUF"))
    # What our own client asks for.
    number = client.get_version("proto-value", 1).schema_id
    registry = Registry(url)
    assert number is not None
    registry.load_now(number)
    assert json.loads(registry.decode(written) or b"") == {"id": "7"}


def test_our_own_client_reads_all_formats(client: SchemaRegistryClient, url: str) -> None:
    registry = Registry(url)
    for kind, text in (("AVRO", ONE), ("JSON", json.dumps(CHECKED))):
        number = client.register_schema(f"ours-{kind}", Schema(text, kind))
        registry.load_now(number)
        encoded = registry.encode(number, b'{"id": 5}')
        assert registry.decode(encoded) == b'{"id": 5}'


def test_the_types_of_schemas(url: str) -> None:
    assert ask(f"{url}/schemas/types")[1] == ["JSON", "PROTOBUF", "AVRO"]
    assert ask(f"{url}/v1/metadata/version")[1]["version"]
    assert ask(f"{url}/v1/metadata/id")[1]["scope"]["clusters"]["kafka-cluster"]
    assert ask(url)[1] == {}
