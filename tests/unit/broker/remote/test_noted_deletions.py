"""Deletions of topics in the tier that a restart finds noted, beside the roles of the replica."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing

from pybroker_kafka.broker.remote.remote_log_manager import (
    LEADER_SECONDS,
    RemoteLogManager,
    RemoteSettings,
)
from pybroker_kafka.broker.remote.segment_copy import SegmentCopy
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.wall_clock import WallClock
from pybroker_kafka.replication.types import LeadershipResult, RoleChange, StopResult
from pybroker_kafka.storage.remote.deletions import TierDeletions
from pybroker_kafka.storage.remote.metadata_topic import RemoteLogNotReadyError
from pybroker_kafka.storage.remote.segments import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    TopicIdPartition,
)
from tests.support.patience import eventually
from tests.unit.storage.tiered import tiered_log

KEY = ("t", 0)
NAME = TopicIdPartition(b"0123456789abcdef", *KEY)
SEGMENT = RemoteLogSegmentMetadata(
    RemoteLogSegmentId(NAME, bytes(16)), 0, 9, 0, 1, 0, 100, ((0, 0),)
)


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


class Known(Metadata):
    """The metadata of one segment, which is deleted."""

    def __init__(self) -> None:
        super().__init__()
        self.left = [SEGMENT]

    def segments(self, partition: TopicIdPartition) -> list[Any]:
        return list(self.left)

    async def update(self, update: RemoteLogSegmentMetadataUpdate) -> None:
        await trio.lowlevel.checkpoint()
        if update.state is RemoteLogSegmentState.DELETE_SEGMENT_FINISHED:
            self.left.clear()


class Store:
    """A copy waits for the gate."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.objects: set[str] = set()

    def copy_log_segment_data(self, _metadata: object, _data: object) -> None:
        self.gate.wait()
        self.objects.add("log")

    def delete_log_segment_data(self, _metadata: object) -> None:
        self.objects.discard("log")

    def close(self) -> None:
        pass


class Inline(RemoteLogManager):
    """Its calls of the store do not block."""

    async def _in_thread(self, call: Any, limiter: trio.CapacityLimiter) -> Any:
        return call()


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


async def test_a_deletion_waits_for_a_copy_that_was_abandoned(tmp_path: Path) -> None:
    """Else the copy might store its last object behind the deletion, and be killed before it has
    removed it: no metadata would have it."""
    store: Any = Store()
    metadata: Any = Known()
    indexes: Any = SimpleNamespace(remove=lambda _: None)
    replicas: Any = SimpleNamespace(
        manager=SimpleNamespace(partitions={}), clock=lambda: 0, wall=WallClock()
    )
    deletions = TierDeletions(str(tmp_path / "deletions"))
    tasks = RemoteLogManager(
        replicas,
        store,
        metadata,
        indexes,
        RemoteSettings(1),
        bytes,
        deletions,
    )
    data: Any = None
    copy = SegmentCopy(store, SEGMENT, data)
    async with trio.open_nursery() as nursery:
        await nursery.start(tasks.run)
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as copying:
                copying.start_soon(tasks._copy_in_thread, copy)
                await eventually(lambda: copy.is_under_way)
                scope.cancel()
        tasks.note_deletion(KEY, NAME.topic_id)
        topic = [(KEY, NAME.topic_id)]
        tasks.on_stopped(StopResult(ErrorCode.NONE, deleted_with_topic=topic))
        await trio.sleep(0.3)
        assert metadata.left == [SEGMENT]
        store.gate.set()
        await eventually(lambda: not metadata.left)
        assert not copy.is_under_way
        assert store.objects == set()
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("case", ["leader", "follower", "imported"])
async def test_a_follower_deletes_what_its_leader_leaves(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, case: str
) -> None:
    """The leader is lost with its disk, in the middle of the topic's deletion."""
    metadata: Any = Known()
    deleted: list[float] = []
    store: Any = SimpleNamespace(
        close=lambda: None,
        delete_log_segment_data=lambda _: deleted.append(trio.current_time()),
    )
    indexes: Any = SimpleNamespace(remove=lambda _: None)
    names = {NAME.topic_id: "t"} if case == "imported" else {}
    replicas: Any = SimpleNamespace(
        manager=SimpleNamespace(partitions={}, metadata=SimpleNamespace(topic_name=names.get)),
        clock=lambda: 0,
        wall=WallClock(),
    )
    deletions = TierDeletions(str(tmp_path / "deletions"))
    tasks = Inline(replicas, store, metadata, indexes, RemoteSettings(1), bytes, deletions)
    async with trio.open_nursery() as nursery:
        await nursery.start(tasks.run)
        tasks.note_deletion(KEY, NAME.topic_id)
        topic = [(KEY, NAME.topic_id)]
        tasks.on_stopped(StopResult(ErrorCode.NONE, deleted_by_leader=topic))
        assert metadata.assigned == {NAME}
        await trio.sleep(LEADER_SECONDS / 2)
        assert metadata.left == [SEGMENT]
        if case == "leader":
            metadata.left.clear()
        await trio.sleep(LEADER_SECONDS)
        assert metadata.left == ([SEGMENT] if case == "imported" else [])
        assert len(deleted) == (case == "follower")
        assert metadata.assigned == set()
        assert not deletions.under_way
        nursery.cancel_scope.cancel()
