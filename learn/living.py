"""The living cluster as the course asks it: through the client, and through its metrics ports.

Each answer is of this moment; nothing is kept.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import urlencode

import trio

from ..client.admin.admin import Admin
from ..client.cluster import Cluster
from ..client.consumer.consumer import Consumer
from ..client.consumer.received import Received
from ..local.metrics_ports import Address, read_path
from ..protocol.apis.metadata import MetadataResponsePartition
from ..protocol.errors import ErrorCode

READ_SECONDS: Final = 20.0
POLL_SECONDS: Final = 1.0


class NoAnswer(Exception):
    """The cluster has no answer at this moment; the text says why."""


class Living:
    """`cluster` is open; `ports`: where the brokers that run serve their metrics, by id."""

    def __init__(self, cluster: Cluster, ports: Callable[[], Mapping[int, Address]]) -> None:
        self.cluster = cluster
        self.admin = Admin(cluster)
        self._ports = ports

    async def partitions(self, topic: str) -> dict[int, MetadataResponsePartition]:
        """Raises NoAnswer, ClientError."""
        found = (await self.cluster.metadata([topic])).topics[0]
        if found.error_code != ErrorCode.NONE:
            raise NoAnswer(f"there is no topic {topic} now")
        return {one.partition_index: one for one in found.partitions}

    async def partition(self, topic: str, number: int) -> MetadataResponsePartition:
        """Raises NoAnswer, ClientError."""
        found = (await self.partitions(topic)).get(number)
        if found is None:
            raise NoAnswer(f"{topic} has no partition {number}")
        return found

    async def records(self, topic: str, *, committed: bool = False) -> list[Received]:
        """All records that a consumer reads now, by partition. Raises NoAnswer, ClientError."""
        places = [(topic, number) for number in sorted(await self.partitions(topic))]
        isolation = "read_committed" if committed else "read_uncommitted"
        found: list[Received] = []
        with trio.move_on_after(READ_SECONDS) as scope:
            async with Consumer(
                self.cluster, isolation_level=isolation, auto_offset_reset="earliest"
            ) as consumer:
                ends = await consumer.end_offsets(places)
                await consumer.assign(places)
                while any((consumer.position(one) or 0) < ends[one] for one in places):
                    found += await consumer.poll(POLL_SECONDS)
        if scope.cancelled_caught:
            raise NoAnswer(f"{topic} could not be read in {READ_SECONDS:.0f} s")
        return sorted(found, key=lambda one: (one.partition, one.offset))

    async def inside(self, broker: int, view: str, **query: object) -> Any:
        """A view of a broker's inside. Raises NoAnswer."""
        address = self._ports().get(broker)
        if address is None:
            raise NoAnswer(f"broker {broker} does not run, or has no metrics port")
        answer = await read_path(address, f"/inside/{view}?{urlencode(query)}")
        if answer is None:
            raise NoAnswer(f"broker {broker} does not answer at its metrics port")
        found = json.loads(answer.body)
        if not answer.is_ok:
            raise NoAnswer(str(found["error"]))
        return found

    async def znode(self, path: str) -> Any:
        """A znode, asked through any broker that runs. Raises NoAnswer."""
        problem = NoAnswer("no broker runs")
        for broker in sorted(self._ports()):
            try:
                return await self.inside(broker, "znode", path=path)
            except NoAnswer as error:
                problem = error
        raise problem
