"""What a local cluster leaves in its data directory, so that other commands find it.

`cluster.json` names the supervisor, each node's process, port and directories; `cluster.lock` is
held (flock) by the supervisor while it lives, so a stale `cluster.json` is recognised without
guessing from process ids. A directory that holds other things is never taken over.
"""

from __future__ import annotations

import fcntl
import json
import os
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path

STATE_FILE = "cluster.json"
LOCK_FILE = "cluster.lock"
STATE_VERSION = 1


class ClusterError(Exception):
    """A local cluster cannot be started or found; the message says what to do."""


class NodeStatus(StrEnum):
    """What became of a node's process, as the supervisor knows it."""

    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"
    KILLED = "killed"
    FAILED = "failed"


@dataclass(slots=True)
class NodeState:
    """One process of the cluster. `kind` is `broker` or `zookeeper`; `node_id` is its broker.id."""

    kind: str
    node_id: int
    pid: int
    host: str
    port: int
    directory: str
    log_file: str
    status: NodeStatus = NodeStatus.RUNNING

    @property
    def name(self) -> str:
        return f"broker {self.node_id}" if self.kind == "broker" else self.kind


@dataclass(slots=True)
class ClusterState:
    """The running cluster as `cluster.json` holds it."""

    supervisor_pid: int
    data_dir: str
    ephemeral: bool
    zookeeper_connect: str
    nodes: list[NodeState] = field(default_factory=list)

    @property
    def brokers(self) -> list[NodeState]:
        return [node for node in self.nodes if node.kind == "broker"]

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
    return Path(os.environ.get("PYBROKER_DATA_DIR") or Path.home() / ".pybroker")


def claim(data_dir: Path) -> int:
    """Create `data_dir` if need be and lock it; the descriptor holds the lock while it is open.

    Raises ClusterError if another cluster runs on it, or if it holds something else.
    """
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        entries = {entry.name for entry in data_dir.iterdir()}
    except OSError as error:
        raise ClusterError(
            f"cannot use {data_dir} as data directory: {error.strerror}; "
            "name another with --data-dir"
        ) from error
    if entries and LOCK_FILE not in entries:
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
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise ClusterError(
            f"a cluster is already running on {data_dir}; "
            f"see it with: pybroker status --data-dir {data_dir}"
        ) from None
    return descriptor


def is_claimed(data_dir: Path) -> bool:
    """Whether a supervisor holds the directory now."""
    try:
        descriptor = os.open(data_dir / LOCK_FILE, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def load(data_dir: Path) -> ClusterState:
    """The cluster that runs on `data_dir`. Raises ClusterError when none does."""
    if not is_claimed(data_dir):
        raise ClusterError(
            f"no cluster is running on {data_dir}; start one with: "
            f"pybroker start --data-dir {data_dir}"
        )
    try:
        raw = json.loads((data_dir / STATE_FILE).read_text())
    except (OSError, ValueError) as error:
        raise ClusterError(f"the cluster on {data_dir} is still starting; try again") from error
    raw.pop("version")
    nodes = [
        NodeState(**{**node, "status": NodeStatus(node["status"])}) for node in raw.pop("nodes")
    ]
    return ClusterState(**raw, nodes=nodes)
