"""The rules of fields one by one: versions, null, defaults, ignorable, tags, lengths."""

from __future__ import annotations

from typing import Any

import pytest

from pybroker_kafka.protocol.apis.api_versions import ApiVersionsResponse
from pybroker_kafka.protocol.apis.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseAssignment,
)
from pybroker_kafka.protocol.apis.fetch import FetchRequest, FetchTopic, ReplicaState
from pybroker_kafka.protocol.apis.heartbeat import HeartbeatRequest
from pybroker_kafka.protocol.apis.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from pybroker_kafka.protocol.apis.list_offsets import ListOffsetsResponse
from pybroker_kafka.protocol.apis.metadata import MetadataRequest, MetadataRequestTopic
from pybroker_kafka.protocol.apis.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from pybroker_kafka.protocol.apis.sasl_authenticate import SaslAuthenticateRequest
from pybroker_kafka.protocol.codec import (
    decode,
    decode_from,
    decode_versioned,
    encode,
    encode_parts,
    encode_versioned,
)
from pybroker_kafka.protocol.errors import ProtocolError
from pybroker_kafka.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from pybroker_kafka.protocol.messages.group_data import OffsetCommitKey, OffsetCommitValue

TOPIC_ID = bytes(range(16))


def heartbeat(**fields: Any) -> HeartbeatRequest:
    given: dict[str, Any] = {"group_id": "g", "generation_id": 1, "member_id": "m"}
    return HeartbeatRequest(**given | fields)


# Versions


def test_a_message_has_no_other_versions() -> None:
    for version in (-1, 5, 99):
        with pytest.raises(ProtocolError, match=f"HeartbeatRequest has no version {version}"):
            encode(heartbeat(), version)
        with pytest.raises(ProtocolError, match=f"HeartbeatRequest has no version {version}"):
            decode(HeartbeatRequest, version, bytes(100))


def test_a_field_outside_its_versions_reads_as_its_default() -> None:
    read = decode(FetchRequest, 0, encode(FetchRequest(replica_id=4), 0))
    assert read.max_bytes == 0x7FFFFFFF
    assert read.session_epoch == -1
    assert read.rack_id == ""
    assert read.forgotten_topics_data == []


def test_a_field_outside_its_versions_must_hold_its_default_to_be_written() -> None:
    with pytest.raises(ProtocolError, match=r"group_instance_id cannot be written in version 2"):
        encode(heartbeat(group_instance_id="i"), 2)
    assert encode(heartbeat(group_instance_id=None), 2) == encode(heartbeat(), 2)
    by_id = MetadataRequest(topics=[MetadataRequestTopic(topic_id=TOPIC_ID, name="t")])
    assert decode(MetadataRequest, 9, encode(by_id, 9)).topics == [MetadataRequestTopic(name="t")]


def test_an_ignorable_field_is_left_out() -> None:
    request = FetchRequest(session_id=0, rack_id="r")
    assert decode(FetchRequest, 10, encode(request, 10)).rack_id == ""
    assert decode(FetchRequest, 11, encode(request, 11)).rack_id == "r"


# Null


def test_null_only_where_the_version_allows_it() -> None:
    with pytest.raises(ProtocolError, match=r"topics must not be null in version 0"):
        encode(MetadataRequest(topics=None), 0)
    assert encode(MetadataRequest(topics=None), 1) == b"\xff\xff\xff\xff"
    assert encode(MetadataRequest(topics=[]), 1) == bytes(4)
    with pytest.raises(ProtocolError, match="null"):
        decode(MetadataRequest, 0, b"\xff\xff\xff\xff")
    assert decode(MetadataRequest, 1, b"\xff\xff\xff\xff").topics is None
    assert decode(MetadataRequest, 1, bytes(4)).topics == []


@pytest.mark.parametrize(
    ("version", "empty", "null"), [(0, bytes(4), b"\xff" * 4), (2, b"\1\0", b"\0\0")]
)
def test_null_bytes(version: int, empty: bytes, null: bytes) -> None:
    assert encode(SaslAuthenticateRequest(), version) == empty
    assert decode(SaslAuthenticateRequest, version, empty).auth_bytes == b""
    with pytest.raises(ProtocolError, match="auth_bytes must not be null"):
        decode(SaslAuthenticateRequest, version, null)


@pytest.mark.parametrize("version", [3, 4])
def test_a_null_string_in_a_field_that_has_none(version: int) -> None:
    with pytest.raises(ProtocolError, match="group_id must not be null"):
        encode(heartbeat(group_id=None), version)
    with pytest.raises(ProtocolError, match="group_id must not be null"):
        decode(HeartbeatRequest, version, b"\0" if version == 4 else b"\xff\xff")


def test_negative_lengths_other_than_null() -> None:
    with pytest.raises(ProtocolError, match="negative"):
        decode(MetadataRequest, 1, b"\xff\xff\xff\xfe")
    with pytest.raises(ProtocolError, match="negative"):
        decode(HeartbeatRequest, 0, b"\xff\xfe")


