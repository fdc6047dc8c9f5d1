"""The log cleaner's threads: tasks that each have a process to clean logs in.

A task takes the dirtiest log that is due, has its process write the new segments, and swaps each in
as it becomes ready; then it applies retention to the compacted logs too, so that cleaning and
deletion of a log never overlap. With nothing to do it waits for log.cleaner.backoff.ms. The loop
itself does only the swaps: some renames each.

A log that cannot be cleaned is marked and left alone. An I/O error takes its log directory offline.
A process that dies is started anew; if two die over the same log, the log is marked.

Mirrors: LogCleaner, CleanerThread, CleanerConfig. The metrics are Kafka's.
Leaves out: log.cleaner.hash.algorithm, which no config sets.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from functools import partial

import trio

from ...protocol.errors import KafkaError
from ...protocol.topics import TopicPartition
from ...storage.cleaner.cleaner import CleaningAborted
from ...storage.cleaner.manager import CleanerManager, CleanerSettings, Cleaning
from ...storage.cleaner.plan import CleanedGroup, CleaningStats
from ...storage.files import is_out_of_descriptors
from ...storage.log_manager import LogManager
from ..config import KafkaConfig
from ..observability.metrics import BrokerMetrics
from .process import CleanerProcess, CleaningFailed, WorkerDied, WorkerStopped

logger = logging.getLogger("pybroker.broker.cleaner")

IDLE_SECONDS = 30.0
WATCH_SECONDS = 0.25
# With log.cleaner.backoff.ms=0 Kafka's cleaner spins; ours would in the broker's only loop.
MIN_BACKOFF_SECONDS = 0.01
MAX_BUFFER_BYTES = 2**31 - 1


class CleanerRuntime:
    def __init__(
        self,
        logs: LogManager,
        config: KafkaConfig,
        clock: Callable[[], int],
    ) -> None:
        self._logs = logs
        self._config = config
        self._clock = clock
        self.manager = CleanerManager(logs, clock())
        self._nursery: trio.Nursery | None = None
        self._changed = trio.Event()
        self._tasks: dict[int, CleanerProcess] = {}
        self._running: set[int] = set()  # tasks with a cleaning under way
        self._last_stats: dict[int, CleaningStats] = {}
        self._deaths: dict[TopicPartition, int] = {}
        self._dead_tasks = 0

    # Configs

    @property
    def _threads(self) -> int:
        if not self._config.get_boolean("log.cleaner.enable"):
            return 0
        return self._config.get_int("log.cleaner.threads")

    def _settings(self) -> CleanerSettings:
        config, threads = self._config, max(self._threads, 1)
        return CleanerSettings(
            min(config.get_int("log.cleaner.dedupe.buffer.size") // threads, MAX_BUFFER_BYTES),
            config.get_float("log.cleaner.io.buffer.load.factor"),
            max(config.get_int("log.cleaner.io.buffer.size") // threads // 2, 1),
        )

    def _rate(self) -> float | None:
        """The share of each cleaning in log.cleaner.io.max.bytes.per.second; None: no limit.

        As in Kafka, neither a negative number nor NaN is a limit.
        """
        rate = self._config.get_float("log.cleaner.io.max.bytes.per.second")
        if not 0 < rate < sys.float_info.max:
            return None
        return rate / max(len(self._running), 1)

    def configs_changed(self) -> None:
        """Apply changed configs: the rate at once, all others from the next cleaning on."""
        self._changed.set()
        self._changed = trio.Event()
        self._start_missing_tasks()

    # Running

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            self._start_missing_tasks()
            task_status.started()
            await trio.sleep_forever()

    def _start_missing_tasks(self) -> None:
        if self._nursery is None:
            return
        for number in range(self._threads):
            if number not in self._tasks:
                process = self._tasks[number] = CleanerProcess()
                self._nursery.start_soon(self._work, number, process)

    async def _work(self, number: int, process: CleanerProcess) -> None:
        """One of Kafka's cleaner threads."""
        used_at = trio.current_time()
        try:
            while number < self._threads:
                cleaned = await self._clean_next(number, process)
                if cleaned:
                    used_at = trio.current_time()
                for _ in self.manager.retain(self._clock()):
                    await trio.lowlevel.checkpoint()
                if not cleaned:
                    await self._back_off(process, used_at)
        except Exception:
            self._dead_tasks += 1
            logger.exception("Cleaner %d ends", number)
        else:
            del self._tasks[number]
        finally:
            await process.stop()

    async def _back_off(self, process: CleanerProcess, used_at: float) -> None:
        """Wait for the next look; a process that is idle for long is ended meanwhile."""
        backoff_seconds = self._config.get_int("log.cleaner.backoff.ms") / 1000
        deadline = trio.current_time() + max(backoff_seconds, MIN_BACKOFF_SECONDS)
        idle_at = used_at + IDLE_SECONDS
        changed = self._changed
        if process.pid is not None and idle_at < deadline:
            with trio.move_on_at(idle_at):
                await changed.wait()
                return
            await process.stop()
        with trio.move_on_at(deadline):
            await changed.wait()

    # One cleaning

    async def _clean_next(self, number: int, process: CleanerProcess) -> bool:
        """Clean the log that needs it most; False if there is none, or if it failed."""
        cleaning = self.manager.choose(self._clock(), self._settings())
        if cleaning is None:
            return False
        self._running.add(number)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._watch, cleaning, process)
                stats = await self._clean(cleaning, process)
                nursery.cancel_scope.cancel()
        finally:
            self._running.discard(number)
            self.manager.ended(cleaning)
        if stats is not None:
            self._last_stats[number] = stats
        return stats is not None

    async def _watch(self, cleaning: Cleaning, process: CleanerProcess) -> None:
        """Stop a cleaning that has become void, and send its process the present rate.

        Repeated, because the process may not have started yet.
        """
        try:
            while True:
                if self.manager.is_void(cleaning):
                    await process.abort()
                else:
                    await process.set_rate(self._rate())
                await trio.sleep(WATCH_SECONDS)
        except WorkerDied:
            return  # the other end of the talk notices it too

    async def _clean(self, cleaning: Cleaning, process: CleanerProcess) -> CleaningStats | None:
        manager, plan = self.manager, cleaning.plan

        def swap(group: CleanedGroup) -> None:
            manager.swap(cleaning, group, self._clock())

        try:
            end_offset, stats = await process.clean(plan, self._rate(), swap)
        except OSError as error:
            if not is_out_of_descriptors(error):
                raise
            logger.warning("Cleaning %s has to wait: %s", plan.name, error)
            return None
        except (CleaningAborted, WorkerStopped):
            logger.info("The cleaning of %s is aborted", plan.name)
            return None
        except KafkaError as error:
            logger.error("Cleaning %s: %s", plan.name, error.message)
            return None
        except CleaningFailed as error:
            self._failed(cleaning, error)
            return None
        except WorkerDied:
            self._died(cleaning)
            return None
        self._deaths.pop(cleaning.key, None)
        manager.finished(cleaning, end_offset)
        _report(cleaning, end_offset, stats)
        self._logs.maintenance.cleaned(cleaning.log)
        return stats

    def _failed(self, cleaning: Cleaning, error: CleaningFailed) -> None:
        if error.is_io and not self.manager.is_void(cleaning):
            cleaning.log.health.fail(OSError(f"cleaning {cleaning.plan.name}: {error}"))
            logger.error("Failed to clean %s due to an I/O error: %s", cleaning.plan.name, error)
        elif not error.is_io:
            self.manager.failed(cleaning, str(error))

    def _died(self, cleaning: Cleaning) -> None:
        deaths = self._deaths[cleaning.key] = self._deaths.get(cleaning.key, 0) + 1
        logger.warning("The cleaner's process died while it cleaned %s", cleaning.plan.name)
        if deaths > 1:
            del self._deaths[cleaning.key]
            self.manager.failed(cleaning, "the cleaner's process died twice over it")

    # Metrics

    def register_gauges(self, metrics: BrokerMetrics) -> None:
        gauge, manager = metrics.gauge, self.manager
        cleaner = "kafka_log_logcleaner_"
        gauge(cleaner + "max_buffer_utilization_percent", self._buffer_percent)
        gauge(cleaner + "cleaner_recopy_percent", self._recopy_percent)
        gauge(cleaner + "max_clean_time_secs", self._max_clean_seconds)
        gauge(cleaner + "max_compaction_delay_secs", lambda: manager.max_delay_ms / 1000)
        gauge(cleaner + "deadthreadcount", lambda: self._dead_tasks)
        shared = "kafka_log_logcleanermanager_"
        gauge(shared + "max_dirty_percent", lambda: int(100 * manager.max_dirty_ratio))
        gauge(shared + "time_since_last_run_ms", lambda: self._clock() - manager.last_run_ms)
        for directory in self._logs.directories:
            path = directory.path
            count = partial(manager.uncleanable_count, path)
            gauge(shared + "uncleanable_partitions_count", count, logDirectory=path)
            size = partial(self._uncleanable_bytes, path)
            gauge(shared + "uncleanable_bytes", size, logDirectory=path)

    def _uncleanable_bytes(self, path: str) -> int:
        return self.manager.uncleanable_bytes(path, self._clock())

    def _buffer_percent(self) -> int:
        return int(100 * max((s.buffer_utilization for s in self._last_stats.values()), default=0))

    def _recopy_percent(self) -> int:
        stats = self._last_stats.values()
        read, written = sum(s.bytes_read for s in stats), sum(s.bytes_written for s in stats)
        return 100 * written // max(read, 1)

    def _max_clean_seconds(self) -> int:
        return int(max((s.elapsed_seconds for s in self._last_stats.values()), default=0))


def _report(cleaning: Cleaning, end_offset: int, stats: CleaningStats) -> None:
    megabytes = stats.bytes_read / (1 << 20)
    logger.info(
        "Cleaned log %s (dirty section = [%d, %d)): %.1f MB in %.1f s (%.1f MB/s), of which %.1f s "
        "for the map; buffer utilization %.1f %%; %d of %d messages and %.1f MB stay",
        cleaning.plan.name,
        cleaning.plan.first_dirty_offset,
        end_offset,
        megabytes,
        stats.elapsed_seconds,
        megabytes / max(stats.elapsed_seconds, 0.001),
        stats.index_seconds,
        100 * stats.buffer_utilization,
        stats.messages_written,
        stats.messages_read,
        stats.bytes_written / (1 << 20),
    )
    if stats.invalid_messages:
        logger.warning(
            "%s: %d messages without a key were dropped",
            cleaning.plan.name,
            stats.invalid_messages,
        )
