"""The embedded ZooKeeper's files: log, snapshots, session secret, lock.

Logs and snapshots are those of Apache ZooKeeper, in `version-2` of the data directory (logs in that
of another one, if so configured): each reads what the other wrote. The formats and their use are in
`zookeeper.wal` and `.snapshot_file`; here is only the writing. Rules:
- a record counts as durable after fsync of the log (and, for a new log, of the directory);
- a log begins with its first transaction, and goes on after a start; there is always a snapshot,
  without which ZooKeeper would not trust a log;
- a log is rolled and a snapshot written in the background when replaying the log would begin to
  be felt at start-up; older files are removed only after a newer snapshot is on disk;
- a snapshot that takes the place of everything counts from its first name on, `whole.snapshot`:
  what a stop left is finished at the next start;
- names of files that are no logs and no snapshots begin in another way: ZooKeeper looks at nothing
  behind the zxid;
- one process a directory (flock); a directory that is not ours is refused;
- the files of earlier versions of ours (`zookeeper.old_files`) are written anew, and removed when
  the new ones are on disk.
"""

import fcntl
import logging
import os
from pathlib import Path
from threading import Lock

import trio

from ...protocol.errors import ProtocolError
from ...zookeeper.old_files import old_files, read_old_files
from ...zookeeper.snapshot import Capture, capture
from ...zookeeper.snapshot_file import encode_snapshot
from ...zookeeper.tree import DataTree
from ...zookeeper.wal import (
    HEADER_SIZE,
    LOG_PREFIX,
    Recovered,
    RecoveryError,
    encode_records,
    is_snapshot,
    log_header,
    log_name,
    obsolete,
    recover,
    snapshot_name,
    zxid_in,
    zxid_of,
)
from ...zookeeper.zookeeper_server import ZooKeeperMachine

SNAPSHOT_TRANSACTIONS = 10_000  # at least, between two snapshots; and half the count of nodes
SNAPSHOT_LOG_BYTES = 64 * 1024 * 1024
SECRET_BYTES = 16
LOCK_FILE = "lock"
SECRET_FILE = "session.secret"
MY_ID_FILE = "myid"  # a member's number, written by its operator
VERSION_DIRECTORY = "version-2"
EPOCH_FILES = ("acceptedEpoch", "currentEpoch")  # of a member
TEMPORARY_PREFIX = "tmp."
REPLACEMENT_PREFIX = "whole."  # a snapshot that takes the place of all logs and snapshots
TORN_PREFIX = "torn."
READ_BYTES = 1 << 20

logger = logging.getLogger("pybroker.broker.zookeeper.storage")


class DataDirectoryError(Exception):
    """The data directory cannot be used; the message has the reason and the remedy."""


