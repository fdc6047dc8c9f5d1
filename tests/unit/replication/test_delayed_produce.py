"""One test for each completion case of a delayed produce (see replication/delayed_operations)."""

from pathlib import Path
from typing import Any

from pybroker_kafka.protocol.apis.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.replication.types import Done, FlushNeeded, Parked, ReplicatedAppend
from tests.support.replication import KEY, ME, TOPIC, Completed, ReplicaCluster, batch, done

REPLICAS = (ME, 2, 3)


def _result(completions: list[Completed]) -> tuple[object, Any]:
    (completion,) = completions
    return completion.token, completion.result[KEY]


def test_alone_it_does_not_wait(cluster: ReplicaCluster) -> None:
    cluster.role()
    outcome = cluster.produce("token", b"a", b"b")
    assert isinstance(outcome, Done)
    result = done(outcome)[KEY]
    assert (result.error_code, result.base_offset) == (ErrorCode.NONE, 0)
    assert cluster.partition.log.high_watermark == 2
    assert not cluster.completed()


def test_acks_one_does_not_wait_for_followers(cluster: ReplicaCluster) -> None:
    cluster.role(replicas=REPLICAS)
    outcome = cluster.produce("token", acks=1)
    assert isinstance(outcome, Done)
    assert cluster.partition.log.high_watermark == 0


def test_case_a_partition_deleted(cluster: ReplicaCluster) -> None:
    cluster.role(replicas=REPLICAS)
    assert isinstance(cluster.produce("token"), Parked)
    cluster.manager.leadership.stop_replicas(
        StopReplicaRequest(
            controller_epoch=1,
            topic_states=[
                StopReplicaTopicState(
                    topic_name=TOPIC,
                    partition_states=[
                        StopReplicaPartitionState(
                            partition_index=0, leader_epoch=-2, delete_partition=True
                        )
                    ],
                )
            ],
        ),
        cluster.now_ms,
    )
    token, result = _result(cluster.completed())
    assert token == "token"
    assert result.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_case_b_leadership_lost(cluster: ReplicaCluster) -> None:
    cluster.role(replicas=REPLICAS)
    assert isinstance(cluster.produce("token"), Parked)
    cluster.role(leader=2, replicas=REPLICAS, leader_epoch=1)
    _, result = _result(cluster.completed())
    assert result.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_case_c_high_watermark_reached(cluster: ReplicaCluster) -> None:
    cluster.role(replicas=REPLICAS)
    assert isinstance(cluster.produce("token", b"a", b"b"), Parked)
    cluster.follow(2, 2)
    cluster.follow(3, 1)
    assert not cluster.completed()
    cluster.follow(3, 2)
    token, result = _result(cluster.completed())
    assert token == "token"
    assert (result.error_code, result.base_offset) == (ErrorCode.NONE, 0)
    assert len(cluster.manager.waiting.produces) == 0


def test_case_d_isr_shrunk_meanwhile(tmp_path: Path) -> None:
    cluster = ReplicaCluster(tmp_path, topic_config={"min.insync.replicas": "2"})
    cluster.role(replicas=REPLICAS)
    assert isinstance(cluster.produce("token"), Parked)
    partition = cluster.partition
    # The followers have the record, but before the HW could move the ISR has only the leader.
    partition.remotes[2].log_end_offset = partition.remotes[3].log_end_offset = 1
    partition.log.update_high_watermark(1)
    partition.isr.commit(frozenset({ME}))
    cluster.manager.waiting.check(KEY)
    _, result = _result(cluster.completed())
    assert result.error_code is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


def test_case_e_acks_one_waits_for_the_flush(tmp_path: Path) -> None:
    cluster = ReplicaCluster(tmp_path, topic_config={"flush.messages": "1"})
    cluster.role()
    assert isinstance(cluster.produce("first", acks=1), Parked)
    assert isinstance(cluster.produce("all", acks=-1), Parked)
    assert isinstance(cluster.produce("none", acks=0), Done)
    effects = cluster.manager.take_effects()
    flushes = [effect for effect in effects if isinstance(effect, FlushNeeded)]
    assert [flush.offset for flush in flushes] == [1, 2, 3]
    assert flushes == effects
    assert cluster.partition.log.high_watermark == 0
    cluster.partition.log.flush(2)
    cluster.manager.flushed(TOPIC, 0, 2, cluster.now_ms)
    assert [completion.token for completion in cluster.completed()] == ["first", "all"]
    assert cluster.partition.log.high_watermark == 2
    assert cluster.manager.waiting.next_deadline_ms() is None


