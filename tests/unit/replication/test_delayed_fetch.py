"""One test for each completion case of a delayed fetch (see replication/delayed_operations)."""

from pathlib import Path
from typing import Any

import pytest

from pybroker_kafka.protocol.apis.stop_replica import StopReplicaRequest, StopReplicaTopicV1
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.replication.types import (
    Done,
    FetchEntry,
    FetchParams,
    FetchResults,
    Isolation,
    Parked,
    ReplicatedAppend,
)
from tests.support.replication import KEY, ME, TOPIC, TOPIC_ID, ReplicaCluster, batch, done

REPLICAS = (ME, 2, 3)


def _data(outcome: Done[FetchResults] | Parked) -> Any:
    (data,) = done(outcome)
    return data


def _completed(cluster: ReplicaCluster) -> tuple[object, Any]:
    (completion,) = cluster.completed()
    (data,) = completion.result
    return completion.token, data


def test_data_that_is_there_is_answered_at_once(cluster: ReplicaCluster) -> None:
    cluster.role()
    cluster.produce("p", b"a", b"b")
    data = _data(cluster.fetch("f", 0))
    assert (data.error_code, data.high_watermark, data.log_start_offset) == (0, 2, 0)
    assert data.records.read() == bytes(cluster.partition.log.segments.active.log_file.read_at(
        len(data.records), 0))  # fmt: skip
    assert len(data.records) > 61


def test_no_wait_is_answered_at_once(cluster: ReplicaCluster) -> None:
    cluster.role()
    data = _data(cluster.fetch("f", 0, max_wait_ms=0))
    assert (data.error_code, data.records) == (0, b"")


def test_an_append_completes_a_waiting_fetch(cluster: ReplicaCluster) -> None:
    cluster.role()
    assert isinstance(cluster.fetch("f", 0), Parked)
    cluster.produce("p")
    token, data = _completed(cluster)
    assert token == "f"
    assert len(data.records) > 61
    assert len(cluster.manager.waiting.fetches) == 0
    assert cluster.manager.waiting.next_deadline_ms() is None


def test_consumers_wait_for_the_high_watermark_followers_do_not(cluster: ReplicaCluster) -> None:
    cluster.role(replicas=REPLICAS)
    assert isinstance(cluster.fetch("consumer", 0), Parked)
    assert isinstance(cluster.fetch("follower", 0, replica_id=2, log_start_offset=0), Parked)
    cluster.produce("p", acks=1)
    assert [completion.token for completion in cluster.completed()] == ["follower"]
    cluster.follow(2, 1)
    cluster.follow(3, 1)
    assert [completion.token for completion in cluster.completed()] == ["consumer"]


