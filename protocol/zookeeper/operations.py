"""The ZooKeeper vocabulary of the controller and of the broker's other ZooKeeper flows.

Job: operations and results as plain data. A flow is a generator: it yields a sequence of operations
and receives their results in the same order (`Flow`). All operations of one yield are sent
pipelined, so independent ones belong into one yield. The driver of the flow (kazoo in production, a
simulated tree in tests) performs them; the flow itself does no I/O.

Invariants: a lost connection is not a result: the driver resends until it knows the outcome (as
`ZooKeeperClient` in Kafka). A lost session is thrown into the flow as `SessionExpired`.

Mirrors kafka.zookeeper.ZooKeeperClient's request and response classes. Leaves out ACLs.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias, TypeVar

from .constants import ZkCode

MATCH_ANY_VERSION = -1


class ZkStat(NamedTuple):
    """The fields of a znode's Stat that Kafka uses."""

    czxid: int
    ctime_ms: int
    version: int
    cversion: int
    ephemeral_owner: int
    child_count: int


@dataclass(frozen=True, slots=True)
class GetData:
    path: str
    watch: bool = False


@dataclass(frozen=True, slots=True)
class Exists:
    path: str
    watch: bool = False


@dataclass(frozen=True, slots=True)
class GetChildren:
    path: str
    watch: bool = False


@dataclass(frozen=True, slots=True)
class Create:
    path: str
    data: bytes | None = None
    ephemeral: bool = False
    sequential: bool = False


@dataclass(frozen=True, slots=True)
class SetData:
    path: str
    data: bytes
    version: int = MATCH_ANY_VERSION


@dataclass(frozen=True, slots=True)
class Delete:
    path: str
    version: int = MATCH_ANY_VERSION


@dataclass(frozen=True, slots=True)
class Check:
    path: str
    version: int


WriteOperation: TypeAlias = Create | SetData | Delete | Check


@dataclass(frozen=True, slots=True)
class Multi:
    """Operations that all succeed or all fail. The result's `results` has one result for each
    operation."""

    operations: tuple[WriteOperation, ...]


ZkOperation: TypeAlias = GetData | Exists | GetChildren | Create | SetData | Delete | Multi


@dataclass(frozen=True, slots=True)
class ZkResult:
    """Outcome of one operation; which field is set depends on the operation."""

    code: ZkCode = ZkCode.OK
    data: bytes | None = None
    stat: ZkStat | None = None
    children: tuple[str, ...] = ()
    path: str | None = None
    results: "tuple[ZkResult, ...]" = ()

    @property
    def ok(self) -> bool:
        return self.code is ZkCode.OK

    @property
    def version(self) -> int:
        assert self.stat is not None, "only a result with a stat has a version"
        return self.stat.version


T = TypeVar("T")
Flow: TypeAlias = Generator[Sequence[ZkOperation], Sequence[ZkResult], T]


class ZkError(Exception):
    """A ZooKeeper operation failed in a way that its flow does not expect."""

    def __init__(self, code: ZkCode, path: str) -> None:
        super().__init__(f"ZooKeeper answered {code.name} for {path}")
        self.code = code
        self.path = path


class SessionExpired(Exception):
    """The session that this flow runs in is gone; everything it has seen may be stale."""


def run_one(operation: ZkOperation) -> Flow[ZkResult]:
    """One operation as a flow of its own: `result = yield from run_one(GetData(path))`."""
    (result,) = yield (operation,)
    return result


def expect(result: ZkResult, path: str, *codes: ZkCode) -> ZkResult:
    """The result itself if it is OK or one of `codes`, else ZkError."""
    if result.ok or result.code in codes:
        return result
    raise ZkError(result.code, path)


def create_recursive(path: str, data: bytes | None = None) -> Flow[ZkCode]:
    """Create a persistent node and its missing parents; OK or NODE_EXISTS for the node itself."""
    result = yield from run_one(Create(path, data))
    if result.code is ZkCode.NO_NODE:
        parent = path.rpartition("/")[0]
        if parent:
            yield from create_recursive(parent)
        result = yield from run_one(Create(path, data))
    return expect(result, path, ZkCode.NODE_EXISTS).code
