"""All logs of a broker, over all its log directories.

Loading takes the checkpoints and the clean-shutdown mark of each directory; a directory with an
I/O error goes offline while the others live on. New partitions go to the directory that was asked
for, else to the one with the fewest. A partition may have a second log in another directory, its
future replica (`-future`), which takes the first one's place when it has caught up. Periodic work
is in `log_upkeep`.

Invariants: a partition's log and its future one are in different directories; both maps are the
loop's, save while loading.

Mirrors: LogManager.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence

from ..protocol.errors import ErrorCode, KafkaError
from .checkpoints import TopicPartition
from .descriptors import LEFT_BY_PARTITIONS, require_descriptors
from .files import Files
from .log import Log
from .log_base import delete_name
from .log_config import LogConfig, LogManagerConfig
from .log_directory import (
    LogDirDescription,
    LogDirectory,
    LogSize,
    StartupError,
    future_name,
)
from .log_jobs import CHECKPOINTED, Job, PrepareSwap, run_serially
from .log_loading import Checkpointed, Run, load_directories, open_log
from .log_upkeep import LogUpkeep
from .recovery_notes import note_new

__all__ = ["Job", "LogDirDescription", "LogManager", "LogManagerConfig", "StartupError"]

logger = logging.getLogger(__name__)


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
        self.random_below = random_below
        self.upkeep = LogUpkeep(self)
        self.homes: dict[TopicPartition, LogDirectory] = {}
        self.future_homes: dict[TopicPartition, LogDirectory] = {}
        self._logs: dict[TopicPartition, Log] = {}
        self._future_logs: dict[TopicPartition, Log] = {}
        # Partitions whose files are damaged, and where; the rest of the directory is served.
        self._failed: dict[TopicPartition, Sequence[str]] = {}
        # Where a replica is to be made, asked for before it exists.
        self._preferred: dict[TopicPartition, str] = {}
        self._known_offline: set[str] = set()
        self._unique_ids = 0

    # -- loading ---------------------------------------------------------------------------

    def load(
        self,
        now_ms: int,
        topic_configs: Mapping[str, LogConfig] | None = None,
        run_all: Run | None = None,
    ) -> None:
        """Open all directories and recover all logs in them; StartupError if that cannot be, an
        OSError if there are too few descriptors.

        `run_all` may run the loads of one directory in parallel
        (num.recovery.threads.per.data.dir).
        """
        try:
            load_directories(self, now_ms, topic_configs or {}, run_all or run_serially)
        except (StartupError, OSError):
            self.release()
            raise
        self.upkeep.begin(now_ms)

    def loaded(self, key: TopicPartition, log: Log, *, is_future: bool) -> None:
        (self._future_logs if is_future else self._logs)[key] = log

    def is_to_be_loaded(self, key: TopicPartition, is_future: bool) -> bool:
        return is_future or key not in self._failed

    def failed_to_load(self, key: TopicPartition, paths: Sequence[str], reason: str) -> None:
        """Something is wrong with the files of one partition: it alone is offline."""
        logger.error("The partition %s-%d is offline: %s", *key, reason)
        self._failed[key] = paths

    def drop_future(self, key: TopicPartition, path: str, reason: str, now_ms: int) -> None:
        """A copy on its way to another directory that cannot be loaded."""
        logger.error("The copy %s is dropped, ask for the move again: %s", path, reason)
        if self.future_homes[key].path == os.path.dirname(path):
            del self.future_homes[key]
        self._delete_directory(key, path, now_ms)

    def failed_in(self, directory: LogDirectory) -> list[TopicPartition]:
        """The partitions of a directory that could not be loaded."""
        return [key for key in self._failed if self.homes.get(key) is directory]

    def check_online(self) -> None:
        """Raises StartupError if no directory is left to work on."""
        if not self.online_directories():
            raise StartupError(self._all_offline_message())

    def _all_offline_message(self) -> str:
        reasons = "; ".join(f"{d.path}: {d.health.error}" for d in self.directories)
        return (
            f"Shutdown broker because none of the specified log dirs can be used: {reasons}; mend "
            "what is named here, then start again"
        )

    # -- logs ------------------------------------------------------------------------------

    def get_log(self, topic: str, partition: int) -> Log | None:
        """The log if it is here and its directory is online."""
        log = self._logs.get((topic, partition))
        return log if log is not None and log.health.error is None else None

    def is_offline(self, topic: str, partition: int) -> bool:
        """Whether the partition lives in a directory that is offline, or could not be loaded."""
        home = self.homes.get((topic, partition))
        return (topic, partition) in self._failed or (home is not None and not home.is_online)

    def logs(self) -> list[Log]:
        """All logs of online directories, future replicas aside."""
        return [log for log in self._logs.values() if log.health.error is None]

    def future_logs(self) -> list[Log]:
        return [log for log in self._future_logs.values() if log.health.error is None]

    def logs_in(self, directory: LogDirectory) -> Iterator[Log]:
        """The logs in one directory, future replicas too."""
        for logs in (self._logs, self._future_logs):
            for log in logs.values():
                if log.health is directory.health:
                    yield log

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
        if key in self._failed:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"The files of {topic}-{partition} in {self._failed[key][0]} are damaged",
            )
        if log is None:
            if self.is_offline(topic, partition) or not is_new:
                self._check_all_online(key)
            log = self._create_log(key, config or self.default_config, now_ms)
        elif log.health.error is not None:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"Log {topic}-{partition} is in the offline log directory {log.health.path}",
            )
        if topic_id is not None and any(topic_id):
            log.assign_topic_id(topic_id)
        return log

    def _check_all_online(self, key: TopicPartition) -> None:
        offline = [d.path for d in self.directories if not d.is_online]
        if offline:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"Can not create log for {key[0]}-{key[1]} because log directories "
                f"{','.join(offline)} are offline",
            )

    def _create_log(self, key: TopicPartition, config: LogConfig, now_ms: int) -> Log:
        preferred = self._preferred.get(key)
        candidates = (
            self._directories_by_load()
            if preferred is None
            else [d for d in self.online_directories() if d.path == preferred]
        )
        for directory in candidates:
            log = self._create_in(directory, key, f"{key[0]}-{key[1]}", config, now_ms)
            if log is not None:
                self._logs[key] = log
                self.homes[key] = directory
                self._preferred.pop(key, None)
                return log
        raise KafkaError(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"No log directory can take {key[0]}-{key[1]}: {self._all_offline_message()}",
        )

    def _create_in(
        self,
        directory: LogDirectory,
        key: TopicPartition,
        name: str,
        config: LogConfig,
        now_ms: int,
    ) -> Log | None:
        require_descriptors(self.files, f"creating {name}", leaving=LEFT_BY_PARTITIONS)
        path = os.path.join(directory.path, name)
        try:
            if directory.health.may_be_checkpointed(key):
                self._make_noted_directory(directory, key, path, now_ms)
            else:
                self.files.make_directory(path)
            return open_log(self, directory, path, key, config, now_ms, Checkpointed())
        except OSError as error:
            directory.fail(error)
            return None

    def _make_noted_directory(
        self, directory: LogDirectory, key: TopicPartition, path: str, now_ms: int
    ) -> None:
        """In place of a log that was deleted; a crash must not show it without the note."""
        unborn = os.path.join(directory.path, delete_name(*key, self.unique_id(now_ms)))
        while self.files.exists(unborn):
            unborn = os.path.join(directory.path, delete_name(*key, self.unique_id(now_ms)))
        self.files.make_directory(unborn)
        note_new(self.files, unborn)
        self.files.rename(unborn, path)
        self.upkeep.checkpoint_soon(directory)

    def _directories_by_load(self) -> list[LogDirectory]:
        counts = {d.path: 0 for d in self.directories}
        for homes in (self.homes, self.future_homes):
            for home in homes.values():
                counts[home.path] += 1
        return sorted(self.online_directories(), key=lambda d: counts[d.path])

    def unique_id(self, now_ms: int) -> str:
        """The 32 hexadecimal digits in the names of directories that come and go."""
        self._unique_ids += 1
        number = self.random_below(1 << 64) if self.random_below else self._unique_ids
        return f"{now_ms:016x}{number:016x}"

    def delete_log(self, topic: str, partition: int, now_ms: int) -> None:
        """Rename the partition to `-delete`; its files go after file.delete.delay.ms."""
        key = topic, partition
        self.delete_future_log(topic, partition, now_ms)
        log = self._logs.pop(key, None)
        directory = self.homes.pop(key, None)
        if log is not None and directory is not None:
            self._delete(log, directory, now_ms)

    def delete_failed(self, topic: str, partition: int, now_ms: int) -> bool:
        """Delete a partition that could not be loaded; False if this is none."""
        key = topic, partition
        paths = self._failed.get(key)
        if paths is None or not self.homes[key].is_online:
            return False
        for path in paths:
            self._delete_directory(key, path, now_ms)
        del self._failed[key], self.homes[key]
        return True

    def _delete_directory(self, key: TopicPartition, path: str, now_ms: int) -> None:
        """Of a log that is not loaded."""
        (directory,) = (d for d in self.directories if d.path == os.path.dirname(path))
        target = os.path.join(directory.path, delete_name(*key, self.unique_id(now_ms)))
        try:
            self.files.rename(path, target)
        except OSError as error:
            logger.error("%s cannot be removed: %s", path, error)
            return
        self.upkeep.doom(directory, target, now_ms)
        self.upkeep.checkpoint_soon(directory)

    def _delete(self, log: Log, directory: LogDirectory, now_ms: int) -> None:
        path = log.rename_for_delete(self.unique_id(now_ms))
        self.upkeep.doom(directory, path, now_ms + log.config.file_delete_delay_ms)
        # A new topic of this name must not inherit the old one's checkpoints.
        self.upkeep.checkpoint_soon(directory)

    # -- replicas that move to another directory ---------------------------------------------

    def future_log(self, topic: str, partition: int) -> Log | None:
        """The copy that is to take the partition's place, if it is moved to another directory."""
        log = self._future_logs.get((topic, partition))
        return log if log is not None and log.health.error is None else None

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
        assert path != self.directory_of(*key), "a replica cannot be moved to where it is"
        self._check_all_online(key)
        (directory,) = (d for d in self.directories if d.path == path)
        name = future_name(topic, partition, self.unique_id(now_ms))
        log = self._create_in(directory, key, name, config, now_ms)
        if log is None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"Log directory {path} is offline")
        current = self._logs[key]
        if current.topic_id is not None:
            log.assign_topic_id(current.topic_id)
        self._future_logs[key] = log
        self.future_homes[key] = directory
        self._preferred.pop(key, None)
        return log

    def delete_future_log(self, topic: str, partition: int, now_ms: int) -> None:
        """The replica is not to be moved any more."""
        key = topic, partition
        log = self._future_logs.pop(key, None)
        directory = self.future_homes.pop(key, None)
        if log is not None and directory is not None:
            self._delete(log, directory, now_ms)

    def preparation(self, topic: str, partition: int) -> Callable[[], None]:
        """What must be done, and blocks, before the future replica takes over: its flush, and
        the mark by which a crash between the two renames is known."""
        key = topic, partition
        return PrepareSwap(self._logs[key], self._future_logs[key])

    def replace_with_future(self, topic: str, partition: int, now_ms: int) -> Log:
        """The future replica is the partition's log from now on; the old one is deleted."""
        key = topic, partition
        old, new = self._logs[key], self._future_logs[key]
        assert new.log_end_offset == old.log_end_offset, "the copy is not complete"
        new.move(f"{topic}-{partition}")
        new.update_high_watermark(old.high_watermark)
        new.first_dirty_offset = old.first_dirty_offset
        new.producer_state.verifications = old.producer_state.verifications
        old_home, new_home = self.homes[key], self.future_homes[key]
        del self._future_logs[key], self.future_homes[key]
        self._logs[key] = new
        self.homes[key] = new_home
        self.upkeep.checkpoint_soon(new_home)
        try:
            self._delete(old, old_home, now_ms)
        except KafkaError as error:
            # The old directory is offline, with a replica in it that nobody needs.
            logger.error("The replaced %s is left where it was: %s", old.name, error.message)
        return new

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
            lost = [key for key, home in self.homes.items() if home is directory]
            for key in lost:
                log = self._logs.pop(key, None)
                if log is not None:
                    log.release()
            for key in [key for key, home in self.future_homes.items() if home is directory]:
                del self.future_homes[key]
                future = self._future_logs.pop(key, None)
                if future is not None:
                    future.release()
            logger.error(
                "Log directory %s is offline (%s); its %d partitions are not served",
                directory.path,
                directory.health.error,
                len(lost),
            )
            failed.append((directory.path, lost))
        return failed

    def directory_of(self, topic: str, partition: int) -> str | None:
        home = self.homes.get((topic, partition))
        return None if home is None else home.path

    def future_directory_of(self, topic: str, partition: int) -> str | None:
        home = self.future_homes.get((topic, partition))
        return None if home is None else home.path

    def describe(self) -> list[LogDirDescription]:
        """Every directory with the sizes of its logs (DescribeLogDirs), which are looked at while
        somebody iterates over them: there may be many."""
        result = []
        for directory in self.directories:
            error = ErrorCode.NONE if directory.is_online else ErrorCode.KAFKA_STORAGE_ERROR
            sizes = iter(()) if error else self._sizes(directory)
            result.append(LogDirDescription(directory.path, error, sizes))
        return result

    def _sizes(self, directory: LogDirectory) -> Iterator[LogSize]:
        for logs, is_future in ((self._logs, False), (self._future_logs, True)):
            for key, log in list(logs.items()):
                if log.health is directory.health and logs.get(key) is log:
                    yield LogSize(*key, log.size_bytes, is_future)

    # -- upkeep ----------------------------------------------------------------------------

    def tick(self, now_ms: int) -> list[Job]:
        """The blocking work that is due; run the jobs in order, one at a time."""
        return self.upkeep.tick(now_ms)

    def retain(self, now_ms: int) -> Iterator[None]:
        """Delete old segments where that is due; others may have their turn at each step."""
        return self.upkeep.retain(now_ms)

    # -- stopping --------------------------------------------------------------------------

    def clean_shutdown(self, broker_epoch: int = -1) -> None:
        """Flush and close all logs, write all checkpoints and the clean-shutdown marks. Blocks."""
        failed: set[str] = set()
        for log in self.logs() + self.future_logs():
            try:
                log.flush()
                log.close()
            except KafkaError as error:
                logger.error("Not stopped cleanly: %s", error.message)
                failed.add(log.health.path)
        for name in CHECKPOINTED:
            run_serially(job.run for job in self.upkeep.checkpoint_jobs(name))
        online = [directory.path for directory in self.online_directories()]
        run_serially(job.run for job in self.upkeep.new_log_jobs(online))
        for directory in self.online_directories():
            if directory.path not in failed:
                directory.mark_clean_shutdown(broker_epoch)
        self.release()

    def release(self) -> None:
        """Let go of all files and locks, as a crash would."""
        for logs in (self._logs, self._future_logs):
            for log in logs.values():
                log.release()
        for directory in self.directories:
            directory.release_lock()
