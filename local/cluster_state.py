"""The files of a local cluster in its data directory, by which other commands find it.

`cluster.json` names the supervisor, each node's process, port and directories; `cluster.lock` is
held (flock) by the supervisor while it lives, so a stale `cluster.json` is recognised without
guessing from process ids; the next holder of the lock removes it. `nodes.lock` is held by the
supervisor and by every node: a process that gets both locks knows that no process of an earlier
cluster is alive. A directory that holds other things is never taken over. `logs/supervisor.log` has
the supervisor's reports, since a detached one has no terminal.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path

from ..broker.resources import machine
from ..broker.resources.visible_text import visible
from ..protocol.features import NEWEST_RELEASE

SUPERVISOR_LOG = "supervisor.log"
STATE_FILE = "cluster.json"
LOCK_FILE = "cluster.lock"
NODES_LOCK_FILE = "nodes.lock"
EPHEMERAL_PREFIX = "pybroker-"  # of directories that keep nothing, in that for temporary files
STATE_VERSION = 1
MAX_BROKERS = 100  # of one cluster
MAX_ZOOKEEPERS = 7
CLAIM_PATIENCE_SECONDS = 0.5  # another command may be testing the lock at this moment
ORPHANS_PATIENCE_SECONDS = 3.0  # nodes stop by themselves once their supervisor is gone
KILLED_PATIENCE_SECONDS = 2.0
POLL_SECONDS = 0.02


class ClusterError(Exception):
    """A local cluster cannot be started or found; the message gives the remedy."""


class NodeStatus(StrEnum):
    """The state of a node's process, as the supervisor knows it."""

    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"
    KILLED = "killed"
    FAILED = "failed"


@dataclass(slots=True)
class NodeState:
    """One process of the cluster. `kind` is `broker` or `zookeeper`; `node_id` is its broker.id, or
    the number of a member of the ensemble (0: one ZooKeeper alone)."""

    kind: str
    node_id: int
    pid: int
    host: str
    port: int
    directory: str
    log_file: str
    status: NodeStatus = NodeStatus.RUNNING
    metrics_port: int = 0  # 0: no metrics are served

    @property
    def name(self) -> str:
        if self.kind == "broker":
            return f"broker {self.node_id}"
        return f"{self.kind}-{self.node_id}" if self.node_id else self.kind

    @property
    def label(self) -> str:
        """Its name in commands: a broker's id, or a ZooKeeper's name."""
        return str(self.node_id) if self.kind == "broker" else self.name


@dataclass(slots=True)
class ClusterState:
    """The running cluster as `cluster.json` holds it."""

    supervisor_pid: int
    data_dir: str
    ephemeral: bool
    zookeeper_connect: str
    nodes: list[NodeState] = field(default_factory=list)
    secured: bool = False

    @property
    def brokers(self) -> list[NodeState]:
        return [node for node in self.nodes if node.kind == "broker"]

    @property
    def zookeeper_may_answer(self) -> bool:
        """An ensemble of others may at any time; our own only while a quorum of it runs."""
        own = [node for node in self.nodes if node.kind == "zookeeper"]
        running = sum(1 for node in own if node.status == NodeStatus.RUNNING)
        return 2 * running > len(own) or not own

    @property
    def bootstrap(self) -> str:
        """The bootstrap string of Kafka clients: host:port,host:port."""
        return ",".join(f"{node.host}:{node.port}" for node in self.brokers)

    def save(self) -> None:
        path = Path(self.data_dir) / STATE_FILE
        staged = path.with_suffix(".tmp")
        staged.write_text(json.dumps({"version": STATE_VERSION, **asdict(self)}, indent=2) + "\n")
        staged.replace(path)


def default_data_dir() -> Path:
    """`PYBROKER_DATA_DIR`, else `~/.pybroker`."""
    return Path(os.environ.get("PYBROKER_DATA_DIR") or home_directory() / ".pybroker")


def release_of_new_clusters() -> str:
    """The release of Kafka whose features they have: `PYBROKER_FEATURES`, else the newest."""
    return os.environ.get("PYBROKER_FEATURES") or NEWEST_RELEASE


def home_directory() -> Path:
    """The user's home; the root for an unknown user without $HOME, as in containers."""
    try:
        return Path.home()
    except RuntimeError:
        return Path("/")


def claim(data_dir: Path) -> int:
    """Create `data_dir` if need be and lock it; the descriptor holds the lock while it is open.

    Raises ClusterError if another cluster runs on it, or if it holds other files.
    """
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        entries = {entry.name for entry in data_dir.iterdir()}
    except OSError as error:
        raise ClusterError(
            f"cannot use {data_dir} as data directory: {error.strerror}; "
            "name another with --data-dir"
        ) from error
    if entries and not entries & {LOCK_FILE, NODES_LOCK_FILE}:
        raise ClusterError(
            f"{data_dir} is not empty and was not made by pybroker; "
            "name an empty or new directory with --data-dir"
        )
    try:
        descriptor = os.open(data_dir / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise ClusterError(
            f"cannot write in {data_dir}: {error.strerror}; name another with --data-dir"
        ) from error
    if not _lock(descriptor, CLAIM_PATIENCE_SECONDS):
        os.close(descriptor)
        raise ClusterError(
            f"a cluster is already running on {data_dir}; "
            f"see it with: pybroker status --data-dir {data_dir}"
        )
    forget(data_dir)  # the state of an earlier supervisor
    return descriptor


def _lock(descriptor: int, patience_seconds: float) -> bool:
    deadline = time.monotonic() + patience_seconds
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_SECONDS)
        else:
            return True