class ZooKeeperStorage:
    """Memory only: nothing to write, nothing to wait for."""

    directory: Path | None = None
    places: tuple[Path | None, Path | None] = (None, None)
    """The directories of snapshots and of logs."""
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

    def __init__(
        self,
        directory: Path,
        *,
        log_directory: Path | None = None,
        fsync: bool,
        cut: bool = False,
        keep: int = 0,
    ) -> None:
        """`log_directory`: where the logs are, if not in `directory` too."""
        self.directory = directory
        self._snapshots = directory / VERSION_DIRECTORY
        self._logs = (log_directory or directory) / VERSION_DIRECTORY
        self.places = (self._snapshots, self._logs)
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
            self._prepare()
            self.recovered = self._recover(cut)
            self._open_log()
            if not self.recovered.has_snapshot:
                self._put_snapshot(capture(self.recovered.tree, self.recovered.sessions))
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
        await trio.to_thread.run_sync(self._write, records)
        if captured is not None:
            self._close_log()
            nursery.start_soon(self._snapshot, captured)

    def close(self) -> None:
        self._close_log()
        os.close(self._lock)

    def _path(self, name: str) -> Path:
        return (self._logs if name.startswith(LOG_PREFIX) else self._snapshots) / name

    def _read(self, name: str) -> bytes:
        path = self._path(name)
        return read_content(path) if name.startswith(LOG_PREFIX) else path.read_bytes()

    def _names(self) -> list[str]:
        return sorted({*os.listdir(self._snapshots), *os.listdir(self._logs)})

    # The log

    def _write(self, records: list[bytes]) -> None:
        data = encode_records(records)
        is_new = self._file == -1
        if is_new:
            path = self._logs / log_name(zxid_in(records[0]))
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_TRUNC
            self._file = os.open(path, flags, 0o600)
            data = log_header() + data
        view = memoryview(data)
        while view:
            view = view[os.write(self._file, view) :]
        self._sync(self._file)
        self._log_bytes += len(data)
        if is_new:
            self._sync_directory(self._logs)

    def _close_log(self) -> None:
        """The next transaction begins a new one."""
        if self._file != -1:
            os.close(self._file)
            self._file = -1
            self._log_bytes = self._log_transactions = 0

    def _open_log(self) -> None:
        """Go on with the newest log, cut to its whole records, if it has any."""
        recovered = self.recovered
        name, valid_bytes = recovered.last_log, recovered.last_log_valid_bytes
        if name is None:
            return
        path = self._logs / name
        if path.stat().st_size > valid_bytes and (torn := read_content(path)[valid_bytes:]):
            (self._logs / (TORN_PREFIX + name)).write_bytes(torn)
        if valid_bytes <= HEADER_SIZE:
            path.unlink()
            return
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND)
        os.ftruncate(self._file, valid_bytes)
        self._sync(self._file)
        self._log_bytes = valid_bytes
        self._log_transactions = recovered.replayed

    def _sync(self, file: int) -> None:
        if self._fsync:
            os.fsync(file)

    def _sync_directory(self, directory: Path) -> None:
        if not self._fsync:
            return
        handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
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
        temporary = self._write_temporary(captured)
        try:
            with self._files:
                if generation != self._generation:
                    return
                temporary.rename(self._snapshots / snapshot_name(captured.zxid))
                self._sync_directory(self._snapshots)
                for name in obsolete(self._names()):
                    self._path(name).unlink(missing_ok=True)
                    (self._logs / (TORN_PREFIX + name)).unlink(missing_ok=True)
        finally:
            temporary.unlink(missing_ok=True)

    def _put_snapshot(self, captured: Capture, prefix: str = "") -> None:
        name = snapshot_name(captured.zxid)
        self._write_temporary(captured).rename(self._snapshots / (prefix + name))
        self._sync_directory(self._snapshots)

    def _write_temporary(self, captured: Capture) -> Path:
        temporary = self._snapshots / (TEMPORARY_PREFIX + snapshot_name(captured.zxid))
        with temporary.open("wb") as file:
            for chunk in encode_snapshot(captured):
                file.write(chunk)
            file.flush()
            self._sync(file.fileno())
        return temporary

    def _finish_replacement(self) -> None:
        """If a snapshot is to take the place of everything, remove the rest, and name it."""
        names = self._names()
        given = [name for name in names if name.startswith(REPLACEMENT_PREFIX)]
        if not given:
            return
        replacement = given[-1]
        for name in names:
            if zxid_of(name) is not None:
                self._path(name).unlink()
        self._sync_directory(self._logs)
        self._sync_directory(self._snapshots)
        (self._snapshots / replacement).rename(
            self._snapshots / replacement.removeprefix(REPLACEMENT_PREFIX)
        )
        self._sync_directory(self._snapshots)

    # Start

    def _prepare(self) -> None:
        """Make the directories, and finish what a stop left."""
        assert self.directory is not None
        for directory in (self._snapshots, self._logs):
            if not directory.is_dir():
                directory.mkdir(parents=True)
                self._sync_directory(directory.parent)
        if self._logs != self._snapshots:
            self._check_directories()
        for name in self._names():
            if name.startswith(TEMPORARY_PREFIX):
                self._path(name).unlink(missing_ok=True)
        self._finish_replacement()
        self._upgrade(self.directory)

    def _check_directories(self) -> None:
        """As ZooKeeper does, lest a log be overlooked."""
        for directory, others in ((self._snapshots, "log."), (self._logs, "snapshot.")):
            strange = [name for name in os.listdir(directory) if name.startswith(others)]
            if strange:
                raise DataDirectoryError(
                    f"{directory} has {strange[0]}: check dataDir and dataLogDir, or move the logs"
                    " to the directory of logs"
                )

    def _upgrade(self, directory: Path) -> None:
        """Write what earlier versions of ours wrote anew, then remove theirs."""
        names = os.listdir(directory)
        epochs = [name for name in EPOCH_FILES if name in names]
        old = old_files(names)
        if not (old or epochs):
            return
        if not any(is_snapshot(name) for name in self._names()):
            try:
                tree, sessions = read_old_files(old, lambda name: (directory / name).read_bytes())
            except (ProtocolError, OSError) as error:
                raise DataDirectoryError(
                    f"cannot read the files of an earlier version in {directory}: {error}. Nothing"
                    " was changed. Restore the file from a copy, or drop everything from there on"
                    " with the earlier version: `pybroker zookeeper --cut-damaged-log`"
                ) from error
            for name in epochs:
                self._write_file(self._snapshots / name, (directory / name).read_bytes())
            self._put_snapshot(capture(tree, sessions))
            logger.warning(
                "the files in %s have the format of an earlier version: written anew in that of"
                " Apache ZooKeeper, at transaction %#x",
                directory,
                tree.last_zxid,
            )
        for name in (*epochs, *old):
            (directory / name).unlink()

    def _recover(self, cut: bool) -> Recovered:
        names = self._names()
        try:
            recovered = recover(names, self._read, cut=cut, keep=self._keep)
        except RecoveryError as error:
            is_one = self._logs == self._snapshots
            directories = f"--data-dir {self.directory}" if is_one else "zoo.cfg"
            raise DataDirectoryError(
                f"cannot recover the ZooKeeper data in {self.directory}: {error}. Nothing was"
                " changed. Restore the file from a copy; or drop everything from there on:"
                f" `pybroker zookeeper {directories} --cut-damaged-log`, then start again; or start"
                " with an empty directory (this loses the cluster's metadata)"
            ) from error
        for note in recovered.notes:
            logger.warning("recovering %s: %s", self.directory, note)
        for name in recovered.put_aside:
            path = self._path(name)
            path.rename(path.with_name(TORN_PREFIX + name))
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
        if secret or self._has_snapshots():
            logger.warning(
                "%s is missing or damaged: sessions that this server made alone cannot be resumed",
                path,
            )
        secret = os.urandom(SECRET_BYTES)
        self._write_file(path, secret)
        return secret

    def _has_snapshots(self) -> bool:
        """Of this version or of an earlier one."""
        assert self.directory is not None
        places = [place for place in (self.directory, self._snapshots) if place.is_dir()]
        return any(is_snapshot(name) for place in places for name in os.listdir(place))

    def _write_file(self, path: Path, content: bytes) -> None:
        """In place of an older one, or not at all."""
        temporary = path.with_name(TEMPORARY_PREFIX + path.name)
        file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            os.write(file, content)
            self._sync(file)
        finally:
            os.close(file)
        temporary.rename(path)
        self._sync_directory(path.parent)


