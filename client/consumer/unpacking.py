"""Unpacks the bytes of a fetch for the consumer's buffer: for applications, into columns.

A fetcher receives its unpack function, so that a user that forwards batches can leave their records
packed.
Invariant: no step on the loop is longer than 10 ms. A thread unpacks compressed batches of
THREAD_FROM_BYTES or more, and others with more than LOOP_RECORDS or LOOP_BYTES. Interpreted, a
thread releases the interpreter every 5 ms; compiled loops hold it for a batch, which takes 2 ms a
MiB of the smallest records.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import Final, Protocol, Self, TypeAlias, TypeVar

import trio

from ...protocol.apis.fetch import AbortedTransaction
from ...protocol.primitives import Buffer
from ...protocol.records.batch import iter_batch_headers
from ...protocol.records.columns import decode_columns
from ...protocol.records.loops import COMPILED
from ...protocol.topics import TopicPartition
from .received import ReceivedBatch, batches_of

THREAD_FROM_BYTES: Final = 64 * 1024
# At 1 us a record, compiled 0.02 us, and 0.2 ms a MiB for the check and a copy.
LOOP_RECORDS: Final = 100_000 if COMPILED else 5_000
LOOP_BYTES: Final = 8 * 1024 * 1024


class Fetched(Protocol):
    """Some records of a partition: their number, and the position behind them."""

    next_offset: int
    leader_epoch: int

    def __len__(self) -> int: ...

    def split(self, count: int) -> tuple[Self, Self | None]: ...


B = TypeVar("B", bound=Fetched)
# From a partition, its records from a position on, the position, and its aborted transactions
# (None: irrelevant): at least one batch if the fetch extends beyond the position. Raises
# ProtocolError.
Unpack: TypeAlias = Callable[
    [TopicPartition, Buffer, int, Collection[AbortedTransaction] | None], Awaitable[list[B]]
]


def unpack_columns(check_crcs: bool) -> Unpack[ReceivedBatch]:
    """The unpack function for records as columns."""

    async def unpack(
        partition: TopicPartition,
        records: Buffer,
        position: int,
        aborted: Collection[AbortedTransaction] | None,
    ) -> list[ReceivedBatch]:
        decode = partial(decode_columns, records, check_crcs=check_crcs)
        if is_for_a_thread(records):
            columns = await trio.to_thread.run_sync(decode)
        else:
            columns = decode()
        return batches_of(partition, columns, position, aborted)

    return unpack


def is_for_a_thread(records: Buffer) -> bool:
    """Whether unpacking takes too long for the loop."""
    if len(records) < THREAD_FROM_BYTES:
        return False
    if len(records) > LOOP_BYTES:
        return True
    count = 0
    for _, header in iter_batch_headers(records):
        count += header.record_count
        if count > LOOP_RECORDS or header.is_compressed:
            return True
    return False
