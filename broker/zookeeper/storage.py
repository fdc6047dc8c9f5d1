"""The embedded ZooKeeper's files: log, snapshots, session secret, lock.

A tiny seam: the formats and their use are in `zookeeper.wal` and `.snapshot`; here is only the
writing. Rules:
- a record counts as durable after fsync of the log (and, for a new log, of the directory);
- a log is rolled and a snapshot written in the background when replaying the log would begin to
  be felt at start-up; older files are removed only after a newer snapshot is on disk;
- a snapshot that takes the place of everything counts from its first name on, `.whole`: what a
  stop left is finished at the next start;
- one process a directory (flock); a directory that is not ours is refused.
"""

import fcntl
import logging
import os
from pathlib import Path
from threading import Lock

import trio

from ...zookeeper.snapshot import Capture, capture, encode_snapshot
from ...zookeeper.tree import DataTree
from ...zookeeper.wal import (
    Recovered,
    RecoveryError,
    encode_records,
    is_snapshot,
    log_header,
    log_name,
    obsolete,
    recover,
    snapshot_name,
    zxid_of,
)
from ...zookeeper.zookeeper_server import ZooKeeperMachine

SNAPSHOT_TRANSACTIONS = 10_000  # at least, between two snapshots; and half the count of nodes
SNAPSHOT_LOG_BYTES = 64 * 1024 * 1024
SECRET_BYTES = 16
LOCK_FILE = "lock"
SECRET_FILE = "session.secret"
MY_ID_FILE = "myid"  # a member's number, written by its operator
TEMPORARY_SUFFIX = ".tmp"
REPLACEMENT_SUFFIX = ".whole"  # a snapshot that takes the place of all logs and snapshots
TORN_SUFFIX = ".torn"

logger = logging.getLogger("pybroker.broker.zookeeper.storage")


class DataDirectoryError(Exception):
    """The data directory cannot be used; the message has the reason and the remedy."""


class ZooKeeperStorage:
    """Memory only: nothing to write, nothing to wait for."""

    directory: Path | None = None
    is_durable = False

    def __init__(self) -> None:
        self.secret = os.urandom(SECRET_BYTES)
        self.recovered = Recovered(DataTree(), {}, None, 0, 0, [])

    async def append(
        self, records: list[bytes], machine: ZooKeeperMachine, nursery: trio.Nursery
    ) -> None:
        """Make records durable. The machine is in the state right after the last of them."""

    def close(self) -> None:
        pass


