"""A ZooKeeper of one dictionary for tests of flows: operations, versions, watches, sessions.

It performs what a real one would answer to the operations that our flows use; the embedded and
the real server are tested with the same flows elsewhere.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from pybroker_kafka.protocol.zookeeper.constants import ZkCode
from pybroker_kafka.protocol.zookeeper.operations import (
    Check,
    Create,
    Delete,
    Exists,
    Flow,
    GetChildren,
    GetData,
    Multi,
    SetData,
    WriteOperation,
    ZkOperation,
    ZkResult,
    ZkStat,
)

T = TypeVar("T")


@dataclass
class Node:
    data: bytes | None
    czxid: int
    owner: int = 0
    version: int = 0
    cversion: int = 0


@dataclass
class ZooKeeperTree:
    nodes: dict[str, Node] = field(default_factory=lambda: {"/": Node(None, 0)})
    zxid: int = 0
    data_watches: dict[str, set[object]] = field(default_factory=dict)
    child_watches: dict[str, set[object]] = field(default_factory=dict)
    fired: list[tuple[object, str, str]] = field(default_factory=list)
    # Called before the operations of each step of a flow: what another client does meanwhile.
    interfere: Callable[[Sequence[ZkOperation]], None] | None = None
    # Called after each node that is created or set.
    on_write: Callable[[str, bytes | None], None] | None = None

    def take_fired(self) -> list[tuple[object, str, str]]:
        """(watcher, "data" or "children", path) of watches that have fired, in order."""
        fired, self.fired = self.fired, []
        return fired

    def children(self, path: str) -> tuple[str, ...]:
        prefix = path.rstrip("/") + "/"
        return tuple(
            sorted(
                other[len(prefix) :]
                for other in self.nodes
                if other.startswith(prefix) and "/" not in other[len(prefix) :] and other != "/"
            )
        )

    def perform(
        self, operations: Sequence[ZkOperation], session: int = 1, watcher: object = None
    ) -> list[ZkResult]:
        return [self._one(operation, session, watcher) for operation in operations]

    def run(self, flow: Flow[T], session: int = 1, watcher: object = None) -> T:
        """Drive a flow to its end without anything happening in between."""
        try:
            operations = next(flow)
            while True:
                if self.interfere is not None:
                    self.interfere(operations)
                operations = flow.send(self.perform(operations, session, watcher))
        except StopIteration as stop:
            result: T = stop.value
            return result

    def expire(self, session: int) -> None:
        for path in [p for p, node in self.nodes.items() if node.owner == session]:
            self._one(Delete(path), session, None)

    def _one(self, operation: ZkOperation, session: int, watcher: object) -> ZkResult:
        if isinstance(operation, Multi):
            return self._multi(operation, session)
        if isinstance(operation, GetData | Exists | GetChildren):
            return self._read(operation, watcher)
        result, events = self._write(operation, session)
        self._fire(events)
        return result

    def _read(self, operation: GetData | Exists | GetChildren, watcher: object) -> ZkResult:
        path = operation.path
        node = self.nodes.get(path)
        if operation.watch and (node is not None or isinstance(operation, Exists)):
            children = isinstance(operation, GetChildren)
            watches = self.child_watches if children else self.data_watches
            watches.setdefault(path, set()).add(watcher)
        if node is None:
            return ZkResult(ZkCode.NO_NODE)
        if isinstance(operation, GetChildren):
            return ZkResult(children=self.children(path))
        data = node.data if isinstance(operation, GetData) else None
        return ZkResult(data=data, stat=self._stat(path))

    def _multi(self, multi: Multi, session: int) -> ZkResult:
        saved = {path: Node(**vars(node)) for path, node in self.nodes.items()}
        results: list[ZkResult] = []
        events: list[tuple[str, str]] = []
        for index, operation in enumerate(multi.operations):
            result, happened = self._write(operation, session)
            results.append(result)
            events += happened
            if not result.ok:
                self.nodes = saved
                undone = ZkResult(ZkCode.RUNTIME_INCONSISTENCY)
                rest = len(multi.operations) - index - 1
                parts = (*[undone] * index, result, *[undone] * rest)
                return ZkResult(result.code, results=parts)
        self._fire(events)
        return ZkResult(results=tuple(results))

    def _write(
        self, operation: WriteOperation, session: int
    ) -> tuple[ZkResult, list[tuple[str, str]]]:
        path = operation.path
        parent = path.rpartition("/")[0] or "/"
        node = self.nodes.get(path)
        if isinstance(operation, Create):
            if parent not in self.nodes:
                return ZkResult(ZkCode.NO_NODE), []
            if operation.sequential:
                path = f"{path}{self.nodes[parent].cversion:010d}"
            if path in self.nodes:
                return ZkResult(ZkCode.NODE_EXISTS), []
            self.zxid += 1
            owner = session if operation.ephemeral else 0
            self.nodes[path] = Node(operation.data, self.zxid, owner)
            self.nodes[parent].cversion += 1
            return ZkResult(path=path), [("data", path), ("children", parent)]
        if node is None:
            return ZkResult(ZkCode.NO_NODE), []
        if operation.version not in (-1, node.version):
            return ZkResult(ZkCode.BAD_VERSION), []
        if isinstance(operation, Check):
            return ZkResult(), []
        if isinstance(operation, SetData):
            node.data = operation.data
            node.version += 1
            return ZkResult(stat=self._stat(path)), [("data", path)]
        assert isinstance(operation, Delete)
        if self.children(path):
            return ZkResult(ZkCode.NOT_EMPTY), []
        del self.nodes[path]
        self.nodes[parent].cversion += 1
        return ZkResult(), [("data", path), ("children", path), ("children", parent)]

    def _fire(self, events: list[tuple[str, str]]) -> None:
        for kind, path in events:
            if self.on_write is not None and kind == "data" and path in self.nodes:
                self.on_write(path, self.nodes[path].data)
            watches = self.data_watches if kind == "data" else self.child_watches
            for watcher in watches.pop(path, ()):
                self.fired.append((watcher, kind, path))

    def _stat(self, path: str) -> ZkStat:
        node = self.nodes[path]
        count = len(self.children(path))
        return ZkStat(node.czxid, 0, node.version, node.cversion, node.owner, count)
