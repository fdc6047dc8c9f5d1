"""What happens to a data directory while nothing runs on it.

Each entry changes files by chance and says whether a start may refuse afterwards. What it changed
can be put back: after a refusal the user does what the line said, here: restores the files.
Nothing here destroys the only copy of an acknowledged record; whatever else is lost is no excuse.
"""

from __future__ import annotations

import contextlib
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from pybroker_kafka.broker.zk.registration import SESSION_FILE
from pybroker_kafka.broker.zookeeper.storage import SECRET_FILE, VERSION_DIRECTORY
from pybroker_kafka.local.cluster_control import SOCKET_FILE
from pybroker_kafka.local.cluster_state import LOCK_FILE, NODES_LOCK_FILE, STATE_FILE
from pybroker_kafka.protocol.zookeeper.constants import Op
from pybroker_kafka.storage.checkpoints import CLEAN_SHUTDOWN_FILE
from pybroker_kafka.zookeeper.wal import LOG_PREFIX, read_log, zxid_of

GARBAGE_MAX_BYTES = 200


class Directory:
    """A data directory, with copies of what was changed in it."""

    def __init__(self, path: Path, rng: random.Random, stranger: int) -> None:
        self.path = path
        self.rng = rng
        self.stranger = stranger  # the id of a process that is none of ours
        self._before: dict[Path, bytes | None] = {}

    @property
    def is_clean(self) -> bool:
        """Whether every broker has closed its logs, and after that its session."""
        brokers = list(self.path.glob("broker-*"))
        return bool(brokers) and all((path / CLEAN_SHUTDOWN_FILE).exists() for path in brokers)

    def files(self, pattern: str) -> list[Path]:
        return sorted(path for path in self.path.glob(pattern) if path.is_file())

    def change(self, path: Path, data: bytes | None) -> None:
        """Write or (None) remove a file, remembering what it was."""
        if path not in self._before:
            self._before[path] = path.read_bytes() if path.is_file() else None
        if data is None:
            path.unlink(missing_ok=True)
        else:
            path.write_bytes(data)

    def garbage(self) -> bytes:
        return self.rng.randbytes(self.rng.randrange(GARBAGE_MAX_BYTES))

    def change_some(self, pattern: str, *, remove: bool | None = None) -> None:
        """Remove files that match, or fill them with garbage; one of them, or all."""
        found = self.files(pattern)
        chosen = found if self.rng.random() < 0.5 else found[:1]
        for path in chosen:
            gone = self.rng.random() < 0.3 if remove is None else remove
            self.change(path, None if gone else self.garbage())

    def forget(self) -> None:
        """The cluster has come to terms with what was changed."""
        self._before.clear()

    def restore(self) -> None:
        for path, data in self._before.items():
            if data is None:
                path.unlink(missing_ok=True)
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
        self._before.clear()


class Damage(NamedTuple):
    do: Callable[[Directory], None]
    may_refuse: bool = False

    @property
    def name(self) -> str:
        return self.do.__name__


def _session_files(directory: Directory) -> None:
    directory.change_some(f"broker-*/{SESSION_FILE}")


def _state_file_names_a_stranger(directory: Directory) -> None:
    node = {
        "kind": "broker", "node_id": 1, "pid": directory.stranger, "host": "127.0.0.1", "port": 1,
        "directory": "", "log_file": "", "status": "running",
    }  # fmt: skip
    state = {
        "version": 1, "supervisor_pid": directory.stranger, "data_dir": str(directory.path),
        "ephemeral": False, "zookeeper_connect": "127.0.0.1:1", "nodes": [node],
    }  # fmt: skip
    directory.change(directory.path / STATE_FILE, json.dumps(state).encode())


def _state_file_is_garbage(directory: Directory) -> None:
    directory.change(directory.path / STATE_FILE, directory.garbage())


def _socket_is_a_file(directory: Directory) -> None:
    path = directory.path / SOCKET_FILE
    path.unlink(missing_ok=True)
    path.write_bytes(directory.garbage())


def _logs_of_processes_removed(directory: Directory) -> None:
    shutil.rmtree(directory.path / "logs", ignore_errors=True)


def _locks_removed(directory: Directory) -> None:
    for name in (NODES_LOCK_FILE, "zookeeper/lock"):
        directory.change(directory.path / name, None)
    directory.change_some("broker-*/.lock", remove=True)


def _cluster_lock_removed(directory: Directory) -> None:
    directory.change(directory.path / LOCK_FILE, None)


def _zookeeper_secret(directory: Directory) -> None:
    directory.change_some(f"zookeeper/{SECRET_FILE}")


