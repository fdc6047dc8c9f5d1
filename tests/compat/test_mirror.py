"""The mirror between two clusters of one broker each, and what its command tells."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from pybroker import Producer
from tests.support.mirrors import (
    bare,
    contents,
    create,
    properties,
    running_mirror,
    until_copied,
)
from tests.support.processes import BrokerProcess, zookeeper_process

CONFIG = {
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
}
_names = itertools.count()


class Ends(NamedTuple):
    source: BrokerProcess
    target: BrokerProcess

    def properties(self, **more: str) -> dict[str, str]:
        return properties(self.source.bootstrap, self.target.bootstrap, **more)


@pytest.fixture(scope="module")
def ends(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ends]:
    directory = tmp_path_factory.mktemp("ends")
    (directory / "one").mkdir()
    (directory / "two").mkdir()
    with (
        zookeeper_process(directory / "one") as one,
        zookeeper_process(directory / "two") as two,
    ):
        made = Ends(
            BrokerProcess(directory / "source", one, CONFIG),
            BrokerProcess(directory / "target", two, CONFIG),
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


@pytest.fixture
def topic() -> str:
    return f"topic-{next(_names)}"


async def fill(bootstrap: str, topic: str, count: int, first: int = 0) -> None:
    async with Producer(bootstrap, linger_ms=20) as producer:
        for number in range(first, first + count):
            await producer.enqueue(
                topic,
                b"value %d" % number,
                key=b"%d" % number,
                headers=[("n", b"%d" % number)],
                timestamp_ms=1_700_000_000_000 + number,
            )


@pytest.mark.parametrize("support", ["disabled", "enabled"])
async def test_a_topic_is_copied_and_copying_goes_on_after_a_restart(
    ends: Ends, topic: str, support: str, tmp_path: Path
) -> None:
    await create(ends.source.bootstrap, topic, partitions=2)
    given = ends.properties(A__B__topics=topic, exactly_once_source_support=support)
    for start in (0, 500):
        await fill(ends.source.bootstrap, topic, 500, start)
        async with running_mirror(given) as flows:
            await until_copied(flows[0], 500)
        assert flows[0].stats.records == 500
    source = await contents(ends.source.bootstrap, topic, 2)
    target = await contents(ends.target.bootstrap, f"A.{topic}", 2)
    assert sum(map(len, source.values())) == 1000
    for partition, records in source.items():
        assert bare(target[partition]) == bare(records)
