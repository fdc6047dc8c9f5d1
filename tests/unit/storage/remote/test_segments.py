from __future__ import annotations

import pytest

from pybroker_kafka.storage.remote.segments import (
    PARTITION_TRANSITIONS,
    SEGMENT_TRANSITIONS,
    RemoteLogSegmentState,
    RemotePartitionDeleteState,
)

from .tiers import PARTITION, segment_id, started, update

STARTED, FINISHED, DELETING, DELETED = RemoteLogSegmentState


def test_transitions_are_those_of_kafka() -> None:
    legal = {(old, new) for old, states in SEGMENT_TRANSITIONS.items() for new in states}
    ways = {(None, STARTED), (STARTED, FINISHED), (STARTED, DELETING), (FINISHED, DELETING)}
    again = {(state, state) for state in RemoteLogSegmentState}
    assert legal == ways | {(DELETING, DELETED)} | again


def test_transitions_of_partitions_are_those_of_kafka() -> None:
    marked, removing, removed = RemotePartitionDeleteState
    legal = {(old, new) for old, states in PARTITION_TRANSITIONS.items() for new in states}
    again = {(state, state) for state in RemotePartitionDeleteState}
    assert legal == {(None, marked), (marked, removing), (removing, removed)} | again


def test_an_update_replaces_state_writer_time_and_custom_metadata() -> None:
    metadata = started(1, 10, 19)
    copied = metadata.updated(update(1, FINISHED, b"where"))
    assert (copied.state, copied.broker_id, copied.event_timestamp_ms) == (FINISHED, 2, 6000)
    assert copied.custom_metadata == b"where"
    assert copied.updated(update(1, DELETING)).custom_metadata is None
    assert (copied.start_offset, copied.segment_leader_epochs) == (10, ((0, 10),))


def test_an_update_of_another_segment_is_refused() -> None:
    with pytest.raises(ValueError, match="an update of"):
        started(1, 10, 19).updated(update(2, FINISHED))


@pytest.mark.parametrize(
    ("start", "end", "epochs"),
    [(-1, 4, [(0, 0)]), (5, 4, [(0, 0)]), (0, 4, [(1, 0), (0, 3)]), (0, 4, [(1, 0), (1, 3)])],
)
def test_impossible_segments_are_refused(
    start: int, end: int, epochs: list[tuple[int, int]]
) -> None:
    with pytest.raises(ValueError, match="segment"):
        started(1, start, end, *epochs)


def test_text_has_the_ids_as_kafka_writes_them() -> None:
    assert str(PARTITION) == "AAECAwQFBgcICQoLDA0ODw:history-3"
    assert str(segment_id(1)).endswith(f" of {PARTITION}")
    assert PARTITION.topic_partition == ("history", 3)