def _newest_zookeeper_log(directory: Directory) -> Path:
    logs = directory.files(f"zookeeper/{VERSION_DIRECTORY}/{LOG_PREFIX}*")
    return max(logs, key=lambda path: zxid_of(path.name) or 0)


def _zookeeper_log_with_an_unfinished_write(directory: Directory) -> None:
    newest = _newest_zookeeper_log(directory)
    directory.change(newest, newest.read_bytes() + directory.garbage())


def _zookeeper_log_damaged(directory: Directory) -> None:
    if not directory.is_clean:
        return  # the last record may be of the ISR, and nothing would show that it is lost
    newest = _newest_zookeeper_log(directory)
    data = bytearray(newest.read_bytes())
    at = directory.rng.randrange(len(data))
    data[at : at + 4] = directory.rng.randbytes(4)
    directory.change(newest, bytes(data))


def _zookeeper_log_without_its_last_bytes(directory: Directory) -> None:
    """After a clean end that record closes a session: brokers seem to be registered. Where
    ZooKeeper was killed before, it may be the only trace of a topic, and nothing shows its loss."""
    newest = _newest_zookeeper_log(directory)
    data = newest.read_bytes()
    last = read_log(newest.name, data).transactions[-1:]
    if directory.is_clean and last and last[0].txn.header.type == Op.CLOSE_SESSION:
        directory.change(newest, data[: len(data) - directory.rng.randrange(1, 40)])


def _checkpoints(directory: Directory) -> None:
    name = directory.rng.choice(
        ["recovery-point-offset", "replication-offset", "log-start-offset", "cleaner-offset"]
    )
    directory.change_some(f"broker-*/{name}-checkpoint")


def _leader_epochs(directory: Directory) -> None:
    directory.change_some("broker-*/*/leader-epoch-checkpoint")


def _partition_metadata(directory: Directory) -> None:
    directory.change_some("broker-*/*/partition.metadata", remove=False)


def _broker_identity(directory: Directory) -> None:
    directory.change_some("broker-*/meta.properties", remove=False)


def _clean_shutdown_files(directory: Directory) -> None:
    directory.change_some(f"broker-*/{CLEAN_SHUTDOWN_FILE}", remove=True)


def _indexes_removed(directory: Directory) -> None:
    directory.change_some("broker-*/*/*index", remove=True)


def _indexes_cut(directory: Directory) -> None:
    for path in directory.files("broker-*/*/*index"):
        if path.stat().st_size % 8 == 0:
            directory.change(path, path.read_bytes()[: path.stat().st_size // 2] + b"\1\2\3")


def _unfinished_append(directory: Directory) -> None:
    """As a crash of the machine leaves it: only where a recovery follows."""
    for path in directory.files("broker-*/*/*.log"):
        if not (path.parent.parent / CLEAN_SHUTDOWN_FILE).exists():
            directory.change(path, path.read_bytes() + directory.garbage())


def _producer_snapshots(directory: Directory) -> None:
    directory.change_some("broker-*/*/*.snapshot")


def _strange_files(directory: Directory) -> None:
    for broker in directory.path.glob("broker-*"):
        (broker / "lost+found").mkdir(exist_ok=True)
        for name in ("notes.txt", "ledger-0/core", "ledger-0/99999999999999999999999.log"):
            if (broker / name).parent.is_dir():
                directory.change(broker / name, directory.garbage())


DAMAGES = [
    Damage(_session_files),
    Damage(_state_file_names_a_stranger),
    Damage(_state_file_is_garbage),
    Damage(_socket_is_a_file),
    Damage(_logs_of_processes_removed),
    Damage(_locks_removed),
    Damage(_cluster_lock_removed),
    Damage(_zookeeper_secret),
    Damage(_zookeeper_log_with_an_unfinished_write, may_refuse=True),
    Damage(_zookeeper_log_damaged, may_refuse=True),
    Damage(_zookeeper_log_without_its_last_bytes),
    Damage(_checkpoints),
    Damage(_leader_epochs),
    Damage(_partition_metadata),
    Damage(_broker_identity, may_refuse=True),
    Damage(_clean_shutdown_files),
    Damage(_indexes_removed),
    Damage(_indexes_cut),
    Damage(_unfinished_append),
    Damage(_producer_snapshots),
    Damage(_strange_files),
]


def fill_disk(path: Path) -> None:
    """Write to `path` until not a byte more fits on its file system."""
    with path.open("wb", buffering=0) as ballast:
        for size in (1 << 20, 1 << 12, 1):
            with contextlib.suppress(OSError):
                while True:
                    ballast.write(bytes(size))
