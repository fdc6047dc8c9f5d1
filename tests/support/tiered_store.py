"""A store of remote segments in memory that errs as object stores do, and calls without answers.

Each object is put and deleted on its own, so that a failure or a kill leaves parts. `trouble` is
asked before and after each change: it raises, or does nothing. Reads fail, or are short.

A `Parked` call belongs to a broker that waits for it: the world does it later, perhaps when the
broker has given it up, as a thread does that nobody waits for any more; and perhaps twice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import trio
from outcome import Error, Outcome, capture

from pybroker_kafka.storage.remote.segments import RemoteLogSegmentMetadata
from pybroker_kafka.storage.remote.storage_manager import (
    IndexType,
    LogSegmentData,
    RemoteResourceNotFoundError,
    RemoteStorageError,
)

LOG = "log"


@dataclass
class Parked:
    """A call that has no answer yet."""

    broker: int
    call: Callable[[], Any]
    is_done: trio.Event = field(default_factory=trio.Event)
    outcome: Outcome[Any] = field(default_factory=lambda: Error(RemoteStorageError("unanswered")))

    async def wait(self) -> Any:
        await self.is_done.wait()
        return self.outcome.unwrap()

    def answer(self, *, twice: bool) -> None:
        self.outcome = capture(self.call)
        if twice:
            self.outcome = capture(self.call)
        self.is_done.set()


class TroubledStore:
    """A RemoteStorageManager."""

    def __init__(self, trouble: Callable[[], None], cut: Callable[[bytes], bytes]) -> None:
        self.objects: dict[tuple[bytes, str], bytes] = {}
        self._trouble = trouble
        self._cut = cut  # the bytes of a read, or fewer

    def copy_log_segment_data(
        self, metadata: RemoteLogSegmentMetadata, data: LogSegmentData
    ) -> bytes | None:
        files = {
            IndexType.PRODUCER_SNAPSHOT: data.producer_snapshot,
            IndexType.TRANSACTION: data.transaction_index,
            IndexType.TIMESTAMP: data.time_index,
            IndexType.OFFSET: data.offset_index,
        }
        try:
            contents = {one.name: Path(path).read_bytes() for one, path in files.items() if path}
            contents[IndexType.LEADER_EPOCH.name] = data.leader_epochs
            contents[LOG] = Path(data.log_segment).read_bytes()
        except OSError as error:  # the broker has given up the copy, and deleted the segment
            raise RemoteStorageError(str(error)) from error
        if len(contents[LOG]) != metadata.segment_size_bytes:
            raise RemoteStorageError("the segment has changed")
        for name, content in contents.items():
            self._trouble()
            self.objects[metadata.segment_id.id, name] = content
        self._trouble()
        return None

    def fetch_log_segment(self, metadata: RemoteLogSegmentMetadata, start: int, end: int) -> bytes:
        return self._cut(self._of(metadata, LOG)[start:end])

    def fetch_index(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType) -> bytes:
        return self._of(metadata, index_type.name)

    def delete_log_segment_data(self, metadata: RemoteLogSegmentMetadata) -> None:
        for name in (LOG, *(one.name for one in IndexType)):
            self._trouble()
            self.objects.pop((metadata.segment_id.id, name), None)
        self._trouble()

    def close(self) -> None:
        pass

    @property
    def segment_ids(self) -> set[bytes]:
        return {one for one, _ in self.objects}

    def _of(self, metadata: RemoteLogSegmentMetadata, name: str) -> bytes:
        found = self.objects.get((metadata.segment_id.id, name))
        if found is None:
            raise RemoteResourceNotFoundError(f"{name} of {metadata.segment_id}")
        return found
