"""The files of a member of an ensemble: those of one server alone, and its epochs.

Mirrors the use of `FileTxnSnapLog` by `Learner`, and `QuorumPeer`'s files acceptedEpoch and
currentEpoch, which have a number each, as there. Every call here returns when its effect is on
disk. None may come while records are being written: the member sees to it.

When the whole state is replaced, a stop in between leaves the new state, the earlier one, or (only
if the new state ends before it) a beginning of the earlier one.
"""

import os
from collections.abc import Iterable
from pathlib import Path

import trio

from ...zookeeper.quorum.history import KEPT
from ...zookeeper.quorum.learner import Epochs
from ...zookeeper.snapshot import Capture, encode_snapshot
from ...zookeeper.tree import DataTree
from ...zookeeper.wal import is_snapshot, snapshot_name, truncation, zxid_of
from ...zookeeper.zookeeper_server import ZooKeeperMachine
from .storage import TEMPORARY_SUFFIX, DataDirectoryError, FileStorage

ACCEPTED_FILE = "acceptedEpoch"
CURRENT_FILE = "currentEpoch"


class MemberStorage(FileStorage):
    def __init__(self, directory: Path, *, fsync: bool) -> None:
        super().__init__(directory, fsync=fsync, keep=KEPT)
        try:
            self._last_zxid = self.recovered.tree.last_zxid
            last_epoch = self.recovered.tree.last_zxid >> 32
            current = self._read_epoch(CURRENT_FILE, last_epoch)
            self._epochs = Epochs(self._read_epoch(ACCEPTED_FILE, current), current)
        except BaseException:
            self.close()
            raise

    @property
    def epochs(self) -> Epochs:
        return self._epochs

    def save_accepted_epoch(self, epoch: int) -> None:
        self._write_epoch(ACCEPTED_FILE, epoch)
        self._epochs = self._epochs._replace(accepted=epoch)

    def save_current_epoch(self, epoch: int) -> None:
        self._write_epoch(CURRENT_FILE, epoch)
        self._epochs = self._epochs._replace(current=epoch)

    def truncate(self, zxid: int) -> tuple[DataTree, dict[int, int]] | None:
        assert self.directory is not None
        directory = self.directory
        names = sorted(os.listdir(directory))
        plan = truncation(names, lambda name: (directory / name).read_bytes(), zxid)
        if plan is None:
            return None
        with self._files:
            self._generation += 1
            self._close_log()
            for name in plan.removed:
                (directory / name).unlink()
            if plan.cut is not None:
                with (directory / plan.cut).open("r+b") as log:
                    log.truncate(plan.cut_at)
                    self._sync(log.fileno())
            self._sync_directory()
            self.recovered = plan.recovered
            self._last_zxid = zxid
            self._open_log()
        return plan.recovered.tree, plan.recovered.sessions

    def install(self, captured: Capture) -> None:
        assert self.directory is not None
        directory = self.directory
        final = directory / snapshot_name(captured.zxid)
        temporary = final.with_name(final.name + TEMPORARY_SUFFIX)
        with self._files:
            self._generation += 1
            with temporary.open("wb") as file:
                for chunk in encode_snapshot(captured):
                    file.write(chunk)
                file.flush()
                self._sync(file.fileno())
            self._close_log()
            names = [name for name in os.listdir(directory) if zxid_of(name) is not None]
            snapshots = sorted(filter(is_snapshot, names))
            logs = sorted(name for name in names if not is_snapshot(name))
            if captured.zxid >= self._last_zxid:
                temporary.rename(final)
                self._sync_directory()
                self._remove([name for name in [*snapshots, *logs] if name != final.name])
            else:
                later = [name for name in snapshots if (zxid_of(name) or 0) > captured.zxid]
                self._remove([*reversed(logs), *later])
                temporary.rename(final)
                self._sync_directory()
                self._remove([name for name in snapshots if name not in (*later, final.name)])
            self._last_zxid = captured.zxid
            self._roll(captured.zxid + 1)

    async def append(
        self, records: list[bytes], machine: ZooKeeperMachine, nursery: trio.Nursery
    ) -> None:
        self._last_zxid = machine.tree.last_zxid
        await super().append(records, machine, nursery)

    def _remove(self, names: Iterable[str]) -> None:
        assert self.directory is not None
        for name in names:
            (self.directory / name).unlink()
        self._sync_directory()

    def _close_log(self) -> None:
        if self._file != -1:
            os.close(self._file)
            self._file = -1

    def _read_epoch(self, name: str, without: int) -> int:
        assert self.directory is not None
        path = self.directory / name
        try:
            return int(path.read_text().strip())
        except FileNotFoundError:
            return without
        except ValueError:
            raise DataDirectoryError(
                f"{path} has no number: restore it from a copy, or replace this member (an empty"
                " directory, with its file myid)"
            ) from None

    def _write_epoch(self, name: str, epoch: int) -> None:
        assert self.directory is not None
        path = self.directory / name
        temporary = path.with_name(name + TEMPORARY_SUFFIX)
        with temporary.open("w") as file:
            file.write(str(epoch))
            file.flush()
            self._sync(file.fileno())
        temporary.rename(path)
        self._sync_directory()


def open_member_storage(data_dir: Path, *, fsync: bool) -> MemberStorage:
    """Raises DataDirectoryError or OSError."""
    data_dir.mkdir(parents=True, exist_ok=True)
    return MemberStorage(data_dir, fsync=fsync)
