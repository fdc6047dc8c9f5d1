"""Log directories: locks, owners, placement, checkpoints, deletion, periodic work."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from protocol.errors import ErrorCode, KafkaError
from storage.log import Log
from storage.log_directory import StartupError, parse_partition_name
from storage.log_manager import LogManager, LogManagerConfig
from tests.unit.storage.helpers import TOPIC_ID, batch_of, config_of, manager_of


def filled(manager: LogManager, topic: str = "t", partition: int = 0, count: int = 3) -> Log:
    log = manager.get_or_create_log(topic, partition, TOPIC_ID, None, 0)
    for _ in range(count):
        log.append_as_leader(batch_of(b"x" * 20), leader_epoch=0, now_ms=0)
    return log


def run(manager: LogManager, now_ms: int) -> list[str]:
    jobs = manager.tick(now_ms)
    for job in jobs:
        job.run()
    return [job.name for job in jobs]


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


def test_strange_sub_directories_stop_the_start(tmp_path: Path) -> None:
    (tmp_path / "holiday pictures").mkdir()
    with pytest.raises(StartupError, match="not in the form of topic-partition"):
        manager_of(tmp_path)


def test_one_partition_in_two_directories_stops_the_start(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name / "t-0").mkdir(parents=True)
    with pytest.raises(StartupError, match="Duplicate log directories"):
        manager_of(tmp_path / "a", tmp_path / "b")


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
        log.append_as_leader(batch_of(b"late"), leader_epoch=0, now_ms=0)
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
            log.append_as_leader(batch_of(b"x" * 20), leader_epoch=0, now_ms=0)
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
        manager.upkeep.cleaned(log)
    assert not (tmp_path / "cleaner-offset-checkpoint").exists()
    assert run(manager, 1) == ["sync t-0", "sync t-1", "write cleaner-offset-checkpoint"]
    assert (tmp_path / "cleaner-offset-checkpoint").read_text() == "0\n2\nt 0 2\nt 1 2\n"
    assert run(manager, 2) == []