def claim_nodes(data_dir: Path, report: Callable[[str], None]) -> int:
    """Wait until no node of an earlier cluster is alive; the descriptor is for our nodes to share.

    Only for the holder of the first lock: then these nodes have no supervisor any more. They stop
    without one; nodes that do not stop in time are killed. Raises ClusterError if that fails.
    """
    path = data_dir / NODES_LOCK_FILE
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if _lock(descriptor, ORPHANS_PATIENCE_SECONDS):
        return descriptor
    holders = _holders(path)
    for pid in holders:
        report(f"killing process {pid}, left over from the last cluster on {data_dir}")
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    if _lock(descriptor, KILLED_PATIENCE_SECONDS):
        return descriptor
    os.close(descriptor)
    which = f" ({', '.join(map(str, holders))})" if holders else ""
    raise ClusterError(
        f"processes{which} of the last cluster on {data_dir} are still running; end the "
        f"processes that have {path} open"
    )


def _holders(path: Path) -> list[int]:
    """The processes that hold the lock on this file, not merely have it open (Linux; elsewhere
    none).
    """
    found: list[int] = []
    wanted = path.stat()
    if machine.PROC is None:
        return found
    for table in machine.PROC.glob("[0-9]*/fd"):
        with contextlib.suppress(OSError):
            for entry in table.iterdir():
                with contextlib.suppress(OSError):
                    info = table.parent / "fdinfo" / entry.name
                    if os.path.samestat(entry.stat(), wanted) and "FLOCK" in info.read_text():
                        found.append(int(table.parent.name))
    return found


def is_claimed(data_dir: Path) -> bool:
    """Whether a supervisor holds the directory now. Raises ClusterError without the permission."""
    try:
        descriptor = os.open(data_dir / LOCK_FILE, os.O_RDWR | os.O_CLOEXEC)
    except PermissionError:
        raise ClusterError(
            f"permission denied: {data_dir} belongs to {_owner(data_dir)}; "
            "be that user, or name your own directory with --data-dir"
        ) from None
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def _owner(data_dir: Path) -> str:
    try:
        return data_dir.owner()
    except (OSError, KeyError):
        return "another user"


def forget(data_dir: Path) -> None:
    """For the holder of the lock: from now on other commands find no cluster here."""
    with contextlib.suppress(FileNotFoundError):
        (data_dir / STATE_FILE).unlink()


def check_claimed(data_dir: Path) -> None:
    """Raises ClusterError if no cluster is running on it."""
    if not is_claimed(data_dir):
        elsewhere = "".join(f"; one runs on {path}" for path in ephemeral_directories())
        raise ClusterError(
            f"no cluster is running on {data_dir}{elsewhere}; start one with: "
            f"pybroker start --data-dir {data_dir}"
        )


def ephemeral_directories() -> list[Path]:
    """The directories of our running ephemeral clusters."""
    found = []
    for path in sorted(Path(tempfile.gettempdir()).glob(f"{EPHEMERAL_PREFIX}*")):
        with contextlib.suppress(ClusterError, OSError):
            is_ours = path.stat().st_uid == os.getuid()
            if is_ours and (path / STATE_FILE).exists() and is_claimed(path):
                found.append(path)
    return found


def load(data_dir: Path) -> ClusterState:
    """The cluster that runs on `data_dir`. Raises ClusterError when none does."""
    check_claimed(data_dir)
    try:
        raw = json.loads((data_dir / STATE_FILE).read_text())
    except (OSError, ValueError) as error:
        raise ClusterError(
            f"the cluster on {data_dir} is starting or stopping; try again"
        ) from error
    raw.pop("version")
    nodes = [
        NodeState(**{**node, "status": NodeStatus(node["status"])}) for node in raw.pop("nodes")
    ]
    return ClusterState(**raw, nodes=nodes)


class SupervisorLog:
    """The supervisor's reports, one line each: a detached one has no terminal.

    The supervisor makes its directory; a line that cannot be written is lost.
    """

    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / "logs" / SUPERVISOR_LOG
        self._begin = self._size()

    def add(self, line: str) -> None:
        stamp = time.strftime("%Y-%m-%d %H:%M:%S")
        with contextlib.suppress(OSError), self._path.open("a", encoding="utf-8") as file:
            file.write(f"{stamp} {visible(line)}\n")

    def news(self) -> list[str]:
        """The lines since this object was made, without their times."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._begin)
                lines = file.read().decode(errors="replace").splitlines()
        except OSError:
            return []
        return [line.split(" ", 2)[-1] for line in lines]

    def _size(self) -> int:
        try:
            return self._path.stat().st_size
        except OSError:
            return 0
