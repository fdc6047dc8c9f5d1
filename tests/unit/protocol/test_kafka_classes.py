"""One message of each kind and version as Apache Kafka's own generated classes write it.

tests/golden/kafka-classes.json holds, for each, the bytes that Kafka 3.9.1's class wrote, and the
fields in the JSON form that the class gives them; kafka-classes-4.json has the messages and
versions that 3.9.1 lacks, as 4.3.1's classes wrote them: `python -m tests.support.kafka_classes`
writes it. We must read the same fields from the bytes, and write the same bytes.
"""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import Any

import pytest

from pybroker_kafka.protocol.api import API_TABLE, ApiKey
from pybroker_kafka.protocol.codec import decode_from, encode
from pybroker_kafka.protocol.messages import consumer_group_data
from pybroker_kafka.protocol.schema import Field, Message, Struct
from pybroker_kafka.protocol.uuids import uuid_from_text
from tests.support.kafka_classes import EXTENDED, OF_4, OF_39, later_messages, recorded
from tests.support.message_factory import all_messages, every_message_and_version, within

CLASSES = {cls.__name__: cls for cls in all_messages()}


def snake_case(name: str) -> str:
    name = name.replace("KRaft", "Kraft")
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def assert_fields(value: Struct, theirs: dict[str, Any], version: int, path: str) -> None:
    """Each field of the version has Kafka's value, under Kafka's name. Their JSON leaves out tagged
    fields that hold their default, and of records it tells the size."""
    named = {snake_case(name): item for name, item in theirs.items()}
    if "records_size_in_bytes" in named:
        named["records"] = named.pop("records_size_in_bytes")
    present = {field.name: field for field in value._fields if within(field.versions, version)}
    assert named.keys() <= present.keys(), path
    for name, field in present.items():
        ours = getattr(value, name)
        if name in named:
            assert_same(field, ours, named[name], version, f"{path}.{name}")
        else:
            assert field.tag is not None, f"{path}.{name}"
            assert ours == getattr(type(value)(), name), f"{path}.{name}"


def assert_same(field: Field, ours: Any, theirs: Any, version: int, path: str) -> None:
    if ours is None or theirs is None:
        assert ours is theirs, path
    elif field.kind == "struct":
        assert_fields(ours, theirs, version, path)
    elif field.kind == "array":
        assert len(ours) == len(theirs), path
        for item, their_item in zip(ours, theirs, strict=True):
            if isinstance(field.element, str):
                assert item == plain(field.element, their_item), path
            else:
                assert_fields(item, their_item, version, path)
    elif field.kind == "records":
        assert len(ours) == theirs, path
    else:
        assert ours == plain(field.kind, theirs), path


def plain(kind: str, value: Any) -> Any:
    if kind == "uuid":
        return uuid_from_text(value)
    if kind == "bytes":
        return base64.b64decode(value)
    if kind == "float64":
        return float(value)  # JSON has no infinity, so it comes as text
    return value


def is_of_39(cls: type[Message], version: int) -> bool:
    key = cls._spec.api_key
    if key < 0:
        # The records of consumer groups are those of 4.3.1: golden/consumer-groups.json.
        return cls.__module__ != consumer_group_data.__name__
    return version <= API_TABLE[ApiKey(key)].highest()


def names(entries: list[dict[str, Any]]) -> list[tuple[str, int]]:
    return [(entry["message"], entry["version"]) for entry in entries]


def test_each_message_and_version_of_39_is_there_once() -> None:
    kinds_of_4 = {
        cls
        for cls, version in later_messages()
        if cls._spec.api_key < 0 and (cls.__name__, version) not in EXTENDED
    }
    assert names(recorded(OF_39)) == [
        (cls.__name__, version)
        for cls, version in every_message_and_version()
        if is_of_39(cls, version) and cls not in kinds_of_4
    ]


def test_each_later_message_and_version_is_there_once() -> None:
    later = [(cls.__name__, version) for cls, version in later_messages()]
    assert names(recorded(OF_4)) == later


@pytest.mark.parametrize("golden", [OF_39, OF_4])
def test_kafkas_bytes_are_read_with_kafkas_values_and_written_back(golden: Path) -> None:
    for entry in recorded(golden):
        cls, version = CLASSES[entry["message"]], entry["version"]
        data = bytes.fromhex(entry["bytes"])
        message, end = decode_from(cls, version, data)
        assert end == len(data)
        assert_fields(message, entry["fields"], version, f"{cls.__name__} v{version}")
        assert encode(message, version) == data, f"{cls.__name__} v{version}"
