"""Reading one partition of `__transaction_state` back into transactional ids.

Mirrors the reading loop of Kafka's TransactionStateManager.loadTransactionMetadata. A PartitionLoad
is filled batch by batch, possibly in a worker thread: it touches nothing but itself, and the
coordinator takes its result over in one step on the loop.

Rules: later records win, a null value removes the id. What cannot be understood is counted and
skipped: one bad record must not cost the partition its other ids (Kafka ends the reading there,
and serves what it has read).
"""

import logging

from coordinator.transaction.metadata import TransactionMetadata
from coordinator.transaction.records import KEY_PREFIX, decode_key, decode_value
from protocol.errors import ProtocolError
from protocol.records.batch import iter_batch_headers, iter_records

log = logging.getLogger(__name__)

_MAX_LOGGED_SKIPS = 10


class PartitionLoad:
    """What has been read of one partition so far."""

    __slots__ = (
        "_raw",
        "_transactions",
        "epoch",
        "next_offset",
        "partition",
        "record_count",
        "skipped_count",
    )

    def __init__(self, partition: int, epoch: int) -> None:
        self.partition = partition
        self.epoch = epoch
        # Where reading goes on: one past the last offset that was seen.
        self.next_offset = 0
        self.record_count = 0
        self.skipped_count = 0
        # Most records are superseded by later ones: only what is left is decoded.
        self._raw: dict[bytes, bytes] = {}
        self._transactions: dict[str, TransactionMetadata] | None = None

    def add(self, records: bytes | bytearray | memoryview) -> None:
        """Take in complete batches, in log order; a partial batch at the end is left alone."""
        assert self._transactions is None
        for position, header in iter_batch_headers(records):
            if not header.is_control:
                try:
                    for offset, _, key, value, _, _ in iter_records(records, position):
                        self._add_record(offset, key, value)
                except ProtocolError as error:
                    self._skip(f"the batch at offset {header.base_offset}", error)
            self.next_offset = header.next_offset

    def _add_record(self, offset: int, key: bytes | None, value: bytes | None) -> None:
        self.record_count += 1
        if key is None or key[: len(KEY_PREFIX)] != KEY_PREFIX:
            self._skip(f"the record at offset {offset}", "unknown kind of key")
        elif value is None:
            self._raw.pop(bytes(key), None)
        else:
            self._raw[bytes(key)] = bytes(value)

    def _skip(self, what: str, why: object) -> None:
        self.skipped_count += 1
        if self.skipped_count <= _MAX_LOGGED_SKIPS:
            log.warning("__transaction_state-%d: skipped %s: %s", self.partition, what, why)

    def decode(self) -> None:
        """All has been read: decode what is left. Like `add`, this may run in a worker thread."""
        if self._transactions is not None:
            return
        self._transactions = {}
        for key, value in self._raw.items():
            try:
                transactional_id = decode_key(key)
                self._transactions[transactional_id] = decode_value(transactional_id, value)
            except ProtocolError as error:
                self._skip(f"the record with key {key!r}", error)
        self._raw = {}

    def transactions(self) -> dict[str, TransactionMetadata]:
        """The transactional ids of the partition; call once, at the end."""
        self.decode()
        assert self._transactions is not None
        return self._transactions
