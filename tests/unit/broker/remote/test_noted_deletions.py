"""Deletions of topics in the tier that a restart finds noted, beside the roles of the replica."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from pybroker_kafka.broker.remote.remote_log_manager import RemoteLogManager, RemoteSettings
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.replication.types import LeadershipResult, RoleChange, StopResult
from pybroker_kafka.storage.remote.deletions import TierDeletions
from pybroker_kafka.storage.remote.metadata_topic import RemoteLogNotReadyError
from pybroker_kafka.storage.remote.segments import TopicIdPartition
from tests.unit.storage.tiered import tiered_log

KEY = ("t", 0)
NAME = TopicIdPartition(b"0123456789abcdef", *KEY)


class Metadata:
    """The metadata of the partition is never read to its end, so a deletion stays under way."""

    def __init__(self) -> None:
        self.assigned: set[TopicIdPartition] = set()

    def on_leadership(self, leaders: list[Any], followers: list[Any]) -> None:
        self.assigned |= {*leaders, *followers}

    def on_stopped(self, partitions: list[Any]) -> None:
        self.assigned -= {*partitions}

    def segments(self, partition: TopicIdPartition) -> list[Any]:
        raise RemoteLogNotReadyError(str(partition))


@pytest.mark.parametrize("is_noted", [True, False])
def test_a_follower_that_ends_leaves_its_metadata_to_a_deletion(
    tmp_path: Path, is_noted: bool
) -> None:
    metadata: Any = Metadata()
    follower = SimpleNamespace(
        log=tiered_log(tmp_path / "logs"),
        leader_epoch=0,
        topic_id=NAME.topic_id,
        is_leader=False,
    )
    replicas: Any = SimpleNamespace(manager=SimpleNamespace(partitions={KEY: follower}))
    nothing: Any = SimpleNamespace(close=lambda: None)
    deletions = TierDeletions(str(tmp_path / "deletions"))
    if is_noted:
        deletions.begin(NAME)

    async def scenario() -> None:
        tasks = RemoteLogManager(
            replicas, nothing, metadata, nothing, RemoteSettings(1), bytes, deletions
        )
        async with trio.open_nursery() as nursery:
            await nursery.start(tasks.run)
            role = RoleChange(*KEY, leader_id=-1, leader_epoch=0)
            tasks.on_leadership(LeadershipResult(ErrorCode.NONE, became_follower=[role]))
            assert metadata.assigned == {NAME}
            tasks.on_stopped(StopResult(ErrorCode.NONE, stopped=[role], deleted=[KEY]))
            assert metadata.assigned == ({NAME} if is_noted else set())
            nursery.cancel_scope.cancel()

    trio.run(scenario)
