"""The files of a member of an ensemble: those of one server alone, and its epochs.

Mirrors the use of `FileTxnSnapLog` by `Learner`, and `QuorumPeer`'s files acceptedEpoch and
currentEpoch, which have a number each, as there. Every call here returns when its effect is on
disk. None may come while records are being written: the member sees to it.

When the whole state is replaced, a stop in between leaves the new state or the earlier one, also
where the new one ends before the earlier: `storage` finishes what was begun.
"""

from pathlib import Path

from ...zookeeper.quorum.history import KEPT
from ...zookeeper.quorum.learner import Epochs
from ...zookeeper.snapshot import Capture
from ...zookeeper.tree import DataTree
from ...zookeeper.wal import truncation
from .storage import EPOCH_FILES, REPLACEMENT_PREFIX, DataDirectoryError, FileStorage

ACCEPTED_FILE, CURRENT_FILE = EPOCH_FILES


class MemberStorage(FileStorage):
    def __init__(self, directory: Path, log_directory: Path | None = None, *, fsync: bool) -> None:
        super().__init__(directory, log_directory=log_directory, fsync=fsync, keep=KEPT)
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
        plan = truncation(self._names(), self._read, zxid)
        if plan is None:
            return None
        with self._files:
            self._generation += 1
            self._close_log()
            for name in plan.removed:
                self._path(name).unlink()
            if plan.cut is not None:
                with self._path(plan.cut).open("r+b") as log:
                    log.truncate(plan.cut_at)
                    self._sync(log.fileno())
            self._sync_directory(self._snapshots)
            self._sync_directory(self._logs)
            self.recovered = plan.recovered
            self._open_log()
        return plan.recovered.tree, plan.recovered.sessions

    def install(self, captured: Capture) -> None:
        with self._files:
            self._generation += 1
            self._close_log()
            self._put_snapshot(captured, REPLACEMENT_PREFIX)
            self._finish_replacement()

    def _read_epoch(self, name: str, without: int) -> int:
        path = self._snapshots / name
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
        self._write_file(self._snapshots / name, str(epoch).encode())


def open_member_storage(
    data_dir: Path, log_dir: Path | None = None, *, fsync: bool
) -> MemberStorage:
    """Raises DataDirectoryError or OSError."""
    data_dir.mkdir(parents=True, exist_ok=True)
    return MemberStorage(data_dir, log_dir, fsync=fsync)
