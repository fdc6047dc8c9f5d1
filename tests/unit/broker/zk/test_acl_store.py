"""ACLs in ZooKeeper: what the nodes say, and that brokers hear of each other's."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable
from contextlib import asynccontextmanager

import pytest
import trio

from pybroker_kafka.broker.security.acl_authorizer import AclAuthorizer
from pybroker_kafka.broker.security.acls import AccessControlEntry, ResourcePattern
from pybroker_kafka.broker.security.principal import KafkaPrincipal
from pybroker_kafka.broker.zk import acl_store
from pybroker_kafka.broker.zk.acl_store import AclStore, Change, Entries, UpdateFailed
from pybroker_kafka.broker.zk.acl_znodes import (
    ENTRIES_AT_ONCE,
    decode_change,
    decoding,
    encode_change,
    encoding,
    resource_path,
)
from pybroker_kafka.broker.zk.zookeeper_client import ZooKeeperClient, open_zookeeper
from pybroker_kafka.protocol.acls import AclOperation, AclPermission, PatternType, ResourceType
from pybroker_kafka.protocol.zookeeper.operations import (
    Create,
    Delete,
    GetChildren,
    GetData,
    SetData,
)
from pybroker_kafka.replication.controller.znodes import MalformedZnode
from pybroker_kafka.storage.log_directory import StartupError
from pybroker_kafka.testing import Network
from tests.support.patience import eventually
from tests.support.raw_zookeeper import close_session
from tests.support.steps import finished, result_and_steps

LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
TOPIC = ResourcePattern(ResourceType.TOPIC, LITERAL, "t")
PREFIX = ResourcePattern(ResourceType.TRANSACTIONAL_ID, PREFIXED, "pre:é")
READ = AccessControlEntry("User:alice", "*", AclOperation.READ, AclPermission.ALLOW)
NOT_WRITE = AccessControlEntry(
    "User:CN=b:c", "10.0.0.1", AclOperation.CLUSTER_ACTION, AclPermission.DENY
)
# As Apache Kafka 3.9.1 writes it.
DATA = (
    b'{"version":1,"acls":[{"principal":"User:CN=b:c","permissionType":"Deny",'
    b'"operation":"ClusterAction","host":"10.0.0.1"},{"principal":"User:alice",'
    b'"permissionType":"Allow","operation":"Read","host":"*"}]}'
)
CHANGE = (
    '{"version":1,"resourceType":"TRANSACTIONAL_ID","name":"pre:é","patternType":"PREFIXED"}'
).encode()
WAIT_SECONDS = 120.0


def encode_entries(entries: Iterable[AccessControlEntry]) -> bytes:
    return finished(encoding(entries))


def decode_entries(data: bytes | None) -> frozenset[AccessControlEntry]:
    return finished(decoding(data))


# The nodes


def test_nodes_as_kafka_writes_them() -> None:
    assert encode_entries({READ, NOT_WRITE}) == DATA
    assert decode_entries(DATA) == {READ, NOT_WRITE}
    assert decode_entries(None) == decode_entries(b"") == frozenset()
    assert resource_path(TOPIC) == "/kafka-acl/Topic/t"
    assert resource_path(PREFIX) == "/kafka-acl-extended/prefixed/TransactionalId/pre:é"
    assert encode_change(TOPIC) == b"TOPIC:t"
    assert encode_change(PREFIX) == CHANGE


def test_many_entries_are_encoded_and_decoded_in_steps() -> None:
    """As json encodes all of them at once, which kept the loop waiting for 80 ms."""
    entries = {READ._replace(principal=f"User:{n}") for n in range(3 * ENTRIES_AT_ONCE + 1)}
    acls = [
        {"principal": entry.principal, "permissionType": "Allow", "operation": "Read", "host": "*"}
        for entry in sorted(entries)
    ]
    twin = json.dumps({"version": 1, "acls": acls}, separators=(",", ":")).encode()
    # For each full piece: sorted, encoded.
    assert result_and_steps(encoding(entries)) == (twin, 6)
    assert result_and_steps(decoding(twin)) == (entries, 3)
    assert result_and_steps(encoding([])) == (b'{"version":1,"acls":[]}', 0)


def test_older_spellings_are_read() -> None:
    assert decode_entries(DATA.replace(b"ClusterAction", b"CLUSTERACTION")) == {READ, NOT_WRITE}
    for data in (b"TOPIC:t", b"Topic:t"):
        assert decode_change(LITERAL, data) == TOPIC
    assert decode_change(PREFIXED, CHANGE) == PREFIX
    assert decode_change(LITERAL, b"DELEGATION_TOKEN:a:b").name == "a:b"
    newer = decode_entries(DATA.replace(b"ClusterAction", b"Fly"))
    assert NOT_WRITE._replace(operation=AclOperation.UNKNOWN) in newer


@pytest.mark.parametrize(
    "data",
    [
        b"x", b"[]", b"{}", b"[" * 100_000, b'{"version":2,"acls":[]}', b'{"version":1,"acls":[1]}',
        b'{"version":1,"acls":5}', DATA.replace(b"User:alice", b"alice"),
        DATA.replace(b'"*"', b"5"), DATA.replace(b'"Read"', b"null"), b"\xff",
    ],
)  # fmt: skip
def test_anything_else_are_no_acls(data: bytes) -> None:
    with pytest.raises(MalformedZnode):
        decode_entries(data)


@pytest.mark.parametrize(
    "data", [None, b"", b"t", b"Unknown:t", b"ANY:t", b"TOPIC:", b"\xff:t", b"{}", b"[" * 100_000,
             CHANGE.replace(b"PREFIXED", b"LITERAL"), CHANGE.replace(b"1", b"2"),
             b'{"version":1,"resourceType":"TOPIC","name":5,"patternType":"PREFIXED"}'],
)  # fmt: skip
def test_anything_else_is_no_change(data: bytes | None) -> None:
    for pattern in (PREFIXED, LITERAL):
        if pattern is PREFIXED or b"{" not in (data or b""):
            with pytest.raises(MalformedZnode):
                decode_change(pattern, data)


# Brokers


async def at_once(steps: Generator[None, None, Entries]) -> Entries:
    await trio.lowlevel.checkpoint()
    return finished(steps)


def adding(*entries: AccessControlEntry) -> Change:
    def change(now: Entries) -> Generator[None, None, Entries]:
        yield
        return now | frozenset(entries)

    return change


def removing(*entries: AccessControlEntry) -> Change:
    def change(now: Entries) -> Generator[None, None, Entries]:
        yield
        return now - frozenset(entries)

    return change


class Ensemble:
    """Brokers' stores on one ZooKeeper, under a chroot of their own."""

    def __init__(self, port: int, chroot: str, nursery: trio.Nursery) -> None:
        self.port = port
        self._chroot = chroot
        self._nursery = nursery
        self.now_ms = 0

    async def broker(self, port: int | None = None) -> tuple[AclStore, ZooKeeperClient]:
        client = await self._nursery.start(self._open, port or self.port)
        store = AclStore(client, AclAuthorizer())
        await self._nursery.start(store.run, lambda: self.now_ms)
        return store, client

    async def client(self) -> ZooKeeperClient:
        client: ZooKeeperClient = await self._nursery.start(self._open, self.port)
        return client

    async def _open(self, port: int, *, task_status: trio.TaskStatus[ZooKeeperClient]) -> None:
        async with open_zookeeper(
            f"127.0.0.1:{port}/{self._chroot}",
            session_timeout_ms=2000,
            connection_timeout_ms=10_000,
        ) as client:
            task_status.started(client)
            await trio.sleep_forever()


