"""Messages of the election port: golden bytes, and the forms of older members."""

import struct

import pytest

from pybroker_kafka.protocol.errors import ProtocolError
from pybroker_kafka.zookeeper.quorum.election_messages import (
    Notification,
    PeerState,
    decode_notification,
    encode_first_message,
    encode_notification,
    try_first_message,
    try_message,
)

VOTE = Notification(PeerState.LEADING, 3, 0x1_0000_0005, 7, 1, 2, b"version=0")


def test_the_first_message() -> None:
    data = encode_first_message(2, "127.0.0.1:3888")
    golden = "ffffffffffff000000000000000000020000000e"
    assert data.hex() == golden + b"127.0.0.1:3888".hex()
    for end in range(len(data)):
        assert try_first_message(data[:end]) is None
    assert try_first_message(data + b"more") == (2, ["127.0.0.1:3888"], len(data))


def test_first_messages_of_others() -> None:
    many = struct.pack(">qqi", -65535, 4, 7) + b"a:1|b:2"
    assert try_first_message(many) == (4, ["a:1", "b:2"], len(many))
    assert try_first_message(struct.pack(">q", 5)) == (5, [], 8)  # before 3.5: the id alone
    for data in (
        struct.pack(">q", -7),
        struct.pack(">qqi", -65536, 4, 0),
        struct.pack(">qqi", -65536, 4, 1 << 20),
        struct.pack(">qqi", -65536, 4, 1) + b"\xff",
    ):
        with pytest.raises(ProtocolError):
            try_first_message(data)


def test_notifications() -> None:
    data = encode_notification(VOTE)
    golden = (
        "00000035"
        "00000002"
        "0000000000000003"
        "0000000100000005"
        "0000000000000007"
        "0000000000000001"
        "00000002"
        "00000009"
    )
    assert data.hex() == golden + b"version=0".hex()
    assert try_message(data[:-1], 0) is None
    assert try_message(b"..", 0) is None
    message, end = try_message(data + b"..", 0) or (b"", 0)
    assert end == len(data)
    assert decode_notification(message) == VOTE


def test_notifications_of_older_members() -> None:
    oldest = struct.pack(">iqqq", 0, 3, 0x2_0000_0005, 7)
    assert decode_notification(oldest) == Notification(PeerState.LOOKING, 3, 0x2_0000_0005, 7, 2, 0)
    old = oldest + struct.pack(">q", 4)
    assert decode_notification(old).peer_epoch == 4
    assert decode_notification(old).version == 0
    assert decode_notification(old + struct.pack(">i", 1)).version == 1


def test_malformed_notifications() -> None:
    message = encode_notification(VOTE)[4:]
    for data in (message[:20], message[:30], message[:42], message[:46], message[:-1], b""):
        with pytest.raises(ProtocolError):
            decode_notification(data)
    with pytest.raises(ProtocolError):
        decode_notification(struct.pack(">i", 9) + message[4:])
    with pytest.raises(ProtocolError):
        try_message(struct.pack(">i", 1 << 20), 0)
