"""Mirrors between two clusters, in the test's own loop or as a process that can be killed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import trio

from pybroker_kafka import Cluster, Consumer
from pybroker_kafka.client.admin.topics import create_topic
from pybroker_kafka.client.consumer.received import Received
from pybroker_kafka.client.mirror.flow import Flow
from pybroker_kafka.client.mirror.mirror import Mirror
from pybroker_kafka.client.mirror.settings import read_settings
from tests.support.processes import BrokerProcess, zookeeper_process

WAIT_SECONDS = 120
SINGLE = {
    "replication.factor": "1",
    "checkpoints.topic.replication.factor": "1",
    "heartbeats.topic.replication.factor": "1",
    "offset-syncs.topic.replication.factor": "1",
    "offset.storage.replication.factor": "1",
    "offset.storage.partitions": "2",
    "offset.flush.interval.ms": "200",
    "emit.heartbeats.enabled": "false",
}


def properties(source: str, target: str, **more: str) -> dict[str, str]:
    """Of a flow from A to B; keys with underscores instead of dots, `A__B__` for `A->B.`."""
    named = {
        key.replace("A__B__", "A->B.").replace("B__A__", "B->A.").replace("_", "."): value
        for key, value in more.items()
    }
    return {
        "clusters": "A,B",
        "A.bootstrap.servers": source,
        "B.bootstrap.servers": target,
        "A->B.enabled": "true",
        **SINGLE,
        **named,
    }


class Ends(NamedTuple):
    """Two clusters of one broker each."""

    source: BrokerProcess
    target: BrokerProcess

    def properties(self, **more: str) -> dict[str, str]:
        return properties(self.source.bootstrap, self.target.bootstrap, **more)


@contextmanager
def running_ends(
    directory: Path, kinds: Sequence[type[BrokerProcess]], config: Mapping[str, str]
) -> Iterator[Ends]:
    """Of these kinds, the source first; each with a ZooKeeper of its own."""
    (directory / "one").mkdir()
    (directory / "two").mkdir()
    with (
        zookeeper_process(directory / "one") as one,
        zookeeper_process(directory / "two") as two,
    ):
        made = Ends(
            kinds[0](directory / "source", one, config),
            kinds[1](directory / "target", two, config),
        )
        try:
            for broker in made:
                broker.launch()
            for broker in made:
                broker.wait_until_ready()
            yield made
        finally:
            for broker in made:
                broker.kill()


@asynccontextmanager
async def running_mirror(given: Mapping[str, str], **seconds: float) -> AsyncIterator[list[Flow]]:
    """Its flows, until the block ends; then to its clean end. `seconds`: intervals of the flows,
    which files have in whole seconds."""
    told: list[str] = []
    settings = read_settings(given)
    flows = tuple(replace(flow, **seconds) for flow in settings.flows)  # type: ignore[arg-type]
    made = Mirror(replace(settings, flows=flows), told.append)
    stop = trio.Event()
    with trio.fail_after(2 * WAIT_SECONDS):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(made.run, stop)
            try:
                yield made.flows
            except BaseException as error:
                error.add_note(f"the mirror told: {told}")
                raise
            stop.set()


async def create(bootstrap: str, *topics: str, partitions: int = 1, **configs: str) -> None:
    named = {key.replace("_", "."): value for key, value in configs.items()}
    async with Cluster(bootstrap) as cluster:
        for topic in topics:
            await create_topic(cluster, topic, partitions=partitions, configs=named)
        for topic in topics:
            await cluster.led_topic(topic, wait_for_missing=True)


async def contents(
    bootstrap: str, topic: str, partitions: int, *, isolation: str = "read_committed"
) -> dict[int, list[Received]]:
    """All that is in a topic now, by partition."""
    found: dict[int, list[Received]] = defaultdict(list)
    async with Consumer(
        bootstrap, auto_offset_reset="earliest", isolation_level=isolation, auto_commit=False
    ) as consumer:
        await consumer.assign([(topic, number) for number in range(partitions)])
        ends = await consumer.end_offsets(consumer.assignment)
        with trio.fail_after(WAIT_SECONDS):
            while any((consumer.position(place) or 0) < end for place, end in ends.items()):
                for record in await consumer.poll(0.5, 100_000):
                    found[record.partition].append(record)
    return found


def bare(records: Iterable[Received]) -> list[tuple[object, ...]]:
    """Without where they are."""
    return [
        (one.timestamp, one.key, one.value, tuple((n, v) for n, v in one.headers))
        for one in records
    ]


async def until_copied(flow: Flow, records: int) -> None:
    with trio.fail_after(WAIT_SECONDS):
        while flow.stats.records < records:
            assert flow.stats.state != "failed", flow.stats.trouble
            await trio.sleep(0.01)
