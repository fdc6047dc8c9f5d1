"""Where the embedded ZooKeeper keeps its transactions: nowhere (memory), for now."""

import os
from pathlib import Path

from coordinator.zookeeper.machine import ZooKeeperMachine
from coordinator.zookeeper.tree import DataTree


class Recovered:
    __slots__ = ("sessions", "tree")

    def __init__(self) -> None:
        self.tree = DataTree()
        self.sessions: dict[int, int] = {}


class ZooKeeperStorage:
    __slots__ = ("directory", "is_durable", "recovered", "secret")

    def __init__(self) -> None:
        self.directory: Path | None = None
        self.is_durable = False
        self.secret = os.urandom(16)
        self.recovered = Recovered()

    async def append(self, records: list[bytes], machine: ZooKeeperMachine) -> None:
        pass

    def close(self) -> None:
        pass


def open_storage(data_dir: Path | None, *, fsync: bool) -> ZooKeeperStorage:
    return ZooKeeperStorage()
