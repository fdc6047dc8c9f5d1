"""When a broker's metadata first has another leader of a partition."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import trio

from pybroker_kafka.client.cluster import Cluster
from pybroker_kafka.client.errors import ClientError

EVERY_SECONDS = 0.02


@dataclass
class Moved:
    """`at`: of the system's clock in s; `slowest`: the longest that a look has taken, in s."""

    at: float = 0.0
    slowest: float = 0.0


@contextmanager
def leader_watch(bootstrap: str, topic: str, partition: int) -> Iterator[Moved]:
    """Looks from now on until it has moved; at its end it has."""
    moved, looks = Moved(), threading.Event()

    async def watch() -> None:
        before = -1
        async with Cluster(bootstrap) as cluster:
            while not moved.at:
                began = time.time()
                try:
                    answer = await cluster.metadata([topic])
                    leaders = {p.partition_index: p.leader_id for p in answer.topics[0].partitions}
                    leader = leaders[partition]
                except ClientError:
                    leader = before
                moved.slowest = max(moved.slowest, time.time() - began)
                if before >= 0 and leader >= 0 and leader != before:
                    moved.at = time.time()
                before = leader if leader >= 0 else before
                looks.set()
                await trio.sleep(EVERY_SECONDS)

    thread = threading.Thread(target=trio.run, args=(watch,))
    thread.start()
    looks.wait()
    yield moved
    thread.join()
