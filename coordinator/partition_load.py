"""Reading one partition of a coordinator's topic, from its beginning to its end.

The broker passes the log to `add`, in any pieces of complete batches; `decode` comes last. Both may
run in a worker thread. Unreadable data is skipped and counted, and the first cases are logged.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar

from ..protocol.errors import ProtocolError
from ..protocol.primitives import Buffer
from ..protocol.records.batch import BatchHeader, Record, iter_batch_headers, iter_records

logger = logging.getLogger("pybroker.coordinator.partition_load")

_MAX_LOGGED_SKIPS = 10


class PartitionLoad(ABC):
    """The records of one partition read so far."""

    __slots__ = ("_is_decoded", "epoch", "next_offset", "partition", "record_count",
                 "skipped_count")  # fmt: skip

    topic: ClassVar[str]

    def __init__(self, partition: int, epoch: int) -> None:
        self.partition = partition
        self.epoch = epoch
        # The offset to read next: one past the last offset read.
        self.next_offset = 0
        self.record_count = 0
        self.skipped_count = 0
        self._is_decoded = False

    def add(self, records: Buffer) -> None:
        """Read complete batches, in log order; a partial batch at the end is ignored."""
        assert not self._is_decoded
        for position, header in iter_batch_headers(records):
            try:
                self._add_batch(header, iter_records(records, position))
            except ProtocolError as error:
                self._skip(f"the batch at offset {header.base_offset}", error)
            self.next_offset = header.next_offset

    def decode(self) -> None:
        """Decode the rest, after the last `add`; only the first call has an effect."""
        if not self._is_decoded:
            self._is_decoded = True
            self._decode()

    @abstractmethod
    def _add_batch(self, header: BatchHeader, records: Iterator[Record]) -> None: ...

    @abstractmethod
    def _decode(self) -> None: ...

    def _skip(self, what: str, why: object) -> None:
        self.skipped_count += 1
        if self.skipped_count <= _MAX_LOGGED_SKIPS:
            logger.warning("%s-%d: skipped %s: %s", self.topic, self.partition, what, why)
