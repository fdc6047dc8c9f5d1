"""States of the groups of Kafka 4 and of share groups that must not exist, made by hand: each is
found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from pybroker_kafka.coordinator.group.changing_group import ChangingGroup
from pybroker_kafka.coordinator.group.consumer.consumer_group import ConsumerGroup
from pybroker_kafka.coordinator.group.consumer.member import Member as ConsumerMember
from pybroker_kafka.coordinator.group.share.share_group import ShareGroup
from pybroker_kafka.coordinator.group.streams.member import Member as StreamsMember
from pybroker_kafka.coordinator.group.streams.streams_group import StreamsGroup
from pybroker_kafka.coordinator.share import requests, writing
from pybroker_kafka.coordinator.share.state import replayed
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.invariants import BrokenInvariant
from pybroker_kafka.replication.share.in_flight import RecordState, Run
from tests.support.share_node import ShareNode
from tests.support.sources import needs_sources


@pytest.mark.parametrize("kind", [ConsumerGroup, ShareGroup])
@pytest.mark.parametrize(
    ("break_it", "fact"),
    [
        (lambda group: group.members.update(a=ConsumerMember("b")), "member ids"),
        (lambda group: group.names.update(["t"]), "names"),
        (lambda group: group.regex_members.update(["t.*"]), "regular expressions"),
        (lambda group: group.assignors.update(["range"]), "assignors"),
        (lambda group: setattr(group, "classic_count", 1), "classic members"),
        (lambda group: group.static_members.update(i="a"), "static members"),
    ],
)
def test_a_consumer_group(
    kind: type[ConsumerGroup], break_it: Callable[[ConsumerGroup], None], fact: str
) -> None:
    group = kind("g")
    group.check()
    break_it(group)
    with pytest.raises(BrokenInvariant, match=fact):
        group.check()


@pytest.mark.parametrize(
    ("break_it", "fact"),
    [
        (lambda group: group.members.update(a=StreamsMember("b")), "member ids"),
        (lambda group: group._active.update({"0": {1: Counter(p=1)}}), "active tasks"),
        (lambda group: group._standby.update({"0": {1: Counter(p=1)}}), "standby tasks"),
        (lambda group: group._warmup.update({"0": {1: Counter(p=1)}}), "warm-up tasks"),
    ],
)
def test_a_streams_group(break_it: Callable[[StreamsGroup], None], fact: str) -> None:
    group = StreamsGroup("g")
    group.check()
    break_it(group)
    with pytest.raises(BrokenInvariant, match=fact):
        group.check()


@needs_sources
def test_a_kind_of_group_has_all_members_of_the_base() -> None:
    class Kind(ChangingGroup):
        pass

    kind: Any = Kind
    with pytest.raises(TypeError, match="abstract"):
        kind("g")


def test_the_epoch_of_a_share_partition_does_not_fall(monkeypatch: pytest.MonkeyPatch) -> None:
    node = ShareNode()
    node.initialize(epoch=2)
    monkeypatch.setattr(requests, "_is_fenced", lambda _asked, _known: False)
    monkeypatch.setattr(
        writing, "replayed", lambda _before, change, limit: replayed(None, change, limit)
    )
    with pytest.raises(BrokenInvariant, match="fall from"):
        node.initialize(epoch=1)


def test_an_append_of_the_share_coordinator_is_answered_once() -> None:
    node = ShareNode()
    node.initialize()
    with pytest.raises(BrokenInvariant, match="answered twice"):
        node.machine.appended(0, ErrorCode.NONE, 0)


def test_records_of_a_share_partition() -> None:
    def run(state: RecordState) -> Run:
        return Run(0, 9, state, 1)

    steps: list[tuple[Callable[[], object], str]] = [
        (lambda: run(RecordState.ACKNOWLEDGED).move(RecordState.ACQUIRED, 5), "can not be"),
        (lambda: run(RecordState.AVAILABLE).split_off(10), "is to be cut at 10"),
    ]
    for step, fact in steps:
        with pytest.raises(BrokenInvariant, match=fact):
            step()
