"""ListOffsets, DeleteRecords and read replicas, at the replica manager."""

from pathlib import Path
from typing import Any

import pytest

from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.replication.offsets import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    OffsetAnswer,
    OffsetQuery,
)
from pybroker_kafka.replication.replica_selector import RackAwareReplicaSelector
from pybroker_kafka.replication.types import (
    ClientMetadata,
    DeleteRecordsResults,
    Done,
    FetchEntry,
    FetchParams,
    Isolation,
    Parked,
    ReplicatedAppend,
)
from tests.support.replication import KEY, ME, NOW, TOPIC, ReplicaCluster, batch, done

REPLICAS = (ME, 2, 3)
NONE = ErrorCode.NONE


def _list(
    cluster: ReplicaCluster,
    timestamp: int,
    isolation: Isolation = Isolation.READ_UNCOMMITTED,
    **query: Any,
) -> OffsetAnswer:
    return cluster.manager.offsets.list_offset(KEY, OffsetQuery(timestamp, isolation, **query))


@pytest.fixture
def filled(cluster: ReplicaCluster) -> ReplicaCluster:
    """Offsets 0-3 with timestamps NOW + 10, 40, 20, 30, all below the HW."""
    cluster.role(leader_epoch=3)
    for delta in (10, 40, 20, 30):
        cluster.manager.appends.append(
            "p", {KEY: batch(b"x", timestamp=NOW + delta)}, ReplicatedAppend(1, 0, NOW)
        )
    return cluster


def test_list_offsets(filled: ReplicaCluster) -> None:
    assert _list(filled, LATEST_TIMESTAMP) == OffsetAnswer(NONE, -1, 4, 3)
    assert _list(filled, EARLIEST_TIMESTAMP) == OffsetAnswer(NONE, -1, 0, 3)
    assert _list(filled, EARLIEST_LOCAL_TIMESTAMP) == OffsetAnswer(NONE, -1, 0, 3)
    assert _list(filled, LATEST_TIERED_TIMESTAMP) == OffsetAnswer(NONE, -1, -1, -1)
    assert _list(filled, MAX_TIMESTAMP) == OffsetAnswer(NONE, NOW + 40, 1, 3)
    assert _list(filled, NOW) == OffsetAnswer(NONE, NOW + 10, 0, 3)
    assert _list(filled, NOW + 11) == OffsetAnswer(NONE, NOW + 40, 1, 3)
    assert _list(filled, NOW + 41) == OffsetAnswer(NONE, -1, -1, -1)


def test_list_offsets_stops_at_what_the_asker_may_read(cluster: ReplicaCluster) -> None:
    cluster.role(replicas=REPLICAS)
    cluster.manager.appends.append(
        "p", {KEY: batch(b"x", timestamp=NOW + 10)}, ReplicatedAppend(1, 0, NOW)
    )
    assert _list(cluster, LATEST_TIMESTAMP).offset == 0
    assert _list(cluster, LATEST_TIMESTAMP, Isolation.LOG_END).offset == 1
    assert _list(cluster, NOW).offset == -1
    assert _list(cluster, NOW, Isolation.LOG_END).offset == 0


def test_list_offsets_after_an_election_waits_for_the_high_watermark(
    cluster: ReplicaCluster,
) -> None:
    cluster.role(replicas=REPLICAS, leader_epoch=1)
    cluster.manager.appends.append(
        "p", {KEY: batch(b"x", timestamp=NOW + 10)}, ReplicatedAppend(1, 0, NOW)
    )
    cluster.role(replicas=REPLICAS, leader_epoch=2)
    assert _list(cluster, LATEST_TIMESTAMP).error_code is ErrorCode.OFFSET_NOT_AVAILABLE
    assert _list(cluster, NOW).error_code is ErrorCode.OFFSET_NOT_AVAILABLE
    assert _list(cluster, EARLIEST_TIMESTAMP).offset == 0
    assert _list(cluster, LATEST_TIMESTAMP, Isolation.LOG_END).offset == 1
    cluster.follow(2, 1)
    cluster.follow(3, 1)
    assert _list(cluster, LATEST_TIMESTAMP).offset == 1


def test_list_offsets_errors(cluster: ReplicaCluster) -> None:
    assert _list(cluster, -1).error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    cluster.role(leader=2, replicas=REPLICAS, leader_epoch=4)
    assert _list(cluster, -1).error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert _list(cluster, -1, only_leader=False).error_code is NONE
    answer = _list(cluster, -1, current_leader_epoch=3)
    assert answer.error_code is ErrorCode.FENCED_LEADER_EPOCH
    answer = _list(cluster, -1, current_leader_epoch=5)
    assert answer.error_code is ErrorCode.UNKNOWN_LEADER_EPOCH


def test_legacy_offsets(filled: ReplicaCluster) -> None:
    def legacy(timestamp: int, count: int = 10) -> list[int]:
        error, found = filled.manager.offsets.legacy_offsets(
            KEY, timestamp, count, NOW, is_consumer=True, only_leader=True
        )
        assert error is NONE
        return found

    assert legacy(LATEST_TIMESTAMP) == [4, 0]
    assert legacy(LATEST_TIMESTAMP, 1) == [4]
    assert legacy(EARLIEST_TIMESTAMP) == [0]


