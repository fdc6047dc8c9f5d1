"""The contract between a broker and the store of its remote segments.

`RemoteStorageManager` is a Protocol: any class with these methods will do, whatever it inherits.
A broker makes one instance, `Class(configs)`, with the configs that begin with
`remote.log.storage.manager.impl.prefix`, without that prefix, and with `broker.id`; all values are
strings. A constructor that raises keeps the broker from starting.

The rules for an implementation, which `pybroker_kafka.testkit.tiered` tests:
- Calls block; the broker makes each one in a worker thread, and makes several at once, also for
  the same segment. Each call has its own limit of time: an abandoned thread is never stopped.
- A segment is addressed by its id (and, for readers of the store, its start offset). Other fields
  of the metadata, such as the state, may differ between two calls for the same segment;
  `custom_metadata` is there after a copy that returned one.
- A copy is complete or has raised. After it returned, each range and each index can be read by
  every broker at once, and survives a crash. A copy that raised, or whose process was killed, may
  leave parts; `delete_log_segment_data` removes these too.
- A copy may be repeated with the same id: the second one replaces the first.
- Nothing changes a segment once copied.
- `fetch_log_segment` returns exactly the bytes from `start` to `end`, or to the segment's end if
  that comes first. Bytes may be given as a `memoryview`.
- Reading anything that is not there raises `RemoteResourceNotFoundError`: a missing segment, and
  the transaction index of a segment that was copied without one.
- Deletion is complete or has raised; deleting nothing is no error.
- Errors are `RemoteStorageError`; their text goes to the log, so it never has a secret. Any other
  exception is taken for a defect of the implementation and treated like a `RemoteStorageError`.

Mirrors: RemoteStorageManager, LogSegmentData, RemoteStorageException,
RemoteResourceNotFoundException.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Protocol, runtime_checkable

from ...protocol.primitives import Buffer
from .segments import RemoteLogSegmentMetadata


class RemoteStorageError(Exception):
    """The store did not do it: the caller may try again later."""


class RemoteResourceNotFoundError(RemoteStorageError):
    """There is no such segment or index in the store."""


class IndexType(Enum):
    """A file beside a segment; the value is for messages."""

    OFFSET = "offset index"
    TIMESTAMP = "time index"
    PRODUCER_SNAPSHOT = "producer snapshot"
    TRANSACTION = "transaction index"
    LEADER_EPOCH = "leader epoch checkpoint"


@dataclass(frozen=True, slots=True)
class LogSegmentData:
    """Paths of a rolled segment's files, which do not change while they are copied."""

    log_segment: str
    offset_index: str
    time_index: str
    transaction_index: str | None  # None without aborted transactions
    producer_snapshot: str  # at the offset after the segment's last one
    leader_epochs: bytes  # `leader-epoch-checkpoint` up to the segment's end


@runtime_checkable
class RemoteStorageManager(Protocol):
    def copy_log_segment_data(
        self, metadata: RemoteLogSegmentMetadata, data: LogSegmentData
    ) -> bytes | None:
        """Copy the segment and its indexes; the return value becomes its custom metadata."""
        ...

    def fetch_log_segment(self, metadata: RemoteLogSegmentMetadata, start: int, end: int) -> Buffer:
        """The segment's bytes from position `start` up to `end`, exclusive."""
        ...

    def fetch_index(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType) -> Buffer:
        """The whole file of an index."""
        ...

    def delete_log_segment_data(self, metadata: RemoteLogSegmentMetadata) -> None: ...

    def close(self) -> None:
        """After the last call, when the broker stops."""
        ...
