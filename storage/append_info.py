"""The arguments and the result of an append.

`Append` has the caller's arguments: one object goes from the request through all layers down to the
log. `AppendRules` has the log's part.

Mirrors: AppendOrigin, LogAppendInfo, RecordValidationException, ProduceResponse.RecordError.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

from ..protocol.errors import ErrorCode, KafkaError
from ..protocol.topics import TopicPartition
from ..protocol.wall_clock import WallClock
from .log_config import LogConfig
from .verification import VerificationGuard


class AppendOrigin(IntEnum):
    """The origin of an append; batches of clients are checked most. `follower_batches` checks
    batches that a leader has sent."""

    COORDINATOR = 1
    CLIENT = 2


class Append:
    """The caller's arguments of a leader's append, the same for all partitions of a request."""

    __slots__ = ("guards", "now_ms", "origin", "request_version", "transaction_version")

    def __init__(
        self,
        now_ms: int,
        request_version: int | None = None,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        guards: Mapping[TopicPartition, VerificationGuard] | None = None,
        transaction_version: int = 0,
    ) -> None:
        self.now_ms = now_ms  # monotonic
        self.request_version = request_version  # of Produce; None: the broker appends for itself
        self.origin = origin
        # If set, a batch that begins a transaction must be verified by the guard of its partition
        # (KIP-890).
        self.guards = guards
        self.transaction_version = transaction_version  # of a marker


class AppendRules:
    """The facts of a log that decide about the batches of its appends. A new config makes a new
    object."""

    __slots__ = ("config", "name", "validate_fully", "wall")

    def __init__(self, config: LogConfig, name: str, validate_fully: bool, wall: WallClock) -> None:
        self.config = config
        self.name = name  # topic and partition, for errors
        self.validate_fully = validate_fully  # record.validation
        self.wall = wall  # the clock of timestamps


class RecordError(NamedTuple):
    """Why one record of a rejected batch is wrong (Produce v8+)."""

    batch_index: int
    message: str


class InvalidRecords(KafkaError):
    """INVALID_RECORD or INVALID_TIMESTAMP with the records that are to blame."""

    def __init__(self, code: ErrorCode, message: str, record_errors: list[RecordError]) -> None:
        super().__init__(code, message)
        self.record_errors = record_errors


class UnexpectedAppendOffset(KafkaError):
    """A follower was given offsets below its log end.

    On an empty log that is not the leader's error: the leader's log start lies inside of a batch
    (DeleteRecords), and the follower restarts its log at `first_offset`.
    """

    def __init__(self, name: str, first_offset: int, last_offset: int, expected: int) -> None:
        super().__init__(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"Unexpected offset in append to {name}: batch [{first_offset}, {last_offset}] is "
            f"below the next offset {expected}",
        )
        self.first_offset = first_offset
        self.last_offset = last_offset


class AppendInfo:
    """The outcome of an append; offsets are -1 if nothing was appended."""

    __slots__ = (
        "converted_count",
        "duplicate",
        "first_offset",
        "flush_needed",
        "last_offset",
        "log_append_time",
        "log_start_offset",
        "max_timestamp",
        "offset_of_max_timestamp",
        "rolled",
        "shallow_count",
        "size_bytes",
    )

    def __init__(
        self,
        first_offset: int,
        last_offset: int,
        max_timestamp: int,
        offset_of_max_timestamp: int,
        log_append_time: int,
        log_start_offset: int,
        size_bytes: int,
        shallow_count: int = 1,
        duplicate: bool = False,
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.max_timestamp = max_timestamp
        self.offset_of_max_timestamp = offset_of_max_timestamp
        self.log_append_time = log_append_time
        self.log_start_offset = log_start_offset
        self.size_bytes = size_bytes
        self.shallow_count = shallow_count
        self.duplicate = duplicate
        self.converted_count = 0
        self.flush_needed = False
        self.rolled = False

    @classmethod
    def of_nothing(cls, log_start_offset: int) -> AppendInfo:
        """There was no complete batch to append."""
        return cls(-1, -1, -1, -1, -1, log_start_offset, 0, 0)

    def __repr__(self) -> str:
        return (
            f"AppendInfo({self.first_offset}..{self.last_offset}, {self.size_bytes} bytes, "
            f"duplicate={self.duplicate})"
        )