@asynccontextmanager
async def ensemble(port: int, chroot: str) -> AsyncIterator[Ensemble]:
    async with trio.open_nursery() as nursery:
        yield Ensemble(port, chroot, nursery)
        nursery.cancel_scope.cancel()


def run(port: int, test: Callable[[Ensemble], Awaitable[None]]) -> None:
    async def main() -> None:
        async with ensemble(port, test.__name__) as made:
            await test(made)

    trio.run(main)


async def changes_told(client: ZooKeeperClient) -> list[bytes | None]:
    told = []
    for path in ("/kafka-acl-changes", "/kafka-acl-extended-changes"):
        listing = await client.execute_one(GetChildren(path))
        nodes = [GetData(f"{path}/{name}") for name in sorted(listing.children)]
        told += [result.data for result in await client.execute(nodes)]
    return told


def test_what_one_broker_changes_another_hears_of(zookeeper_port: int) -> None:
    async def heard(made: Ensemble) -> None:
        (one, client), (other, _) = await made.broker(), await made.broker()
        for resource in (TOPIC, PREFIX):
            await one.update(resource, adding(READ, NOT_WRITE), at_once)
            assert one.authorizer.entries(resource) == {READ, NOT_WRITE}
            await eventually(lambda: len(other.authorizer.entries(resource)) == 2)  # noqa: B023
        assert (await client.execute_one(GetData(resource_path(TOPIC)))).data == DATA
        await other.update(TOPIC, removing(READ), at_once)
        await eventually(lambda: one.authorizer.entries(TOPIC) == {NOT_WRITE})
        await one.update(TOPIC, removing(NOT_WRITE), at_once)
        await eventually(lambda: not other.authorizer.entries(TOPIC))
        assert not (await client.execute_one(GetData(resource_path(TOPIC)))).ok
        assert await changes_told(client) == [b"TOPIC:t"] * 3 + [CHANGE]
        (late, _) = await made.broker()
        assert late.authorizer.patterns() == [PREFIX]

    run(zookeeper_port, heard)


