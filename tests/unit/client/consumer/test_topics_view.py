"""What a consumer knows of its topics: who does not know yet, and answers, undoes nothing."""

import time
from itertools import count

from pybroker_kafka.client.consumer.positions import BEHIND_MS, PartitionState, Position
from pybroker_kafka.client.consumer.topics_view import Leader, TopicsView
from pybroker_kafka.protocol.apis.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

PLACE = ("t", 0)
ONE_ID, OTHER_ID = b"1" * 16, b"2" * 16
MANY = 20_000
SECONDS = 5.0  # where it takes milliseconds; a search for each would take longer


def answer(leader: int, epoch: int, topic_id: bytes = ONE_ID) -> MetadataResponse:
    part = MetadataResponsePartition(partition_index=0, leader_id=leader, leader_epoch=epoch)
    topic = MetadataResponseTopic(name="t", topic_id=topic_id, partitions=[part])
    return MetadataResponse(topics=[topic])


def topic_of(name: str, count: int, epoch: int = 0) -> MetadataResponse:
    partitions = [
        MetadataResponsePartition(partition_index=number, leader_id=number % 3, leader_epoch=epoch)
        for number in reversed(range(count))
    ]
    topic = MetadataResponseTopic(name=name, topic_id=name.encode() * 16, partitions=partitions)
    return MetadataResponse(topics=[topic])


def test_a_leader_epoch_does_not_go_back() -> None:
    view = TopicsView()
    view.take(answer(1, 4))
    view.take(answer(2, 5))
    view.take(answer(1, 4))
    assert view.leader(PLACE) == Leader(2, 5)
    view.take(answer(-1, 6))
    assert view.leader(PLACE) == Leader(-1, 6)


def test_another_topic_of_the_name_begins_anew() -> None:
    view = TopicsView()
    view.take(answer(1, 4))
    view.take(answer(2, 0, OTHER_ID))
    assert view.leader(PLACE) == Leader(2, 0)


def test_brokers_without_epochs_are_believed() -> None:
    view = TopicsView()
    view.take(answer(1, 4))
    view.take(answer(2, -1))
    assert view.leader(PLACE) == Leader(2, -1)


def test_a_position_is_not_shown_to_a_leader_of_an_older_epoch() -> None:
    """For a while: it might be of a topic that was deleted."""
    state = PartitionState(count())
    assert not state.is_ahead_of(2, 0)
    state.seek(Position(100, epoch=3))
    assert state.is_ahead_of(2, 0)
    assert state.is_ahead_of(2, BEHIND_MS - 1)
    assert not state.is_ahead_of(2, BEHIND_MS)
    assert not state.is_ahead_of(3, BEHIND_MS + 1)
    assert state.is_ahead_of(2, BEHIND_MS + 2)
    assert not state.is_ahead_of(-1, BEHIND_MS + 3)


def test_leaders_are_those_of_the_last_answer() -> None:
    view = TopicsView()
    assert view.leader(("t", 0)) is None
    assert view.take(topic_of("t", 4, epoch=1))
    assert view.leader(("t", 2)) == Leader(2, 1)
    assert view.leader(("t", 4)) is None
    assert not view.take(topic_of("t", 4, epoch=7))
    assert view.leader(("t", 2)) == Leader(2, 7)
    view.keep_only([])
    assert view.leader(("t", 2)) is None


def test_a_leader_that_a_broker_names_has_to_be_newer() -> None:
    view = TopicsView()
    view.take(topic_of("t", 2, epoch=5))
    view.move(("t", 1), Leader(9, 5))
    assert view.leader(("t", 1)) == Leader(1, 5)
    view.move(("t", 1), Leader(9, 6))
    view.move(("t", 7), Leader(9, 6))
    view.move(("other", 0), Leader(9, 6))
    assert view.leader(("t", 1)) == Leader(9, 6)
    assert view.leader(("t", 0)) == Leader(0, 5)
    assert view.leader(("t", 7)) is None


def test_many_partitions_are_looked_up_quickly() -> None:
    """A consumer does so of all of them for each fetch."""
    view = TopicsView()
    view.take(topic_of("t", MANY))
    began = time.process_time()
    assert all(view.leader(("t", number)) is not None for number in range(MANY))
    assert time.process_time() - began < SECONDS
