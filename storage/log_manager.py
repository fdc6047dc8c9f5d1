"""All logs of a broker, over all its log directories.

Composes the table of logs (`log_table`), loading at the start (`log_loading`), periodic work
(`log_maintenance`) and deletion (`log_deletion`); it creates logs and moves replicas itself.

Loading takes the checkpoints and the clean-shutdown mark of each directory; a directory with an I/O
error goes offline while the others stay online. New partitions go to the requested directory, else
to the one with the fewest partitions. A partition may have a second log in another directory, its
future replica (`-future`), which takes the first one's place when it has caught up.

Mirrors: LogManager.
"""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence

from ..protocol.errors import ErrorCode, KafkaError
from ..protocol.invariants import BrokenInvariant
from ..protocol.topics import TopicPartition
from ..protocol.wall_clock import WallClock
from .descriptors import left_by_partitions, require_descriptors
from .files import Files
from .log import Log
from .log_config import LogConfig, LogManagerConfig
from .log_deletion import LogDeletion
from .log_directory import LogDirDescription, LogDirectory, StartupError, future_name
from .log_jobs import CHECKPOINTED, Job, PrepareSwap, run_serially
from .log_loading import Checkpointed, LogLoading, LogOpener, Run
from .log_maintenance import LogMaintenance
from .log_table import LogTable
from .producer_table import ProducerLimits
from .recovery_notes import note_new

__all__ = ["Job", "LogDirDescription", "LogManager", "LogManagerConfig", "StartupError"]

logger = logging.getLogger("pybroker.storage.log_manager")


