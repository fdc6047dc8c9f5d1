"""Agreement with two codecs of others, kio's and kafka-python's, wherever they know a version.

What we write, the other reads with the same values and writes back as the same bytes; these bytes
we read as the message we began with. So each side reads what the other wrote.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import importlib
import io
import pkgutil
import random
import re
import uuid
from typing import Any

import pytest
from kafka.protocol.data_container import DataContainer
from kio.index import UnknownEntity, load_entity_schema
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from pybroker_kafka.protocol.codec import decode, decode_versioned, encode, encode_versioned
from pybroker_kafka.protocol.schema import ZERO_UUID, Field, Message, Struct
from tests.support.counts import report
from tests.support.message_factory import MessageFactory, every_message_and_version, within

EXAMPLES = 20  # for each message and version
KIO_AT_LEAST = 470
KAFKA_PYTHON_AT_LEAST = 480


class KioFactory(MessageFactory):
    """Small numbers only: kio makes enums of error codes and datetimes of timestamps."""

    def integer(self, bits: int, choice: int) -> int:
        return choice % 100


def fields_of(value: Struct, version: int) -> list[Field]:
    return [field for field in value._fields if within(field.versions, version)]


def in_order(value: Struct, version: int) -> list[Any]:
    """The values of this version's fields, nested structs as lists."""

    def plain(field: Field, item: Any) -> Any:
        if item is None or (field.kind == "uuid" and item == ZERO_UUID):
            return None
        if field.kind == "array" and not isinstance(field.element, str):
            return [in_order(each, version) for each in item]
        return in_order(item, version) if field.kind == "struct" else item

    return [plain(field, getattr(value, field.name)) for field in fields_of(value, version)]


def snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def kio_schema(cls: type[Message], version: int) -> Any:
    name = cls.__name__
    kind: Any = EntityType[cls._spec.kind]
    name = name.removesuffix("Request").removesuffix("Response")
    try:
        return load_entity_schema(snake_case(name), version, kind)
    except UnknownEntity:
        return None


def kio_values(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return [kio_values(getattr(value, field.name)) for field in dataclasses.fields(value)]
    if isinstance(value, tuple):
        return [kio_values(item) for item in value]
    if isinstance(value, datetime.timedelta):
        return round(value.total_seconds() * 1000)
    if isinstance(value, datetime.datetime):
        return round(value.timestamp() * 1000)
    if isinstance(value, uuid.UUID):
        return value.bytes
    return value.value if isinstance(value, enum.Enum) else value


def test_kio_agrees(request: pytest.FixtureRequest) -> None:
    source = random.Random("kio")
    known = 0
    for cls, version in every_message_and_version():
        schema = kio_schema(cls, version)
        if schema is None:
            continue
        known += 1
        read, write = entity_reader(schema), entity_writer(schema)
        for _ in range(EXAMPLES):
            factory = KioFactory(source.randbytes(150), unknown_tags=False)
            message = factory.make(cls, version)
            data = encode(message, version)
            theirs = read(data, 0)[0]
            assert kio_values(theirs) == in_order(message, version), f"{cls.__name__} v{version}"
            written = io.BytesIO()
            write(written, theirs)
            assert written.getvalue() == data, f"{cls.__name__} v{version}"
            assert decode(cls, version, written.getvalue()) == message
    report(
        request.config,
        f"protocol: kio agrees on {known} messages and versions, {known * EXAMPLES} examples",
    )
    assert known >= KIO_AT_LEAST


def kafka_python_classes() -> dict[str, Any]:
    found: dict[str, Any] = {}
    names = ["kafka.protocol.sasl"]
    for area in ("admin", "consumer", "metadata", "producer"):
        package = importlib.import_module(f"kafka.protocol.{area}")
        names += [
            f"{package.__name__}.{each.name}" for each in pkgutil.iter_modules(package.__path__)
        ]
    for name in names:
        found |= vars(importlib.import_module(name))
    return {
        key: value
        for key, value in found.items()
        if isinstance(value, type) and issubclass(value, DataContainer)
    }


def assert_same(ours: Struct, theirs: dict[str, Any], version: int, path: str) -> None:
    """Compares by field name. kafka-python reads the zero UUID and an absent tagged struct as None,
    and makes sets of authorized operations, under another name."""
    for field in fields_of(ours, version):
        name = f"{path}.{field.name}"
        value = getattr(ours, field.name)
        if field.name.endswith("authorized_operations"):
            continue
        other = theirs[field.name]
        if field.kind == "uuid":
            assert value == (ZERO_UUID if other is None else other.bytes), name
        elif field.kind == "struct" and other is not None:
            assert_same(value, other, version, name)
        elif field.kind == "struct":
            assert value is None or value == type(value)(), name
        elif field.kind == "array" and value is not None and not isinstance(field.element, str):
            assert len(value) == len(other), name
            for each, other_item in zip(value, other, strict=True):
                assert_same(each, other_item, version, name)
        else:
            assert value == other, name


def test_kafka_python_agrees(request: pytest.FixtureRequest) -> None:
    source = random.Random("kafka-python")
    classes = kafka_python_classes()
    known = 0
    for cls, version in every_message_and_version():
        theirs_class = classes.get(cls.__name__)
        if theirs_class is None or not theirs_class.valid_versions[1] >= version:
            continue
        known += 1
        for _ in range(EXAMPLES):
            entropy = source.randbytes(150)
            message = MessageFactory(entropy, unknown_tags=False).make(cls, version)
            if cls.__name__ == "ApiVersionsResponse":
                message.error_code = 0  # else kafka-python reads any version as 0
            # Data messages it reads with the version in front of them.
            is_data = cls._spec.kind == "data"
            data = encode_versioned(message, version) if is_data else encode(message, version)
            theirs = theirs_class.decode(data, version=version)
            assert_same(message, theirs.to_dict(json=False), version, f"{cls.__name__} v{version}")
            theirs._header = None
            written = bytes(theirs.encode(version=version))
            assert written == data, f"{cls.__name__} v{version}"
            read = decode_versioned(cls, written) if is_data else decode(cls, version, written)
            assert read == message
    report(
        request.config,
        f"protocol: kafka-python agrees on {known} messages and versions,"
        f" {known * EXAMPLES} examples",
    )
    assert known >= KAFKA_PYTHON_AT_LEAST
