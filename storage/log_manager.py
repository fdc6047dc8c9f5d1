"""All logs of a broker, over all its log directories.

Loading takes the checkpoints and the clean-shutdown mark of each directory; a directory with an
I/O error goes offline while the others live on. New partitions go to the directory with the
fewest. `tick` hands out the periodic work as jobs that block: the caller runs them one after the
other in a worker thread; everything else belongs to the caller's loop.

Mirrors: LogManager.
Leaves out: moving replicas between directories (`-future`), retention and cleaning.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from protocol.errors import ErrorCode, KafkaError
from storage import checkpoints
from storage.checkpoints import TopicPartition
from storage.files import Files
from storage.log import Log
from storage.log_config import LogConfig, LogManagerConfig
from storage.log_directory import (
    DELETE_SUFFIX,
    FUTURE_SUFFIX,
    STRAY_SUFFIX,
    LogDirDescription,
    LogDirectory,
    StartupError,
    parse_partition_name,
)
from storage.log_jobs import CHECKPOINTED, Delete, Job, WriteCheckpoint, run_serially
from storage.recovery import LogLoader

__all__ = ["Job", "LogDirDescription", "LogManager", "LogManagerConfig", "StartupError"]

logger = logging.getLogger(__name__)

Run = Callable[[Iterable[Callable[[], None]]], None]


class LogManager:
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
    ) -> None:
        self.files = files
        self.default_config = default_config
        self.broker_id = broker_id
        self.cluster_id = cluster_id
        self.config = config or LogManagerConfig()
        self.directories = [LogDirectory(path, files) for path in log_dirs]
        self._random_below = random_below
        self._logs: dict[TopicPartition, Log] = {}
        self._home: dict[TopicPartition, LogDirectory] = {}
        self._known_offline: set[str] = set()
        self._doomed: list[tuple[int, LogDirectory, str]] = []  # due ms, where, path
        self._unchecked: set[str] = set()  # directories whose checkpoints must be written soon
        self._deletions = 0
        self._next_run: dict[str, int] = {}

    # -- loading ---------------------------------------------------------------------------

    def load(
        self,
        now_ms: int,
        topic_configs: Mapping[str, LogConfig] | None = None,
        run_all: Run | None = None,
    ) -> None:
        """Open all directories and recover all logs in them; StartupError if that cannot be.

        `run_all` may run the loads of one directory in parallel
        (num.recovery.threads.per.data.dir).
        """
        try:
            self._load_directories(now_ms, topic_configs or {}, run_all or run_serially)
        except StartupError:
            self.release()
            raise
        first = now_ms + self.config.initial_task_delay_ms
        self._next_run = dict.fromkeys(_PERIODIC, first)
        # Not delayed as the other jobs: it only begins with the first roles in Kafka.
        first = now_ms + self.config.high_watermark_checkpoint_interval_ms
        self._next_run["high watermarks"] = first

    def _load_directories(
        self, now_ms: int, topic_configs: Mapping[str, LogConfig], run_all: Run
    ) -> None:
        for directory in self.directories:
            directory.open(self.broker_id, self.cluster_id, now_ms)
        self.check_online()
        for directory in self.directories:
            if directory.is_online:
                directory.read_checkpoints()
        for directory in self.directories:
            if directory.is_online:
                self._load_directory(directory, now_ms, topic_configs, run_all)
        self.check_online()

    def check_online(self) -> None:
        """Raises StartupError if no directory is left to work on."""
        if not self.online_directories():
            raise StartupError(self._all_offline_message())

    def _all_offline_message(self) -> str:
        reasons = "; ".join(f"{d.path}: {d.health.error}" for d in self.directories)
        return f"Shutdown broker because none of the specified log dirs can be used: {reasons}"

    def _load_directory(
        self,
        directory: LogDirectory,
        now_ms: int,
        topic_configs: Mapping[str, LogConfig],
        run_all: Run,
    ) -> None:
        jobs: list[Callable[[], None]] = []
        for name in directory.partition_names():
            path = os.path.join(directory.path, name)
            if name.endswith(DELETE_SUFFIX):
                self._doomed.append((now_ms, directory, path))
                continue
            if name.endswith((FUTURE_SUFFIX, STRAY_SUFFIX)):
                logger.warning("Leaving %s alone: moving replicas is not supported yet", path)
                continue
            key = parse_partition_name(name)
            if key is None:
                raise StartupError(
                    f"Found directory {path}, {name} is not in the form of topic-partition. "
                    "Kafka's log directories (and children) should only contain Kafka topic data."
                )
            if key in self._home:
                raise StartupError(
                    f"Duplicate log directories for {name} are found in both {path} and "
                    f"{os.path.join(self._home[key].path, name)}. Remove the older one."
                )
            self._home[key] = directory
            config = topic_configs.get(key[0], self.default_config)
            jobs.append(_Load(self, directory, key, config, now_ms))
        run_all(jobs)

    def _load_log(
        self, directory: LogDirectory, key: TopicPartition, config: LogConfig, now_ms: int
    ) -> None:
        """Load one partition; an I/O error takes its directory offline."""
        if not directory.is_online:
            return
        path = os.path.join(directory.path, f"{key[0]}-{key[1]}")
        try:
            topic_id = self._read_topic_id(directory, path, key)
            log = self._open_log(
                directory,
                path,
                key,
                config,
                now_ms,
                clean=directory.cleanly_stopped,
                recovery_point=directory.recovery_points.get(key, 0),
                log_start_offset=directory.log_start_offsets.get(key, 0),
            )
        except OSError as error:
            directory.fail(error)
            return
        except KafkaError as error:
            directory.fail(OSError(f"loading {path}: {error.message}"))
            return
        log.take_stored_topic_id(topic_id)
        log.update_high_watermark(directory.high_watermarks.get(key, 0))
        self._logs[key] = log

    def _read_topic_id(
        self, directory: LogDirectory, path: str, key: TopicPartition
    ) -> bytes | None:
        """Damaged before its first sync, it is absent: the controller will name the topic."""
        try:
            return checkpoints.read_partition_topic_id(self.files, path)
        except checkpoints.CheckpointError:
            if directory.cleanly_stopped or directory.recovery_points.get(key, 0) > 0:
                raise
            self.files.remove(os.path.join(path, checkpoints.PARTITION_METADATA_FILE))
            return None

    def _open_log(
        self,
        directory: LogDirectory,
        path: str,
        key: TopicPartition,
        config: LogConfig,
        now_ms: int,
        *,
        clean: bool,
        recovery_point: int,
        log_start_offset: int,
    ) -> Log:
        expiration_ms = self.config.producer_id_expiration_ms
        parts = LogLoader(
            self.files,
            path,
            config,
            clean=clean,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            now_ms=now_ms,
            expiration_ms=expiration_ms,
            report=_Report(path),
        ).load()
        return Log(
            self.files,
            path,
            key[0],
            key[1],
            config,
            parts,
            directory.health,
            jitter=self._random_below,
            producer_expiration_ms=expiration_ms,
            validate_fully=self.config.validate_fully,
        )

    # -- logs ------------------------------------------------------------------------------

    def get_log(self, topic: str, partition: int) -> Log | None:
        """The log if it is here and its directory is online."""
        log = self._logs.get((topic, partition))
        return log if log is not None and log.health.error is None else None

    def is_offline(self, topic: str, partition: int) -> bool:
        """Whether the partition lives in a directory that is offline."""
        home = self._home.get((topic, partition))
        return home is not None and not home.is_online

    def logs(self) -> list[Log]:
        """All logs of online directories."""
        return [log for log in self._logs.values() if log.health.error is None]

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

        Unless the controller says that the replica is new, none is made while a directory is
        offline: the log may be there.
        """
        key = topic, partition
        log = self._logs.get(key)
        if log is None:
            offline = [d.path for d in self.directories if not d.is_online]
            if self.is_offline(topic, partition) or (offline and not is_new):
                raise KafkaError(
                    ErrorCode.KAFKA_STORAGE_ERROR,
                    f"Can not create log for {topic}-{partition} because log directories "
                    f"{','.join(offline)} are offline",
                )
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
        for directory in self._directories_by_load():
            path = os.path.join(directory.path, f"{key[0]}-{key[1]}")
            try:
                self.files.make_directory(path)
                log = self._open_log(
                    directory,
                    path,
                    key,
                    config,
                    now_ms,
                    clean=True,
                    recovery_point=0,
                    log_start_offset=0,
                )
            except OSError as error:
                directory.fail(error)
                continue
            self._logs[key] = log
            self._home[key] = directory
            return log
        raise KafkaError(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"No log directory can take {key[0]}-{key[1]}: {self._all_offline_message()}",
        )

    def _directories_by_load(self) -> list[LogDirectory]:
        counts = {d.path: 0 for d in self.directories}
        for home in self._home.values():
            counts[home.path] += 1
        return sorted(self.online_directories(), key=lambda d: counts[d.path])

    def delete_log(self, topic: str, partition: int, now_ms: int) -> None:
        """Rename the partition to `-delete`; its files go after file.delete.delay.ms."""
        key = topic, partition
        log = self._logs.pop(key, None)
        directory = self._home.pop(key, None)
        if log is None or directory is None:
            return
        self._deletions += 1
        path = log.rename_for_delete(f"{now_ms:016x}{self._deletions:016x}")
        self._doomed.append((now_ms + log.config.file_delete_delay_ms, directory, path))
        # A new topic of this name must not inherit the old one's checkpoints.
        self._unchecked.add(directory.path)

    # -- directories -----------------------------------------------------------------------

    def online_directories(self) -> list[LogDirectory]:
        return [d for d in self.directories if d.is_online]

    def take_newly_offline(self) -> list[tuple[str, list[TopicPartition]]]:
        """Directories that failed since the last call, with their partitions."""
        failed = []
        for directory in self.directories:
            if directory.is_online or directory.path in self._known_offline:
                continue
            self._known_offline.add(directory.path)
            lost = [key for key, home in self._home.items() if home is directory]
            for key in lost:
                log = self._logs.pop(key, None)
                if log is not None:
                    log.release()
            logger.error(
                "Log directory %s is offline (%s); its %d partitions are not served",
                directory.path,
                directory.health.error,
                len(lost),
            )
            failed.append((directory.path, lost))
        return failed

    def directory_of(self, topic: str, partition: int) -> str | None:
        home = self._home.get((topic, partition))
        return None if home is None else home.path

    def describe(self) -> list[LogDirDescription]:
        """Every directory with the sizes of its logs (DescribeLogDirs)."""
        result = []
        for directory in self.directories:
            if not directory.is_online:
                result.append(LogDirDescription(directory.path, ErrorCode.KAFKA_STORAGE_ERROR, []))
                continue
            logs = [
                (topic, partition, log.size_bytes)
                for (topic, partition), log in self._logs.items()
                if log.health is directory.health
            ]
            result.append(LogDirDescription(directory.path, ErrorCode.NONE, logs))
        return result

    # -- checkpoints -----------------------------------------------------------------------

    def checkpoint_recovery_points(self) -> None:
        """Blocks, as all of these do."""
        run_serially(job.run for job in self._checkpoint_jobs(checkpoints.RECOVERY_POINT_FILE))

    def checkpoint_log_start_offsets(self) -> None:
        run_serially(job.run for job in self._checkpoint_jobs(checkpoints.LOG_START_OFFSET_FILE))

    def _checkpoint_jobs(self, name: str, only: set[str] | None = None) -> list[Job]:
        jobs = []
        for directory in self.online_directories():
            if only is not None and directory.path not in only:
                continue
            offsets: dict[TopicPartition, int] = {}
            for key, log in self._logs.items():
                if log.health is directory.health:
                    offset = CHECKPOINTED[name](log)
                    if offset is not None:
                        offsets[key] = offset
            jobs.append(Job(f"write {name}", WriteCheckpoint(directory, name, offsets)))
        return jobs

    # -- periodic work ---------------------------------------------------------------------

    def tick(self, now_ms: int) -> list[Job]:
        """The blocking work that is due; run the jobs in order, one at a time."""
        jobs: list[Job] = []
        for log in self.logs():
            if log.take_truncated():
                self._unchecked.add(log.health.path)
        if self._unchecked:
            for name in CHECKPOINTED:
                jobs += self._checkpoint_jobs(name, self._unchecked)
            self._unchecked = set()
        if self._is_due("recovery points", now_ms, self.config.flush_offset_checkpoint_interval_ms):
            jobs += self._checkpoint_jobs(checkpoints.RECOVERY_POINT_FILE)
        interval_ms = self.config.flush_start_offset_checkpoint_interval_ms
        if self._is_due("log start offsets", now_ms, interval_ms):
            jobs += self._checkpoint_jobs(checkpoints.LOG_START_OFFSET_FILE)
        interval_ms = self.config.high_watermark_checkpoint_interval_ms
        if self._is_due("high watermarks", now_ms, interval_ms):
            jobs += self._checkpoint_jobs(checkpoints.HIGH_WATERMARK_FILE)
        interval_ms = self.config.producer_id_expiration_check_interval_ms
        if self._is_due("producer expiry", now_ms, interval_ms):
            for log in self.logs():
                log.producer_state.remove_expired(now_ms, self.config.producer_id_expiration_ms)
        if self._is_due("log start cleanup", now_ms, self.config.retention_check_interval_ms):
            for log in self.logs():
                log.delete_segments_below_log_start()
        jobs += [
            Job(f"flush {log.name}", log.flush) for log in self.logs() if log.flush_is_due(now_ms)
        ]
        jobs += self._deletion_jobs(now_ms)
        return jobs

    def _is_due(self, name: str, now_ms: int, interval_ms: int) -> bool:
        if now_ms < self._next_run.get(name, 0):
            return False
        self._next_run[name] = now_ms + interval_ms
        return True

    def _deletion_jobs(self, now_ms: int) -> list[Job]:
        for log in self.logs():
            if log.doomed_files:
                due_ms = now_ms + log.config.file_delete_delay_ms
                directory = self._home[log.topic, log.partition]
                self._doomed += [(due_ms, directory, path) for path in log.take_doomed_files()]
        due = [entry for entry in self._doomed if entry[0] <= now_ms]
        if due:
            self._doomed = [entry for entry in self._doomed if entry[0] > now_ms]
        return [Job(f"delete {path}", Delete(directory, path)) for _, directory, path in due]

    # -- stopping --------------------------------------------------------------------------

    def clean_shutdown(self, broker_epoch: int = -1) -> None:
        """Flush and close all logs, write all checkpoints and the clean-shutdown marks. Blocks."""
        failed: set[str] = set()
        for log in self.logs():
            try:
                log.flush()
                log.close()
            except KafkaError as error:
                logger.error("Not stopped cleanly: %s", error.message)
                failed.add(log.health.path)
        for name in CHECKPOINTED:
            run_serially(job.run for job in self._checkpoint_jobs(name))
        for directory in self.online_directories():
            if directory.path not in failed:
                directory.mark_clean_shutdown(broker_epoch)
        self.release()

    def release(self) -> None:
        """Let go of all files and locks, as a crash would."""
        for log in self._logs.values():
            log.release()
        for directory in self.directories:
            directory.release_lock()


_PERIODIC = (
    "recovery points",
    "log start offsets",
    "high watermarks",
    "producer expiry",
    "log start cleanup",
)


@dataclass(slots=True, frozen=True)
class _Report:
    path: str

    def __call__(self, message: str) -> None:
        logger.info("Loading %s: %s", self.path, message)


@dataclass(slots=True, frozen=True)
class _Load:
    manager: LogManager
    directory: LogDirectory
    key: TopicPartition
    config: LogConfig
    now_ms: int

    def __call__(self) -> None:
        self.manager._load_log(self.directory, self.key, self.config, self.now_ms)
