"""The mirror between two clusters of one broker each, and what its command tells."""

from __future__ import annotations

import itertools
import json
import re
import signal
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import trio

from pybroker_kafka import ClientError, Cluster, Consumer, Producer
from pybroker_kafka.client.admin.acls import Acl
from pybroker_kafka.client.admin.admin import Admin
from pybroker_kafka.client.admin.configs import (
    Alteration,
    ConfigOperation,
    ConfigResource,
    ConfigSource,
    ResourceKind,
)
from pybroker_kafka.client.admin.group_offsets import CommittedOffset
from pybroker_kafka.client.admin.topics import delete_topic
from pybroker_kafka.client.errors import ProducerFenced
from pybroker_kafka.client.mirror import copying
from pybroker_kafka.client.mirror.flow import Flow
from pybroker_kafka.client.mirror.formats import Checkpoint
from pybroker_kafka.client.mirror.mirror import Mirror
from pybroker_kafka.client.mirror.settings import read_settings
from pybroker_kafka.client.mirror.simple import SimpleMirror, SimpleSettings
from pybroker_kafka.client.mirror.topic_plan import ALLOW, LITERAL, READ, TOPIC, WRITE
from pybroker_kafka.protocol.apis.describe_acls import DescribeAclsRequest
from pybroker_kafka.testing import Command
from tests.support.mirrors import (
    WAIT_SECONDS,
    Ends,
    bare,
    contents,
    create,
    properties,
    running_ends,
    running_mirror,
    until_copied,
)
from tests.support.patience import eventually
from tests.support.processes import BrokerProcess, free_port

CONFIG = {
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
}
EAGER = {"checkpoints": 0.1, "sync_groups": 0.1, "refresh_groups": 0.1}
_names = itertools.count()


@pytest.fixture(scope="module")
def ends(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ends]:
    with running_ends(
        tmp_path_factory.mktemp("ends"), (BrokerProcess, BrokerProcess), CONFIG
    ) as made:
        yield made