def test_a_nullable_struct_begins_with_a_marker() -> None:
    absent = ConsumerGroupHeartbeatResponse(error_code=35)
    assert absent.assignment is None
    data = encode(absent, 0)
    assert data.hex(" ") == "00 00 00 00 00 23 00 00 00 00 00 00 00 00 00 00 ff 00"
    assert decode(ConsumerGroupHeartbeatResponse, 0, data) == absent
    present = ConsumerGroupHeartbeatResponse(assignment=ConsumerGroupHeartbeatResponseAssignment())
    data = encode(present, 0)
    assert data[-4:].hex(" ") == "01 01 00 00"  # present, no partitions, two ends without tags
    assert decode(ConsumerGroupHeartbeatResponse, 0, data) == present


# Tags


def test_a_tagged_field_is_written_only_with_a_value_of_its_own() -> None:
    assert encode(ApiVersionsResponse(), 3).hex(" ") == "00 00 01 00 00 00 00 00"
    response = ApiVersionsResponse(finalized_features_epoch=7, zk_migration_ready=True)
    data = encode(response, 3)
    assert data.hex(" ") == (
        "00 00 01 00 00 00 00 02 01 08 00 00 00 00 00 00 00 07 03 01 01"
    )  # error, keys, throttle; two tags: 1 with 8 bytes, 3 with one
    assert decode(ApiVersionsResponse, 3, data) == response


def test_a_tagged_struct() -> None:
    consumer = FetchRequest(topics=[])
    follower = FetchRequest(replica_state=ReplicaState(replica_id=3, replica_epoch=9))
    assert len(encode(follower, 15)) == len(encode(consumer, 15)) + 2 + 13
    read = decode(FetchRequest, 15, encode(follower, 15))
    assert read.replica_state == ReplicaState(replica_id=3, replica_epoch=9)
    with pytest.raises(ProtocolError, match="replica_state cannot be written"):
        encode(follower, 14)


def test_unknown_tags_are_kept_and_written_back() -> None:
    data = bytes.fromhex("01 00 00 03" + "05 02 6162" + "8001 00" + "ff7f 01 7a")
    message = decode(MetadataRequest, 12, data)
    assert message.unknown_tagged_fields == {5: b"ab", 128: b"", 16383: b"z"}
    assert encode(message, 12) == data
    with pytest.raises(ProtocolError, match="has tagged fields, which version 8 cannot carry"):
        encode(MetadataRequest(unknown_tagged_fields={5: b""}), 8)


def test_known_and_unknown_tags_are_written_in_one_order() -> None:
    response = ApiVersionsResponse(
        finalized_features_epoch=7, unknown_tagged_fields={9: b"nine", 0: b"\1"}
    )
    data = encode(response, 3)
    assert data[7:].hex(" ") == ("03 00 01 01 01 08 00 00 00 00 00 00 00 07 09 04 6e 69 6e 65")
    read = decode(ApiVersionsResponse, 3, data)  # which knows tag 0: no features
    assert read.unknown_tagged_fields == {9: b"nine"}
    both = ApiVersionsResponse(finalized_features_epoch=7, unknown_tagged_fields={1: bytes(8)})
    with pytest.raises(ProtocolError, match="both known and unknown"):
        encode(both, 3)


@pytest.mark.parametrize(
    ("tags", "problem"),
    [
        ("02 05 00 05 00", "out of order"),
        ("02 05 00 04 00", "out of order"),
        ("01 05 02 61", "longer than the buffer"),
        ("01 01 04 00000007", "ends too early|differs from its size"),
        ("01 01 09 000000000000000700", "differs from its size"),
        ("01", "ends too early"),
        ("ff ff ff ff 07", "are too many"),
        ("ff ff ff ff 08", "31 bits"),
        ("80 80 80 80 80 00", "longer than 5 bytes"),
    ],
)
def test_bad_tags(tags: str, problem: str) -> None:
    with pytest.raises(ProtocolError, match=problem):
        decode(ApiVersionsResponse, 3, bytes.fromhex("0000 01 00000000" + tags))


def test_a_count_of_tags_in_more_bytes_than_it_needs() -> None:
    data = bytes.fromhex("0000 01 00000000 8000")
    assert decode_from(ApiVersionsResponse, 3, data) == (ApiVersionsResponse(), len(data))


# Lengths and values


@pytest.mark.parametrize("version", [3, 4])
def test_strings_have_at_most_32767_bytes(version: int) -> None:
    longest = heartbeat()
    longest.member_id = "ä" * 16383 + "x"
    assert decode(HeartbeatRequest, version, encode(longest, version)) == longest
    longest.member_id += "x"
    with pytest.raises(ProtocolError, match="member_id is longer than 32767 bytes"):
        encode(longest, version)