def test_what_changes_nothing_is_not_told(zookeeper_port: int) -> None:
    async def untold(made: Ensemble) -> None:
        store, client = await made.broker()
        await store.update(TOPIC, removing(READ), at_once)
        await store.update(TOPIC, adding(READ), at_once)
        await store.update(TOPIC, adding(READ), at_once)
        await store.update(TOPIC, removing(NOT_WRITE), at_once)
        assert await changes_told(client) == [b"TOPIC:t"]

    run(zookeeper_port, untold)


def test_changes_at_the_same_time_are_all_made(zookeeper_port: int) -> None:
    async def crowd(made: Ensemble) -> None:
        stores = [(await made.broker())[0] for _ in range(3)]
        entries = [READ._replace(principal=f"User:{number}") for number in range(24)]
        async with trio.open_nursery() as nursery:
            for number, entry in enumerate(entries):
                nursery.start_soon(stores[number % 3].update, TOPIC, adding(entry), at_once)
        for store in stores:
            await eventually(lambda: store.authorizer.entries(TOPIC) == set(entries))  # noqa: B023
        async with trio.open_nursery() as nursery:
            for number, entry in enumerate(entries):
                nursery.start_soon(stores[number % 3].update, TOPIC, removing(entry), at_once)
        for store in stores:
            await eventually(lambda: not store.authorizer.patterns())  # noqa: B023

    run(zookeeper_port, crowd)


def test_a_node_that_went_meanwhile_is_made_again(zookeeper_port: int) -> None:
    async def again(made: Ensemble) -> None:
        store, client = await made.broker()
        await store.update(TOPIC, adding(READ), at_once)
        await client.execute_one(Delete(resource_path(TOPIC)))  # nobody is told
        await store.update(TOPIC, adding(READ), at_once)
        assert (await client.execute_one(GetData(resource_path(TOPIC)))).ok
        await client.execute([Delete(resource_path(TOPIC)), Delete("/kafka-acl/Topic")])
        await store.update(TOPIC, adding(NOT_WRITE), at_once)
        assert store.authorizer.entries(TOPIC) == {NOT_WRITE}

    run(zookeeper_port, again)


def test_what_is_not_understood_changes_nothing_but_stops_a_start(zookeeper_port: int) -> None:
    async def broken(made: Ensemble) -> None:
        store, client = await made.broker()
        await store.update(TOPIC, adding(NOT_WRITE), at_once)
        told = Create("/kafka-acl-changes/acl_changes_", b"TOPIC:t", sequential=True)
        for data in (b"nonsense", b"TOPIC:../x", b"TOPIC:"):
            await client.execute_one(
                Create("/kafka-acl-changes/acl_changes_", data, sequential=True)
            )
        await client.execute([SetData(resource_path(TOPIC), b"{"), told])
        await store.update(PREFIX, adding(READ), at_once)
        await trio.sleep(0.2)
        assert store.authorizer.entries(TOPIC) == {NOT_WRITE}
        with pytest.raises(UpdateFailed, match="/kafka-acl/Topic/t"):
            await store.update(TOPIC, removing(NOT_WRITE), at_once)
        another = AclStore(client, AclAuthorizer())
        with pytest.RaisesGroup(StartupError):
            await another.run(lambda: 0)
        await client.execute([SetData(resource_path(TOPIC), encode_entries([READ])), told])
        await eventually(lambda: store.authorizer.entries(TOPIC) == {READ})

    run(zookeeper_port, broken)


def test_types_of_a_newer_broker_are_left_alone(zookeeper_port: int) -> None:
    async def newer(made: Ensemble) -> None:
        client = await made.client()
        paths = ("/kafka-acl", "/kafka-acl/Planet", "/kafka-acl/Planet/mars")
        await client.execute([Create(path, b"?") for path in paths])
        (store, _) = await made.broker()
        assert store.authorizer.patterns() == []

    run(zookeeper_port, newer)


@pytest.mark.parametrize("name", ["..", ".", "a\0b", "a\nb", "\U0001f600"])
def test_names_that_no_node_may_have(name: str, zookeeper_port: int) -> None:
    async def odd(made: Ensemble) -> None:
        store, _ = await made.broker()
        with pytest.raises(UpdateFailed, match="no such names"):
            await store.update(TOPIC._replace(name=name), adding(READ), at_once)

    run(zookeeper_port, odd)