def test_case_f_all_partitions_must_be_settled(cluster: ReplicaCluster) -> None:
    cluster.role(replicas=REPLICAS)
    cluster.role(replicas=(ME, 2), partition=1)
    cluster.role(partition=2)
    keys = [(TOPIC, index) for index in range(3)]
    entries = {key: batch() for key in keys}
    outcome = cluster.manager.appends.append(
        "token", entries, ReplicatedAppend(-1, 1000, cluster.now_ms)
    )
    assert isinstance(outcome, Parked)
    cluster.follow(2, 1)
    cluster.follow(3, 1)
    assert not cluster.completed()
    cluster.role(leader=2, replicas=(ME, 2), partition=1, leader_epoch=5)
    (completion,) = cluster.completed()
    errors = {key: result.error_code for key, result in completion.result.items()}
    assert errors == {
        keys[0]: ErrorCode.NONE,
        keys[1]: ErrorCode.NOT_LEADER_OR_FOLLOWER,
        keys[2]: ErrorCode.NONE,
    }


def test_case_g_timeout_leaves_the_records(cluster: ReplicaCluster) -> None:
    cluster.role(replicas=REPLICAS)
    assert isinstance(cluster.produce("token", timeout_ms=200), Parked)
    deadline_ms = cluster.manager.waiting.next_deadline_ms()
    assert deadline_ms is not None
    assert deadline_ms <= cluster.now_ms + 200
    cluster.manager.waiting.tick(cluster.now_ms + 199)
    assert not cluster.completed()
    cluster.manager.waiting.tick(cluster.now_ms + 200)
    _, result = _result(cluster.completed())
    assert result.error_code is ErrorCode.REQUEST_TIMED_OUT
    assert cluster.partition.log.log_end_offset == 1
    cluster.follow(2, 1)
    cluster.follow(3, 1)
    assert not cluster.completed()


def test_too_small_an_isr_refuses_before_the_append(tmp_path: Path) -> None:
    cluster = ReplicaCluster(tmp_path, topic_config={"min.insync.replicas": "2"})
    cluster.role(replicas=REPLICAS, isr=(ME,))
    outcome = cluster.produce("token")
    assert isinstance(outcome, Done)
    assert done(outcome)[KEY].error_code is ErrorCode.NOT_ENOUGH_REPLICAS
    assert cluster.partition.log.log_end_offset == 0
    assert done(cluster.produce("token", acks=1))[KEY].error_code is ErrorCode.NONE
    # An under-replicated partition shows nothing new to consumers either.
    assert cluster.partition.log.high_watermark == 0


def test_min_isr_counts_at_most_the_replicas_there_are(tmp_path: Path) -> None:
    cluster = ReplicaCluster(tmp_path, topic_config={"min.insync.replicas": "3"})
    cluster.role()
    assert done(cluster.produce("token"))[KEY].error_code is ErrorCode.NONE


def test_errors_by_place(cluster: ReplicaCluster) -> None:
    assert done(cluster.produce("x"))[KEY].error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    cluster.publish(leader=2)
    assert done(cluster.produce("x"))[KEY].error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    cluster.role(leader=2, replicas=(ME, 2))
    assert done(cluster.produce("x"))[KEY].error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_followers_get_what_is_flushed(tmp_path: Path) -> None:
    """Found by simulation: a leader that lost its unflushed tail with the power, and was back in
    the same epoch, wrote other records at offsets that its follower had got."""
    cluster = ReplicaCluster(tmp_path, topic_config={"flush.messages": "1"})
    cluster.role(replicas=(1, 2))
    cluster.produce("p", b"v", acks=1)
    (data,) = done(cluster.follow(2, 0))
    assert not data.records
    cluster.partition.log.flush(1)
    cluster.manager.flushed(TOPIC, 0, 1, cluster.now_ms)
    (data,) = done(cluster.follow(2, 0))
    assert data.records


def test_a_new_leader_owes_the_flush_of_what_it_followed_to(tmp_path: Path) -> None:
    cluster = ReplicaCluster(tmp_path, topic_config={"flush.messages": "1"})
    cluster.role(leader=2, replicas=(1, 2))
    records = batch(b"v")
    cluster.partition.append_as_follower(records, leader_epoch=0, now_ms=cluster.now_ms)
    cluster.manager.take_effects()
    cluster.role(leader=1, replicas=(1, 2), isr=(1,), leader_epoch=1)
    assert cluster.partition.log.high_watermark == 0
    (flush,) = [e for e in cluster.manager.take_effects() if isinstance(e, FlushNeeded)]
    assert flush.offset == 1
    flush.log.flush(flush.offset)
    cluster.manager.flushed(TOPIC, 0, flush.offset, cluster.now_ms)
    assert cluster.partition.log.high_watermark == 1
