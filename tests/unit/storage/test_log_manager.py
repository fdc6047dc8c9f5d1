"""Log directories: locks, owners, placement, checkpoints, deletion, periodic work."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pybroker_kafka.broker.replicas.log_jobs import run_in_threads
from pybroker_kafka.protocol.errors import ErrorCode, KafkaError
from pybroker_kafka.storage.log import Log
from pybroker_kafka.storage.log_directory import StartupError, parse_partition_name
from pybroker_kafka.storage.log_manager import LogManager, LogManagerConfig
from pybroker_kafka.storage.recovery_notes import NEW_FILE
from tests.support.appends import append_as_leader
from tests.unit.storage.helpers import TOPIC_ID, batch_of, config_of, manager_of


def filled(manager: LogManager, topic: str = "t", partition: int = 0, count: int = 3) -> Log:
    log = manager.get_or_create_log(topic, partition, TOPIC_ID, None, 0)
    for _ in range(count):
        append_as_leader(log, batch_of(b"x" * 20), leader_epoch=0, now_ms=0)
    return log


def run(manager: LogManager, now_ms: int) -> list[str]:
    """The jobs and flushes that were due, but the note of the wall clock."""
    flushed = manager.due_flushes(now_ms)
    for log in flushed:
        log.flush()
    jobs = manager.tick(now_ms)
    for job in jobs:
        job.run()
    names = [job.name for job in jobs if job.name != "note the wall clock"]
    return names + [f"flush {log.name}" for log in flushed]


def test_partitions_go_where_there_are_fewest(tmp_path: Path) -> None:
    manager = manager_of(tmp_path / "a", tmp_path / "b", tmp_path / "c")
    for partition in range(7):
        manager.get_or_create_log("t", partition, TOPIC_ID, None, 0)
    counts = [len(list((tmp_path / name).glob("t-*"))) for name in "abc"]
    assert counts == [3, 2, 2]
    assert manager.directory_of("t", 1) == str(tmp_path / "b")
    manager.clean_shutdown()
    manager = manager_of(tmp_path / "a", tmp_path / "b", tmp_path / "c")
    assert len(manager.logs()) == 7
    manager.get_or_create_log("u", 0, TOPIC_ID, None, 0)
    assert manager.directory_of("u", 0) == str(tmp_path / "b")


def test_a_directory_has_one_broker(tmp_path: Path) -> None:
    manager = manager_of(tmp_path)
    with pytest.raises(StartupError, match=r"Failed to acquire lock on file \.lock"):
        manager_of(tmp_path)
    manager.release()
    manager_of(tmp_path).release()


def test_another_process_is_kept_out(tmp_path: Path) -> None:
    """Also one that asks for the POSIX lock alone, as Java does."""
    manager = manager_of(tmp_path)
    script = (
        "import fcntl, os, sys; fd = os.open(sys.argv[1], os.O_RDWR)\n"
        "try: fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
        "except OSError: sys.exit(7)"
    )
    result = subprocess.run([sys.executable, "-c", script, str(tmp_path / ".lock")], check=False)
    assert result.returncode == 7
    manager.release()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("version=0\nbroker.id=2\ncluster.id=cluster\n", "doesn't match stored broker.id 2"),
        ("version=0\nbroker.id=1\ncluster.id=other\n", "doesn't match stored clusterId other"),
        ("version=1\nnode.id=1\ncluster.id=cluster\n", "KRaft"),
    ],
)
def test_a_foreign_directory_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "meta.properties").write_text(text)
    with pytest.raises(StartupError, match=message):
        manager_of(tmp_path)


def test_an_incomplete_owner_is_completed(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("#\nversion=0\ncluster.id=cluster\n")
    manager_of(tmp_path).release()
    assert "broker.id=1" in (tmp_path / "meta.properties").read_text()


def test_a_damaged_owner_takes_the_directory_offline(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "meta.properties").write_text("version=x\n")
    manager = manager_of(tmp_path / "a", tmp_path / "b")
    assert [d.path for d in manager.online_directories()] == [str(tmp_path / "b")]


STRANGE_NAMES = [
    b"holiday pictures",
    b"lost+found",
    b"t-00",
    b"t-99999999999",
    b"t-\xc2\xb2",
    b"t\xff-0",
    b"a b-0",
    b"..-0",
    b"t-1.old",
    b"t-1-future",
]


def test_strange_sub_directories_are_left_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    manager = manager_of(tmp_path)
    filled(manager)
    manager.clean_shutdown()
    for name in STRANGE_NAMES:
        os.mkdir(os.path.join(os.fsencode(tmp_path), name))
    manager = manager_of(tmp_path)
    assert [log.name for log in manager.logs()] == ["t-0"]
    manager.clean_shutdown()
    assert set(STRANGE_NAMES) <= set(os.listdir(os.fsencode(tmp_path)))
    told = [r.getMessage() for r in caplog.records if "is named topic-number" in r.getMessage()]
    assert len(told) == len(STRANGE_NAMES)
    assert all(message.isascii() for message in told)


@pytest.mark.parametrize(
    "name",
    [
        "00000000000000000000.log",
        "00000000000000000000.index",
        "leader-epoch-checkpoint",
        "partition.metadata",
        "stale-recovery-points",
    ],
)
def test_a_directory_in_place_of_a_file_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    manager = manager_of(tmp_path)
    filled(manager)
    filled(manager, partition=1)
    manager.clean_shutdown()
    path = tmp_path / "t-0" / name
    path.unlink(missing_ok=True)
    path.mkdir()
    manager = manager_of(tmp_path)
    assert [log.name for log in manager.logs()] == ["t-1"]
    assert manager.is_offline("t", 0)
    assert str(path) in caplog.text
    manager.clean_shutdown()
    path.rmdir()
    # Nothing that its checkpoints said of it is forgotten meanwhile.
    assert "t 0 3\n" in (tmp_path / "recovery-point-offset-checkpoint").read_text()


def test_logs_are_closed_side_by_side(tmp_path: Path) -> None:
    """A log that fails is named, and only its directory is not marked as stopped cleanly."""
    directories = [tmp_path / "a", tmp_path / "b"]
    manager = manager_of(*directories)
    for partition in range(40):
        filled(manager, partition=partition, count=partition % 4)
    broken = manager.get_log("t", 3)
    assert broken is not None
    Path(broken.directory, "leader-epoch-checkpoint.tmp").mkdir()
    manager.clean_shutdown(run=run_in_threads(4))
    marks = {place.name for place in directories if (place / ".kafka_cleanshutdown").exists()}
    assert marks == {"a", "b"} - {Path(broken.directory).parent.name}
    again = manager_of(*directories)
    ends = {log.name: log.log_end_offset for log in again.logs()}
    assert ends == {f"t-{partition}": partition % 4 for partition in range(40)}
    again.release()


def test_one_partition_in_two_directories_is_offline(tmp_path: Path) -> None:
    manager = manager_of(tmp_path / "a", tmp_path / "b")
    for partition in range(2):
        filled(manager, partition=partition)
    manager.clean_shutdown()
    (tmp_path / "b" / "t-0").mkdir()
    manager = manager_of(tmp_path / "a", tmp_path / "b")
    assert [log.name for log in manager.logs()] == ["t-1"]
    with pytest.raises(KafkaError) as error:
        manager.get_or_create_log("t", 0, TOPIC_ID, None, 0, is_new=True)
    assert error.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    # Nothing is lost: the one that is empty is removed by hand.
    manager.clean_shutdown()
    (tmp_path / "b" / "t-0").rmdir()
    again = manager_of(tmp_path / "a", tmp_path / "b").get_log("t", 0)
    assert again is not None
    assert again.log_end_offset == 3


def test_a_deleted_topic_takes_its_damaged_partitions_with_it(tmp_path: Path) -> None:
    manager = manager_of(tmp_path)
    filled(manager)
    manager.clean_shutdown()
    (tmp_path / "t-0" / "00000000000000000000.log").unlink()
    (tmp_path / "t-0" / "00000000000000000000.log").mkdir()
    manager = manager_of(tmp_path)
    assert manager.is_offline("t", 0)
    assert manager.delete_failed("t", 0, 0)
    assert not manager.delete_failed("t", 0, 0)
    filled(manager, count=1)
    run(manager, 10)
    assert sorted(path.name for path in tmp_path.glob("t-*")) == ["t-0"]


@pytest.mark.parametrize(
    ("name", "parsed"),
    [
        ("a-0", ("a", 0)),
        ("a-b.c-12", ("a-b.c", 12)),
        ("a", None),
        ("-1", None),
        ("a-", None),
        ("a-x", None),
        ("a--1", ("a-", 1)),
    ],
)
def test_partition_names(name: str, parsed: tuple[str, int] | None) -> None:
    assert parse_partition_name(name) == parsed


def test_checkpoints_after_a_clean_stop(tmp_path: Path) -> None:
    manager = manager_of(tmp_path)
    log = filled(manager, count=5)
    log.update_high_watermark(4)
    log.maybe_increment_log_start_offset(2)
    manager.clean_shutdown(broker_epoch=77)
    read = {path.name: path.read_text() for path in tmp_path.glob("*-checkpoint")}
    assert read == {
        "recovery-point-offset-checkpoint": "0\n1\nt 0 5\n",
        "log-start-offset-checkpoint": "0\n1\nt 0 2\n",
        "replication-offset-checkpoint": "0\n1\nt 0 4\n",
        "cleaner-offset-checkpoint": "0\n0\n",
    }
    assert (tmp_path / ".kafka_cleanshutdown").read_text() == '{"version":0,"brokerEpoch":77}'
    again = manager_of(tmp_path).get_log("t", 0)
    assert again is not None
    assert (again.log_start_offset, again.high_watermark, again.log_end_offset) == (2, 4, 5)


def written(manager: LogManager, *, leader_epoch: int = 0) -> Log:
    """Ten records, four of them deleted, and the checkpoints show it."""
    log = filled(manager, count=10)
    log.update_high_watermark(10)
    log.maybe_increment_log_start_offset(4)
    log.first_dirty_offset = 7
    log.flush()
    run(manager, 60_000)
    return log


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("ticks", [0, 1])
def test_a_topic_made_anew_inherits_nothing_by_a_kill(
    tmp_path: Path, restarted: bool, ticks: int
) -> None:
    """Deleted and made again before a checkpoint was written, also over a kill in between."""
    manager = manager_of(tmp_path)
    written(manager)
    assert (tmp_path / "replication-offset-checkpoint").read_text() == "0\n1\nt 0 10\n"
    manager.delete_log("t", 0, 60_000)
    if restarted:
        manager.release()
        manager = manager_of(tmp_path, now_ms=60_000)
    new = manager.get_or_create_log("t", 0, bytes(16)[:15] + b"x", None, 60_000)
    for _ in range(12):
        append_as_leader(new, batch_of(b"new"), leader_epoch=0, now_ms=60_000)
    new.update_high_watermark(1)
    note = tmp_path / "t-0" / NEW_FILE
    assert note.exists()
    for tick in range(ticks):
        run(manager, 60_001 + tick)
        assert not note.exists()
    manager.release()
    again = manager_of(tmp_path, now_ms=60_010)
    log = again.get_log("t", 0)
    assert log is not None
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (0, ticks, 12)
    assert log.first_dirty_offset is None
    again.clean_shutdown()
    assert not note.exists()


def test_a_topic_that_was_never_checkpointed_needs_no_note(tmp_path: Path) -> None:
    manager = manager_of(tmp_path)
    filled(manager)
    manager.delete_log("t", 0, 0)
    filled(manager)
    assert not (tmp_path / "t-0" / NEW_FILE).exists()


def test_damaged_recovery_points_count_as_absent(tmp_path: Path) -> None:
    manager = manager_of(tmp_path)
    filled(manager)
    manager.release()
    (tmp_path / "recovery-point-offset-checkpoint").write_text("rubbish")
    again = manager_of(tmp_path).get_log("t", 0)
    assert again is not None
    assert again.log_end_offset == 3


def test_deleted_partitions_leave_in_time(tmp_path: Path) -> None:
    manager = manager_of(tmp_path)
    log = filled(manager)
    records = log.read(0, 1000, upper_bound_offset=3).records
    manager.delete_log("t", 0, 1000)
    (name,) = (n for n in os.listdir(tmp_path) if n.endswith("-delete"))
    assert name.startswith("t-0.")
    assert len(name) == len("t-0.") + 32 + len("-delete")
    assert manager.get_log("t", 0) is None
    assert len(records.read()) == records.size
    fresh = filled(manager, count=1)  # a topic of the same name
    assert fresh.log_end_offset == 1
    names = run(manager, 60_999)
    assert "write replication-offset-checkpoint" in names
    assert (tmp_path / name).exists()
    assert f"delete {tmp_path / name}" in run(manager, 61_000)
    assert not (tmp_path / name).exists()
    with pytest.raises(KafkaError) as caught:
        append_as_leader(log, batch_of(b"late"), leader_epoch=0, now_ms=0)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR


def test_long_topic_names_are_cut_for_deletion(tmp_path: Path) -> None:
    manager = manager_of(tmp_path)
    topic = "t" * 249
    filled(manager, topic, 12)
    manager.delete_log(topic, 12, 5)
    (name,) = (n for n in os.listdir(tmp_path) if n.endswith("-delete"))
    assert len(name) == 255
    manager.release()
    manager = manager_of(tmp_path)
    run(manager, 10)
    assert not (tmp_path / name).exists()


def test_periodic_work(tmp_path: Path) -> None:
    settings = LogManagerConfig(initial_task_delay_ms=100, high_watermark_checkpoint_interval_ms=50)
    manager = manager_of(tmp_path, settings=settings)
    filled(manager).update_high_watermark(3)
    assert run(manager, 49) == []
    assert run(manager, 60) == ["write replication-offset-checkpoint"]
    assert (tmp_path / "replication-offset-checkpoint").read_text() == "0\n1\nt 0 3\n"
    assert run(manager, 99) == []
    assert len(run(manager, 100)) == 2
    assert run(manager, 109) == []
    assert run(manager, 110) == ["write replication-offset-checkpoint"]


def test_rolled_segments_are_flushed_and_dropped_files_deleted(tmp_path: Path) -> None:
    manager = manager_of(tmp_path, config=config_of(segment_bytes=200, file_delete_delay_ms=10))
    log = filled(manager, count=9)
    assert run(manager, 0) == ["flush t-0"]
    assert log.recovery_point == 9
    log.truncate_to(1)
    assert sorted(run(manager, 1)) == [
        "write cleaner-offset-checkpoint",
        "write log-start-offset-checkpoint",
        "write recovery-point-offset-checkpoint",  # it went back
        "write replication-offset-checkpoint",
    ]
    assert len(run(manager, 11)) > 3
    assert not list((tmp_path / "t-0").glob("*.deleted"))


def test_loading_may_run_in_threads(tmp_path: Path) -> None:
    manager = manager_of(tmp_path)
    for partition in range(8):
        filled(manager, "t", partition)
    manager.release()
    again = LogManager(
        [str(tmp_path)], manager.files, config_of(), broker_id=1, cluster_id="cluster"
    )

    def in_threads(jobs: object) -> None:
        threads = [threading.Thread(target=job) for job in jobs]  # type: ignore[attr-defined]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    again.load(0, run_all=in_threads)
    assert sorted(log.log_end_offset for log in again.logs()) == [3] * 8


@pytest.fixture
def frequent_switches() -> Iterator[None]:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("frequent_switches")
def test_flushing_in_a_thread_beside_appends(tmp_path: Path) -> None:
    manager = manager_of(tmp_path, config=config_of(segment_bytes=2000))
    log = filled(manager)
    stop = threading.Event()
    failures: list[BaseException] = []

    def flush() -> None:
        while not stop.is_set():
            try:
                log.flush()
            except BaseException as error:
                failures.append(error)
                return

    thread = threading.Thread(target=flush)
    thread.start()
    try:
        for number in range(1000):
            append_as_leader(log, batch_of(b"x" * 20), leader_epoch=0, now_ms=0)
            if number % 20 == 19:
                log.truncate_to(log.log_end_offset - 5)
            assert log.recovery_point <= log.log_end_offset
    finally:
        stop.set()
        thread.join()
    assert not failures
    log.flush()
    assert log.recovery_point == log.log_end_offset
    assert not log.flush_is_due(0)


def test_topic_configs_reach_logs(tmp_path: Path) -> None:
    manager = manager_of(tmp_path)
    filled(manager)
    manager.clean_shutdown()
    again = LogManager(
        [str(tmp_path)], manager.files, config_of(), broker_id=1, cluster_id="cluster"
    )
    again.load(0, {"t": config_of(segment_bytes=777)})
    log = again.get_log("t", 0)
    assert log is not None
    assert log.config.segment_bytes == 777
    log.set_config(config_of(index_interval_bytes=99))
    assert log.segments.active.index_interval_bytes == 99


def test_checkpoints_have_one_writer(tmp_path: Path) -> None:
    """Two threads that replace a file by way of the same other one take each other's away."""
    manager = manager_of(tmp_path)
    logs = [filled(manager, "t", partition) for partition in range(2)]
    run(manager, 0)
    for log in logs:
        log.first_dirty_offset = 2
        manager.maintenance.cleaned(log)
    assert not (tmp_path / "cleaner-offset-checkpoint").exists()
    assert run(manager, 1) == ["sync t-0", "sync t-1", "write cleaner-offset-checkpoint"]
    assert (tmp_path / "cleaner-offset-checkpoint").read_text() == "0\n2\nt 0 2\nt 1 2\n"
    assert run(manager, 2) == []
