"""A transactional id's life in records, as Apache Kafka 4.3.1's own class writes them.

`python -m tests.support.transaction_log_values` writes the golden file.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

import pytest

from pybroker_kafka.coordinator.transaction.metadata import (
    NO_PRODUCER_EPOCH,
    RAISES_EPOCHS,
    TransactionMetadata,
    Transition,
)
from pybroker_kafka.coordinator.transaction.records import decode_value, transaction_value
from tests.support.transaction_log_values import VALUES

PLACE = ("t", 3)
LINES = [line.split() for line in VALUES.read_text().splitlines()]
LIVES = {key: list(lines) for key, lines in groupby(LINES, lambda line: tuple(line[:3]))}


def life(metadata: TransactionMetadata, version: int) -> Iterator[tuple[str, Transition]]:
    """The steps that TransactionLogValues.java takes, each of which is completed."""

    def end(stamp_ms: int, next_id: int, *, committed: bool) -> Transition:
        if version < RAISES_EPOCHS:
            return metadata.prepare_end(stamp_ms, committed=committed)
        is_last = metadata.is_epoch_exhausted
        return metadata.prepare_end_and_raise(
            stamp_ms, next_id if is_last else None, committed=committed
        )

    yield "init", metadata.prepare_epoch_bump(2000, NO_PRODUCER_EPOCH, 2)
    for committed in (True, False):
        yield "add", metadata.prepare_add_partitions(frozenset({PLACE}), 3, version)
        yield "end", end(4, 99, committed=committed)
        metadata.marker_written(PLACE)
        yield "complete", metadata.prepare_complete(5)
    if version == RAISES_EPOCHS:
        yield "abort", end(6, 98, committed=False)
        yield "complete", metadata.prepare_complete(7)


@pytest.mark.parametrize("key", LIVES, ids="-".join)
def test_values_are_kafkas(key: tuple[str, str, str]) -> None:
    server, client, epoch = map(int, key)
    metadata = TransactionMetadata("id", 7, epoch, 1000, 1)
    lines = iter(LIVES[key])
    for (step, transition), line in zip(life(metadata, client), lines, strict=True):
        value = transaction_value(transition, server)
        assert (step, value.hex()) == (line[3], line[4])
        metadata.complete(transition, 0)
        if server >= 1:
            read = decode_value("id", value)
            fields = ("producer_id", "producer_epoch", "next_producer_id", "client_version")
            assert [getattr(read, field) for field in fields] == [
                getattr(metadata, field) for field in fields
            ]
