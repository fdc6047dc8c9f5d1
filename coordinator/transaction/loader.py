"""Reading one partition of `__transaction_state` back into transactional ids.

Mirrors the reading loop of Kafka's TransactionStateManager.loadTransactionMetadata. A PartitionLoad
is filled batch by batch, possibly in a worker thread: it touches nothing but itself, and the
coordinator takes its result over in one step on the loop.

Rules: later records win, a null value removes the id. Unreadable data is counted and skipped: one
bad record must not cost the partition its other ids (Kafka ends the reading there, and serves what
it has read).
"""

from collections.abc import Iterator

from ...protocol.errors import ProtocolError
from ...protocol.records.batch import BatchHeader, Record
from ...protocol.topics import TRANSACTIONS_TOPIC
from .. import partition_load
from .metadata import TransactionMetadata
from .records import KEY_PREFIX, decode_key, decode_value


class PartitionLoad(partition_load.PartitionLoad):
    """The records of one partition read so far."""

    __slots__ = ("_raw", "_transactions")

    topic = TRANSACTIONS_TOPIC

    def __init__(self, partition: int, epoch: int) -> None:
        super().__init__(partition, epoch)
        # Most records are superseded by later ones: only what is left is decoded.
        self._raw: dict[bytes, bytes] = {}
        self._transactions: dict[str, TransactionMetadata] = {}

    def _add_batch(self, header: BatchHeader, records: Iterator[Record]) -> None:
        if not header.is_control:
            for offset, _, key, value, _, _ in records:
                self._add_record(offset, key, value)

    def _add_record(self, offset: int, key: bytes | None, value: bytes | None) -> None:
        self.record_count += 1
        if key is None or key[: len(KEY_PREFIX)] != KEY_PREFIX:
            self._skip(f"the record at offset {offset}", "unknown kind of key")
        elif value is None:
            self._raw.pop(bytes(key), None)
        else:
            self._raw[bytes(key)] = bytes(value)

    def _decode(self) -> None:
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
        return self._transactions
