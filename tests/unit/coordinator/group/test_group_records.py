"""Keys and values of `__consumer_offsets` byte by byte, and the placement of groups.

The bytes are laid out by hand from Kafka's schemas: an int16 version, then strings with int16
lengths (-1 null), bytes with int32 lengths, arrays with int32 counts.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybroker_kafka.coordinator.group.group import Group
from pybroker_kafka.coordinator.group.members import Member, MemberProtocol
from pybroker_kafka.coordinator.group.offsets import OffsetAndMetadata
from pybroker_kafka.coordinator.group.placement import partition_for_key, utf16_length
from pybroker_kafka.coordinator.group.records import (
    GROUP_KEY_PREFIX,
    OFFSET_KEY_PREFIXES,
    decode_group_key,
    decode_group_value,
    decode_offset_key,
    decode_offset_value,
    group_metadata_key,
    group_metadata_value,
    offset_commit_key,
    offset_commit_value,
)
from pybroker_kafka.coordinator.group.states import GroupState
from pybroker_kafka.protocol.codec import encode_versioned
from pybroker_kafka.protocol.errors import ProtocolError
from pybroker_kafka.protocol.java_hash import java_string_hash
from pybroker_kafka.protocol.messages.group_data import OffsetCommitKey, OffsetCommitValue

OFFSET_KEY = bytes.fromhex("0001" "0001" "67" "0002" "7431" "00000003")  # fmt: skip
OFFSET_VALUE_V3 = bytes.fromhex(
    "0003" "0000000000000005" "00000002" "0001" "6d" "0000018bcfe56800"
)  # fmt: skip
OFFSET_VALUE_V1 = bytes.fromhex(
    "0001" "0000000000000005" "0001" "6d" "0000018bcfe56800" "0000018bcfe56be8"
)  # fmt: skip
GROUP_KEY = bytes.fromhex("0002" "0001" "67")  # fmt: skip
GROUP_VALUE_V3 = bytes.fromhex(
    "0003"
    "0008" "636f6e73756d6572"  # protocol type
    "00000007"  # generation
    "0005" "72616e6765"  # protocol
    "0002" "6d31"  # leader
    "0000018bcfe56800"  # current state timestamp
    "00000001"  # one member
    "0002" "6d31"
    "0002" "6931"  # group instance id
    "0001" "63"
    "0002" "2f68"
    "0000ea60"  # rebalance timeout
    "00002710"  # session timeout
    "00000001" "53"
    "00000002" "4141"
)  # fmt: skip
EMPTY_GROUP_VALUE_V3 = bytes.fromhex(
    "0003" "0008" "636f6e73756d6572" "00000008" "ffff" "ffff" "0000018bcfe56800" "00000000"
)  # fmt: skip

TIMESTAMP_MS = 0x18BCFE56800


_names = st.text(max_size=40) | st.sampled_from(["n" * (2**15 - 1), "\u00e9" * 16383])
_int32, _int64 = (st.integers(-(2**bits), 2**bits - 1) for bits in (31, 63))


@given(_names, _names, _int32)
def test_keys_of_offsets_are_as_the_codec_writes_them(group: str, topic: str, index: int) -> None:
    key = OffsetCommitKey(group=group, topic=topic, partition=index)
    assert offset_commit_key(group, (topic, index)) == encode_versioned(key, 1)


@given(_int64, _int32, _names, _int64)
def test_values_of_offsets_are_as_the_codec_writes_them(
    offset: int, epoch: int, metadata: str, timestamp_ms: int
) -> None:
    value = OffsetCommitValue(
        offset=offset, leader_epoch=epoch, metadata=metadata, commit_timestamp=timestamp_ms
    )
    written = offset_commit_value(OffsetAndMetadata(offset, epoch, metadata, timestamp_ms))
    assert written == encode_versioned(value, 3)


def test_names_too_long_for_a_key_are_refused_as_by_the_codec() -> None:
    with pytest.raises(ProtocolError):
        offset_commit_key("g" * 2**15, ("t", 0))
    with pytest.raises(ProtocolError):
        offset_commit_value(OffsetAndMetadata(1, 1, "m" * 2**15, 1))


def test_offset_records() -> None:
    assert offset_commit_key("g", ("t1", 3)) == OFFSET_KEY
    plain = OffsetAndMetadata(5, 2, "m", TIMESTAMP_MS)
    assert offset_commit_value(plain) == OFFSET_VALUE_V3
    assert decode_offset_value(OFFSET_VALUE_V3) == plain
    expiring = OffsetAndMetadata(5, 2, "m", TIMESTAMP_MS, TIMESTAMP_MS + 1000)
    assert offset_commit_value(expiring) == OFFSET_VALUE_V1
    # Version 1 has no room for the leader epoch.
    assert decode_offset_value(OFFSET_VALUE_V1) == expiring._replace(leader_epoch=-1)


def test_group_records() -> None:
    member = Member(
        member_id="m1",
        group_instance_id="i1",
        client_id="c",
        client_host="/h",
        rebalance_timeout_ms=60_000,
        session_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[MemberProtocol("x", b"?"), MemberProtocol("range", b"S")],
    )
    group = Group("g", 0, TIMESTAMP_MS)
    group.add(member)
    group.generation_id = 7
    group.protocol_name = "range"
    assert group_metadata_key("g") == GROUP_KEY
    assert group_metadata_value(group, {"m1": b"AA"}) == GROUP_VALUE_V3
    loaded = decode_group_value("g", 0, GROUP_VALUE_V3)
    assert loaded.state is GroupState.STABLE
    assert group_metadata_value(loaded, {"m1": b"AA"}) == GROUP_VALUE_V3
    assert loaded.members["m1"].assignment == b"AA"
    assert loaded.static_members == {"i1": "m1"}


def test_an_empty_group() -> None:
    group = decode_group_value("g", 0, EMPTY_GROUP_VALUE_V3)
    assert group.state is GroupState.EMPTY
    assert (group.generation_id, group.protocol_type, group.leader_id) == (8, "consumer", None)
    assert group_metadata_value(group, {}) == EMPTY_GROUP_VALUE_V3


def test_values_of_older_versions() -> None:
    version_0 = bytes.fromhex(
        "0000" "0001" "63" "00000001" "0001" "72" "0001" "6d" "00000001"
        "0001" "6d" "0001" "63" "0001" "68" "00002710" "00000000" "00000000"
    )  # fmt: skip
    group = decode_group_value("g", 0, version_0)
    assert group.state_timestamp_ms is None
    assert group.members["m"].rebalance_timeout_ms == 10_000


def test_keys() -> None:
    assert decode_offset_key(OFFSET_KEY[2:]) == ("g", ("t1", 3))
    assert decode_group_key(GROUP_KEY[2:]) == "g"
    assert OFFSET_KEY[:2] in OFFSET_KEY_PREFIXES
    assert GROUP_KEY[:2] == GROUP_KEY_PREFIX
    for size in range(len(OFFSET_KEY) - 2):
        with pytest.raises(ProtocolError):
            decode_offset_key(OFFSET_KEY[2:][:size])


@pytest.mark.parametrize("good", [OFFSET_VALUE_V3, OFFSET_VALUE_V1])
def test_every_prefix_of_an_offset_value_is_refused(good: bytes) -> None:
    for size in range(len(good)):
        with pytest.raises(ProtocolError):
            decode_offset_value(good[:size])


def test_every_prefix_of_a_group_value_is_refused() -> None:
    for size in range(len(GROUP_VALUE_V3)):
        with pytest.raises(ProtocolError):
            decode_group_value("g", 0, GROUP_VALUE_V3[:size])


def test_a_group_value_that_holds_a_member_twice() -> None:
    start = GROUP_VALUE_V3.index(bytes.fromhex("00000001" "00026d31"))  # fmt: skip
    member = GROUP_VALUE_V3[start + 4 :]
    twice = GROUP_VALUE_V3[:start] + b"\x00\x00\x00\x02" + member + member
    with pytest.raises(ProtocolError):
        decode_group_value("g", 0, twice)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99_162_322),
        ("Aa", 2112),
        ("BB", 2112),
        ("polygenelubricants", -(2**31)),
        ("ü", 252),
        ("\U0001f600", 1_772_899),
    ],
)
def test_javas_string_hash(text: str, expected: int) -> None:
    assert java_string_hash(text) == expected


def test_placement() -> None:
    assert partition_for_key("polygenelubricants", 50) == 0
    assert partition_for_key("hello", 50) == 99_162_322 % 50
    assert (
        partition_for_key("console-consumer-1", 50)
        == abs(java_string_hash("console-consumer-1")) % 50
    )
    assert utf16_length("aé\U0001f600") == 4