class LogManager:
    __slots__ = (
        "_broker_id",
        "_cluster_id",
        "_deletion",
        "_opener",
        "_preferred",
        "_table",
        "default_config",
        "files",
        "maintenance",
        "wall",
    )

    def __init__(
        self,
        log_dirs: Sequence[str],
        files: Files,
        default_config: LogConfig,
        *,
        broker_id: int,
        cluster_id: str,
        config: LogManagerConfig | None = None,
        random_below: Callable[[int], int] | None = None,
        wall: WallClock | None = None,
    ) -> None:
        """`wall` beside the `now_ms` of all calls; without one they are the same."""
        config = config or LogManagerConfig()
        self.wall = wall or WallClock()
        self.files = files
        self.default_config = default_config  # for topics without one; set anew when it changes
        self._broker_id = broker_id
        self._cluster_id = cluster_id
        self._table = LogTable([LogDirectory(path, files) for path in log_dirs])
        limits = ProducerLimits(config.producer_ids_of_log, config.producer_ids)
        self.maintenance = LogMaintenance(self._table, config, self.wall, limits)
        self._deletion = LogDeletion(files, self._table, self.maintenance, random_below)
        self._opener = LogOpener(files, config, random_below, self.wall, limits)
        # The directories requested for replicas that do not exist yet.
        self._preferred: dict[TopicPartition, str] = {}

    def load(
        self,
        now_ms: int,
        topic_configs: Mapping[str, LogConfig] | None = None,
        run_all: Run | None = None,
    ) -> None:
        """Open all directories and recover all logs in them; StartupError if that fails, an OSError
        if there are too few descriptors.

        `run_all` may run the loads of one directory in parallel
        (num.recovery.threads.per.data.dir).
        """
        loading = LogLoading(self._opener, self._table, self.maintenance, self._deletion, now_ms)
        try:
            loading.load(
                self._broker_id,
                self._cluster_id,
                self.default_config,
                topic_configs or {},
                run_all or run_serially,
            )
        except (StartupError, OSError):
            self.release()
            raise
        known = [directory.wall_clock_ms for directory in self.online_directories()]
        if any(wall_ms is not None for wall_ms in known):
            self.wall.resume(now_ms, max(wall_ms or 0 for wall_ms in known))
        self.maintenance.begin(now_ms)
        # At once: if the clock jumps before the first tick, the next start must notice.
        for job in self.maintenance.wall_clock_jobs(now_ms):
            job.run()

    # Look-ups

    def get_log(self, topic: str, partition: int) -> Log | None:
        """The log if it is here and its directory is online."""
        return self._table.current.get((topic, partition))

    def future_log(self, topic: str, partition: int) -> Log | None:
        """The copy that is to take the partition's place, if it is moved to another directory."""
        return self._table.future.get((topic, partition))

    def logs(self) -> list[Log]:
        """All logs of online directories, future replicas aside."""
        return self._table.current.online()

    def future_logs(self) -> list[Log]:
        return self._table.future.online()

    def is_offline(self, topic: str, partition: int) -> bool:
        """Whether the partition lives in a directory that is offline, or could not be loaded."""
        return self._table.is_offline((topic, partition))

    def directory_of(self, topic: str, partition: int) -> str | None:
        return self._table.current.path_of((topic, partition))

    def future_directory_of(self, topic: str, partition: int) -> str | None:
        return self._table.future.path_of((topic, partition))

    @property
    def directories(self) -> Sequence[LogDirectory]:
        return self._table.directories

    def online_directories(self) -> list[LogDirectory]:
        return self._table.online_directories()

    def check_any_online(self) -> None:
        """Raises StartupError if no directory is left to work on."""
        self._table.check_any_online()

    def take_newly_offline(self) -> list[tuple[str, list[TopicPartition]]]:
        """Directories that failed since the last call, with their partitions."""
        return self._table.take_newly_offline()

    def describe(self) -> list[LogDirDescription]:
        """Every directory with the sizes of its logs (DescribeLogDirs), which are computed during
        iteration: there may be many."""
        return self._table.describe()

    # Creating

    def get_or_create_log(
        self,
        topic: str,
        partition: int,
        topic_id: bytes | None,
        config: LogConfig | None,
        now_ms: int,
        *,
        is_new: bool = False,
    ) -> Log:
        """The log of a partition, made in the emptiest directory if there is none.

        While a directory is offline, a log is created only if the controller says that the replica
        is new: the log may be in that directory.
        """
        key = topic, partition
        table = self._table
        log = table.current.logs.get(key)
        if key in table.failed:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"The files of {topic}-{partition} in {table.failed[key][0]} are damaged",
            )
        if log is None:
            if table.is_offline(key) or not is_new:
                table.check_all_online(key)
            log = self._create_log(key, config or self.default_config, now_ms)
        elif log.health.error is not None:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"Log {topic}-{partition} is in the offline log directory {log.health.path}",
            )
        if topic_id is not None and any(topic_id):
            log.assign_topic_id(topic_id)
        return log

    def _create_log(self, key: TopicPartition, config: LogConfig, now_ms: int) -> Log:
        preferred = self._preferred.get(key)
        candidates = (
            self._table.directories_by_load()
            if preferred is None
            else [d for d in self.online_directories() if d.path == preferred]
        )
        for directory in candidates:
            log = self._create_in(directory, key, f"{key[0]}-{key[1]}", config, now_ms)
            if log is not None:
                self._table.current.put(key, log, directory)
                self._preferred.pop(key, None)
                return log
        raise KafkaError(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"No log directory can take {key[0]}-{key[1]}: {self._table.all_offline_message()}",
        )

    def _create_in(
        self,
        directory: LogDirectory,
        key: TopicPartition,
        name: str,
        config: LogConfig,
        now_ms: int,
    ) -> Log | None:
        leaving = left_by_partitions(self.files.descriptor_limit)
        require_descriptors(self.files, f"creating {name}", leaving=leaving)
        path = os.path.join(directory.path, name)
        try:
            if directory.health.may_be_checkpointed(key):
                self._make_noted_directory(directory, key, path, now_ms)
            else:
                self.files.make_directory(path)
            return self._opener.open(directory, path, key, config, now_ms, Checkpointed())
        except OSError as error:
            directory.fail(error)
            return None

    def _make_noted_directory(
        self, directory: LogDirectory, key: TopicPartition, path: str, now_ms: int
    ) -> None:
        """Create a log in place of a deleted one; after a crash it must not hold records without
        the note."""
        unborn = self._deletion.free_path(directory, key, now_ms)
        self.files.make_directory(unborn)
        note_new(self.files, unborn)
        self.files.rename(unborn, path)
        directory.health.forget_recovery_point(key)
        self.maintenance.checkpoint_soon(directory)

    # Deleting

    def delete_log(self, topic: str, partition: int, now_ms: int) -> None:
        """Rename the partition to `-delete`; its files go after file.delete.delay.ms."""
        self.delete_future_log(topic, partition, now_ms)
        taken = self._table.current.take((topic, partition))
        if taken is not None:
            self._deletion.delete(*taken, now_ms)

    def topic_id_of(self, topic: str, partition: int) -> bytes | None:
        """Of a log, also of one that could not be loaded."""
        log = self.get_log(topic, partition)
        return self._deletion.failed_topic_id((topic, partition)) if log is None else log.topic_id

    def delete_failed(self, topic: str, partition: int, now_ms: int) -> bool:
        """Delete a partition that could not be loaded; False if this is none."""
        return self._deletion.delete_failed((topic, partition), now_ms)

    # Replicas that move to another directory

    def prefer_directory(self, topic: str, partition: int, path: str) -> None:
        """Make the replica there, should it be made."""
        key = topic, partition
        if path not in (self.directory_of(*key), self.future_directory_of(*key)):
            self._preferred[key] = path

    def create_future_log(
        self, topic: str, partition: int, path: str, config: LogConfig, now_ms: int
    ) -> Log:
        """An empty log in another directory. None is made while a directory is offline: there
        may be one already."""
        key = topic, partition
        table = self._table
        if path == self.directory_of(*key):
            raise BrokenInvariant(f"{topic}-{partition} is to be moved to where it is, {path}")
        table.check_all_online(key)
        directory = table.directory_at(path)
        name = future_name(topic, partition, self._deletion.unique_id(now_ms))
        log = self._create_in(directory, key, name, config, now_ms)
        if log is None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"Log directory {path} is offline")
        current = table.current.logs[key]
        if current.topic_id is not None:
            log.assign_topic_id(current.topic_id)
        table.future.put(key, log, directory)
        self._preferred.pop(key, None)
        return log

    def delete_future_log(self, topic: str, partition: int, now_ms: int) -> None:
        """The replica is not to be moved any more."""
        taken = self._table.future.take((topic, partition))
        if taken is not None:
            self._deletion.delete(*taken, now_ms)

    def preparation(self, topic: str, partition: int) -> Callable[[], None]:
        """The blocking work before the future replica takes over: its flush, and the mark that
        shows a crash between the two renames."""
        key = topic, partition
        return PrepareSwap(self._table.current.logs[key], self._table.future.logs[key])

    def replace_with_future(self, topic: str, partition: int, now_ms: int) -> Log:
        """The future replica is the partition's log from now on; the old one is deleted."""
        key = topic, partition
        current, future = self._table.current, self._table.future
        old, new = current.logs[key], future.logs[key]
        if new.log_end_offset != old.log_end_offset:
            raise BrokenInvariant(f"{new!r} is to replace {old!r}")
        new.move(f"{topic}-{partition}")
        new.local.took_over(old.recovery_point)
        new.update_high_watermark(old.high_watermark)
        new.first_dirty_offset = old.first_dirty_offset
        new.producers.known.verifications = old.producers.known.verifications
        old_home, new_home = current.homes[key], future.homes[key]
        future.take(key)
        current.put(key, new, new_home)
        self.maintenance.checkpoint_soon(new_home)
        try:
            self._deletion.delete(old, old_home, now_ms)
        except KafkaError as error:
            # The old directory is offline, with a replica in it that is not needed.
            logger.error("The replaced %s is left where it was: %s", old.name, error.message)
        return new

    # Maintenance

    def tick(self, now_ms: int) -> list[Job]:
        """The blocking work that is due; run the jobs in order, one at a time."""
        return self.maintenance.tick(now_ms)

    def due_flushes(self, now_ms: int) -> list[Log]:
        """The logs to flush, each by one thread at a time."""
        return self.maintenance.due_flushes(now_ms)

    def retain(self, now_ms: int) -> Iterator[None]:
        """Delete old segments where that is due; others may have their turn at each step."""
        return self.maintenance.retain(now_ms)

    def look_after_producers(self, now_ms: int) -> Iterator[Job | None]:
        """Forget idle producers, and write due snapshots of logs with many; other tasks may run at
        each step. The caller must run a job before it asks for the next step."""
        return self.maintenance.look_after_producers(now_ms)

    # Stopping

    def clean_shutdown(self, broker_epoch: int = -1, run: Run = run_serially) -> None:
        """Flush and close all logs, write all checkpoints and the clean-shutdown marks. Blocks.

        `run` stops each log, possibly in threads: most of the time is spent waiting for the disk,
        which completes simultaneous syncs together.
        """
        failed: set[str] = set()

        def stop(log: Log) -> None:
            try:
                log.flush()
                log.close()
            except KafkaError as error:
                logger.error("Not stopped cleanly: %s", error.message)
                failed.add(log.health.path)

        run([functools.partial(stop, log) for log in self.logs() + self.future_logs()])
        for name in CHECKPOINTED:
            run_serially(job.run for job in self.maintenance.checkpoint_jobs(name))
        online = [directory.path for directory in self.online_directories()]
        run_serially(job.run for job in self.maintenance.new_log_jobs(online))
        for directory in self.online_directories():
            if directory.path not in failed:
                directory.mark_clean_shutdown(broker_epoch)
        self.release()

    def release(self) -> None:
        """Release all files and locks, as a crash would."""
        self._table.release()
