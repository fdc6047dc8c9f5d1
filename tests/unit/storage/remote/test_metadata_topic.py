"""Reading `__remote_log_metadata`: which records count, and when a partition is ready."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from pybroker_kafka.storage.remote.metadata_records import record_value
from pybroker_kafka.storage.remote.metadata_topic import MetadataTopic, RemoteLogNotReadyError
from pybroker_kafka.storage.remote.segments import (
    RemoteLogMetadata,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    RemotePartitionDeleteMetadata,
    RemotePartitionDeleteState,
    TopicIdPartition,
)
from pybroker_kafka.storage.remote.storage_manager import (
    RemoteResourceNotFoundError,
    RemoteStorageError,
)
from tests.support import examples

from .tiers import segment_id

STARTED, FINISHED, DELETING, DELETED = RemoteLogSegmentState
ONE = TopicIdPartition(bytes([1] * 16), "one", 0)
TWO = TopicIdPartition(bytes([2] * 16), "two", 0)


def started(partition: TopicIdPartition, number: int) -> RemoteLogSegmentMetadata:
    start = number * 10
    return RemoteLogSegmentMetadata(
        segment_id(number, partition), start, start + 9, 0, 1, 0, 100, ((0, start),)
    )


def copied(partition: TopicIdPartition, number: int) -> list[RemoteLogMetadata]:
    first = started(partition, number)
    return [first, RemoteLogSegmentMetadataUpdate(first.segment_id, 1, None, FINISHED, 1)]


@dataclass
class Reader:
    """A topic of one partition in memory, and the shell that reads it, one step a call."""

    topic: MetadataTopic = field(default_factory=lambda: MetadataTopic(1))
    log: list[RemoteLogMetadata] = field(default_factory=list)
    position: int = 0

    def seek(self) -> None:
        for number in self.topic.take_restarts():
            self.position = 0
            self.topic.on_ends(number, 0, len(self.log))

    def read(self, most: int = 1_000_000) -> None:
        for record in self.log[self.position : self.position + most]:
            assert self.topic.on_record(0, self.position, record_value(record)) is None
            self.position += 1


def numbers(topic: MetadataTopic, partition: TopicIdPartition) -> list[int]:
    return [one.segment_id.id[-1] for one in topic.cache(partition).segments_of_epoch(0)]


def test_a_partition_is_ready_at_the_end_that_was_there_at_its_assignment() -> None:
    reader = Reader(log=[*copied(ONE, 0), *copied(TWO, 0), *copied(ONE, 1)])
    topic = reader.topic
    with pytest.raises(RemoteResourceNotFoundError):
        topic.cache(ONE)
    topic.assign([ONE])
    assert topic.wanted == {0}
    with pytest.raises(RemoteLogNotReadyError):
        topic.cache(ONE)
    reader.seek()
    reader.log += copied(ONE, 2)
    reader.read(5)
    assert not topic.is_ready(ONE)
    reader.read(1)
    assert topic.is_ready(ONE)
    assert numbers(topic, ONE) == [0, 1]
    reader.read()
    assert numbers(topic, ONE) == [0, 1, 2]
    assert (topic.is_ready(TWO), topic.assigned) == (False, {ONE})


@pytest.mark.parametrize("end", [0, 70])
def test_a_partition_without_records_is_ready_at_once(end: int) -> None:
    topic = MetadataTopic(1)
    topic.assign([ONE])
    topic.take_restarts()
    topic.on_ends(0, end, end)
    assert topic.cache(ONE).segments() == []


def test_a_second_partition_restarts_and_the_first_one_keeps_its_state() -> None:
    reader = Reader(log=[*copied(ONE, 0), *copied(TWO, 0)])
    topic = reader.topic
    topic.assign([ONE])
    reader.seek()
    reader.read()
    assert topic.has_read(0, 3)
    topic.assign([TWO, ONE])
    # Records that were fetched before the restart are out of order for the new one.
    topic.on_record(0, 4, record_value(started(TWO, 7)))
    assert topic.is_ready(ONE)
    assert not topic.has_read(0, 3)
    reader.seek()
    reader.read()
    assert (numbers(topic, ONE), numbers(topic, TWO)) == ([0], [0])
    assert topic.take_restarts() == set()


def test_ends_that_were_asked_for_before_another_restart_do_not_count() -> None:
    topic = MetadataTopic(1)
    topic.assign([ONE])
    assert topic.take_restarts() == {0}
    topic.assign([TWO])
    topic.on_ends(0, 0, 0)
    assert not topic.is_ready(ONE)
    assert topic.take_restarts() == {0}
    topic.on_ends(0, 0, 0)
    assert (topic.is_ready(ONE), topic.is_ready(TWO)) == (True, True)


def test_another_reader_begins_where_the_first_one_ended() -> None:
    reader = Reader(log=[*copied(ONE, 0), *copied(TWO, 0)])
    topic = reader.topic
    topic.assign([ONE])
    assert topic.take_restarts() == {0}
    topic.begin()
    assert topic.take_restarts() == {0}
    topic.on_ends(0, 0, 4)
    reader.read(3)
    topic.begin()
    assert (topic.take_restarts(), topic.position(0), topic.position(7)) == (set(), 3, 0)
    reader.read()
    assert topic.is_ready(ONE)


def test_unassigned_partitions_are_forgotten() -> None:
    reader = Reader(log=[*copied(ONE, 0), *copied(TWO, 0)])
    topic = reader.topic
    topic.assign([ONE, TWO])
    topic.unassign([TWO])
    reader.seek()
    reader.read()
    assert topic.is_ready(ONE)
    topic.unassign([ONE, ONE])
    assert (topic.wanted, topic.take_restarts(), topic.assigned) == (set(), set(), set())
    assert topic.on_record(0, 9, b"anything") is None
    topic.on_ends(0, 0, 0)
    with pytest.raises(RemoteStorageError, match="is not read here"):
        topic.has_read(0, 0)
    topic.assign([ONE])
    reader.seek()
    reader.read()
    assert numbers(topic, ONE) == [0]


def test_the_end_of_a_partitions_deletion_forgets_its_segments() -> None:
    topic = MetadataTopic(1)
    reader = Reader(topic, [*copied(ONE, 0)])
    reader.log += [
        RemotePartitionDeleteMetadata(ONE, state, 1, 1) for state in RemotePartitionDeleteState
    ]
    topic.assign([ONE])
    reader.seek()
    reader.read()
    assert topic.cache(ONE).segments() == []


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "without a value"),
        (b"\x01\x09\0", "unknown kind 9"),
        (record_value(copied(ONE, 5)[1]), "is unknown"),
    ],
)
def test_bad_records_are_passed_over_with_a_reason(value: bytes | None, text: str) -> None:
    topic = MetadataTopic(1)
    topic.assign([ONE])
    topic.take_restarts()
    topic.on_ends(0, 0, 1)
    reason = topic.on_record(0, 0, value)
    assert reason is not None
    assert text in reason
    assert topic.is_ready(ONE)


@pytest.mark.parametrize("seed", range(examples.of(30)))
def test_random_assignments_end_in_the_same_state_as_one_reading(seed: int) -> None:
    draw = random.Random(seed)
    partitions = [TopicIdPartition(bytes([one] * 16), f"t{one}", one) for one in range(4)]
    log: list[RemoteLogMetadata] = []
    lives = [copied(partition, number) for partition in partitions for number in range(5)]
    while lives:
        life = draw.choice(lives)
        log.append(life.pop(0))
        lives = [one for one in lives if one]
    reader = Reader()
    while log or reader.position < len(reader.log):
        match draw.randrange(5):
            case 0:
                reader.topic.assign(draw.sample(partitions, 2))
            case 1:
                reader.topic.unassign(draw.sample(partitions, 1))
            case 2 if log:
                reader.log.append(log.pop(0))
            case 3:
                reader.seek()
            case _:
                reader.read(draw.randrange(4))
    reader.topic.assign(partitions)
    reader.seek()
    reader.read()
    for partition in partitions:
        assert numbers(reader.topic, partition) == list(range(5))
