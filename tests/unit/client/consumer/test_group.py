"""Partitions are given up once their callback has come to its end, and not before; a leader assigns
again when it gets to know more partitions."""

from __future__ import annotations

from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest
import trio
import trio.testing

from pybroker_kafka.client.consumer.assignments import Subscription, encode_subscription
from pybroker_kafka.client.consumer.assignors import RangeAssignor
from pybroker_kafka.client.consumer.classic_member import ClassicMember
from pybroker_kafka.client.consumer.group import Group
from pybroker_kafka.client.consumer.group_work import Callbacks
from pybroker_kafka.client.consumer.membership import Membership
from pybroker_kafka.client.consumer.options import ConsumerOptions
from pybroker_kafka.client.consumer.positions import Position, Positions
from pybroker_kafka.client.consumer.topics_view import TopicsView
from pybroker_kafka.protocol.apis.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.topics import TopicPartition

PLACE = ("t", 0)
CLASSIC = ConsumerOptions(group_id="g", group_protocol="classic")


class Told:
    """A callback that does not end at first; what it was given."""

    def __init__(self) -> None:
        self.calls: list[list[TopicPartition]] = []
        self.ends = False

    async def __call__(self, partitions: list[TopicPartition]) -> None:
        self.calls.append(partitions)
        if not self.ends:
            await trio.sleep_forever()


def group_of(told: Told) -> tuple[Group, Positions]:
    positions = Positions()
    played: Any = Mock()
    group = Group(played, CLASSIC, [], positions, played)
    group.subscribe(["t"], None, Callbacks(None, told, None))
    positions.assign([PLACE])
    positions[PLACE].seek(Position(3))
    return group, positions


def membership_of(group: Group) -> Membership:
    assert isinstance(group.side, ClassicMember)
    return group.side.membership


@pytest.fixture
def told() -> Told:
    return Told()


async def test_what_is_not_given_up_after_all_is_fetched_on(
    told: Told, autojump_clock: trio.testing.MockClock
) -> None:
    group, positions = group_of(told)
    with trio.move_on_after(1):
        await group.unsubscribe()
    assert told.calls == [[PLACE]]
    assert positions[PLACE].is_fetchable(0)
    told.ends = True
    await group.unsubscribe()
    assert list(positions) == []


async def test_lost_partitions_are_told_of_until_that_comes_to_its_end(
    told: Told, autojump_clock: trio.testing.MockClock
) -> None:
    """What was buffered of them belongs to somebody else: they are not kept and read on."""
    group, positions = group_of(told)
    membership_of(group).has_lost_partitions = True
    with trio.move_on_after(1):
        await group.before_poll()
    assert list(positions) == [PLACE]
    assert membership_of(group).has_lost_partitions, "nothing is joined yet"
    told.ends = True
    await group.before_poll()
    assert told.calls == [[PLACE], [PLACE]]
    assert list(positions) == []
    assert not membership_of(group).has_lost_partitions


def topic(error: ErrorCode, count: int) -> MetadataResponse:
    parts = [MetadataResponsePartition(partition_index=index) for index in range(count)]
    one = MetadataResponseTopic(error_code=error, name="t", partitions=parts)
    return MetadataResponse(topics=[one])


async def test_a_leader_that_was_told_of_no_topic_asks_again() -> None:
    """A broker that has just started knows no topics yet, and the group would have no partitions
    until the metadata is old."""
    cluster, fetcher = Mock(), Mock()
    fetcher.view = TopicsView()
    group = Group(cluster, CLASSIC, [RangeAssignor()], Positions(), fetcher)
    group.subscribe(["t"], None, Callbacks())
    membership = membership_of(group)
    membership.protocol = "range"
    membership.members = {"me": (encode_subscription(Subscription(("t",))), None)}
    unknown = topic(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0)
    cluster.metadata = AsyncMock(return_value=unknown)
    assert isinstance(group.side, ClassicMember)
    await group.side._lead()
    fetcher.refresh_metadata.assert_called_once()
    membership.rejoin = Mock()  # type: ignore[method-assign]
    for answer, calls in ((unknown, 0), (topic(ErrorCode.NONE, 2), 1), (unknown, 1)):
        fetcher.view.take(answer)
        group.on_metadata()
        assert membership.rejoin.call_count == calls
