"""Keys and values of records as text: as they are, or of Kafka's internal topics.

Mirrors: DumpLogSegments' message parsers, the generated JsonConverter classes,
TransactionLog.formatRecordKeyAndValue. Groups of the consumer protocol are shown as Kafka 4.3 shows
them, in whose records the number in front of a key is its kind. Leaves out KRaft.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from ..coordinator.transaction.states import TransactionState
from ..protocol.codec import decode, decode_versioned
from ..protocol.errors import ProtocolError
from ..protocol.messages import consumer_group_data as consumer_groups
from ..protocol.messages import share_state_data as share_states
from ..protocol.messages import streams_group_data as streams_groups
from ..protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from ..protocol.messages.group_data import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from ..protocol.messages.transaction_data import TransactionLogKey, TransactionLogValue
from ..protocol.records.batch import Record
from ..protocol.schema import Field, Message, Struct, version_range
from ..protocol.uuids import uuid_to_text

Text = tuple[str | None, str | None]
CONSUMER_PROTOCOL = "consumer"
_LAST_OFFSET_KEY_VERSION = 1
_GROUP_KEY_VERSION = 2
_KIND_BYTES = 2
_MODERN_GROUP_CLASSES: Mapping[int, tuple[type[Message], type[Message]]] = {
    3: (consumer_groups.ConsumerGroupMetadataKey, consumer_groups.ConsumerGroupMetadataValue),
    5: (
        consumer_groups.ConsumerGroupMemberMetadataKey,
        consumer_groups.ConsumerGroupMemberMetadataValue,
    ),
    6: (
        consumer_groups.ConsumerGroupTargetAssignmentMetadataKey,
        consumer_groups.ConsumerGroupTargetAssignmentMetadataValue,
    ),
    7: (
        consumer_groups.ConsumerGroupTargetAssignmentMemberKey,
        consumer_groups.ConsumerGroupTargetAssignmentMemberValue,
    ),
    8: (
        consumer_groups.ConsumerGroupCurrentMemberAssignmentKey,
        consumer_groups.ConsumerGroupCurrentMemberAssignmentValue,
    ),
    16: (
        consumer_groups.ConsumerGroupRegularExpressionKey,
        consumer_groups.ConsumerGroupRegularExpressionValue,
    ),
    17: (streams_groups.StreamsGroupMetadataKey, streams_groups.StreamsGroupMetadataValue),
    19: (
        streams_groups.StreamsGroupMemberMetadataKey,
        streams_groups.StreamsGroupMemberMetadataValue,
    ),
    20: (
        streams_groups.StreamsGroupTargetAssignmentMetadataKey,
        streams_groups.StreamsGroupTargetAssignmentMetadataValue,
    ),
    21: (
        streams_groups.StreamsGroupTargetAssignmentMemberKey,
        streams_groups.StreamsGroupTargetAssignmentMemberValue,
    ),
    22: (
        streams_groups.StreamsGroupCurrentMemberAssignmentKey,
        streams_groups.StreamsGroupCurrentMemberAssignmentValue,
    ),
    23: (streams_groups.StreamsGroupTopologyKey, streams_groups.StreamsGroupTopologyValue),
}
_SHARE_STATE_CLASSES: Mapping[int, tuple[type[Message], type[Message]]] = {
    0: (share_states.ShareSnapshotKey, share_states.ShareSnapshotValue),
    1: (share_states.ShareUpdateKey, share_states.ShareUpdateValue),
}


class PlainRecords:
    """Keys and values as UTF-8."""

    def text_of(self, record: Record) -> Text:
        key, value = record.key, record.value
        return (
            None if key is None else bytes(key).decode(errors="replace"),
            None if value is None else bytes(value).decode(errors="replace"),
        )


class GroupRecords:
    """`__consumer_offsets`: group metadata and committed offsets as JSON."""

    def text_of(self, record: Record) -> Text:
        if record.key is None:
            raise ProtocolError(
                f"Failed to decode message at offset {record.offset} using offset topic decoder "
                "(message had a missing key)"
            )
        version = _version(record.key)
        if version in _MODERN_GROUP_CLASSES:
            return _text_of_kind(_MODERN_GROUP_CLASSES[version], version, record)
        if version > _GROUP_KEY_VERSION or version < 0:
            return f"Unknown record type {version} at offset {record.offset}, skipping.", None
        key_class: type[Message] = OffsetCommitKey
        value_class: type[Message] = OffsetCommitValue
        if version > _LAST_OFFSET_KEY_VERSION:
            key_class, value_class = GroupMetadataKey, GroupMetadataValue
        try:
            data = _json_of(decode_versioned(key_class, record.key), version)
            key = _compact({"type": str(version), "data": data})
            if record.value is None:
                return key, "<DELETE>"
            return key, self._value(value_class, record.value)
        except ProtocolError as error:
            return f"Error at offset {record.offset}, skipping. {error}", None

    def _value(self, cls: type[Message], value: bytes) -> str:
        version = _version(value)
        data = _json_of(decode_versioned(cls, value), version)
        if data.get("protocolType") == CONSUMER_PROTOCOL:
            for member in data["members"]:
                _decode_in_place(member, "subscription", ConsumerProtocolSubscription)
                _decode_in_place(member, "assignment", ConsumerProtocolAssignment)
        return _compact({"version": str(version), "data": data})


def _text_of_kind(classes: tuple[type[Message], type[Message]], kind: int, record: Record) -> Text:
    key_class, value_class = classes
    assert record.key is not None
    try:
        data = _json_of(decode(key_class, 0, record.key, _KIND_BYTES), 0)
        key = _compact({"type": str(kind), "data": data})
        if record.value is None:
            return key, "<DELETE>"
        value = _json_of(decode_versioned(value_class, record.value), 0)
        return key, _compact({"version": "0", "data": value})
    except ProtocolError as error:
        return f"Error at offset {record.offset}, skipping. {error}", None


class ShareStateRecords:
    """`__share_group_state`: snapshots of share partitions, and what changed since, as JSON."""

    def text_of(self, record: Record) -> Text:
        if record.key is None:
            raise ProtocolError(
                f"Failed to decode message at offset {record.offset} using the specified "
                "decoder (message had a missing key)"
            )
        kind = _version(record.key)
        if kind not in _SHARE_STATE_CLASSES:
            return f"Unknown record type {kind} at offset {record.offset}, skipping.", None
        return _text_of_kind(_SHARE_STATE_CLASSES[kind], kind, record)


class TransactionRecords:
    """`__transaction_state`: the state of transactional ids."""

    def text_of(self, record: Record) -> Text:
        if record.key is None:
            raise ProtocolError(f"the message at offset {record.offset} has no key")
        version = _version(record.key)
        if version != 0:
            return f"unknown::version={version}", None
        key = decode_versioned(TransactionLogKey, record.key)
        named = f"transaction_metadata::transactionalId={key.transactional_id}"
        if record.value is None:
            return named, "<DELETE>"
        value = decode_versioned(TransactionLogValue, record.value)
        try:
            state = TransactionState(value.transaction_status)
        except ValueError:
            raise ProtocolError(f"unknown transaction state {value.transaction_status}") from None
        partitions = [
            f"{topic.topic}-{partition}"
            for topic in value.transaction_partitions or ()
            for partition in topic.partition_ids
            if state is not TransactionState.EMPTY
        ]
        return named, (
            f"producerId:{value.producer_id},producerEpoch:{value.producer_epoch},"
            f"state={state.label},partitions=[{','.join(partitions)}],"
            f"txnLastUpdateTimestamp={value.transaction_last_update_timestamp_ms},"
            f"txnTimeoutMs={value.transaction_timeout_ms}"
        )


def _version(data: bytes) -> int:
    if len(data) < 2:
        raise ProtocolError("too short for a version")
    return int.from_bytes(data[:2], "big", signed=True)


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _decode_in_place(member: dict[str, Any], name: str, cls: type[Message]) -> None:
    """Bytes that are no message of the consumer protocol stay bytes."""
    data = base64.b64decode(member[name])
    try:
        member[name] = _json_of(decode_versioned(cls, data), _version(data))
    except ProtocolError:
        return


def _json_of(struct: Struct, version: int) -> dict[str, Any]:
    """A struct by the names of Kafka's schemas, with the fields that the version has."""
    found: dict[str, Any] = {}
    for field in struct._fields:
        low, high = version_range(field.versions)
        value = getattr(struct, field.name)
        if not low <= version <= high or _is_left_out(struct, field, value):
            continue
        is_uuid = field.kind == "uuid"
        found[_camel_case(field.name)] = (
            uuid_to_text(value) if is_uuid else _value_of(value, version)
        )
    return found


def _is_left_out(struct: Struct, field: Field, value: Any) -> bool:
    """A tagged field with its default value is not in the record."""
    return field.tag is not None and value == getattr(type(struct)(), field.name)


def _value_of(value: Any, version: int) -> Any:
    if isinstance(value, Struct):
        return _json_of(value, version)
    if isinstance(value, list):
        return [_value_of(item, version) for item in value]
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(value).decode()
    return value


def _camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
