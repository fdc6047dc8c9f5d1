"""Our clients, administration and commands at Apache Kafka 0.10.0 to 4.3, ten years of brokers.

What a release does not have is refused with one line that says since when Kafka has it. About a
minute, most of it the start of six brokers; `make mixed` runs it.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from typing import Any, NamedTuple

import pytest
import trio
from confluent_kafka import Consumer as ConfluentConsumer

from pybroker_kafka import Admin, Cluster, Consumer, Producer, Received
from pybroker_kafka.client.admin.acls import Acl
from pybroker_kafka.client.admin.config_types import (
    Alteration,
    ConfigOperation,
    ConfigResource,
    ResourceKind,
)
from pybroker_kafka.client.admin.partitions import ElectionKind
from pybroker_kafka.client.admin.records import EARLIEST, HIGH_WATERMARK, LATEST, NEWEST
from pybroker_kafka.client.admin.results import Results
from pybroker_kafka.client.admin.topics import NewTopic
from pybroker_kafka.client.cluster import retrying
from pybroker_kafka.client.errors import ClientError, Refused, Unsupported
from pybroker_kafka.protocol.apis.delete_acls import DeleteAclsFilter
from pybroker_kafka.protocol.apis.describe_acls import DescribeAclsRequest
from tests.support.commands import Commands
from tests.support.kafka_releases import KRaftProcess, ReleaseProcess
from tests.support.patience import fair
from tests.support.processes import BrokerProcess, zookeeper_process

WAIT_SECONDS = 120.0
QUICKLY_SECONDS = 10.0  # what is missing is not asked for again and again
TIMESTAMP = 1_600_000_000_000
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
CONFIG = {
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "offsets.topic.replication.factor": "1",
    "delete.topic.enable": "true",
    "num.partitions": "3",
}
AUTHORIZERS = {
    "1.1.1": "kafka.security.auth.SimpleAclAuthorizer",
    "2.8.2": "kafka.security.authorizer.AclAuthorizer",
    "4.1.0": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "4.3.1": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
}


class Place(NamedTuple):
    """A broker of a release, (0, 10, 2) for example."""

    release: tuple[int, ...]
    bootstrap: str

    @property
    def commands(self) -> Commands:
        return Commands(self.bootstrap)


@pytest.fixture(scope="module", params=["0.10.0.1", "0.10.2.2", "1.1.1", "2.8.2", "4.1.0", "4.3.1"])
def place(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Place]:
    version: str = request.param
    release = tuple(map(int, version.split(".")))
    directory = tmp_path_factory.mktemp(version)
    config = dict(CONFIG)
    if version in AUTHORIZERS:
        config |= {
            "authorizer.class.name": AUTHORIZERS[version],
            "super.users": "User:ANONYMOUS",
            "allow.everyone.if.no.acl.found": "true",
        }
    with zookeeper_process(directory) as connect:
        broker: BrokerProcess = (
            KRaftProcess(version, directory, config)
            if release[0] >= 4
            else ReleaseProcess(version, directory, connect, config)
        )
        broker.start()
        try:
            yield Place(release, broker.bootstrap)
        finally:
            broker.kill()


@pytest.fixture
def topic(place: Place) -> str:
    """Of two partitions, or of three where nobody can create it."""
    name = f"t-{uuid.uuid4().hex[:8]}"
    if place.release >= (0, 10, 1):
        place.commands.text("topics", "create", name, "-p", "2", "-r", "1")
    return name


def consumer_of(place: Place, group: str | None, **options: Any) -> Consumer:
    return Consumer(place.bootstrap, group_id=group, auto_offset_reset="earliest", **options)


async def read(consumer: Consumer, count: int) -> list[Received]:
    records: list[Received] = []
    with trio.fail_after(WAIT_SECONDS):
        async for record in consumer:
            records.append(record)
            if len(records) == count:
                break
    return records


def all_of(found: object) -> None:
    """Raises Refused."""
    if isinstance(found, Results):
        found.all()


async def refused(work: Awaitable[object], since: str) -> None:
    """At once, with one line."""
    began = fair.now()
    with pytest.raises(ClientError, match=rf"since {since}$"):
        all_of(await work)
    assert fair.now() - began < QUICKLY_SECONDS


async def test_every_codec(place: Place, topic: str) -> None:
    """Written by our producer, read by our consumer and by librdkafka."""
    headers = (("h", b"1"), ("h", None)) if place.release >= (0, 11) else ()
    expected = []
    told: list[str] = []
    for codec in CODECS:
        async with Producer(place.bootstrap, compression=codec, report=told.append) as producer:
            deliveries = [
                await producer.enqueue(
                    topic, b"%s %d" % (codec.encode(), n), key=None if n % 7 else b"k%d" % n,
                    partition=1 if n % 3 else 0, headers=headers, timestamp_ms=TIMESTAMP + n,
                )
                for n in range(200)
            ]  # fmt: skip
            if codec == "zstd" and place.release < (2, 1):
                with pytest.raises(Unsupported, match=r"too old for zstd.* since 2\.1$"):
                    await deliveries[0].wait()
                continue
            offsets = [(await one.wait()).offset for one in deliveries]
        for partition in (0, 1):
            mine = [at for n, at in enumerate(offsets) if bool(n % 3) == bool(partition)]
            assert mine == list(range(mine[0], mine[0] + len(mine)))
        expected += [
            (int(bool(n % 3)), None if n % 7 else b"k%d" % n, b"%s %d" % (codec.encode(), n),
             TIMESTAMP + n, headers)
            for n in range(200)
        ]  # fmt: skip
    assert bool(told) == (place.release < (0, 11)), told
    async with consumer_of(place, None) as consumer:
        await consumer.assign([(topic, 0), (topic, 1)])
        found = await read(consumer, len(expected))
    rows = [(r.partition, r.key, r.value, r.timestamp, tuple(r.headers)) for r in found]
    for partition in (0, 1):
        assert [row for row in rows if row[0] == partition] == [
            row for row in expected if row[0] == partition
        ]
    settings = {
        "bootstrap.servers": place.bootstrap, "group.id": f"theirs-{topic}",
        "auto.offset.reset": "earliest",
    }  # fmt: skip
    with closing(ConfluentConsumer(settings)) as theirs:
        theirs.subscribe([topic])
        messages: list[Any] = []
        deadline = time.monotonic() + WAIT_SECONDS
        while len(messages) < len(expected):
            assert time.monotonic() < deadline
            messages += await trio.to_thread.run_sync(theirs.consume, 1000, 0.2)
    theirs_rows = [
        (m.partition(), m.key(), m.value(), m.timestamp()[1], tuple(m.headers() or ()))
        for m in messages
    ]
    assert sorted(theirs_rows, key=repr) == sorted(expected, key=repr)


async def test_what_it_cannot_write(place: Place, topic: str) -> None:
    """Before 0.11 headers are refused, and idempotence where it was asked for by name."""
    async with Producer(place.bootstrap) as producer:
        sending = producer.send(topic, b"x", headers=(("a", b"b"),))
        if place.release >= (0, 11):
            await sending
        else:
            await refused(sending, r"0\.11")
        await producer.send(topic, b"without")
    async with Producer(place.bootstrap, idempotence=True) as producer:
        sending = producer.send(topic, b"x")
        if place.release >= (0, 11):
            await sending
        else:
            await refused(sending, r"0\.11")
    async with Producer(place.bootstrap, acks=0, idempotence=False) as producer:
        assert (await producer.send(topic, b"x")).offset == -1


async def test_a_group(place: Place, topic: str) -> None:
    """Two members share it; what they committed is where the next one begins."""
    async with Producer(place.bootstrap, report=lambda _: None) as producer:
        for n in range(100):
            await producer.enqueue(topic, b"%d" % n, partition=n % 2)
    seen: set[bytes] = set()
    assigned: list[int] = []

    async def member(*, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        async with consumer_of(place, f"g-{topic}", session_timeout_seconds=6.0) as consumer:
            await consumer.subscribe([topic])
            task_status.started()
            async for record in consumer:
                seen.add(bytes(record.value or b""))
                assigned.append(len(consumer.assignment))

    with trio.fail_after(WAIT_SECONDS):
        async with trio.open_nursery() as nursery:
            await nursery.start(member)
            await nursery.start(member)
            async for _ in retrying():
                if len(seen) == 100:
                    break
            async with consumer_of(place, f"g-{topic}-2") as other:
                await other.subscribe([topic])
                await read(other, 60)
                await other.commit()
            nursery.cancel_scope.cancel()
    assert assigned
    async with consumer_of(place, f"g-{topic}-2") as other:
        await other.subscribe([topic])
        assert len(await read(other, 40)) == 40
        assert await other.poll(0.1) == []


async def test_offsets_at_times(place: Place, topic: str) -> None:
    async with Producer(place.bootstrap, report=lambda _: None) as producer:
        for n in range(10):
            await producer.send(topic, b"x", partition=0, timestamp_ms=TIMESTAMP + n)
    partition = (topic, 0)
    async with consumer_of(place, None) as consumer:
        assert await consumer.beginning_offsets([partition]) == {partition: 0}
        assert await consumer.end_offsets([partition]) == {partition: 10}
    async with Cluster(place.bootstrap) as cluster:
        records = Admin(cluster).records
        for when, offset in ((EARLIEST, 0), (LATEST, 10)):
            assert (await records.offsets({partition: when}))[partition].offset == offset
        if place.release >= (0, 10, 1):
            found = (await records.offsets({partition: TIMESTAMP + 4}))[partition]
            assert (found.offset, found.timestamp_ms) == (4, TIMESTAMP + 4)
        newest = await records.offsets({partition: NEWEST})
        if place.release >= (3, 0):
            assert newest[partition].timestamp_ms == TIMESTAMP + 9
        else:
            with pytest.raises(Refused, match=r"since 3\.0"):
                newest.all()


async def test_transactions(place: Place, topic: str) -> None:
    """Of the whole of KIP-98: aborted records are not read, offsets commit with the records."""
    if place.release < (0, 11):
        began = fair.now()
        with pytest.raises(Unsupported, match=r"since 0\.11$"):
            async with Producer(place.bootstrap, transactional_id=topic):
                pass
        assert fair.now() - began < QUICKLY_SECONDS
        return
    group = f"g-{topic}"
    async with Producer(place.bootstrap, transactional_id=topic) as producer:
        for number in range(6):
            async with producer.transaction():
                await producer.enqueue(topic, b"%d" % number, partition=0)
                await producer.send_offsets({(topic, 1): number}, group)
            producer.begin_transaction()
            await producer.enqueue(topic, b"aborted", partition=0)
            await producer.send_offsets({(topic, 1): 77}, group)
            await producer.abort_transaction()
        async with Producer(place.bootstrap, transactional_id=topic) as successor:
            async with successor.transaction():
                await successor.enqueue(topic, b"6", partition=0)
            with pytest.raises(ClientError):
                async with producer.transaction():
                    await producer.send(topic, b"zombie", partition=0)
    async with consumer_of(place, group, isolation_level="read_committed") as consumer:
        await consumer.assign([(topic, 0)])
        found = [bytes(r.value or b"") for r in await read(consumer, 7)]
        assert found == [b"%d" % n for n in range(7)]
        assert (await consumer.committed([(topic, 1)]))[topic, 1].offset == 5


async def test_admin_topics_and_configs(place: Place) -> None:
    name = f"a-{uuid.uuid4().hex[:8]}"
    resource = ConfigResource(ResourceKind.TOPIC, name)
    async with Cluster(place.bootstrap) as cluster:
        admin = Admin(cluster)
        assert [one.broker_id for one in (await admin.cluster.describe()).brokers] == [1]
        assert 1 in (await admin.cluster.api_versions()).all()
        if place.release < (0, 10, 1):
            await refused(admin.topics.create([NewTopic(name, 1, 1)]), r"0\.10\.1")
            return
        new = NewTopic(name, 1, 1, configs={"retention.ms": "60000"})
        (await admin.topics.create([new])).all()
        # Without numbers: by the broker, or by what it says of itself.
        defaults = admin.topics.create([NewTopic(f"{name}-d")])
        if place.release < (0, 11):
            with pytest.raises(Unsupported, match="give the numbers"):
                await defaults
        else:
            (await defaults).all()
            found = await cluster.led_topic(f"{name}-d", wait_for_missing=True)
            assert len(found.partitions) == 3
        if place.release >= (1, 0):
            (await admin.topics.add_partitions({name: 4})).all()
            assert len((await until_there(cluster, name, 4)).partitions) == 4
        else:
            await refused(admin.topics.add_partitions({name: 4}), r"1\.0")
        set_ = ConfigOperation.SET
        changes = {
            resource: [
                Alteration("segment.ms", set_, "70000"),
                Alteration("cleanup.policy", ConfigOperation.APPEND, "compact"),
            ]
        }
        if place.release < (0, 11):
            await refused(admin.configs.alter(changes), r"0\.11")
        else:
            (await admin.configs.alter(changes)).all()
            await own_configs(
                admin,
                resource,
                {
                    "retention.ms": "60000",
                    "segment.ms": "70000",
                    "cleanup.policy": "delete,compact",
                },
            )
            later = [
                Alteration("retention.ms", ConfigOperation.DELETE, None),
                Alteration("cleanup.policy", ConfigOperation.SUBTRACT, "compact"),
            ]
            (await admin.configs.alter({resource: later})).all()
            await own_configs(admin, resource, {"segment.ms": "70000", "cleanup.policy": "delete"})
            (described,) = (
                (await admin.configs.describe([ConfigResource(ResourceKind.BROKER, "1")]))
                .all()
                .values()
            )
            assert {"num.partitions", "log.retention.hours"} <= {one.name for one in described}
        (await admin.topics.delete([name])).all()


async def until_there(cluster: Cluster, name: str, partitions: int) -> Any:
    async for _ in retrying():
        found = await cluster.led_topic(name)
        if len(found.partitions) == partitions:
            break
    return found


async def own_configs(admin: Admin, resource: ConfigResource, expected: dict[str, str]) -> None:
    """What the topic has itself; brokers hear of it through ZooKeeper or the log of metadata."""
    names = sorted({*expected, "retention.ms"})
    async for _ in retrying():
        entries = (await admin.configs.describe([resource], names=names))[resource]
        found = {one.name: one.value for one in entries if one.source.name in ("TOPIC", "UNKNOWN")}
        if found == expected:
            break
    assert found == expected


async def test_admin_of_records_groups_and_the_rest(place: Place, topic: str) -> None:
    release = place.release
    group, partition = f"g-{topic}", (topic, 0)
    async with Producer(place.bootstrap, report=lambda _: None) as producer:
        for _ in range(10):
            await producer.send(topic, b"x", partition=0)
    async with consumer_of(place, group) as consumer:
        await consumer.assign([partition])
        await read(consumer, 6)
    async with Cluster(place.bootstrap) as cluster:
        admin = Admin(cluster)
        committed = (await admin.group_offsets.list(group)).all()
        assert committed[partition].offset == 6
        if release >= (0, 10, 2):
            listed = (await admin.groups.list()).all()
            assert group in {one.group_id for some in listed.values() for one in some}
        (await admin.group_offsets.alter(group, {partition: committed[partition]})).all()
        deleting = admin.records.delete_before({partition: 3})
        if release >= (0, 11):
            assert (await deleting).all() == {partition: 3}
            assert (await admin.records.delete_before({partition: HIGH_WATERMARK})).all() == {
                partition: 10
            }
        else:
            await refused(deleting, r"0\.11")
        tries: list[tuple[tuple[int, ...], Callable[[], Awaitable[Any]]]] = [
            ((1, 1), lambda: admin.groups.delete([group])),
            ((1, 0), admin.log_dirs.describe),
            ((2, 2), lambda: admin.partitions.elect(ElectionKind.PREFERRED, [partition])),
            ((2, 4), admin.partitions.reassignments),
            ((2, 6), admin.quotas.describe),
            ((2, 7), admin.users.list),
            ((2, 8), lambda: admin.transactions.producers([partition])),
            ((3, 0), admin.transactions.list),
        ]
        for since, ask in tries:
            if release < since:
                await refused(ask(), ".".join(map(str, since)))
            else:
                all_of(await ask())


async def test_acls(place: Place) -> None:
    acl = Acl(2, f"x-{uuid.uuid4().hex[:6]}", 3, "User:eve", "*", 3, 3)
    wanted = DescribeAclsRequest(
        resource_type_filter=2, resource_name_filter=acl.resource_name, pattern_type_filter=1,
        principal_filter=None, host_filter=None, operation=1, permission_type=1,
    )  # fmt: skip
    filters = [
        DeleteAclsFilter(
            resource_type_filter=2, resource_name_filter=acl.resource_name, pattern_type_filter=1,
            principal_filter=None, host_filter=None, operation=1, permission_type=1,
        )
    ]  # fmt: skip
    async with Cluster(place.bootstrap) as cluster:
        acls = Admin(cluster).acls
        if place.release < (0, 11):
            await refused(acls.list(wanted), r"0\.11")
            return
        await acls.create([acl])
        async for _ in retrying():
            if await acls.list(wanted) == [acl]:
                break
        assert await acls.delete(filters) == [acl]


def test_commands(place: Place, topic: str) -> None:
    """What people type."""
    run, release = place.commands, place.release
    done = run.run("produce", topic, "--key-separator", ":", text="a:1\nb:2\nc:3\n")
    assert (done.exit_code, done.stdout) == (0, ""), done.output
    assert done.stderr.endswith(f"wrote 3 records to {topic}\n")
    assert ("written twice" in done.stderr) == (release < (0, 11))
    read_all = ("consume", topic, "-o", "beginning", "--until", "end", "--json")
    records = [json.loads(line) for line in run.text(*read_all).splitlines()]
    assert sorted((one["key"], one["value"]) for one in records) == [
        ("a", "1"), ("b", "2"), ("c", "3"),
    ]  # fmt: skip
    group = f"g-{topic}"
    in_group = ("consume", topic, "--group", group, "-o", "beginning", "--until", "end")
    assert len(run.text(*in_group).splitlines()) == 3
    assert run.text(*in_group) == ""
    rows = run.json("groups", "describe", group)
    assert sum(row["lag"] for row in rows) == 0
    assert sum(row["offset"] for row in rows) == 3
    assert run.json("groups", "reset", group, "--topic", topic, "--to", "earliest")
    assert sum(row["lag"] for row in run.json("groups", "describe", group)) == 3
    assert topic in run.text("topics", "list").splitlines()
    (described,) = run.json("topics", "describe", topic)
    assert sum(one["next"] for one in described["partitions"]) == 3
    assert bool(described["id"]) == (release >= (2, 8))
    assert bool(described["configs"]) == (release >= (0, 11))
    assert run.json("cluster", "info")["controller"] == 1
    assert run.json("cluster", "apis")
    offsets = run.json("records", "offsets", topic)
    assert sum(row["records"] for row in offsets) == 3
    for since, words in (
        ((0, 10, 1), ("topics", "delete", topic)),
        ((0, 11), ("configs", "describe", "--broker", "1")),
        ((1, 0), ("logdirs",)),
        ((2, 6), ("quotas", "describe")),
        ((2, 7), ("users", "list")),
        ((2, 8), ("producers", topic)),
        ((3, 0), ("transactions", "list")),
    ):
        if release < since:
            assert run.refused(*words).endswith(f"since {'.'.join(map(str, since))}")
    if release >= (0, 10, 1):
        assert run.json("topics", "delete", topic)[0]["deleted"]


def test_configs_of_groups(place: Place) -> None:
    """Kafka 4's groups have configs of their own (KIP-1016); older brokers refuse them."""
    run, of_group = place.commands, ("--group", f"g-{uuid.uuid4().hex[:8]}")
    change = ("configs", "alter", *of_group, "--set", "consumer.session.timeout.ms=50000")
    if place.release < (4, 0):
        assert run.refused(*change)
        return
    assert run.json(*change)[0]["done"]
    expected = [("consumer.session.timeout.ms", "50000", "group")]
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        rows = run.json("configs", "describe", *of_group)
        if [(row["key"], row["value"], row["source"]) for row in rows] == expected:
            break
        assert time.monotonic() < deadline, rows
    assert len(run.json("configs", "describe", *of_group, "--all")) > 3
    run.json("configs", "alter", *of_group, "--delete", "consumer.session.timeout.ms")


def test_perf_and_verify(place: Place, topic: str) -> None:
    run = place.commands
    assert run.json("perf", "produce", topic, "--records", "2000")[0]["records"] == 2000
    assert run.json("perf", "consume", topic, "--records", "2000")[0]["records"] == 2000
    if place.release >= (0, 11):
        assert run.run("verify", topic, "--records", "300").exit_code == 0
