"""The views of a broker's inside over its metrics port: `/inside/NAME?...`, read only.

Every client that reaches the metrics port may read them, as it may read the metrics; a broker with
an authorizer refuses them all, since the port has no logins.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

from ...protocol.errors import KafkaError
from ...protocol.zookeeper.operations import SessionExpired
from ..observability.metrics_http import ViewUnavailable
from .clients import clients_of
from .in_flight import records_in_flight
from .look_up import look_up_offset, look_up_timestamp
from .partition_files import partition_files
from .replication import replica
from .waiting import what_waits
from .znodes import znode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...coordinator.group.group import Group
    from ...replication.partition import Partition
    from ...replication.replica_manager import ReplicaManager
    from ...storage.log import Log
    from ..network.connection import Connection
    from ..observability.client_telemetry import ClientValues
    from ..share.share_leader import Served
    from ..zk.zookeeper_client import ZooKeeperClient

Query = Mapping[str, str]
MOST_DIGITS = 20


@dataclass(slots=True, frozen=True)
class Inside:
    """`answer` is for the metrics port."""

    replicas: ReplicaManager
    zookeeper: ZooKeeperClient
    groups: Callable[[], Iterable[Group]]
    connections: Callable[[], Iterable[Connection]]
    client_values: ClientValues
    share_partitions: Callable[[], Iterable[Served]]
    clock: Callable[[], int]
    is_guarded: bool

    async def answer(self, name: str, query: Query) -> object:
        """The answer, ready to become JSON. Raises ViewUnavailable."""
        views: dict[str, Callable[[Query], Awaitable[object]]] = {
            "waiting": self._waiting,
            "files": self._files,
            "look-up": self._look_up,
            "replica": self._replica,
            "znode": self._znode,
            "clients": self._clients,
            "in-flight": self._in_flight,
        }
        if self.is_guarded:
            raise ViewUnavailable(
                "this broker has an authorizer, and its metrics port has no logins: "
                "it shows nothing of its inside"
            )
        view = views.get(name)
        if view is None:
            raise ViewUnavailable(f"there are: {', '.join(views)}")
        try:
            return await view(query)
        except (OSError, KafkaError) as error:
            raise ViewUnavailable(f"the files cannot be read: {error}") from None
        except SessionExpired:
            raise ViewUnavailable(
                "the ZooKeeper session of this broker has expired; ask again"
            ) from None

    async def _waiting(self, _query: Query) -> object:
        manager = self.replicas
        return what_waits(
            manager.waiting, manager.partitions, self.groups(), self.clock(), perf_counter()
        )

    async def _files(self, query: Query) -> Any:
        return partition_files(self._log(query), self.clock())

    async def _look_up(self, query: Query) -> object:
        log = self._log(query)
        if "timestamp" in query:
            return look_up_timestamp(log, _number(query, "timestamp"))
        return look_up_offset(log, _number(query, "offset"))

    async def _replica(self, query: Query) -> object:
        return replica(self._partition(query), self.clock())

    async def _clients(self, _query: Query) -> object:
        return clients_of(self.connections(), self.client_values, perf_counter())

    async def _in_flight(self, query: Query) -> object:
        return records_in_flight(self.share_partitions(), query.get("group", ""), self.clock())

    async def _znode(self, query: Query) -> object:
        path = query.get("path", "/")
        if not path.startswith("/") or "//" in path or (path != "/" and path.endswith("/")):
            raise ViewUnavailable(f"{path!r} is no path of a znode")
        found = await znode(self.zookeeper, path)
        if found is None:
            raise ViewUnavailable(f"there is no znode {path}")
        return found

    def _log(self, query: Query) -> Log:
        return self._partition(query).log

    def _partition(self, query: Query) -> Partition:
        topic, index = query.get("topic", ""), _number(query, "partition")
        partition = self.replicas.partitions.get((topic, index))
        if partition is None:
            raise ViewUnavailable(f"this broker has no replica of {topic}-{index}")
        return partition


def _number(query: Query, name: str) -> int:
    text = query.get(name, "")
    if not text.removeprefix("-").isdecimal() or len(text) > MOST_DIGITS:
        raise ViewUnavailable(f"{name}: a whole number is wanted")
    return int(text)