def test_a_compact_string_longer_than_32767_bytes_is_refused() -> None:
    data = b"\x81\x80\x02" + b"x" * 32768 + bytes(20)
    with pytest.raises(ProtocolError, match="longer than 32767 bytes"):
        decode(HeartbeatRequest, 4, data)


def test_strings_are_utf_8_and_what_is_not_is_replaced_as_java_does() -> None:
    read = decode(HeartbeatRequest, 0, b"\0\4a\xc3(b" + bytes(4) + b"\0\2\xf0\x9f")
    assert read.group_id == "a\ufffd(b"
    assert read.member_id == "\ufffd"
    with pytest.raises(ProtocolError, match="out of range"):
        encode(heartbeat(group_instance_id="\ud800"), 3)


def test_numbers_out_of_range() -> None:
    for value in (1 << 31, -(1 << 31) - 1):
        with pytest.raises(ProtocolError, match="out of range"):
            encode(HeartbeatRequest(generation_id=value), 0)


def test_any_byte_but_zero_is_true() -> None:
    for byte, expected in ((0, False), (1, True), (255, True)):
        read = decode(MetadataRequest, 4, b"\xff\xff\xff\xff" + bytes([byte]))
        assert read.allow_auto_topic_creation is expected


def test_an_array_of_integers() -> None:
    response = ListOffsetsResponse()
    assert encode(response, 0) == bytes(4)
    request = FetchRequest(topics=[])
    request.forgotten_topics_data = []
    assert decode(FetchRequest, 7, encode(request, 7)) == request


def test_a_list_longer_than_one_byte_of_varint() -> None:
    request = FetchRequest(topics=[FetchTopic(topic=f"t{index}") for index in range(300)])
    data = encode(request, 12)
    assert b"\xad\x02" in data[:30]  # 301 as a varint
    assert decode(FetchRequest, 12, data) == request


# Buffers


def produce(records: bytes) -> ProduceRequest:
    partition = PartitionProduceData(index=1, records=records)
    return ProduceRequest(topic_data=[TopicProduceData(name="t", partition_data=[partition])])


@pytest.mark.parametrize("version", [3, 9])
def test_records_are_a_view_into_the_frame(version: int) -> None:
    frame = bytearray(encode(produce(b"opaque records"), version))
    records = decode(ProduceRequest, version, frame).topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    assert records == b"opaque records"
    assert not records.readonly
    records[0:6] = b"OPAQUE"
    assert b"OPAQUE records" in frame


def test_bytes_fields_are_views_too() -> None:
    join = JoinGroupRequest(protocols=[JoinGroupRequestProtocol(name="range", metadata=b"blob")])
    data = encode(join, 9)
    (protocol,) = decode(JoinGroupRequest, 9, data).protocols
    assert isinstance(protocol.metadata, memoryview)
    assert protocol.metadata.obj is data


def test_decoding_begins_at_an_offset_and_ignores_what_follows() -> None:
    data = encode(heartbeat(), 4)
    message, end = decode_from(HeartbeatRequest, 4, b"junk" + data + b"more", 4)
    assert message == heartbeat()
    assert end == 4 + len(data)


class _FileRecords:
    def __init__(self, data: bytes) -> None:
        self.data = data

    def __len__(self) -> int:
        return len(self.data)

    def read(self) -> bytes:
        return self.data


def test_records_in_a_file_are_read_only_for_a_message_in_one_piece() -> None:
    in_file = produce(b"")
    in_file.topic_data[0].partition_data[0].records = _FileRecords(b"r" * 10)
    parts = encode_parts(in_file, 9)
    assert isinstance(parts[1], _FileRecords)
    assert encode(in_file, 9) == encode(produce(b"r" * 10), 9)


# Data messages


def test_data_messages_stand_behind_their_version() -> None:
    key = OffsetCommitKey(group="g", topic="t", partition=3)
    data = encode_versioned(key, 1)
    assert data.hex(" ") == "00 01 00 01 67 00 01 74 00 00 00 03"
    assert decode_versioned(OffsetCommitKey, data) == key
    value = OffsetCommitValue(offset=5, leader_epoch=2, metadata="m", commit_timestamp=9)
    assert decode_versioned(OffsetCommitValue, encode_versioned(value, 3)) == value


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\1", b"\0\7abc", b"\xff\xff"])
def test_bad_data_messages(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_versioned(OffsetCommitKey, data)


def test_a_newer_consumer_protocol_is_read_as_the_newest_known() -> None:
    data = encode(ConsumerProtocolSubscription(topics=["t"], generation_id=4), 3)
    newer = b"\0\x63" + data + b"a field of the future"
    with pytest.raises(ProtocolError, match="no version 99"):
        decode_versioned(ConsumerProtocolSubscription, newer)
    read = decode_versioned(ConsumerProtocolSubscription, newer, clamp=True)
    assert read.topics == ["t"]
    assert read.generation_id == 4
