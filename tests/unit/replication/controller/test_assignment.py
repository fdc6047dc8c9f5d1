"""Kafka's placement arithmetic: the examples of its documentation, racks, growth, errors."""

import pytest

from pybroker_kafka.protocol.errors import ErrorCode, KafkaError
from pybroker_kafka.replication.controller.assignment import (
    alternate_racks,
    assign_added_partitions,
    assign_replicas,
    usable_racks,
)


def test_ten_partitions_on_five_brokers() -> None:
    # The table in the documentation of AdminUtils: leaders round robin, followers shifted.
    assignment = assign_replicas(range(5), 10, 3, start_index=0, shift=0)
    assert assignment == {
        0: [0, 1, 2],
        1: [1, 2, 3],
        2: [2, 3, 4],
        3: [3, 4, 0],
        4: [4, 0, 1],
        5: [0, 2, 3],
        6: [1, 3, 4],
        7: [2, 4, 0],
        8: [3, 0, 1],
        9: [4, 1, 2],
    }


def test_one_broker() -> None:
    assert assign_replicas([7], 3, 1, start_index=0, shift=0) == {0: [7], 1: [7], 2: [7]}


def test_racks_alternate_by_name() -> None:
    racks = {0: "rack1", 1: "rack3", 2: "rack3", 3: "rack2", 4: "rack2", 5: "rack1"}
    assert alternate_racks(racks) == [0, 3, 1, 5, 4, 2]
    assert alternate_racks({0: "a", 1: "a", 2: "b"}) == [0, 2, 1]


def test_rack_aware_example() -> None:
    # Also from the documentation of AdminUtils, with start 0 and shift 0.
    racks = {0: "rack1", 1: "rack3", 2: "rack3", 3: "rack2", 4: "rack2", 5: "rack1"}
    assignment = assign_replicas(range(6), 7, 3, start_index=0, shift=0, racks=racks)
    assert assignment == {
        0: [0, 3, 1],
        1: [3, 1, 5],
        2: [1, 5, 4],
        3: [5, 4, 2],
        4: [4, 2, 0],
        5: [2, 0, 3],
        6: [0, 4, 2],
    }


def test_more_replicas_than_racks() -> None:
    racks = {1: "a", 2: "a", 3: "b"}
    for replicas in assign_replicas([1, 2, 3], 6, 3, start_index=1, shift=0, racks=racks).values():
        assert sorted(replicas) == [1, 2, 3]


def test_added_partitions_go_on_where_the_topic_ended() -> None:
    whole = assign_replicas(range(5), 10, 3, start_index=2, shift=2)
    first = {index: whole[index] for index in range(4)}
    assert assign_added_partitions(first, range(5), 5, racks=None) == {4: whole[4]}


def test_added_partitions_when_the_first_leader_is_gone() -> None:
    # No broker has an id as high as the first replica: placement starts at the first broker.
    assert assign_added_partitions({0: (9,)}, [1, 2], 3, racks=None) == {1: [2], 2: [1]}


@pytest.mark.parametrize(
    ("partitions", "replicas", "code"),
    [
        (0, 1, ErrorCode.INVALID_PARTITIONS),
        (100_001, 1, ErrorCode.INVALID_PARTITIONS),
        (1, 0, ErrorCode.INVALID_REPLICATION_FACTOR),
        (1, 4, ErrorCode.INVALID_REPLICATION_FACTOR),
    ],
)
def test_impossible_sizes(partitions: int, replicas: int, code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as caught:
        assign_replicas([1, 2, 3], partitions, replicas, start_index=0, shift=0)
    assert caught.value.code is code


def test_racks_must_be_known_for_all_or_none() -> None:
    assert usable_racks({1: None, 2: None}) is None
    assert usable_racks({1: "a", 2: "b"}) == {1: "a", 2: "b"}
    with pytest.raises(KafkaError, match=r"\[2\]"):
        usable_racks({1: "a", 2: None})
