"""Which nodes of changes are deleted: by how long they have been known, not by any wall clock."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pybroker_kafka.broker.zk.change_notifications import CHANGE_EXPIRY_MS, ChangeNotifications
from pybroker_kafka.protocol.zookeeper.constants import ZkCode
from pybroker_kafka.protocol.zookeeper.operations import Delete, GetData, ZkResult

NODES = ["change_0000000001", "change_0000000002"]


class Client:
    """Answers reads with the name of the node, and keeps what is deleted."""

    def __init__(self) -> None:
        self.deleted: list[str] = []

    async def execute(self, operations: Sequence[Any]) -> list[ZkResult]:
        self.deleted += [one.path for one in operations if isinstance(one, Delete)]
        return [
            ZkResult(ZkCode.OK, data=one.path.encode())
            for one in operations
            if isinstance(one, GetData)
        ]


async def test_nodes_go_once_they_have_been_known_for_long() -> None:
    client: Any = Client()
    changes = ChangeNotifications(client, "/changes")
    told: list[bytes | None] = []

    async def tell(found: Sequence[bytes | None]) -> None:
        told.extend(found)

    await changes._process(NODES[:1], tell, 1_000, quiet=False)
    await changes._process(NODES, tell, 1_000 + CHANGE_EXPIRY_MS, quiet=False)
    assert told == [f"/changes/{name}".encode() for name in NODES]
    assert client.deleted == []
    later = [*NODES, "change_0000000003"]
    await changes._process(later, tell, 1_001 + CHANGE_EXPIRY_MS, quiet=False)
    assert client.deleted == [f"/changes/{NODES[0]}"]