class FileStorage(ZooKeeperStorage):
    is_durable = True

    def __init__(self, directory: Path, *, fsync: bool, cut: bool = False, keep: int = 0) -> None:
        self.directory = directory
        self._keep = keep
        # A snapshot in the background gives up when the files are cut or replaced meanwhile.
        self._generation = 0
        self._files = Lock()
        self._fsync = fsync
        self._file = -1
        self._log_bytes = 0
        self._log_transactions = 0
        self._is_snapshotting = False
        self._lock = _lock(directory)
        try:
            self.secret = self._read_or_create_secret()
            self.recovered = self._recover(cut)
            self._open_log()
        except BaseException:
            self.close()
            raise

    async def append(
        self, records: list[bytes], machine: ZooKeeperMachine, nursery: trio.Nursery
    ) -> None:
        self._log_transactions += len(records)
        captured = None
        if self._snapshot_is_due(machine.tree):
            captured = capture(machine.tree, machine.sessions.timeouts_ms())
            self._is_snapshotting = True
        await trio.to_thread.run_sync(self._write, encode_records(records))
        if captured is not None:
            await trio.to_thread.run_sync(self._roll, captured.zxid + 1)
            nursery.start_soon(self._snapshot, captured)

    def close(self) -> None:
        if self._file != -1:
            os.close(self._file)
            self._file = -1
        os.close(self._lock)

    # The log

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._file, view) :]
        self._sync(self._file)
        self._log_bytes += len(data)

    def _roll(self, first_zxid: int) -> None:
        assert self.directory is not None
        path = self.directory / log_name(first_zxid)
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_TRUNC, 0o600)
        if self._file != -1:
            os.close(self._file)
        self._file = file
        self._log_bytes = self._log_transactions = 0
        self._write(log_header())
        self._sync_directory()

    def _open_log(self) -> None:
        """Go on with the newest log, cut to its whole records, or begin a new one."""
        assert self.directory is not None
        recovered = self.recovered
        if recovered.last_log is None or recovered.last_log_valid_bytes == 0:
            if recovered.last_log is not None:
                (self.directory / recovered.last_log).unlink()
            self._roll(recovered.tree.last_zxid + 1)
            return
        path = self.directory / recovered.last_log
        size = path.stat().st_size
        if size > recovered.last_log_valid_bytes:
            with path.open("rb") as whole:
                whole.seek(recovered.last_log_valid_bytes)
                path.with_name(path.name + TORN_SUFFIX).write_bytes(whole.read())
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND)
        os.ftruncate(self._file, recovered.last_log_valid_bytes)
        self._sync(self._file)
        self._log_bytes = recovered.last_log_valid_bytes
        self._log_transactions = recovered.replayed

    def _sync(self, file: int) -> None:
        if self._fsync:
            os.fsync(file)

    def _sync_directory(self) -> None:
        assert self.directory is not None
        if not self._fsync:
            return
        handle = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    # Snapshots

    def _snapshot_is_due(self, tree: DataTree) -> bool:
        if self._is_snapshotting:
            return False
        enough = max(SNAPSHOT_TRANSACTIONS, tree.node_count // 2)
        return self._log_transactions >= enough or self._log_bytes >= SNAPSHOT_LOG_BYTES

    async def _snapshot(self, captured: Capture) -> None:
        try:
            await trio.to_thread.run_sync(self._write_snapshot, captured, self._generation)
        except OSError as error:
            # The logs still hold everything: nothing is lost, the next start only takes longer.
            logger.error("cannot write a snapshot in %s: %s", self.directory, error)
        finally:
            self._is_snapshotting = False

    def _write_snapshot(self, captured: Capture, generation: int) -> None:
        assert self.directory is not None
        final = self.directory / snapshot_name(captured.zxid)
        temporary = final.with_name(final.name + TEMPORARY_SUFFIX)
        try:
            with temporary.open("wb") as file:
                for chunk in encode_snapshot(captured):
                    file.write(chunk)
                file.flush()
                self._sync(file.fileno())
            with self._files:
                if generation != self._generation:
                    return
                temporary.rename(final)
                self._sync_directory()
                for name in obsolete(os.listdir(self.directory)):
                    (self.directory / name).unlink(missing_ok=True)
                    (self.directory / (name + TORN_SUFFIX)).unlink(missing_ok=True)
        finally:
            temporary.unlink(missing_ok=True)

    def _finish_replacement(self) -> None:
        """If a snapshot is to take the place of everything, remove the rest, and name it."""
        assert self.directory is not None
        names = os.listdir(self.directory)
        given = sorted(name for name in names if name.endswith(REPLACEMENT_SUFFIX))
        if not given:
            return
        replacement = given[-1]
        for name in names:
            if zxid_of(name) is not None:
                (self.directory / name).unlink()
        self._sync_directory()
        (self.directory / replacement).rename(
            self.directory / replacement.removesuffix(REPLACEMENT_SUFFIX)
        )
        self._sync_directory()

    # Start

    def _recover(self, cut: bool) -> Recovered:
        assert self.directory is not None
        directory = self.directory
        self._finish_replacement()
        names = sorted(os.listdir(directory))
        try:
            recovered = recover(
                names, lambda name: (directory / name).read_bytes(), cut=cut, keep=self._keep
            )
        except RecoveryError as error:
            raise DataDirectoryError(
                f"cannot recover the ZooKeeper data in {directory}: {error}. Nothing was changed."
                " Restore the file from a copy; or drop everything from there on: `pybroker"
                f" zookeeper --data-dir {directory} --cut-damaged-log`, then start again; or"
                " start with an empty directory (this loses the cluster's metadata)"
            ) from error
        for note in recovered.notes:
            logger.warning("recovering %s: %s", directory, note)
        for name in recovered.put_aside:
            (directory / name).rename(directory / (name + TORN_SUFFIX))
        return recovered

    def _read_or_create_secret(self) -> bytes:
        assert self.directory is not None
        path = self.directory / SECRET_FILE
        try:
            secret = path.read_bytes()
        except FileNotFoundError:
            secret = b""
        if len(secret) == SECRET_BYTES:
            return secret
        if secret or any(is_snapshot(name) for name in os.listdir(self.directory)):
            logger.warning("%s is damaged: earlier sessions cannot be resumed", path)
        secret = os.urandom(SECRET_BYTES)
        temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
        file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            os.write(file, secret)
            self._sync(file)
        finally:
            os.close(file)
        temporary.rename(path)
        self._sync_directory()
        return secret


def cut_damaged_log(data_dir: Path) -> Recovered:
    """Recover the log up to the first damage, and put the rest aside (`.torn`).

    Raises DataDirectoryError or OSError, also if there is nothing to recover.
    """
    if not data_dir.is_dir():
        raise DataDirectoryError(f"there is no directory {data_dir}")
    storage = FileStorage(data_dir, fsync=True, cut=True)
    storage.close()
    return storage.recovered


def open_storage(data_dir: Path | None, *, fsync: bool) -> ZooKeeperStorage:
    """Raises DataDirectoryError or OSError."""
    if data_dir is None:
        return ZooKeeperStorage()
    data_dir.mkdir(parents=True, exist_ok=True)
    return FileStorage(data_dir, fsync=fsync)


def _lock(directory: Path) -> int:
    """Lock the directory for this process, after a check that it is ours (or empty)."""
    names = {name for name in os.listdir(directory) if not name.startswith(".")} - {MY_ID_FILE}
    ours = {LOCK_FILE, SECRET_FILE}
    if "version-2" in names:
        raise DataDirectoryError(
            f"{directory} holds the data of Apache ZooKeeper; choose another --data-dir"
        )
    if names and not names & ours and not any(zxid_of(name) is not None for name in names):
        raise DataDirectoryError(
            f"{directory} is not empty and holds no ZooKeeper data of ours; choose another"
            " --data-dir"
        )
    lock = os.open(directory / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise DataDirectoryError(
            f"{directory} is in use by another process; stop it or choose another --data-dir"
        ) from None
    return lock
