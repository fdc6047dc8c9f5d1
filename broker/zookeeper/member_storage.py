"""The files of a member of an ensemble: those of one server alone, and its epochs.

Mirrors the use of `FileTxnSnapLog` by `Learner`, and `QuorumPeer`'s files acceptedEpoch and
currentEpoch, which have a number each, as there. Every call here returns when its effect is on
disk. None may come while records are being written: the member sees to it.

When the whole state is replaced, a stop in between leaves the new state or the earlier one, also
where the new one ends before the earlier: `storage` finishes what was begun.
"""

import os
from pathlib import Path

from ...zookeeper.quorum.history import KEPT
from ...zookeeper.quorum.learner import Epochs
from ...zookeeper.snapshot import Capture, encode_snapshot
from ...zookeeper.tree import DataTree
from ...zookeeper.wal import snapshot_name, truncation
from .storage import REPLACEMENT_SUFFIX, TEMPORARY_SUFFIX, DataDirectoryError, FileStorage

ACCEPTED_FILE = "acceptedEpoch"
CURRENT_FILE = "currentEpoch"


class MemberStorage(FileStorage):
    def __init__(self, directory: Path, *, fsync: bool) -> None:
        super().__init__(directory, fsync=fsync, keep=KEPT)
        try:
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
            self._open_log()
        return plan.recovered.tree, plan.recovered.sessions

    def install(self, captured: Capture) -> None:
        assert self.directory is not None
        name = snapshot_name(captured.zxid)
        temporary = self.directory / (name + TEMPORARY_SUFFIX)
        with self._files:
            self._generation += 1
            with temporary.open("wb") as file:
                for chunk in encode_snapshot(captured):
                    file.write(chunk)
                file.flush()
                self._sync(file.fileno())
            self._close_log()
            temporary.rename(self.directory / (name + REPLACEMENT_SUFFIX))
            self._sync_directory()
            self._finish_replacement()
            self._roll(captured.zxid + 1)

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
