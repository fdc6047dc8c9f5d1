"""Copies that fail, cannot be removed, and have lost their metadata: they become orphans again."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from pybroker_kafka.broker.remote.remote_log_manager import (
    RemoteLogManager,
    RemoteSettings,
    _Tasks,
)
from pybroker_kafka.broker.remote.segment_copy import SegmentCopy
from pybroker_kafka.storage.remote.segments import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    TopicIdPartition,
)
from pybroker_kafka.storage.remote.storage_manager import RemoteStorageError
from tests.support.patience import eventually

NAME = TopicIdPartition(b"0123456789abcdef", "t", 0)
SEGMENT = RemoteLogSegmentMetadata(
    RemoteLogSegmentId(NAME, bytes(16)), 0, 9, 0, 1, 0, 100, ((0, 0),)
)


class Metadata:
    def __init__(self, known: list[RemoteLogSegmentMetadata]) -> None:
        self.known = known

    async def add(self, metadata: RemoteLogSegmentMetadata) -> None:
        await trio.lowlevel.checkpoint()
        self.known.append(metadata)

    def segments(self, _partition: TopicIdPartition) -> list[RemoteLogSegmentMetadata]:
        return self.known


class Store:
    """A copy waits for the gate; nothing can be removed."""

    def __init__(self) -> None:
        self.gate = threading.Event()

    def copy_log_segment_data(self, _metadata: object, _data: object) -> None:
        self.gate.wait()

    def delete_log_segment_data(self, _metadata: object) -> None:
        raise RemoteStorageError("503")


def tasks_of(store: Store, known: list[RemoteLogSegmentMetadata]) -> RemoteLogManager:
    nothing: Any = SimpleNamespace(manager=None)
    any_store: Any = store
    metadata: Any = Metadata(known)
    settings = RemoteSettings(1)
    return RemoteLogManager(nothing, any_store, metadata, nothing, settings, bytes, nothing)


@pytest.mark.parametrize("known", [[], [SEGMENT]], ids=["deleted", "known"])
async def test_a_failed_copy(known: list[RemoteLogSegmentMetadata]) -> None:
    await tasks_of(Store(), known)._remove_failed(SEGMENT)
    assert known == [SEGMENT]


@pytest.mark.parametrize("known", [[], [SEGMENT]], ids=["deleted", "known"])
async def test_an_abandoned_copy(known: list[RemoteLogSegmentMetadata]) -> None:
    store, data = Store(), None
    tasks = tasks_of(store, known)
    copy = SegmentCopy(store, SEGMENT, data)  # type: ignore[arg-type]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(tasks._copy_in_thread, copy)
        await eventually(lambda: copy.is_under_way)
        nursery.cancel_scope.cancel()
    role = _Tasks(NAME, is_leader=False)
    await tasks._begin_unremoved_again(role)
    store.gate.set()
    await eventually(lambda: not copy.is_under_way)
    other = _Tasks(TopicIdPartition(NAME.topic_id, "t", 1), is_leader=False)
    for of in (other, role, role):
        await tasks._begin_unremoved_again(of)
    assert known == [SEGMENT]
    assert not copy.is_unremoved
