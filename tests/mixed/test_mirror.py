"""The mirror with Apache Kafka at either end, read by MirrorMaker 2's client, and in turns with
MirrorMaker 2 itself."""

from __future__ import annotations

import random
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from pybroker_kafka import Cluster, Producer
from pybroker_kafka.client.admin.admin import Admin
from pybroker_kafka.client.admin.group_offsets import CommittedOffset
from pybroker_kafka.protocol.records.compression import Compression
from tests.support.apache_kafka import ApacheKafkaProcess
from tests.support.mirror_maker import mirror_maker_command, remote_clusters
from tests.support.mirrors import (
    Ends,
    bare,
    contents,
    create,
    properties,
    running_ends,
    running_mirror,
    until_copied,
)
from tests.support.processes import BrokerProcess

CONFIG = {
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
}
WAIT_SECONDS = 240
POLL_SECONDS = 0.2
GROUP = "billing"

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module", params=["from apache", "to apache"])
def ends(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Ends]:
    kinds = [ApacheKafkaProcess, BrokerProcess]
    if request.param == "to apache":
        kinds.reverse()
    with running_ends(tmp_path_factory.mktemp("ends"), kinds, CONFIG) as made:
        yield made


async def fill(bootstrap: str, topic: str, rng: random.Random) -> None:
    """Batches of every codec and size, in and outside of transactions, some of them aborted."""
    number = 0
    for codec in Compression:
        async with Producer(bootstrap, compression=codec, linger_ms=5) as producer:
            for _ in range(40):
                value = rng.randbytes(rng.choice([10, 500, 20_000]))
                await producer.enqueue(topic, value, key=b"%d" % number, headers=[("n", b"x")])
                number += 1
        async with Producer(
            bootstrap, transactional_id=f"t-{codec}", compression=codec
        ) as producer:
            for is_kept in (True, False, True):
                producer.begin_transaction()
                for _ in range(rng.choice([1, 30])):
                    await producer.enqueue(topic, b"in %d" % is_kept, key=b"%d" % number)
                    number += 1
                if is_kept:
                    await producer.commit_transaction()
                else:
                    await producer.flush()
                    await producer.abort_transaction()


async def test_records_and_groups_and_what_java_reads_of_them(ends: Ends) -> None:
    source, target = ends.source.bootstrap, ends.target.bootstrap
    await create(source, "orders", partitions=2)
    await fill(source, "orders", random.Random(5))
    wanted = await contents(source, "orders", 2)
    count = sum(map(len, wanted.values()))
    given = properties(
        source,
        target,
        A__B__topics="orders",
        exactly_once_source_support="enabled",
        emit_heartbeats_enabled="true",
        emit_checkpoints_interval_seconds="1",
        refresh_groups_interval_seconds="1",
        sync_group_offsets_enabled="true",
        sync_group_offsets_interval_seconds="1",
    )
    async with Cluster(source) as cluster:
        at_end = {("orders", n): CommittedOffset(one[-1].offset + 1) for n, one in wanted.items()}
        (await Admin(cluster).group_offsets.alter(GROUP, at_end)).all()
    async with running_mirror(given) as flows:
        await until_copied(flows[0], count)
        with trio.fail_after(WAIT_SECONDS):
            async with Cluster(target) as cluster:
                while True:
                    there = (await Admin(cluster).group_offsets.list(GROUP)).values
                    if len(there) == 2:
                        break
                    await trio.sleep(POLL_SECONDS)
    found = await contents(target, "A.orders", 2)
    assert {n: bare(one) for n, one in found.items()} == {n: bare(o) for n, o in wanted.items()}
    ends_there = {n: one[-1].offset + 1 for n, one in found.items()}
    assert {n: there["A.orders", n].offset for n in ends_there} == ends_there
    told = await trio.to_thread.run_sync(remote_clusters, target, "A", GROUP)
    assert told == [
        "upstream [A]",
        "hops 1",
        "heartbeats [A.heartbeats, heartbeats]",
        "checkpoints [A.checkpoints.internal]",
        *(f"offset A.orders-{n} {end} " for n, end in sorted(ends_there.items())),
    ]


async def test_mirror_maker_goes_on_where_we_were_and_we_where_it_was(
    ends: Ends, tmp_path: Path
) -> None:
    source, target = ends.source.bootstrap, ends.target.bootstrap
    await create(source, "turns", partitions=2)
    given = properties(
        source,
        target,
        A__B__topics="turns",
        status_storage_replication_factor="1",
        config_storage_replication_factor="1",
    )
    given["B.offset.flush.interval.ms"] = "500"
    total = 0

    async def add(count: int) -> None:
        nonlocal total
        async with Producer(source) as producer:
            for number in range(total, total + count):
                await producer.enqueue("turns", b"%d" % number, key=b"%d" % number)
        total += count

    await add(300)
    async with running_mirror(given) as flows:
        await until_copied(flows[0], 300)
    await add(200)
    await run_mirror_maker(given, tmp_path, target, total)
    await add(100)
    async with running_mirror(given) as flows:
        await until_copied(flows[0], 100)
        assert flows[0].stats.records == 100
    before = await contents(source, "turns", 2)
    after = await contents(target, "A.turns", 2)
    assert {n: bare(one) for n, one in after.items()} == {n: bare(o) for n, o in before.items()}


async def run_mirror_maker(
    given: dict[str, str], directory: Path, target: str, wanted: int
) -> None:
    """Until there are so many records at the target, and their positions are written."""
    file = directory / "mirror.properties"
    await trio.Path(file).write_text("".join(f"{key} = {value}\n" for key, value in given.items()))
    with (directory / "log").open("wb") as log:
        command = mirror_maker_command(file, "-Xmx512m")
        process = subprocess.Popen(command, stdout=log, stderr=log)  # noqa: ASYNC220
    try:
        with trio.fail_after(WAIT_SECONDS):
            while True:
                found = await contents(target, "A.turns", 2)
                if sum(map(len, found.values())) >= wanted:
                    break
                assert process.poll() is None
                await trio.sleep(POLL_SECONDS)
    finally:
        process.send_signal(signal.SIGINT)
        await trio.to_thread.run_sync(process.wait)