def test_a_node_has_a_largest_size(zookeeper_port: int) -> None:
    async def huge(made: Ensemble) -> None:
        store, _ = await made.broker()
        few = [READ._replace(principal=f"User:{number}") for number in range(5000)]
        await store.update(TOPIC, adding(*few), at_once)
        assert len(store.authorizer.entries(TOPIC)) == 5000
        many = [READ._replace(principal=f"User:{'x' * 5000}{number}") for number in range(200)]
        with pytest.raises(UpdateFailed, match="more than 900000 bytes"):
            await store.update(TOPIC, adding(*many), at_once)
        (late, _) = await made.broker()
        assert late.authorizer.entries(TOPIC) == set(few)

    run(zookeeper_port, huge)


def test_only_so_many_wait(zookeeper_port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acl_store, "MAX_WAITING", 3)

    async def queue(made: Ensemble) -> None:
        store, _ = await made.broker()
        failed = []

        async def update() -> None:
            try:
                await store.update(TOPIC, adding(READ), at_once)
            except UpdateFailed as error:
                failed.append(error)

        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(update)
        assert len(failed) == 2

    run(zookeeper_port, queue)


def test_old_changes_are_deleted(zookeeper_port: int) -> None:
    async def old(made: Ensemble) -> None:
        (one, client), (_, _) = await made.broker(), await made.broker()
        await one.update(TOPIC, adding(READ), at_once)
        await one.update(TOPIC, adding(NOT_WRITE), at_once)
        await trio.sleep(0.3)
        assert len(await changes_told(client)) == 2
        made.now_ms += 16 * 60 * 1000
        await one.update(TOPIC, removing(READ), at_once)

        async def only_the_last_is_there() -> bool:
            return len(await changes_told(client)) == 1

        await eventually(only_the_last_is_there)

    run(zookeeper_port, old)


def asks(store: AclStore, operation: AclOperation) -> bool:
    alice = KafkaPrincipal("User", "alice")
    return store.authorizer.allows(alice, "10.0.0.1", operation, ResourceType.TOPIC, "t")


NOT_READ = READ._replace(permission=AclPermission.DENY)
ALTER = READ._replace(operation=AclOperation.ALTER)


def test_while_zookeeper_is_away_what_was_known_holds(
    zookeeper_port: int, network: Network
) -> None:
    async def away(made: Ensemble) -> None:
        port = network.front("zookeeper", made.port)
        (cut, _), (other, _) = await made.broker(port), await made.broker()
        await cut.update(TOPIC, adding(READ), at_once)
        await eventually(lambda: asks(other, AclOperation.READ))
        gone = network.cut("client", "zookeeper")
        await other.update(TOPIC, adding(NOT_READ), at_once)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(cut.update, TOPIC, adding(ALTER), at_once)
            await trio.sleep(0.2)
            assert asks(cut, AclOperation.READ)
            assert not asks(cut, AclOperation.ALTER), "it is not written"
            gone.undo()
        for store in (cut, other):
            await eventually(lambda: store.authorizer.entries(TOPIC) == {READ, NOT_READ, ALTER})  # noqa: B023
        assert not asks(cut, AclOperation.READ)

    run(zookeeper_port, away)


def test_in_a_new_session_everything_is_read_anew(zookeeper_port: int, network: Network) -> None:
    async def lost(made: Ensemble) -> None:
        port = network.front("zookeeper", made.port)
        (cut, client), (other, direct) = await made.broker(port), await made.broker()
        await other.update(TOPIC, adding(READ), at_once)
        await other.update(PREFIX, adding(READ), at_once)
        await eventually(lambda: len(cut.authorizer.patterns()) == 2)
        gone = network.cut("client", "zookeeper")
        await other.update(TOPIC, adding(NOT_READ), at_once)
        await other.update(PREFIX, removing(READ), at_once)
        for path in ("/kafka-acl-changes", "/kafka-acl-extended-changes"):
            names = (await direct.execute_one(GetChildren(path))).children
            await direct.execute([Delete(f"{path}/{name}") for name in names])  # they are old
        async with trio.open_nursery() as nursery:
            nursery.start_soon(cut.update, TOPIC, adding(ALTER), at_once)
            session = client.session
            await trio.to_thread.run_sync(close_session, made.port, session)
            assert asks(cut, AclOperation.READ)
            gone.undo()
        await eventually(lambda: cut.authorizer.patterns() == [TOPIC])
        assert cut.authorizer.entries(TOPIC) == {READ, NOT_READ, ALTER}
        assert not asks(cut, AclOperation.READ)
        await eventually(lambda: len(other.authorizer.entries(TOPIC)) == 3)
        await other.update(TOPIC, removing(NOT_READ), at_once)
        await eventually(lambda: asks(cut, AclOperation.READ))

    run(zookeeper_port, lost)
