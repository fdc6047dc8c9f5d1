"""The ZooKeepers of a local cluster: one alone, or the members of an ensemble.

One alone has the directory `zookeeper`, members have `zookeeper-1` and so on. When their number
changes, the newest state goes to all of the new ones, so that any quorum has it; the others'
directories go. Quorum and election ports are any free ones, new at each start.

Nothing here runs beside a ZooKeeper of the same cluster.
"""

from __future__ import annotations

import os
import shutil
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from .cluster_state import ClusterError, NodeState
from .free_ports import take_ports

if TYPE_CHECKING:
    from ..zookeeper.quorum.ensemble_config import EnsembleConfig

ALONE = "zookeeper"
MEMBER_PREFIX = "zookeeper-"
TICK_MS = 500
INIT_LIMIT = 20
SYNC_LIMIT = 6
SESSION_LIMITS_MS = (4_000, 40_000)  # those of one alone
ASK_SECONDS = 1.0
POLL_SECONDS = 0.02

VERSION_DIRECTORY = "version-2"  # as in broker/zookeeper/storage.py
_STAGED = ".staged"

Ports = Mapping[int, tuple[int, int]]
"""Quorum and election port by the number of the member."""

Detours = Mapping[tuple[int, int], tuple[int, int]]
"""The same ports by the numbers of the connecting member and the other: those of a proxy."""


def names_of(count: int) -> list[str]:
    return [ALONE] if count == 1 else [f"{MEMBER_PREFIX}{n}" for n in range(1, count + 1)]


def remembered_zookeepers(data_dir: Path) -> int:
    """The number of ZooKeepers with data here; 0 for a new directory."""
    if (data_dir / ALONE).is_dir():
        return 1  # it goes last, and comes first
    return sum(1 for path in data_dir.glob(f"{MEMBER_PREFIX}*") if _number_of(path.name))


def prepare_directories(data_dir: Path, count: int) -> None:
    """Make the directories of `count` ZooKeepers. Raises ClusterError or OSError."""
    present = [path for path in data_dir.glob(f"{MEMBER_PREFIX}*") if _number_of(path.name)]
    if (data_dir / ALONE).is_dir():
        present.append(data_dir / ALONE)
    wanted = [data_dir / name for name in names_of(count)]
    if present and {path.name for path in present} != {path.name for path in wanted}:
        _spread(present, wanted)
    for path in wanted:
        path.mkdir(exist_ok=True)
        if (number := _number_of(path.name)) is not None:
            (path / "myid").write_text(f"{number}\n")


def free_ports(count: int, taken: set[int]) -> Ports:
    """Two free ports for each member, as `take_ports`. Raises ClusterError if there are none."""
    return {number: (take_ports(1, taken), take_ports(1, taken)) for number in range(1, count + 1)}


def member_config(
    node: NodeState,
    ports: Ports,
    detours: Detours,
    tls: Mapping[str, str] | None = None,
    client_ports: Mapping[int, int] | None = None,
) -> EnsembleConfig:
    """The equal of a zoo.cfg for this node; `tls`: the keys `ssl.quorum.*`. `client_ports`, by the
    number of the member: known ones, which brokers learn from the ensemble.
    """
    from ..zookeeper.quorum.ensemble_config import EnsembleConfig, QuorumTlsConfig, Server

    named = client_ports or {}
    servers = {
        number: Server(
            number,
            node.host,
            quorum,
            election,
            client_address=(node.host, named[number]) if named.get(number) else None,
        )
        for number, (quorum, election) in ports.items()
    }
    return EnsembleConfig(
        data_dir=Path(node.directory),
        client_host=node.host,
        client_port=node.port,
        tick_ms=TICK_MS,
        init_limit=INIT_LIMIT,
        sync_limit=SYNC_LIMIT,
        max_client_connections=0,
        my_id=node.node_id,
        servers=servers,
        session_limits_ms=SESSION_LIMITS_MS,
        tls=None if tls is None else QuorumTlsConfig(tls),
        detours={
            other: Server(other, node.host, quorum, election)
            for (near, other), (quorum, election) in detours.items()
            if near == node.node_id
        },
    )


def await_leader(addresses: Iterable[tuple[str, int]], may_go_on: Callable[[], bool]) -> bool:
    """Wait until one of these members leads; False once we may not go on."""
    known = list(addresses)
    while may_go_on():
        if any(mode_of(host, port) == "leader" for host, port in known):
            return True
        time.sleep(POLL_SECONDS)
    return False


class ZooKeeperStatus(NamedTuple):
    """The answer of a server to `srvr`."""

    mode: str = ""
    """`leader`, `follower`, `observer` or `standalone`; empty while there is no leader."""
    zxid: int = 0
    connections: int = 0
    nodes: int = 0


def mode_of(host: str, port: int) -> str:
    return status_of(host, port).mode


def status_of(host: str, port: int) -> ZooKeeperStatus:
    """Ask a server, for ASK_SECONDS at most."""
    values: dict[str, str] = {}
    with suppress(OSError), socket.create_connection((host, port), timeout=ASK_SECONDS) as asking:
        asking.settimeout(ASK_SECONDS)
        asking.sendall(b"srvr")
        with asking.makefile("rb") as answer:
            for line in answer.read().decode(errors="replace").splitlines():
                name, _, value = line.partition(": ")
                values[name] = value
    if "Mode" not in values:
        return ZooKeeperStatus()
    return ZooKeeperStatus(
        values["Mode"],
        int(values["Zxid"], 16),
        int(values["Connections"]),
        int(values["Node count"]),
    )


def _number_of(name: str) -> int | None:
    digits = name.removeprefix(MEMBER_PREFIX)
    return int(digits) if digits != name and digits.isascii() and digits.isdecimal() else None


def _spread(present: list[Path], wanted: list[Path]) -> None:
    """The newest state to all that are wanted; the rest goes last."""
    newest = max(present, key=_age)  # all have the files of today after it
    accepted = max(_epoch(path, "acceptedEpoch") for path in present)
    staged = [path.with_name(path.name + _STAGED) for path in wanted]
    for path in staged:
        shutil.rmtree(path, ignore_errors=True)
        left_out = shutil.ignore_patterns("lock", "tmp.*", "myid")
        shutil.copytree(newest, path, ignore=left_out)
        if accepted:
            (path / VERSION_DIRECTORY / "acceptedEpoch").write_text(str(accepted))
        for entry in (*path.rglob("*"), path):
            _sync(entry)
    for path, copy in zip(wanted, staged, strict=True):
        shutil.rmtree(path, ignore_errors=True)
        copy.rename(path)
    _sync(newest.parent)
    for path in present:
        if path not in wanted:
            gone = path.with_name(path.name + _STAGED)
            path.rename(gone)  # so that nothing finds a part of it
            shutil.rmtree(gone)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _age(directory: Path) -> tuple[int, int]:
    """The epoch and the last transaction of a state. Raises ClusterError if it cannot be read."""
    from ..broker.zookeeper.storage import DataDirectoryError, FileStorage

    try:
        storage = FileStorage(directory, fsync=True)
    except DataDirectoryError as error:
        raise ClusterError(
            f"the number of ZooKeepers cannot change: {directory} cannot be read: {error}"
        ) from None
    storage.close()
    return _epoch(directory, "currentEpoch"), storage.recovered.tree.last_zxid


def _epoch(directory: Path, name: str) -> int:
    try:
        return int((directory / VERSION_DIRECTORY / name).read_text())
    except (OSError, ValueError):
        return 0
