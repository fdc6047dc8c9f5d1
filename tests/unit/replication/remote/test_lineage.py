"""Which remote segments are of a log, by their leader epochs; with examples of Kafka's."""

from __future__ import annotations

import pytest

from pybroker_kafka.replication.remote.copying import epochs_of
from pybroker_kafka.replication.remote.lineage import in_range, is_of_this_log, with_records
from pybroker_kafka.storage.remote.segments import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    TopicIdPartition,
)
from pybroker_kafka.storage.remote.storage_manager import RemoteStorageError

NAME = TopicIdPartition(bytes(16), "t", 0)
EPOCHS = [(0, 0), (1, 10), (3, 30), (4, 40)]


def segment(start: int, end: int, *epochs: tuple[int, int]) -> RemoteLogSegmentMetadata:
    return RemoteLogSegmentMetadata(
        RemoteLogSegmentId(NAME, bytes(16)), start, end, 0, 1, 0, 100, epochs
    )


def test_epochs_without_records_are_left_out() -> None:
    assert with_records([(0, 0), (1, 10), (2, 10), (3, 30)]) == [(0, 0), (2, 10), (3, 30)]
    assert with_records([]) == []


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (0, 10, [(0, 0)]),
        (5, 11, [(0, 5), (1, 10)]),
        (10, 30, [(1, 10)]),
        (35, 36, [(3, 35)]),
        (-1, 31, [(0, 0), (1, 10), (3, 30)]),
        (50, 60, [(4, 50)]),
    ],
)
def test_epochs_of_a_range(start: int, end: int, expected: list[tuple[int, int]]) -> None:
    assert in_range(EPOCHS, start, end) == expected


@pytest.mark.parametrize(
    ("metadata", "is_ours"),
    [
        (segment(0, 9, (0, 0)), True),
        (segment(0, 10, (0, 0)), False),  # epoch 0 ends at 9 here
        (segment(5, 35, (0, 5), (1, 10), (3, 30)), True),
        (segment(5, 35, (0, 5), (1, 12), (3, 30)), False),  # epoch 1 begins elsewhere
        (segment(5, 35, (0, 5), (2, 10), (3, 30)), False),  # an epoch that this log does not know
        (segment(8, 12, (1, 8)), False),  # before its epoch begins here
        (segment(40, 99, (4, 40)), True),
        (segment(40, 100, (4, 40)), False),  # behind the log end
        (segment(40, 50, (5, 40)), False),
    ],
)
def test_segments_of_a_log_that_ends_at_100(
    metadata: RemoteLogSegmentMetadata, is_ours: bool
) -> None:
    assert is_of_this_log(metadata, 100, EPOCHS) is is_ours


def test_after_a_deletion_the_first_epoch_may_begin_earlier_in_a_segment() -> None:
    """Of Kafka's comment: segment 1 is deleted, and the log starts at 51."""
    epochs = [(7, 51), (9, 100)]
    assert is_of_this_log(segment(14, 150, (5, 14), (7, 15), (9, 100)), 200, epochs)
    assert not is_of_this_log(segment(5, 9, (5, 5)), 200, epochs)
    assert not is_of_this_log(segment(5, 9, (5, 5)), 200, [])


@pytest.mark.parametrize("text", ["", "0\n1\n", "0\n1\n3 x\n", "1\n1\n3 4\n", "0\n2\n3 4\n1 2\n"])
def test_a_damaged_checkpoint_of_a_copy(text: str) -> None:
    with pytest.raises(RemoteStorageError):
        epochs_of(text.encode())
    assert epochs_of(b"0\n2\n1 0\n3 4\n") == [(1, 0), (3, 4)]