@pytest.fixture(autouse=True)
def short_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mirror in this process does not wait a second for more to come."""
    monkeypatch.setattr(copying, "TRANSACTION_SECONDS", 0.1)


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


async def wait_for_checkpoint(flow: Flow, before: int) -> None:
    """Until one more than `before` has been written."""
    await eventually(lambda: flow.stats.checkpoints > before, seconds=WAIT_SECONDS)


async def test_groups_are_told_where_they_stand_at_the_target(ends: Ends, topic: str) -> None:
    """Also once the group has gone on; and those with members at the target are left alone."""
    group, remote = f"group-of-{topic}", f"A.{topic}"
    await create(ends.source.bootstrap, topic)
    await fill(ends.source.bootstrap, topic, 300)
    given = ends.properties(A__B__topics=topic, A__B__groups=group)

    async def stand(offset: int) -> None:
        async with Cluster(ends.source.bootstrap) as cluster:
            offsets = {(topic, 0): CommittedOffset(offset, metadata="note")}
            (await Admin(cluster).group_offsets.alter(group, offsets)).all()

    async def wait_for(offset: int) -> None:
        async with Cluster(ends.target.bootstrap) as cluster:
            with trio.fail_after(WAIT_SECONDS):
                while True:
                    found = await Admin(cluster).group_offsets.list(group)
                    one = found.values.get((remote, 0))
                    if one is not None and one.offset == offset:
                        return
                    await trio.sleep(0.05)

    await stand(100)
    async with running_mirror(given, **EAGER) as flows:
        await wait_for(1)  # behind the only pair that there is before it
        await stand(300)
        await wait_for(300)
        before = flows[0].stats.checkpoints
        await stand(200)
        await wait_for_checkpoint(flows[0], before)  # it never goes back
        member = Consumer(ends.target.bootstrap, group_id=group, auto_commit=False)
        async with member:
            await member.subscribe([remote])
            with trio.fail_after(WAIT_SECONDS):
                while (remote, 0) not in member.assignment:
                    await member.poll(0.1)
            await fill(ends.source.bootstrap, topic, 10, 300)
            await until_copied(flows[0], 310)
            before = flows[0].stats.checkpoints
            await stand(310)
            await wait_for_checkpoint(flows[0], before)
            async with Cluster(ends.target.bootstrap) as cluster:
                found = (await Admin(cluster).group_offsets.list(group)).all()
            assert found[remote, 0].offset == 300
        await wait_for(310)
    written = (await contents(ends.target.bootstrap, "A.checkpoints.internal", 1))[0]
    mine = [one for r in written if (one := Checkpoint.parse(r.key, r.value)).group == group]
    assert mine[-1].source_offset == mine[-1].target_offset == 310
    assert any(one.source_offset == 200 for one in mine)
    assert {one.topic for one in mine} == {remote}
    assert {one.metadata for one in mine} == {"note"}


async def test_topics_that_grow_and_their_configs_follow(ends: Ends, topic: str) -> None:
    await create(
        ends.source.bootstrap, topic, delete_retention_ms="123456", min_insync_replicas="1"
    )
    given = ends.properties(A__B__topics=f"{topic}.*")
    await fill(ends.source.bootstrap, topic, 10)
    async with running_mirror(given, refresh_topics=0.1, sync_configs=0.1) as flows:
        await until_copied(flows[0], 10)
        assert await config(ends.target.bootstrap, f"A.{topic}") == {
            "delete.retention.ms": "123456"
        }
        async with Cluster(ends.source.bootstrap) as cluster:
            (await Admin(cluster).topics.add_partitions({topic: 3})).all()
            resource = ConfigResource(ResourceKind.TOPIC, topic)
            changes = [
                Alteration("delete.retention.ms", ConfigOperation.DELETE, None),
                Alteration("cleanup.policy", ConfigOperation.SET, "compact,delete"),
            ]
            (await Admin(cluster).configs.alter({resource: changes})).all()
        await create(ends.source.bootstrap, f"{topic}-two")
        await fill(ends.source.bootstrap, topic, 100, 10)
        await fill(ends.source.bootstrap, f"{topic}-two", 5)
        await until_copied(flows[0], 115)
        with trio.fail_after(WAIT_SECONDS):
            wanted = {"cleanup.policy": "compact,delete"}
            while await config(ends.target.bootstrap, f"A.{topic}") != wanted:  # noqa: ASYNC110
                await trio.sleep(0.05)
    source = await contents(ends.source.bootstrap, topic, 3)
    target = await contents(ends.target.bootstrap, f"A.{topic}", 3)
    assert {n: bare(found) for n, found in target.items()} == {
        n: bare(found) for n, found in source.items()
    }


async def config(bootstrap: str, topic: str) -> dict[str, str | None]:
    """What is set for a topic itself."""
    resource = ConfigResource(ResourceKind.TOPIC, topic)
    async with Cluster(bootstrap) as cluster:
        found = (await Admin(cluster).configs.describe([resource])).all()[resource]
    return {one.name: one.value for one in found if one.source is ConfigSource.TOPIC}


async def test_two_flows_copy_in_both_directions_and_nothing_in_circles(
    ends: Ends, topic: str
) -> None:
    """And who may read at the source may read the copy."""
    for bootstrap, count in ((ends.source.bootstrap, 10), (ends.target.bootstrap, 5)):
        await create(bootstrap, topic)
        await fill(bootstrap, topic, count)
    async with Cluster(ends.source.bootstrap) as cluster:
        acls = [Acl(TOPIC, topic, LITERAL, "User:alice", "*", op, ALLOW) for op in (READ, WRITE)]
        await Admin(cluster).acls.create(acls)
    given = ends.properties(A__B__topics=f".*{topic}", B__A__topics=f".*{topic}")
    given["B->A.enabled"] = "true"
    async with running_mirror(given, refresh_topics=0.1) as flows:
        await until_copied(flows[0], 10)
        await until_copied(flows[1], 5)
        async with Cluster(ends.target.bootstrap) as cluster:
            with trio.fail_after(WAIT_SECONDS):
                while True:
                    found = await Admin(cluster).acls.list(acls_of(f"A.{topic}"))
                    if found:
                        break
                    await trio.sleep(0.05)
    assert [(one.principal, one.operation) for one in found] == [("User:alice", READ)]
    assert (flows[0].stats.records, flows[1].stats.records) == (10, 5)
    assert [flow.stats.topics for flow in flows] == [1, 1]


def acls_of(topic: str) -> DescribeAclsRequest:
    return DescribeAclsRequest(
        resource_type_filter=TOPIC, resource_name_filter=topic, pattern_type_filter=LITERAL,
        principal_filter=None, host_filter=None, operation=1, permission_type=1,
    )  # fmt: skip


async def test_exactly_once_a_second_mirror_ends_the_first(ends: Ends, topic: str) -> None:
    await create(ends.source.bootstrap, topic)
    await fill(ends.source.bootstrap, topic, 10)
    given = ends.properties(A__B__topics=topic, exactly_once_source_support="enabled")
    first = Flow(read_settings(given).flows[0], print)
    async with trio.open_nursery() as nursery:

        async def run() -> None:
            with pytest.raises(ProducerFenced):
                await first.run(trio.Event())

        nursery.start_soon(run)
        await until_copied(first, 10)
        async with running_mirror(given) as flows:
            await eventually(lambda: flows[0].stats.state == "running", seconds=WAIT_SECONDS)
            await fill(ends.source.bootstrap, topic, 10, 10)
            await until_copied(flows[0], 10)
    assert first.stats.state == "failed"
    found = await contents(ends.target.bootstrap, f"A.{topic}", 1)
    assert [one.key for one in found[0]] == [b"%d" % n for n in range(20)]


async def test_a_record_that_the_target_refuses_ends_the_mirror(ends: Ends, topic: str) -> None:
    """Also where a flow without topics would still emit heartbeats."""
    await create(ends.source.bootstrap, topic)
    await create(ends.target.bootstrap, f"A.{topic}", max_message_bytes="2000")
    async with Producer(ends.source.bootstrap) as producer:
        for size in (10, 3000, 20):
            await producer.send(topic, b"x" * size)
    given = ends.properties(
        A__B__topics=topic, emit_heartbeats_enabled="true", sync_topic_configs_enabled="false"
    )
    made = Mirror(read_settings(given), print)
    with trio.fail_after(WAIT_SECONDS), pytest.raises(ClientError, match="MESSAGE_TOO_LARGE"):
        await made.run(trio.Event())
    assert [one.state for one in made.stats] == ["failed", "stopped"]
    for broker in ends:  # or other tests would copy them
        async with Cluster(broker.bootstrap) as cluster:
            await delete_topic(cluster, "heartbeats")


async def test_a_cluster_that_is_not_there_is_waited_for_until_ctrl_c(ends: Ends) -> None:
    nowhere = f"127.0.0.1:{free_port()}"
    given = properties(ends.source.bootstrap, nowhere)
    async with running_mirror(given) as flows:
        await eventually(lambda: flows[0].stats.state == "waiting", seconds=WAIT_SECONDS)
    assert flows[0].stats.state == "stopped"
    assert f"no broker answers at {nowhere}" in flows[0].stats.trouble


@pytest.mark.parametrize("support", ["disabled", "enabled"])
async def test_a_mirror_that_is_killed_loses_nothing(
    ends: Ends, topic: str, support: str, tmp_path: Path
) -> None:
    """Exactly once nothing comes twice either. Every batch is small: there are many to cut into."""
    await create(ends.source.bootstrap, topic, partitions=3)
    given = ends.properties(A__B__topics=topic, exactly_once_source_support=support)
    count = 3_000
    async with trio.open_nursery() as nursery:
        nursery.start_soon(fill, ends.source.bootstrap, topic, count)
        for attempt in range(2):
            process = started_mirror(given, tmp_path / f"log-{attempt}")
            wanted = 1 + attempt * count // 2
            while await records_at(ends.target.bootstrap, f"A.{topic}", 3) < wanted:  # noqa: ASYNC110
                await trio.sleep(0.02)
            process.send_signal(signal.SIGKILL)
            await trio.to_thread.run_sync(process.wait)
    process = started_mirror(given, tmp_path / "log")
    await fill(ends.source.bootstrap, topic, 1, count)  # it is up once this is there
    count += 1
    source = await contents(ends.source.bootstrap, topic, 3)
    with trio.fail_after(WAIT_SECONDS):
        while True:
            target = await contents(ends.target.bootstrap, f"A.{topic}", 3)
            if sum(len({one.value for one in target[n]}) for n in target) == count:
                break
            await trio.sleep(0.1)
    process.send_signal(signal.SIGINT)
    assert await trio.to_thread.run_sync(process.wait) == 0, (tmp_path / "log").read_text()
    assert re.search(r"^A->B: [0-9,]+ records", (tmp_path / "log").read_text(), re.MULTILINE)
    for partition, records in source.items():
        found = bare(target[partition])
        if support == "enabled":
            assert found == bare(records)
        else:  # in order, but for what came again
            assert list(dict.fromkeys(found)) == bare(records)


async def records_at(bootstrap: str, topic: str, partitions: int) -> int:
    """As far as topics that may not be there yet have any."""
    async with Cluster(bootstrap) as cluster:
        (found,) = (await cluster.metadata([topic])).topics
        if found.error_code:
            return 0
        consumer = Consumer(bootstrap, isolation_level="read_committed")
        async with consumer:
            places = [(topic, number) for number in range(partitions)]
            return sum((await consumer.end_offsets(places)).values())


def started_mirror(given: Mapping[str, str], log: Path, *words: str) -> Command:
    file = log.with_suffix(".properties")
    file.write_text("".join(f"{key} = {value}\n" for key, value in given.items()))
    return Command("mirror", str(file), *words, output=log)


def lines_of(log: Path) -> list[str]:
    return log.read_text().splitlines() if log.exists() else []


async def told(log: Path, words: str) -> str:
    """The first line that has the words, once it is there."""
    with trio.fail_after(WAIT_SECONDS):
        while True:
            for line in lines_of(log):
                if words in line:
                    return line
            await trio.sleep(0.02)


async def test_lines_for_programs_and_metrics(ends: Ends, topic: str, tmp_path: Path) -> None:
    await create(ends.source.bootstrap, topic)
    await fill(ends.source.bootstrap, topic, 20)
    log = tmp_path / "log"
    given = ends.properties(A__B__topics=topic)
    process = started_mirror(given, log, "--json", "--metrics-port", "0")
    address = (await told(log, "metrics on ")).split()[-1]
    line = json.loads(await told(log, '"records": 20'))
    assert (line["flow"], line["topics"], line["bytes"] > 0) == ("A->B", 1, True)
    found = await trio.to_thread.run_sync(lambda: urllib.request.urlopen(address).read().decode())
    place = f'{{partition="0",source="A",target="B",topic="A.{topic}"}}'
    assert f"kafka_connect_mirror_mirrorsourceconnector_record_count_total{place} 20.0" in found
    assert 'pybroker_mirror_lag{flow="A->B"} ' in found
    process.send_signal(signal.SIGINT)
    assert await trio.to_thread.run_sync(process.wait) == 0
    last = json.loads(lines_of(log)[-1])
    assert (last["event"], last["flow"], last["records"]) == ("stopped", "A->B", 20)


async def test_simple(ends: Ends, topic: str) -> None:
    """Records go to a topic of the same name, and the group says what was copied."""
    await create(ends.source.bootstrap, topic, partitions=2)
    await create(ends.target.bootstrap, topic, partitions=3)
    flow = read_settings(ends.properties()).flows[0]
    settings = SimpleSettings(
        source=flow.source, target=flow.target, topics=topic, group=f"movers-{topic}",
        offset_reset="earliest", commit_seconds=0.1,
    )  # fmt: skip
    for start in (0, 100):
        await fill(ends.source.bootstrap, topic, 100, start)
        made = SimpleMirror(settings, print)
        stop = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(made.run, stop)
            await eventually(lambda: made.stats[0].records >= 100, seconds=WAIT_SECONDS)  # noqa: B023
            stop.set()
    source = await contents(ends.source.bootstrap, topic, 2)
    target = await contents(ends.target.bootstrap, topic, 3)
    before = [one for records in source.values() for one in bare(records)]
    after = [one for records in target.values() for one in bare(records)]
    assert sorted(before) == sorted(after)
    assert len(after) == 200


@pytest.mark.parametrize("aborts", [True, False])
async def test_simple_with_records_that_are_refused(ends: Ends, topic: str, aborts: bool) -> None:
    await create(ends.source.bootstrap, topic)
    await create(ends.target.bootstrap, topic, max_message_bytes="2000")
    async with Producer(ends.source.bootstrap) as producer:
        for size in (10, 3000, 20):
            await producer.send(topic, b"x" * size)
    flow = read_settings(ends.properties()).flows[0]
    settings = SimpleSettings(
        source=flow.source, target=flow.target, topics=topic, group=f"movers-{topic}",
        offset_reset="earliest", commit_seconds=0.1, aborts=aborts,
    )  # fmt: skip
    made = SimpleMirror(settings, print)
    stop = trio.Event()
    with trio.fail_after(WAIT_SECONDS):
        if aborts:
            with pytest.raises(ClientError, match="MESSAGE_TOO_LARGE"):
                await made.run(stop)
            return
        async with trio.open_nursery() as nursery:
            nursery.start_soon(made.run, stop)
            while made.stats[0].records < 2:  # noqa: ASYNC110
                await trio.sleep(0.02)
            stop.set()
    assert made.dropped == 1
    (records,) = (await contents(ends.target.bootstrap, topic, 1)).values()
    assert [len(one.value or b"") for one in records] == [10, 20]
