"""Records, hashes and assignments of consumer groups are those of Apache Kafka 4.3.1's classes.

tests/golden/consumer-groups.json is what tests/support/java/ConsumerGroupAnswers.java printed, with
members and topics in order.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pybroker_kafka.coordinator.group.consumer.assignment import Division, Subscriber
from pybroker_kafka.coordinator.group.consumer.changes import (
    Change,
    GroupEpoch,
    ResolvedRegex,
    SetEpoch,
    SetMember,
    SetPartitionMetadata,
    SetProgress,
    SetRegex,
    SetTarget,
    SetTargetEpoch,
    TargetEpoch,
)
from pybroker_kafka.coordinator.group.consumer.member import (
    ClassicMetadata,
    ClassicProtocol,
    MemberMetadata,
    MemberState,
    Progress,
)
from pybroker_kafka.coordinator.group.consumer.metadata_hash import group_hash, topic_hash
from pybroker_kafka.coordinator.group.consumer.records import read, record
from pybroker_kafka.coordinator.group.consumer.target_assignment import ASSIGNORS
from pybroker_kafka.coordinator.group.consumer.topics import Topic

GOLDEN = Path(__file__).resolve().parents[3] / "golden" / "consumer-groups.json"
ANSWERS: dict[str, Any] = json.loads(GOLDEN.read_text(encoding="utf-8"))
FIRST = bytes.fromhex("0102030405060708f1f2f3f4f5f6f7f8")
SECOND = bytes.fromhex("e1e2e3e4e5e6e7e80000000000000009")
TIME_MS = 1_700_000_000_000

PLAIN = MemberMetadata(
    client_id="client",
    client_host="/127.0.0.1",
    rebalance_timeout_ms=300_000,
    topic_names=frozenset({"a", "b"}),
)
FULL = PLAIN._replace(
    instance_id="i",
    rack_id="r",
    topic_regex="t.*",
    server_assignor="range",
    classic=ClassicMetadata(10_000, (ClassicProtocol("range", b"\1\2"),)),
)
PROGRESS = Progress(7, 5, MemberState.UNREVOKED_PARTITIONS, {FIRST: {0: 3, 2: 7}}, {SECOND: {1: 4}})
CHANGES: dict[str, Change] = {
    "member": SetMember("m", PLAIN),
    "full member": SetMember("m", FULL),
    "no member": SetMember("m", None),
    "progress": SetProgress("m", PROGRESS),
    "first progress": SetProgress("m", Progress()),
    "no progress": SetProgress("m", None),
    "target": SetTarget("m", {FIRST: frozenset({1, 3})}),
    "empty target": SetTarget("m", {}),
    "no target": SetTarget("m", None),
    "target epoch": SetTargetEpoch(TargetEpoch(4, TIME_MS)),
    "untimed target epoch": SetTargetEpoch(TargetEpoch(4)),
    "no target epoch": SetTargetEpoch(None),
    "epoch": SetEpoch(GroupEpoch(5, -6_000_000_000)),
    "epoch without topics": SetEpoch(GroupEpoch(5, 0)),
    "no epoch": SetEpoch(None),
    "no partition metadata": SetPartitionMetadata(None),
    "regex": SetRegex("t.*", ResolvedRegex(frozenset({"t1", "t2"}), 12, TIME_MS)),
    "no regex": SetRegex("t.*", None),
}
TOPICS = (
    Topic("a", FIRST, 1, ((),)),
    Topic("none", FIRST, 0, ()),
    Topic("some", SECOND, 3, (("b", "a"), (), ("é𝄞",))),
    Topic("many", SECOND, 100, (("rack-b", "rack-a", "rack-b"),) * 100),
)


def test_the_version() -> None:
    assert ANSWERS["version"] == "4.3.1"
    assert ANSWERS["records"].keys() == CHANGES.keys()


@pytest.mark.parametrize("name", CHANGES)
def test_records(name: str) -> None:
    key, value = (
        None if text is None else bytes.fromhex(text) for text in ANSWERS["records"][name][:2]
    )
    assert key is not None
    assert record("g", CHANGES[name]) == (key, value)
    assert read(key, value) == ("g", CHANGES[name])


def test_hashes() -> None:
    expected = dict(ANSWERS["hashes"])
    of_all = expected.pop("(all)")
    ours = {topic.name: topic_hash(topic) for topic in TOPICS}
    assert ours == expected
    assert group_hash(ours) == of_all
    assert topic_hash(TOPICS[0]._replace(racks=())) == ours["a"]
    assert group_hash({}) == 0


def topic_id(number: int) -> bytes:
    return (number + 1).to_bytes(16, "big")


def assignment(partitions: dict[str, list[int]]) -> dict[bytes, frozenset[int]]:
    return {topic_id(int(number)): frozenset(found) for number, found in partitions.items()}


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_assignments(assignor: str) -> None:
    for index, answer in enumerate(ANSWERS["assignments"]):
        division = Division(
            [
                Subscriber(f"m{n}", instance, frozenset(map(topic_id, topics)), assignment(old))
                for n, (instance, topics, old) in enumerate(answer["members"])
            ],
            {topic_id(n): count for n, count in enumerate(answer["counts"])},
            answer["homogeneous"],
        )
        ours = ASSIGNORS[assignor](division)
        theirs = [assignment(partitions) for partitions in answer[assignor]]
        assert [ours.get(f"m{n}", {}) for n in range(len(theirs))] == theirs, f"case {index}"