def test_case_a_leadership_lost(cluster: ReplicaCluster) -> None:
    cluster.role(replicas=REPLICAS)
    assert isinstance(cluster.fetch("f", 0), Parked)
    cluster.role(leader=2, replicas=REPLICAS, leader_epoch=1)
    assert _completed(cluster)[1].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_case_b_partition_deleted(cluster: ReplicaCluster) -> None:
    cluster.role()
    assert isinstance(cluster.fetch("f", 0), Parked)
    cluster.manager.leadership.stop_replicas(
        StopReplicaRequest(
            controller_epoch=1,
            delete_partitions=True,
            topics=[StopReplicaTopicV1(name=TOPIC, partition_indexes=[0])],
        ),
        cluster.now_ms,
    )
    assert _completed(cluster)[1].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_case_c_log_directory_offline(cluster: ReplicaCluster) -> None:
    cluster.role()
    assert isinstance(cluster.fetch("f", 0), Parked)
    cluster.partition.log.health.fail(OSError("disk is gone"))
    assert done(cluster.produce("p"))[KEY].error_code is ErrorCode.KAFKA_STORAGE_ERROR
    assert _completed(cluster)[1].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert _data(cluster.fetch("f", 0)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert cluster.role(leader_epoch=7).partition_errors[KEY] is ErrorCode.KAFKA_STORAGE_ERROR


def test_case_d_leader_epoch_fenced(cluster: ReplicaCluster) -> None:
    cluster.role(leader_epoch=3)
    assert isinstance(cluster.fetch("f", 0, current_leader_epoch=3), Parked)
    cluster.role(leader_epoch=4)
    assert _completed(cluster)[1].error_code == ErrorCode.FENCED_LEADER_EPOCH
    data = _data(cluster.fetch("f", 0, current_leader_epoch=5))
    assert data.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


def test_case_e_log_truncated_below_the_offset(cluster: ReplicaCluster) -> None:
    cluster.role()
    cluster.produce("p", b"a", b"b")
    assert isinstance(cluster.fetch("f", 2), Parked)
    cluster.partition.log.truncate_to(1, cluster.now_ms)
    cluster.manager.waiting.check(KEY)
    assert _completed(cluster)[1].error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_case_e_offset_on_an_older_segment(cluster: ReplicaCluster) -> None:
    cluster.role()
    size = len(batch(b"a"))
    assert isinstance(cluster.fetch("f", 0, min_bytes=10 * size), Parked)
    cluster.produce("p", b"a")
    assert not cluster.completed()
    cluster.partition.log.roll(cluster.now_ms)
    cluster.produce("p", b"b")
    # What the old segment holds is all that one slice can: there is no use in waiting for more.
    assert len(_completed(cluster)[1].records) == size


def test_case_e_is_seen_before_waiting(cluster: ReplicaCluster) -> None:
    cluster.role()
    cluster.produce("p", b"a")
    cluster.partition.log.roll(cluster.now_ms)
    data = _data(cluster.fetch("f", 0, min_bytes=1 << 20))
    assert len(data.records) == len(batch(b"a"))
    # At the end of the log there is no such hurry.
    assert isinstance(cluster.fetch("f", 1, min_bytes=1 << 20), Parked)


def test_case_f_enough_bytes_together(cluster: ReplicaCluster) -> None:
    cluster.role()
    cluster.role(partition=1)
    size = len(batch(b"a"))
    entries = [FetchEntry(TOPIC, index, fetch_offset=0, max_bytes=1 << 20) for index in (0, 1)]
    params = FetchParams(-1, 500, 3 * size, 1 << 30, Isolation.READ_UNCOMMITTED)
    assert isinstance(cluster.manager.fetches.fetch("f", params, entries, cluster.now_ms), Parked)
    for partition in (0, 1):
        assert not cluster.completed()
        cluster.manager.appends.append(
            "p", {(TOPIC, partition): batch(b"a")}, ReplicatedAppend(1, 0, cluster.now_ms)
        )
    assert not cluster.completed()
    cluster.manager.appends.append(
        "p", {(TOPIC, 1): batch(b"a")}, ReplicatedAppend(1, 0, cluster.now_ms)
    )
    (completion,) = cluster.completed()
    assert [len(data.records) for data in completion.result] == [size, 2 * size]


def test_case_f_a_partition_counts_up_to_its_own_limit(cluster: ReplicaCluster) -> None:
    cluster.role()
    size = len(batch(b"a"))
    entries = [FetchEntry(TOPIC, 0, fetch_offset=0, max_bytes=size)]
    params = FetchParams(-1, 500, 2 * size, 1 << 30, Isolation.READ_UNCOMMITTED)
    assert isinstance(cluster.manager.fetches.fetch("f", params, entries, cluster.now_ms), Parked)
    for _ in range(5):
        cluster.produce("p", b"a")
    assert not cluster.completed()


def test_case_g_divergence(cluster: ReplicaCluster) -> None:
    cluster.role(replicas=REPLICAS, leader_epoch=1)
    cluster.produce("p", b"a", b"b", acks=1)
    cluster.role(replicas=REPLICAS, leader_epoch=4)
    cluster.produce("p", b"c", acks=1)
    # The follower has epoch 1 up to offset 3; the leader's epoch 1 ends at 2.
    data = _data(cluster.fetch("f", 3, replica_id=2, current_leader_epoch=4, last_fetched_epoch=1))
    assert (data.diverging_epoch.epoch, data.diverging_epoch.end_offset) == (1, 2)
    assert not data.records
    # It did not count as progress.
    assert cluster.partition.remotes[2].log_end_offset == -1
    waiting = cluster.fetch(
        "waits", 3, replica_id=2, current_leader_epoch=4, last_fetched_epoch=4, max_wait_ms=500
    )
    assert isinstance(waiting, Parked)
    cluster.partition.log.truncate_to(2, cluster.now_ms)
    cluster.manager.waiting.check(KEY)
    _, data = _completed(cluster)
    assert data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_case_h_time_over(cluster: ReplicaCluster) -> None:
    cluster.role()
    cluster.produce("p", b"a")
    assert isinstance(cluster.fetch("f", 0, min_bytes=1 << 20, max_wait_ms=100), Parked)
    cluster.manager.waiting.tick(cluster.now_ms + 99)
    assert not cluster.completed()
    cluster.manager.waiting.tick(cluster.now_ms + 100)
    _, data = _completed(cluster)
    assert data.error_code == 0
    assert len(data.records) > 61


def test_unknown_topics_do_not_make_a_client_spin(cluster: ReplicaCluster) -> None:
    cluster.role()
    params = FetchParams(-1, 500, 1, 1 << 30, Isolation.READ_UNCOMMITTED)
    unknown = [
        FetchEntry("nobody", 0, fetch_offset=0, max_bytes=1),
        FetchEntry(None, 0, fetch_offset=0, max_bytes=1, topic_id=b"x" * 16),
    ]
    known = FetchEntry(TOPIC, 0, fetch_offset=0, max_bytes=1)
    assert isinstance(
        cluster.manager.fetches.fetch("f", params, [*unknown, known], cluster.now_ms), Parked
    )
    outcome = cluster.manager.fetches.fetch("f", params, unknown, cluster.now_ms)
    assert isinstance(outcome, Done)
    assert [data.error_code for data in done(outcome)] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    ]


