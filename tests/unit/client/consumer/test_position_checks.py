"""Positions under new leaders: what a broker refuses of one partition does not hold up others."""

from __future__ import annotations

from typing import Any

import trio
import trio.testing

from pybroker_kafka.client.cluster import RETRY_BACKOFF_SECONDS
from pybroker_kafka.client.consumer.options import ConsumerOptions
from pybroker_kafka.client.consumer.position_checks import PositionChecks
from pybroker_kafka.client.consumer.positions import Position, Positions
from pybroker_kafka.client.consumer.topics_view import TopicsView
from pybroker_kafka.protocol.apis.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from pybroker_kafka.protocol.apis.offset_for_leader_epoch import (
    OffsetForLeaderEpochResponse,
    OffsetForLeaderEpochResponseEpochEndOffset,
    OffsetForLeaderTopicResult,
)
from pybroker_kafka.protocol.errors import ErrorCode

COUNT = 50
LEADER = 1


class Played:
    """A leader, its cluster and its connection: it knows of the last partition alone."""

    async def connection(self, _node: int) -> Played:
        return self

    async def request(self, *_: object) -> OffsetForLeaderEpochResponse:
        ends = [
            OffsetForLeaderEpochResponseEpochEndOffset(
                partition=partition,
                error_code=ErrorCode.UNKNOWN_LEADER_EPOCH if partition < COUNT - 1 else 0,
                leader_epoch=3,
                end_offset=10,
            )
            for partition in range(COUNT)
        ]
        await trio.lowlevel.checkpoint()
        return OffsetForLeaderEpochResponse(
            topics=[OffsetForLeaderTopicResult(topic="t", partitions=ends)]
        )


async def test_refusals_are_waited_for_once(autojump_clock: trio.testing.MockClock) -> None:
    view, positions = TopicsView(), Positions()
    parts = [
        MetadataResponsePartition(partition_index=n, leader_id=LEADER, leader_epoch=4)
        for n in range(COUNT)
    ]
    view.take(MetadataResponse(topics=[MetadataResponseTopic(name="t", partitions=parts)]))
    positions.assign(("t", n) for n in range(COUNT))
    for partition in positions:
        positions[partition].seek(Position(5, 3))
    refused = []
    played: Any = Played()
    checks = PositionChecks(
        played, ConsumerOptions(), positions, view, lambda _: None,
        lambda partition, _: refused.append(partition),
    )  # fmt: skip
    begun = trio.current_time()
    await checks.validate(LEADER)
    assert trio.current_time() - begun <= RETRY_BACKOFF_SECONDS
    assert len(refused) == COUNT - 1
    assert checks.unvalidated().keys() == {("t", n) for n in range(COUNT - 1)}


async def test_a_late_answer_does_not_move_a_position_that_went_on() -> None:
    """A paused leader answers when another one has been checked, and read from, long ago."""
    view, positions = TopicsView(), Positions()
    part = MetadataResponsePartition(partition_index=COUNT - 1, leader_id=LEADER, leader_epoch=4)
    view.take(MetadataResponse(topics=[MetadataResponseTopic(name="t", partitions=[part])]))
    place = ("t", COUNT - 1)
    positions.assign([place])
    positions[place].seek(Position(5, 3))

    class Late(Played):
        async def request(self, *asked: object) -> OffsetForLeaderEpochResponse:
            positions[place].position = positions[place].fetch_position = Position(100, 4)
            return await super().request(*asked)

    late: Any = Late()
    checks = PositionChecks(
        late, ConsumerOptions(), positions, view, lambda _: None, lambda *_: None
    )
    await checks.validate(LEADER)
    assert positions[place].position == Position(100, 4)
