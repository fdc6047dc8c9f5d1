"""A log of several leader epochs, and a broker that does not lead: what each API says, by version.

The tests play the controller for topics of their own (see control_steps).
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.errors import ErrorCode
from tests.support.processes import BrokerProcess, running_broker
from tests.support.wire import Topic, WireClient, covers, records_of
from tests.wire.control_steps import ABSENT_BROKER, Control
from tests.wire.test_offsets import LATEST, delete_records, end_of_epoch, list_offsets
from tests.wire.test_produce import in_format_of

FENCED = ErrorCode.FENCED_LEADER_EPOCH
NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER
EPOCH = 5


@pytest.fixture(scope="module")
def wire_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """Of these tests alone: metadata lists a broker that left for a while (`Control.follow`)."""
    with running_broker(tmp_path_factory.mktemp("epochs")) as broker:
        yield broker


@pytest.fixture
def led(kafka: WireClient) -> Topic:
    """Offsets 0-1 of epoch 0, 2-3 of epoch 3, 4-5 of epoch 5, at times 1000, 2000, 3000."""
    topic = kafka.create_topic()
    control = Control(kafka)
    for epoch, time in ((0, 1000), (3, 2000), (EPOCH, 3000)):
        if epoch:
            assert control.lead(7, topic, epoch) == (0, [0])
        kafka.append(topic.name, b"a", b"b", timestamp=time)
    return topic


@pytest.fixture
def followed(kafka: WireClient) -> Topic:
    """A topic whose leader is a broker that is not there."""
    topic = kafka.create_topic()
    kafka.append(topic.name, b"value")
    Control(kafka).follow(topic, EPOCH)
    return topic


@covers(ApiKey.OFFSET_FOR_LEADER_EPOCH)
def test_where_epochs_end(kafka: WireClient, led: Topic) -> None:
    ends = {0: (0, 2), 1: (0, 2), 2: (0, 2), 3: (3, 4), 4: (3, 4), 5: (5, 6), 6: (-1, -1)}
    for version in kafka.versions(ApiKey.OFFSET_FOR_LEADER_EPOCH):
        for epoch, (found, end) in ends.items():
            answer = end_of_epoch(kafka, version, led.name, epoch)
            assert (answer.error_code, answer.end_offset) == (0, end)
            assert answer.leader_epoch == (found if version >= 1 else -1)
        if version >= 2:
            fenced = end_of_epoch(kafka, version, led.name, 3, current_leader_epoch=3)
            assert (fenced.error_code, fenced.end_offset) == (FENCED, -1)


def test_fetch_sees_epochs(kafka: WireClient, led: Topic) -> None:
    for version in kafka.versions(ApiKey.FETCH, first=9):
        answer = kafka.fetch(led, 0, version, current_leader_epoch=3)
        assert (answer.error_code, records_of(answer)) == (FENCED, [])
        answer = kafka.fetch(led, 0, version, current_leader_epoch=EPOCH)
        assert (answer.error_code, len(records_of(answer))) == (0, 6)


def test_a_diverging_log_is_told_where(kafka: WireClient, led: Topic) -> None:
    for version in kafka.versions(ApiKey.FETCH, first=12):
        for offset, epoch, diverging in ((5, 4, (3, 4)), (3, 0, (0, 2)), (9, 5, (5, 6))):
            answer = kafka.fetch(led, offset, version, last_fetched_epoch=epoch)
            assert (answer.error_code, records_of(answer)) == (0, [])
            found = answer.diverging_epoch
            assert (found.epoch, found.end_offset) == diverging
        answer = kafka.fetch(led, 4, version, last_fetched_epoch=3)
        assert (answer.error_code, answer.diverging_epoch.epoch) == (0, -1)
        assert [record.offset for record in records_of(answer)] == [4, 5]


def test_list_offsets_sees_epochs(kafka: WireClient, led: Topic) -> None:
    for version in kafka.versions(ApiKey.LIST_OFFSETS, first=4):
        for timestamp, offset, epoch in ((0, 0, 0), (1500, 2, 3), (2001, 3, 3), (2500, 4, 5)):
            answer = list_offsets(kafka, version, led.name, timestamp)
            assert (answer.error_code, answer.offset, answer.leader_epoch) == (0, offset, epoch)
        latest = list_offsets(kafka, version, led.name, LATEST)
        assert (latest.offset, latest.leader_epoch) == (6, EPOCH)
        fenced = list_offsets(kafka, version, led.name, LATEST, current_leader_epoch=3)
        assert (fenced.error_code, fenced.offset) == (FENCED, -1)


def test_a_follower_takes_no_records(kafka: WireClient, followed: Topic) -> None:
    for version in kafka.versions(ApiKey.PRODUCE):
        for acks in (1, -1):
            records = in_format_of(version, b"value")
            answer = kafka.produce(followed.name, records, version=version, acks=acks)
            assert (answer.error_code, answer.base_offset) == (NOT_LEADER, -1)
            leader = (ABSENT_BROKER, EPOCH) if version >= 10 else (-1, -1)
            assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == leader


def test_a_follower_gives_records_to_new_consumers_only(kafka: WireClient, followed: Topic) -> None:
    for version in kafka.versions(ApiKey.FETCH):
        answer = kafka.fetch(followed, 0, version)
        if version >= 11:
            assert answer.error_code == 0
            continue
        assert (answer.error_code, records_of(answer)) == (NOT_LEADER, [])


def test_fenced_fetches_name_the_leader(kafka: WireClient, led: Topic) -> None:
    for version in kafka.versions(ApiKey.FETCH, first=9):
        answer = kafka.fetch(led, 0, version, current_leader_epoch=3)
        leader = (Control(kafka).me, EPOCH) if version >= 16 else (-1, -1)
        assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == leader


def test_a_follower_does_not_answer_about_offsets(kafka: WireClient, followed: Topic) -> None:
    for version in kafka.versions(ApiKey.LIST_OFFSETS):
        answer = list_offsets(kafka, version, followed.name, LATEST)
        assert (answer.error_code, answer.offset) == (NOT_LEADER, -1)
    for version in kafka.versions(ApiKey.OFFSET_FOR_LEADER_EPOCH):
        answer = end_of_epoch(kafka, version, followed.name, 0)
        assert (answer.error_code, answer.end_offset) == (NOT_LEADER, -1)
    for version in kafka.versions(ApiKey.DELETE_RECORDS):
        answer = delete_records(kafka, version, followed.name, 1)
        assert (answer.error_code, answer.low_watermark) == (NOT_LEADER, -1)
