"""From the bytes of a fetch to what the consumer's buffer holds: for applications, columns.

A fetcher is told how to unpack, so that whoever passes batches on can leave their records packed.
Invariant: compressed batches are unpacked in a thread if the fetch has THREAD_FROM_BYTES or more.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import Final, Protocol, Self, TypeAlias, TypeVar

import trio

from ...protocol.messages.fetch import AbortedTransaction
from ...protocol.primitives import Buffer
from ...protocol.records.batch import iter_batch_headers
from ...protocol.records.columns import decode_columns
from ...protocol.topics import TopicPartition
from .received import ReceivedBatch, batches_of

THREAD_FROM_BYTES: Final = 64 * 1024


class Fetched(Protocol):
    """Some records of a partition: how many, and where reading goes on behind them."""

    next_offset: int
    leader_epoch: int

    def __len__(self) -> int: ...

    def split(self, count: int) -> tuple[Self, Self | None]: ...


B = TypeVar("B", bound=Fetched)
# From a partition, its records from a position on, the position, and what is aborted of them (None:
# that does not matter): at least one if the fetch goes beyond the position. Raises ProtocolError.
Unpack: TypeAlias = Callable[
    [TopicPartition, Buffer, int, Collection[AbortedTransaction] | None], Awaitable[list[B]]
]


def unpack_columns(check_crcs: bool) -> Unpack[ReceivedBatch]:
    """For whoever wants records."""

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
            await trio.lowlevel.checkpoint()
            columns = decode()
        return batches_of(partition, columns, position, aborted)

    return unpack


def is_for_a_thread(records: Buffer) -> bool:
    """Some of it is compressed, and it is much."""
    return len(records) >= THREAD_FROM_BYTES and any(
        header.is_compressed for _, header in iter_batch_headers(records)
    )
