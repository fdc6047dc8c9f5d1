"""Subscriptions and assignments: golden bytes of each version, there and back."""

from __future__ import annotations

import pytest

from pybroker_kafka.client.consumer.assignments import (
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from pybroker_kafka.protocol.errors import ProtocolError

SUBSCRIPTION = Subscription(
    topics=("b", "a"),
    user_data=b"\x07",
    owned=(("b", 1), ("a", 2), ("b", 0)),
    generation=5,
    rack="r",
)
TOPICS = "00000002 0001 61 0001 62"
USER_DATA = "00000001 07"
OWNED = "00000002 0001 61 00000001 00000002 0001 62 00000002 00000000 00000001"
GOLDEN = {
    0: f"0000 {TOPICS} {USER_DATA}",
    1: f"0001 {TOPICS} {USER_DATA} {OWNED}",
    2: f"0002 {TOPICS} {USER_DATA} {OWNED} 00000005",
    3: f"0003 {TOPICS} {USER_DATA} {OWNED} 00000005 0001 72",
}
OWNED_SORTED = (("a", 2), ("b", 0), ("b", 1))


@pytest.mark.parametrize("version", GOLDEN)
def test_subscriptions(version: int) -> None:
    data = bytes.fromhex(GOLDEN[version])
    assert encode_subscription(SUBSCRIPTION, version) == data
    assert decode_subscription(data, "static") == Subscription(
        topics=("a", "b"),
        user_data=b"\x07",
        owned=OWNED_SORTED if version >= 1 else (),
        generation=5 if version >= 2 else -1,
        rack="r" if version >= 3 else None,
        instance_id="static",
    )


def test_a_newer_subscription_is_read_as_ours() -> None:
    newer = bytes.fromhex(GOLDEN[3].replace("0003", "0009", 1) + "ffff")
    assert decode_subscription(newer).generation == 5


@pytest.mark.parametrize("version", range(4))
def test_assignments(version: int) -> None:
    data = bytes.fromhex(
        f"{version:04x} 00000002 0001 62 00000002 00000003 00000001 "
        "0001 61 00000001 00000000 ffffffff"
    )
    assigned = [("b", 3), ("b", 1), ("a", 0)]
    assert encode_assignment(assigned, None, version) == data
    assert decode_assignment(data) == assigned
    assert decode_assignment(b"") == []


def test_bytes_that_are_neither() -> None:
    for data in (b"\0", b"\0\0\x7f\xff\xff\xff", b"\xff\xff\0\0\0\0"):
        with pytest.raises(ProtocolError):
            decode_subscription(data)
        with pytest.raises(ProtocolError):
            decode_assignment(data)
