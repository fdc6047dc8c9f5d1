"""The cleaner's processes and the tasks that use them, on real logs."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from pybroker_kafka.broker.cleaner import runtime as cleaner_runtime
from pybroker_kafka.broker.cleaner.process import (
    CleanerProcess,
    CleaningFailed,
    WorkerDied,
    WorkerStopped,
)
from pybroker_kafka.broker.cleaner.runtime import CleanerRuntime
from pybroker_kafka.broker.config import KafkaConfig
from pybroker_kafka.broker.config.dynamic import take_over
from pybroker_kafka.broker.observability.metrics import BrokerMetrics
from pybroker_kafka.protocol.records.batch import SimpleRecord
from pybroker_kafka.protocol.records.builder import build_batch
from pybroker_kafka.storage.cleaner.manager import CleanerManager, CleanerSettings, Cleaning
from pybroker_kafka.storage.cleaner.plan import CleanedGroup, CleaningStats
from pybroker_kafka.storage.files import Files
from pybroker_kafka.storage.log import Log
from pybroker_kafka.storage.log_config import LogConfig
from pybroker_kafka.storage.log_manager import LogManager
from tests.support.appends import append_as_leader
from tests.support.cleaning import surviving
from tests.support.patience import eventually

WAIT_SECONDS = 120.0
CONFIG = LogConfig.from_overrides(
    {
        "cleanup.policy": "compact",
        "segment.bytes": "20000",
        "min.cleanable.dirty.ratio": "0.0",
    },
    {},
)


def clock() -> int:
    return time.time_ns() // 1_000_000


@pytest.fixture
def manager(tmp_path: Path) -> LogManager:
    manager = LogManager([str(tmp_path)], Files(), CONFIG, broker_id=1, cluster_id="c")
    manager.load(clock())
    return manager


def fill(manager: LogManager, topic: str, count: int = 100) -> Log:
    log = manager.get_or_create_log(topic, 0, None, None, clock())
    for number in range(count):
        records = [SimpleRecord(clock(), b"key", b"%d" % number), SimpleRecord(1, b"k", b"." * 999)]
        append_as_leader(log, build_batch(records), leader_epoch=0, now_ms=clock())
    log.roll(clock())
    log.update_high_watermark(log.log_end_offset)
    return log


def chosen(manager: LogManager) -> tuple[CleanerManager, Cleaning]:
    cleaners = CleanerManager(manager, clock())
    cleaning = cleaners.choose(clock(), CleanerSettings(1 << 20, 0.9, 1 << 12))
    assert cleaning is not None
    return cleaners, cleaning


@asynccontextmanager
async def process() -> AsyncIterator[CleanerProcess]:
    process = CleanerProcess()
    try:
        with trio.fail_after(WAIT_SECONDS):
            yield process
    finally:
        await process.stop()


DECOYS = ("storage", "protocol", "broker", "json", "trio")


async def test_the_worker_imports_nothing_of_the_current_directory(
    manager: LogManager, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(manager, "t")
    _, cleaning = chosen(manager)
    directory = tmp_path_factory.mktemp("decoys")
    for name in DECOYS:
        (directory / f"{name}.py").write_text(f"raise SystemExit({name!r})\n")
        (directory / name).mkdir()
        (directory / name / "__init__.py").write_text(f"raise SystemExit({name!r})\n")
    monkeypatch.chdir(directory)
    monkeypatch.setenv("PYTHONPATH", ".")
    monkeypatch.setattr("sys.path", ["", *sys.path])
    groups: list[CleanedGroup] = []
    async with process() as worker:
        await worker.clean(cleaning.plan, None, groups.append)
    assert groups


def damage(log: Log) -> None:
    path = Path(log.segments.first.log_file.path)
    path.write_bytes(path.read_bytes()[:-3] + b"???")


def remove(log: Log) -> None:
    Path(log.segments.first.log_file.path).unlink()


def leftovers(log: Log) -> list[Path]:
    return list(Path(log.directory).glob("*.cleaned"))


def not_expected(_: CleanedGroup) -> None:
    raise AssertionError("no segment is ready")


async def clean_in(worker: CleanerProcess, manager: LogManager) -> CleaningStats:
    cleaners, cleaning = chosen(manager)

    def swap(group: CleanedGroup) -> None:
        cleaners.swap(cleaning, group, clock())

    end, stats = await worker.clean(cleaning.plan, None, swap)
    cleaners.finished(cleaning, end)
    return stats


async def test_one_process_cleans_one_log_after_the_other(manager: LogManager) -> None:
    async with process() as worker:
        pids = set()
        for topic in ("a", "b"):
            log = fill(manager, topic)
            stats = await clean_in(worker, manager)
            assert [record.offset for record in surviving(log)] == [198, 199]
            assert (stats.messages_read, stats.messages_written) == (200, 2)
            assert stats.elapsed_seconds > stats.index_seconds > 0
            pids.add(worker.pid)
        assert len(pids) == 1
        # Nobody waits for it, and it is not asked to hurry.
        assert worker.pid is not None
        assert os.getpriority(os.PRIO_PROCESS, worker.pid) == 19
    assert worker.pid is None


async def test_the_throttle_and_an_abort(manager: LogManager) -> None:
    """At this rate it would take hours; and it leaves nothing behind."""
    log = fill(manager, "slow")
    _, cleaning = chosen(manager)
    async with process() as worker, trio.open_nursery() as nursery:
        await worker.set_rate(1.0)  # there is no process to tell it to

        async def stop_soon() -> None:
            await eventually(lambda: worker.pid is not None)
            await trio.sleep(0.3)
            await worker.abort()

        nursery.start_soon(stop_soon)
        with pytest.raises(WorkerStopped):
            await worker.clean(cleaning.plan, 10.0, not_expected)
        assert not leftovers(log)
        assert worker.pid is not None  # it is there for the next one
        cleaned: list[CleanedGroup] = []
        await worker.clean(cleaning.plan, None, cleaned.append)
        assert len(cleaned) > 1


async def test_a_new_rate_counts_at_once(manager: LogManager) -> None:
    fill(manager, "slow")
    _, cleaning = chosen(manager)
    async with process() as worker, trio.open_nursery() as nursery:

        async def lift() -> None:
            await eventually(lambda: worker.pid is not None)
            await trio.sleep(0.3)
            await worker.set_rate(None)

        nursery.start_soon(lift)
        end, _ = await worker.clean(cleaning.plan, 10.0, lambda group: None)
        assert end == 200


async def test_a_damaged_log_and_a_missing_one(manager: LogManager) -> None:
    log = fill(manager, "bad")
    _, cleaning = chosen(manager)
    async with process() as worker:
        damage(log)
        with pytest.raises(CleaningFailed, match="wrong CRC") as damaged:
            await worker.clean(cleaning.plan, None, not_expected)
        assert not damaged.value.is_io
        remove(log)
        with pytest.raises(CleaningFailed, match="No such file") as missing:
            await worker.clean(cleaning.plan, None, not_expected)
        assert missing.value.is_io


async def test_a_process_that_dies(manager: LogManager) -> None:
    fill(manager, "a")
    _, cleaning = chosen(manager)
    async with process() as worker, trio.open_nursery() as nursery:

        async def kill() -> None:
            await eventually(lambda: worker.pid is not None)
            await trio.sleep(0.3)
            assert worker.pid is not None
            os.kill(worker.pid, signal.SIGKILL)

        nursery.start_soon(kill)
        with pytest.raises(WorkerDied):
            await worker.clean(cleaning.plan, 10.0, not_expected)
        assert worker.pid is None
        end, _ = await worker.clean(cleaning.plan, None, lambda group: None)
        assert end == 200


# The tasks


@asynccontextmanager
async def runtime(manager: LogManager, **configs: str) -> AsyncIterator[CleanerRuntime]:
    values = {"zookeeper.connect": "none:1", "log.cleaner.backoff.ms": "20"}
    values |= {name.replace("_", "."): value for name, value in configs.items()}
    runtime = CleanerRuntime(manager, KafkaConfig(values), clock)
    async with trio.open_nursery() as nursery:
        await nursery.start(runtime.run)
        yield runtime
        nursery.cancel_scope.cancel()


def gauges(runtime: CleanerRuntime) -> dict[str, float]:
    metrics = BrokerMetrics()
    runtime.register_gauges(metrics)
    return {
        sample.name: sample.value
        for metric in metrics.collect()
        for sample in metric.samples
        if "logcleaner" in sample.name
    }


async def test_all_logs_are_cleaned_and_it_shows(manager: LogManager, tmp_path: Path) -> None:
    logs = [fill(manager, topic) for topic in "abc"]
    async with runtime(manager, log_cleaner_threads="2") as running:
        await eventually(lambda: all(log.first_dirty_offset == 200 for log in logs))
        for job in manager.tick(clock()):
            job.run()
        checkpoint = tmp_path / "cleaner-offset-checkpoint"
        assert checkpoint.read_text() == "0\n3\na 0 200\nb 0 200\nc 0 200\n"
        shown = gauges(running)
        assert shown["kafka_log_logcleaner_deadthreadcount"] == 0
        assert shown["kafka_log_logcleaner_cleaner_recopy_percent"] < 5
        assert shown["kafka_log_logcleanermanager_uncleanable_partitions_count"] == 0
        assert shown["kafka_log_logcleanermanager_time_since_last_run_ms"] < WAIT_SECONDS * 1000


async def test_it_can_be_switched_off_and_its_threads_changed(manager: LogManager) -> None:
    log = fill(manager, "a")
    async with runtime(manager, log_cleaner_enable="false") as running:
        await trio.testing.wait_all_tasks_blocked()
        assert not running._tasks
        assert log.first_dirty_offset is None
    async with runtime(
        manager, log_cleaner_threads="2", log_cleaner_backoff_ms="1000000"
    ) as running:
        await eventually(lambda: log.first_dirty_offset == 200)
        again = fill(manager, "b")
        config = running._config
        take_over(config, default={"log.cleaner.threads": "1", "log.cleaner.backoff.ms": "10"})
        running.configs_changed()
        await eventually(lambda: again.first_dirty_offset == 200)
        await eventually(lambda: len(running._tasks) == 1)


@pytest.mark.parametrize("backoff_ms", ["10", "1000000"])
async def test_an_idle_process_is_ended_and_started_again(
    manager: LogManager, monkeypatch: pytest.MonkeyPatch, backoff_ms: str
) -> None:
    monkeypatch.setattr(cleaner_runtime, "IDLE_SECONDS", 0.5)
    log = fill(manager, "a")
    async with runtime(manager, log_cleaner_backoff_ms=backoff_ms) as running:
        process = running._tasks[0]
        await eventually(lambda: log.first_dirty_offset == 200)
        await eventually(lambda: process.pid is None)
        again = fill(manager, "b")
        running.configs_changed()
        await eventually(lambda: again.first_dirty_offset == 200)


async def test_what_cannot_be_cleaned_is_marked(manager: LogManager) -> None:
    bad, good = fill(manager, "bad", 200), fill(manager, "good")
    damage(bad)
    async with runtime(manager) as running:
        await eventually(lambda: good.first_dirty_offset == 200)
        shown = gauges(running)
        assert shown["kafka_log_logcleanermanager_uncleanable_partitions_count"] == 1
        assert shown["kafka_log_logcleanermanager_uncleanable_bytes"] > 100_000
        assert manager.directories[0].is_online


async def test_an_io_error_takes_the_directory_offline(manager: LogManager) -> None:
    log = fill(manager, "a")
    remove(log)
    async with runtime(manager):
        await eventually(lambda: not manager.directories[0].is_online)


async def test_a_deleted_log_stops_its_cleaning(manager: LogManager) -> None:
    fill(manager, "doomed")
    async with runtime(manager, log_cleaner_io_max_bytes_per_second="10") as running:
        await eventually(lambda: bool(running._running))
        manager.delete_log("doomed", 0, clock())
        again = fill(manager, "doomed", 3)
        take_over(
            running._config,
            default={"log.cleaner.io.max.bytes.per.second": "1.7976931348623157E308"},
        )
        running.configs_changed()
        await eventually(lambda: again.first_dirty_offset == 6)
        assert [record.offset for record in surviving(again)] == [4, 5]
        assert manager.directories[0].is_online