def read_content(path: Path) -> bytes:
    """A log without the zeros at its end, of which ZooKeeper's have 64 MB."""
    pieces: list[bytes] = []
    zeros = bytes(READ_BYTES)
    skipped = 0
    with path.open("rb", buffering=0) as file:
        while piece := file.read(READ_BYTES):
            if piece == zeros:
                skipped += 1
                continue
            pieces += [zeros] * skipped
            skipped = 0
            pieces.append(piece)
    return b"".join(pieces).rstrip(b"\0")


def cut_damaged_log(data_dir: Path, log_dir: Path | None = None) -> Recovered:
    """Recover the log up to the first damage, and put the rest aside (`torn.log`).

    Raises DataDirectoryError or OSError, also if there is nothing to recover.
    """
    if not data_dir.is_dir():
        raise DataDirectoryError(f"there is no directory {data_dir}")
    storage = FileStorage(data_dir, log_directory=log_dir, fsync=True, cut=True)
    storage.close()
    return storage.recovered


def open_storage(
    data_dir: Path | None, log_dir: Path | None = None, *, fsync: bool
) -> ZooKeeperStorage:
    """Raises DataDirectoryError or OSError."""
    if data_dir is None:
        return ZooKeeperStorage()
    data_dir.mkdir(parents=True, exist_ok=True)
    return FileStorage(data_dir, log_directory=log_dir, fsync=fsync)


def _lock(directory: Path) -> int:
    """Lock the directory for this process, after a check that it is ours (or empty)."""
    names = {name for name in os.listdir(directory) if not name.startswith(".")} - {MY_ID_FILE}
    ours = {LOCK_FILE, SECRET_FILE, VERSION_DIRECTORY}
    if names and not names & ours and not old_files(sorted(names)):
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