@pytest.mark.parametrize("offset", [-1, 3])
def test_out_of_range(cluster: ReplicaCluster, offset: int) -> None:
    cluster.role()
    cluster.produce("p", b"a", b"b")
    data = _data(cluster.fetch("f", offset))
    assert data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert (data.high_watermark, data.log_start_offset) == (-1, -1)


def test_between_high_watermark_and_log_end_there_is_nothing(cluster: ReplicaCluster) -> None:
    cluster.role(replicas=REPLICAS)
    cluster.produce("p", b"a", b"b", acks=1)
    data = _data(cluster.fetch("f", 1, max_wait_ms=0))
    assert (data.error_code, data.records, data.high_watermark) == (0, b"", 0)
    data = _data(cluster.fetch("debug", 0, max_wait_ms=0, isolation=Isolation.LOG_END))
    assert len(data.records) > 61


def test_limits_over_partitions(cluster: ReplicaCluster) -> None:
    size = len(batch(b"a"))
    for index in range(3):
        cluster.role(partition=index)
        cluster.manager.appends.append(
            "p", {(TOPIC, index): batch(b"a")}, ReplicatedAppend(1, 0, cluster.now_ms)
        )
    entries = [FetchEntry(TOPIC, index, fetch_offset=0, max_bytes=size) for index in range(3)]

    def sizes(max_bytes: int, *, strict: bool = False) -> list[int]:
        params = FetchParams(-1, 0, 1, max_bytes, Isolation.READ_UNCOMMITTED, strict_limit=strict)
        outcome = cluster.manager.fetches.fetch("f", params, entries, cluster.now_ms)
        return [len(data.records or b"") for data in done(outcome)]

    assert sizes(1 << 20) == [size, size, size]
    assert sizes(2 * size) == [size, size, 0]
    # The first batch comes whole whatever the limit, later ones do not.
    assert sizes(1) == [size, 0, 0]
    assert sizes(size + 1) == [size, 0, 0]
    # Before v3 the limit holds: the client must raise it.
    assert sizes(10, strict=True) == [10, 0, 0]


def test_topic_ids_must_agree(cluster: ReplicaCluster) -> None:
    cluster.role()
    params = FetchParams(-1, 0, 1, 1 << 20, Isolation.READ_UNCOMMITTED)
    for topic_id, error in (
        (TOPIC_ID, ErrorCode.NONE),
        (bytes(16), ErrorCode.NONE),
        (b"y" * 16, ErrorCode.INCONSISTENT_TOPIC_ID),
    ):
        entry = FetchEntry(TOPIC, 0, fetch_offset=0, max_bytes=1, topic_id=topic_id)
        data = _data(cluster.manager.fetches.fetch("f", params, [entry], cluster.now_ms))
        assert data.error_code == error


def test_a_fetch_of_a_stranger_is_refused(cluster: ReplicaCluster) -> None:
    cluster.role(replicas=(ME, 2))
    assert _data(cluster.follow(9, 0)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    data = _data(cluster.follow(9, 0, current_leader_epoch=0))
    assert data.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


def test_bytes_are_counted(tmp_path: Path) -> None:
    cluster = ReplicaCluster(tmp_path)
    cluster.role(replicas=(ME, 2))
    cluster.produce("p", b"a", b"b", acks=1)
    size = len(batch(b"a", b"b"))
    cluster.follow(2, 0)
    cluster.follow(2, 2)
    cluster.fetch("f", 0)
    stats = cluster.manager.hosted.topic_stats[TOPIC]
    assert (stats.bytes_in, stats.messages_in) == (size, 2)
    assert (stats.bytes_out, stats.replication_bytes_out) == (size, size)
    cluster.fetch("f", 77)
    assert stats.failed_fetch_requests == 1
