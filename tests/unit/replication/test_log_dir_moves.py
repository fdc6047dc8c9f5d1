"""Moves of replicas between log directories, step by step on real logs."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker_kafka.protocol.apis.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.records.batch import assign_offset_and_epoch, iter_batch_headers
from pybroker_kafka.protocol.records.builder import build_batch
from pybroker_kafka.protocol.records.record import SimpleRecord
from pybroker_kafka.replication import log_dir_moves
from pybroker_kafka.replication.hosted_partitions import Move
from pybroker_kafka.replication.log_dir_moves import Flush, Over, Pause, Prepare, Read
from pybroker_kafka.replication.throttle import MIN_PIECE_BYTES
from pybroker_kafka.replication.types import ACKS_ALL, Done, FlushNeeded, Parked, ReplicatedAppend
from pybroker_kafka.storage.cleaner.manager import CleanerManager, CleanerSettings
from pybroker_kafka.storage.log import Log
from tests.support.appends import append_as_leader
from tests.support.faulty_files import FaultyFiles
from tests.support.log_checkpoints import checkpoint_recovery_points
from tests.support.replication import KEY, ME, TOPIC, ReplicaCluster, batch

LARGE = b"x" * 100_000  # two of these are a piece


def cluster_of(tmp_path: Path, **kwargs: object) -> ReplicaCluster:
    cluster = ReplicaCluster(tmp_path, dirs=3, **kwargs)  # type: ignore[arg-type]
    cluster.role()
    return cluster


def append(cluster: ReplicaCluster, *values: bytes, count: int = 1) -> None:
    for _ in range(count):
        outcome = cluster.manager.appends.append(
            object(), {KEY: batch(*values)}, ReplicatedAppend(1, 1000, cluster.now_ms)
        )
        if isinstance(outcome, Done):
            assert outcome.result[KEY].error_code == 0


def batch_at(offset: int, timestamp: int = 1) -> bytearray:
    data = batch(LARGE, timestamp=timestamp)
    assign_offset_and_epoch(data, 0, offset, 0)
    return data


def other_directories(cluster: ReplicaCluster) -> list[str]:
    home = cluster.log_manager.directory_of(*KEY)
    return [d.path for d in cluster.log_manager.directories if d.path != home]


def ask(cluster: ReplicaCluster, path: str) -> ErrorCode:
    answer = cluster.manager.moves.alter_log_dirs({KEY: path}, cluster.now_ms)
    return answer[KEY]


def the_move(cluster: ReplicaCluster) -> Move:
    return cluster.manager.moves.active[KEY]


def step(cluster: ReplicaCluster, move: Move) -> object:
    """One step, with what the runtime does for it."""
    done = cluster.manager.moves.next_step(move, cluster.now_ms)
    if isinstance(done, Read):
        data = log_dir_moves.read_piece(move, done.piece)
        cluster.manager.moves.copied(move, data, cluster.now_ms)
    elif isinstance(done, Prepare):
        done.run()
        log_dir_moves.prepared(move)
    elif isinstance(done, Flush):
        done.run()
    return done


def finish(cluster: ReplicaCluster, move: Move) -> list[type]:
    steps: list[type] = []
    while not steps or steps[-1] is not Over:
        steps.append(type(step(cluster, move)))
    return steps


def content(log: Log) -> bytes:
    start = log.log_start_offset
    return log.read(start, 1 << 30, upper_bound_offset=log.log_end_offset).records.read()


def names(path: str) -> list[str]:
    return sorted(entry.name for entry in Path(path).iterdir() if entry.is_dir())


def test_a_replica_moves(tmp_path: Path) -> None:
    cluster = cluster_of(tmp_path)
    append(cluster, LARGE, count=5)
    old = cluster.partition.log
    home, target = old.health.path, other_directories(cluster)[0]
    before = content(old)
    assert ask(cluster, target) is ErrorCode.NONE
    (future,) = names(target)
    assert future.startswith(f"{TOPIC}-0.")
    assert future.endswith("-future")
    assert names(home) == [f"{TOPIC}-0"]
    assert finish(cluster, the_move(cluster)) == [Read, Read, Read, Prepare, Over]
    new = cluster.partition.log
    assert new is not old
    assert new.directory == f"{target}/{TOPIC}-0"
    assert content(new) == before
    assert (new.high_watermark, new.topic_id) == (5, old.topic_id)
    assert new.leader_epochs.entries == [(0, 0)]
    assert names(target) == [f"{TOPIC}-0"]
    (deleted,) = names(home)
    assert deleted.endswith("-delete")
    append(cluster, b"after")
    assert new.log_end_offset == 6
    cluster.log_manager.clean_shutdown()


def test_appends_in_the_middle_are_moved_too(tmp_path: Path) -> None:
    cluster = cluster_of(tmp_path)
    append(cluster, LARGE, count=5)
    assert ask(cluster, other_directories(cluster)[0]) is ErrorCode.NONE
    move = the_move(cluster)
    while not isinstance(step(cluster, move), Prepare):
        append(cluster, b"meanwhile")
    append(cluster, b"after the flush", count=3)
    expected = cluster.partition.log.log_end_offset
    assert finish(cluster, move) == [Over]
    assert cluster.partition.log.log_end_offset == expected
    assert cluster.log_manager.directory_of(*KEY) == move.future.health.path


def test_to_where_it_is(tmp_path: Path) -> None:
    cluster = cluster_of(tmp_path)
    home = cluster.partition.log.health.path
    assert ask(cluster, home) is ErrorCode.NONE
    assert cluster.manager.moves.active == {}
    assert ask(cluster, other_directories(cluster)[0]) is ErrorCode.NONE
    move = the_move(cluster)
    assert ask(cluster, home) is ErrorCode.NONE  # changed my mind
    assert cluster.manager.moves.active == {}
    assert cluster.log_manager.future_log(*KEY) is None
    assert type(step(cluster, move)) is Over
    assert cluster.partition.log.health.path == home


def test_to_another_directory_after_all(tmp_path: Path) -> None:
    cluster = cluster_of(tmp_path)
    append(cluster, b"value")
    first, second = other_directories(cluster)
    assert ask(cluster, first) is ErrorCode.NONE
    assert ask(cluster, first) is ErrorCode.NONE
    move = the_move(cluster)
    assert ask(cluster, second) is ErrorCode.NONE
    assert type(step(cluster, move)) is Over
    (deleted,) = names(first)
    assert deleted.endswith("-delete")
    finish(cluster, the_move(cluster))
    assert cluster.log_manager.directory_of(*KEY) == second


def test_errors(tmp_path: Path) -> None:
    cluster = ReplicaCluster(tmp_path, dirs=2)
    path = cluster.log_manager.directories[1].path
    assert ask(cluster, "/elsewhere") is ErrorCode.LOG_DIR_NOT_FOUND
    assert ask(cluster, path) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    cluster.publish(2)
    assert ask(cluster, path) is ErrorCode.REPLICA_NOT_AVAILABLE
    long = cluster.manager.moves.alter_log_dirs({("t" * 249, 0): path}, 0)
    assert set(long.values()) == {ErrorCode.INVALID_TOPIC_EXCEPTION}


def test_a_directory_named_before_the_replica_exists(tmp_path: Path) -> None:
    for index in range(3):
        (tmp_path / str(index)).mkdir()
        cluster = ReplicaCluster(tmp_path / str(index), dirs=3)
        path = cluster.log_manager.directories[index].path
        ask(cluster, path)
        cluster.role()
        assert cluster.log_manager.directory_of(*KEY) == path


def test_a_follower_that_is_cut_takes_its_copy_along(tmp_path: Path) -> None:
    cluster = ReplicaCluster(tmp_path, dirs=2)
    cluster.role(2, replicas=(ME, 2))
    partition = cluster.partition
    for number in range(4):
        partition.append_as_follower(batch_at(number), leader_epoch=0, now_ms=0)
    assert ask(cluster, other_directories(cluster)[0]) is ErrorCode.NONE
    move = the_move(cluster)
    step(cluster, move)
    assert move.future.log_end_offset == 2
    # A piece is under way when the log is cut below its end, and written anew.
    reading = cluster.manager.moves.next_step(move, 0)
    assert isinstance(reading, Read)
    data = reading.piece.read()
    partition.log.truncate_to(1)
    other = batch_at(1, timestamp=5)
    partition.append_as_follower(other, leader_epoch=0, now_ms=0)
    cluster.manager.moves.copied(move, data, 0)
    finish(cluster, move)
    found = [header.base_offset for _, header in iter_batch_headers(content(partition.log))]
    assert found == [0, 1]
    assert content(partition.log)[-len(other) :] == other


def test_a_cut_of_the_copy_is_noted_before(tmp_path: Path) -> None:
    """The copy is on disk, and the checkpoint of its directory shows that."""
    cluster = cluster_of(tmp_path)
    append(cluster, LARGE, count=4)
    assert ask(cluster, other_directories(cluster)[0]) is ErrorCode.NONE
    move = the_move(cluster)
    step(cluster, move)
    move.future.flush()
    checkpoint_recovery_points(cluster.log_manager)
    assert move.future.recovery_point == 2
    cluster.partition.log.truncate_to(1)
    append(cluster, b"other")
    assert finish(cluster, move) == [Flush, Prepare, Over]
    assert cluster.partition.log.log_end_offset == 2


def test_a_log_that_starts_inside_of_a_batch(tmp_path: Path) -> None:
    cluster = cluster_of(tmp_path)
    append(cluster, b"a", b"b", b"c")
    append(cluster, b"d")
    cluster.partition.log.maybe_increment_log_start_offset(2)
    assert ask(cluster, other_directories(cluster)[0]) is ErrorCode.NONE
    finish(cluster, the_move(cluster))
    log = cluster.partition.log
    assert (log.log_start_offset, log.log_end_offset) == (2, 4)


def test_what_was_deleted_on_the_way_is_not_moved(tmp_path: Path) -> None:
    cluster = cluster_of(tmp_path)
    append(cluster, LARGE, count=8)
    assert ask(cluster, other_directories(cluster)[0]) is ErrorCode.NONE
    move = the_move(cluster)
    step(cluster, move)
    cluster.partition.log.maybe_increment_log_start_offset(7)
    finish(cluster, move)
    log = cluster.partition.log
    assert (log.log_start_offset, log.log_end_offset) == (7, 8)
    assert log.size_bytes < 2 * len(LARGE)


def test_an_empty_log_moves(tmp_path: Path) -> None:
    cluster = cluster_of(tmp_path)
    assert ask(cluster, other_directories(cluster)[0]) is ErrorCode.NONE
    assert finish(cluster, the_move(cluster)) == [Prepare, Over]
    append(cluster, b"value")
    assert cluster.partition.log.log_end_offset == 1


def test_the_quota(tmp_path: Path) -> None:
    cluster = cluster_of(tmp_path)
    append(cluster, LARGE, count=8)
    cluster.manager.moves.quota.limit = 300_000
    assert ask(cluster, other_directories(cluster)[0]) is ErrorCode.NONE
    move = the_move(cluster)
    assert [type(step(cluster, move)) for _ in range(4)] == [Read, Read, Pause, Pause]
    cluster.now_ms += 5000
    assert isinstance(step(cluster, move), Read)
    cluster.manager.moves.quota.limit = 2**63 - 1
    finish(cluster, move)


def test_a_quota_counts_from_the_first_byte(tmp_path: Path) -> None:
    """A first piece is no larger than what may be copied in a second, if that is not tiny."""
    cluster = cluster_of(tmp_path)
    append(cluster, b"small", count=200)
    append(cluster, LARGE, count=8)
    cluster.manager.moves.quota.limit = 1
    assert ask(cluster, other_directories(cluster)[0]) is ErrorCode.NONE
    move = the_move(cluster)
    assert isinstance(step(cluster, move), Pause)
    assert 0 < move.future.size_bytes <= MIN_PIECE_BYTES
    cluster.manager.moves.quota.limit = 2**63 - 1
    finish(cluster, move)


@pytest.mark.parametrize("role", ["leader", "follower"])
def test_a_restart_goes_on(tmp_path: Path, role: str) -> None:
    cluster = cluster_of(tmp_path)
    append(cluster, LARGE, count=8)
    target = other_directories(cluster)[0]
    assert ask(cluster, target) is ErrorCode.NONE
    step(cluster, the_move(cluster))
    copied = the_move(cluster).future.log_end_offset
    assert 0 < copied < 8
    cluster.log_manager.release()  # as a crash would
    cluster = ReplicaCluster(tmp_path, dirs=3)
    future = cluster.log_manager.future_log(*KEY)
    assert future is not None
    assert future.log_end_offset == copied
    if role == "leader":
        cluster.role(leader_epoch=1)
    else:
        cluster.role(2, replicas=(ME, 2), leader_epoch=1)
    finish(cluster, the_move(cluster))
    assert cluster.log_manager.directory_of(*KEY) == target
    assert cluster.partition.log.log_end_offset == 8


@pytest.mark.parametrize("failing", ["log", "copy"])
def test_a_disk_that_fails_on_the_way(tmp_path: Path, failing: str) -> None:
    files = FaultyFiles()
    cluster = cluster_of(tmp_path, files=files)
    append(cluster, LARGE, count=4)
    home, target = cluster.partition.log.health.path, other_directories(cluster)[0]
    assert ask(cluster, target) is ErrorCode.NONE
    move = the_move(cluster)
    if failing == "log":
        files.fail("read", path_part=home, times=99)
    else:
        files.fail("write", path_part=target, times=99)
    with pytest.raises(Exception, match="Input/output error") as caught:
        finish(cluster, move)
    cluster.manager.moves.failed(move, caught.value)  # type: ignore[arg-type]
    assert cluster.manager.moves.active == {}
    assert (KEY in cluster.manager.partitions) == (failing == "copy")
    if failing == "copy":
        files.heal()
        append(cluster, b"goes on")
        assert ask(cluster, target) is ErrorCode.KAFKA_STORAGE_ERROR
        # While a directory is offline there might be another copy in it.
        assert ask(cluster, other_directories(cluster)[1]) is ErrorCode.KAFKA_STORAGE_ERROR


def test_deleting_the_partition_ends_its_move(tmp_path: Path) -> None:
    cluster = cluster_of(tmp_path)
    append(cluster, LARGE, count=4)
    assert ask(cluster, other_directories(cluster)[0]) is ErrorCode.NONE
    move = the_move(cluster)
    step(cluster, move)
    stop = StopReplicaRequest(
        controller_epoch=1,
        broker_epoch=-1,
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
    )
    cluster.manager.leadership.stop_replicas(stop, cluster.now_ms)
    assert type(step(cluster, move)) is Over
    left = [name for d in cluster.log_manager.directories for name in names(d.path)]
    assert len(left) == 2
    assert all(name.endswith("-delete") for name in left)


def test_who_waits_for_the_disk_is_answered_by_the_new_log(tmp_path: Path) -> None:
    cluster = cluster_of(tmp_path, topic_config={"flush.messages": "1"})
    token = object()
    parked = cluster.manager.appends.append(
        token, {KEY: batch(b"v")}, ReplicatedAppend(ACKS_ALL, 1000, cluster.now_ms)
    )
    assert isinstance(parked, Parked)
    cluster.manager.take_effects()
    assert ask(cluster, other_directories(cluster)[0]) is ErrorCode.NONE
    move = the_move(cluster)
    step(cluster, move)
    late = object()
    cluster.manager.appends.append(
        late, {KEY: batch(b"w")}, ReplicatedAppend(ACKS_ALL, 1000, cluster.now_ms)
    )
    cluster.manager.take_effects()
    finish(cluster, move)
    (effect,) = cluster.manager.take_effects()
    assert isinstance(effect, FlushNeeded)
    assert effect.log is cluster.partition.log
    assert cluster.partition.durable_end_offset == 0  # the new name is not on the disk yet
    effect.log.flush(effect.offset)
    cluster.manager.flushed(*KEY, effect.offset, cluster.now_ms)
    assert cluster.partition.durable_end_offset == 2


def test_a_log_that_ends_in_a_gap(tmp_path: Path) -> None:
    """The last message was compacted away: there is none below the log end to copy."""
    cluster = cluster_of(tmp_path)
    append(cluster, b"a", b"b", b"c")
    cluster.partition.log.roll(cluster.now_ms, 4)
    cluster.partition.log.log_end_offset = 4
    assert ask(cluster, other_directories(cluster)[0]) is ErrorCode.NONE
    finish(cluster, the_move(cluster))
    assert cluster.partition.log.log_end_offset == 4
    append(cluster, b"g")
    found = [header.base_offset for _, header in iter_batch_headers(content(cluster.partition.log))]
    assert found == [0, 4]


def test_what_moves_is_not_cleaned(tmp_path: Path) -> None:
    cluster = cluster_of(tmp_path, topic_config={"cleanup.policy": "compact"})
    for _ in range(2):
        records = build_batch([SimpleRecord(1, b"key", b"value")])
        cluster.manager.appends.append(
            object(), {KEY: records}, ReplicatedAppend(1, 1000, cluster.now_ms)
        )
        cluster.partition.log.roll(cluster.now_ms)
    cluster.partition.log.first_dirty_offset = 0
    cleaners = CleanerManager(cluster.log_manager, cluster.now_ms)
    settings = CleanerSettings(buffer_bytes=1 << 20, load_factor=0.9, io_buffer_bytes=1 << 16)
    cleaning = cleaners.choose(cluster.now_ms, settings)
    assert cleaning is not None
    assert not cleaners.is_void(cleaning)
    assert ask(cluster, other_directories(cluster)[0]) is ErrorCode.NONE
    assert cleaners.is_void(cleaning)
    cleaners.ended(cleaning)
    assert cleaners.choose(cluster.now_ms, settings) is None
    cluster.partition.log.first_dirty_offset = 1
    finish(cluster, the_move(cluster))
    assert cluster.partition.log.first_dirty_offset == 1
    cluster.partition.log.first_dirty_offset = 0
    cluster.partition.log.roll(cluster.now_ms)
    assert cleaners.choose(cluster.now_ms, settings) is not None


def test_an_open_transaction_moves_along(tmp_path: Path) -> None:
    cluster = cluster_of(tmp_path)
    append(cluster, b"before")
    records = build_batch(
        [SimpleRecord(1, b"k", b"v")],
        producer_id=7,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    )
    log = cluster.partition.log
    append_as_leader(log, records, leader_epoch=0, now_ms=1)
    log.update_high_watermark(2)
    guard = log.producer_state.verifications
    assert log.last_stable_offset == 1
    assert ask(cluster, other_directories(cluster)[0]) is ErrorCode.NONE
    finish(cluster, the_move(cluster))
    moved = cluster.partition.log
    assert (moved.high_watermark, moved.last_stable_offset) == (2, 1)
    assert moved.producer_state.verifications is guard
    assert set(moved.producer_state.entries) == {7}