def _delete(
    cluster: ReplicaCluster, offset: int, timeout_ms: int = 100
) -> Done[DeleteRecordsResults] | Parked:
    return cluster.manager.offsets.delete_records("d", {KEY: offset}, timeout_ms, cluster.now_ms)


def test_delete_records_alone(filled: ReplicaCluster) -> None:
    outcome = _delete(filled, 2)
    assert isinstance(outcome, Done)
    assert done(outcome)[KEY] == (NONE, 2)
    assert filled.partition.log.log_start_offset == 2
    (data,) = done(filled.fetch("f", 1))
    assert data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert done(_delete(filled, -1))[KEY] == (NONE, 4)
    assert done(_delete(filled, 5))[KEY].error_code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert done(_delete(filled, -2))[KEY].error_code is ErrorCode.OFFSET_OUT_OF_RANGE
    # Going back is not an error, nor does it do anything.
    assert done(_delete(filled, 1))[KEY] == (NONE, 4)


def _replicated(cluster: ReplicaCluster) -> None:
    cluster.role(replicas=REPLICAS)
    cluster.produce("p", b"a", b"b", acks=1)
    for follower in (2, 3):
        cluster.follow(follower, 2)
    cluster.completed()


def test_delete_records_case_b_waits_for_live_replicas(cluster: ReplicaCluster) -> None:
    _replicated(cluster)
    assert isinstance(_delete(cluster, 1), Parked)
    cluster.follow(2, 2, log_start_offset=1)
    assert not cluster.completed()
    cluster.follow(3, 2, log_start_offset=1)
    (completion,) = cluster.completed()
    assert completion == ("d", {KEY: (NONE, 1)})


def test_delete_records_case_a_leadership_lost(cluster: ReplicaCluster) -> None:
    _replicated(cluster)
    assert isinstance(_delete(cluster, 1), Parked)
    cluster.role(leader=2, replicas=REPLICAS, leader_epoch=1)
    (completion,) = cluster.completed()
    assert completion.result[KEY].error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_delete_records_case_c_timeout(cluster: ReplicaCluster) -> None:
    _replicated(cluster)
    assert isinstance(_delete(cluster, 1), Parked)
    cluster.follow(2, 2, log_start_offset=1)
    cluster.manager.waiting.tick(cluster.now_ms + 100)
    (completion,) = cluster.completed()
    assert completion.result[KEY] == (ErrorCode.REQUEST_TIMED_OUT, 0)


def test_delete_records_does_not_wait_for_the_dead(cluster: ReplicaCluster) -> None:
    _replicated(cluster)
    cluster.alive([ME, 2])
    cluster.follow(2, 2)
    assert isinstance(_delete(cluster, 1), Parked)
    cluster.follow(2, 2, log_start_offset=1)
    assert len(cluster.completed()) == 1


def test_delete_records_needs_the_delete_policy(tmp_path: Path) -> None:
    cluster = ReplicaCluster(tmp_path, topic_config={"cleanup.policy": "compact"})
    cluster.role()
    assert done(_delete(cluster, 0))[KEY].error_code is ErrorCode.POLICY_VIOLATION
    outcome = cluster.manager.offsets.delete_records("d", {("__consumer_offsets", 0): 0}, 0, NOW)
    error = done(outcome)["__consumer_offsets", 0].error_code
    assert error is ErrorCode.INVALID_TOPIC_EXCEPTION


def test_preferred_replica_is_in_the_clients_rack(cluster: ReplicaCluster) -> None:
    cluster.alive(REPLICAS, {ME: "a", 2: "b", 3: "b"})
    cluster.manager.reader.replica_selector = RackAwareReplicaSelector(cluster.metadata)
    cluster.role(replicas=REPLICAS)
    cluster.produce("p", b"a", b"b", acks=1)
    cluster.follow(2, 1)
    cluster.follow(3, 2)

    def preferred(rack: str, offset: int = 0, listener: str = "PLAINTEXT") -> int:
        client = ClientMetadata(rack, "client", listener)
        params = FetchParams(-1, 0, 1, 1 << 20, Isolation.READ_UNCOMMITTED, client=client)
        entry = FetchEntry(TOPIC, 0, fetch_offset=offset, max_bytes=1 << 20)
        outcome = cluster.manager.fetches.fetch("f", params, [entry], cluster.now_ms)
        (data,) = done(outcome)
        if data.preferred_read_replica >= 0:
            assert not data.records
        return data.preferred_read_replica

    assert preferred("a") == -1
    assert preferred("") == -1
    assert preferred("nowhere") == -1
    assert preferred("b") == 3  # further than 2
    assert preferred("b", listener="OTHER") == -1
    cluster.partition.isr.commit(frozenset({ME, 2}))
    assert preferred("b") == 2
    # A waiting fetch is answered with a choice at once, and who may read here is answered here.
    cluster.role(leader=2, replicas=REPLICAS, leader_epoch=1)
    assert preferred("b") == -1
