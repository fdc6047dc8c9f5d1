"""Share groups over the wire: members come and go, and the log has it all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pybroker_kafka.protocol.apis.delete_groups import DeleteGroupsRequest
from pybroker_kafka.protocol.apis.list_groups import ListGroupsRequest
from pybroker_kafka.protocol.apis.share_group_describe import ShareGroupDescribeRequest
from pybroker_kafka.protocol.apis.share_group_heartbeat import ShareGroupHeartbeatRequest
from pybroker_kafka.protocol.errors import ErrorCode
from tests.support.patience import eventually
from tests.support.share_broker import ShareBroker, share_broker


async def beat(kafka: ShareBroker, member: str, epoch: int, topics: list[str] | None = None) -> Any:
    request = ShareGroupHeartbeatRequest(
        group_id="g", member_id=member, member_epoch=epoch, subscribed_topic_names=topics
    )
    return await kafka.client.ask(request, 1)


class Consumer:
    """A member that beats until it has what it should have."""

    def __init__(self, kafka: ShareBroker, name: str) -> None:
        self._kafka = kafka
        self.name = name
        self.epoch = 0
        self.partitions: list[int] = []

    async def beat(self, topics: list[str] | None = None) -> None:
        answer = await beat(self._kafka, self.name, self.epoch, topics)
        assert answer.error_code == 0, answer
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.partitions = [
                partition
                for topic in answer.assignment.topic_partitions
                for partition in topic.partitions
            ]


async def all_have(members: list[Consumer], counts: list[int]) -> None:
    async def is_so() -> bool:
        for member in members:
            await member.beat()
        return [len(member.partitions) for member in members] == counts

    await eventually(is_so)


async def test_members_share_partitions(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async with share_broker(monkeypatch, tmp_path) as kafka:
        await kafka.create_topic("t", 2)
        first, second = Consumer(kafka, "a"), Consumer(kafka, "b")
        await first.beat(["t"])
        await all_have([first], [2])
        await second.beat(["t"])
        await all_have([first, second], [1, 1])
        third = Consumer(kafka, "c")
        await third.beat(["t"])
        await all_have([first, second, third], [2, 1, 1])
        described = await kafka.client.ask(ShareGroupDescribeRequest(group_ids=["g", "h"]), 1)
        group, missing = described.groups
        assert (group.group_state, group.assignor_name) == ("Stable", "simple")
        assert [member.member_id for member in group.members] == ["a", "b", "c"]
        assert missing.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        listed = await kafka.client.ask(ListGroupsRequest(types_filter=["share"]), 5)
        assert [(g.group_id, g.protocol_type, g.group_state) for g in listed.groups] == [
            ("g", "share", "Stable")
        ]
        deleted = await kafka.client.ask(DeleteGroupsRequest(groups_names=["g"]), 2)
        assert deleted.results[0].error_code == ErrorCode.NON_EMPTY_GROUP
        for member in (first, second, third):
            assert (await beat(kafka, member.name, -1)).member_epoch == -1
        assert (await beat(kafka, "a", -1)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        deleted = await kafka.client.ask(DeleteGroupsRequest(groups_names=["g", "h"]), 2)
        assert [(r.group_id, r.error_code) for r in deleted.results] == [
            ("g", 0),
            ("h", ErrorCode.GROUP_ID_NOT_FOUND),
        ]
        assert list(kafka.parts.coordinators.shares.machine.states()) == []


@pytest.mark.parametrize(
    ("member", "epoch", "topics", "error"),
    [
        ("", 0, ["t"], ErrorCode.INVALID_REQUEST),
        ("m" * 37, 0, ["t"], ErrorCode.INVALID_REQUEST),
        ("a", 0, [], ErrorCode.INVALID_REQUEST),
        ("a", -2, None, ErrorCode.INVALID_REQUEST),
        ("a", 3, None, ErrorCode.GROUP_ID_NOT_FOUND),
        ("a", -1, None, ErrorCode.GROUP_ID_NOT_FOUND),
    ],
)
async def test_heartbeats_that_make_no_sense(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    member: str,
    epoch: int,
    topics: list[str] | None,
    error: ErrorCode,
) -> None:
    async with share_broker(monkeypatch, tmp_path) as kafka:
        assert (await beat(kafka, member, epoch, topics)).error_code == error
