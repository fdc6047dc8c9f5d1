"""Delegation tokens in ZooKeeper: what the nodes say, and that brokers hear of each other's."""

from __future__ import annotations

import json

import pytest
import trio

from pybroker_kafka.broker.security.delegation_tokens import DelegationTokens, TokenInfo
from pybroker_kafka.broker.security.principal import KafkaPrincipal
from pybroker_kafka.broker.zk.delegation_token_store import (
    TOKEN_CHANGES,
    DelegationTokenStore,
    decode_token,
    encode_token,
    token_path,
)
from pybroker_kafka.broker.zk.zookeeper_client import ZooKeeperClient, open_zookeeper
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.wall_clock import REST_MS, WallClock
from pybroker_kafka.protocol.zookeeper.operations import GetChildren, GetData, SetData
from pybroker_kafka.replication.controller.znodes import MalformedZnode
from tests.support.patience import eventually

ALICE, BOB = KafkaPrincipal("User", "alice"), KafkaPrincipal("User", "CN=bob, O=x")
TOKEN = TokenInfo("abc", ALICE, BOB, (BOB,), 1, 3, 2)
# As Apache Kafka 3.9.1 writes it.
DATA = (
    b'{"version":3,"owner":"User%3Aalice","tokenRequester":"User%3ACN%3Dbob%2C%20O%3Dx",'
    b'"renewers":["User%3ACN%3Dbob%2C%20O%3Dx"],"issueTimestamp":1,"maxTimestamp":3,'
    b'"expiryTimestamp":2,"tokenId":"abc"}'
)
WAIT_SECONDS = 120.0


def test_a_node_as_kafka_writes_it() -> None:
    assert encode_token(TOKEN) == DATA
    assert decode_token(DATA) == TOKEN


@pytest.mark.parametrize("version", [1, 2])
def test_before_version_3_the_owner_is_the_requester(version: int) -> None:
    payload = json.loads(DATA) | {"version": version}
    del payload["tokenRequester"]
    assert decode_token(json.dumps(payload).encode()) == TOKEN._replace(requester=ALICE)


@pytest.mark.parametrize(
    "change",
    [
        {"version": 0}, {"version": 4}, {"version": "3"}, {"owner": None}, {"owner": "alice"},
        {"renewers": 5}, {"issueTimestamp": "x"}, {"expiryTimestamp": None},
        {"maxTimestamp": []},
    ],
)  # fmt: skip
def test_anything_else_is_no_token(change: dict[str, object]) -> None:
    with pytest.raises(MalformedZnode):
        decode_token(json.dumps(json.loads(DATA) | change).encode())
    for data in (None, b"", b"x", b"[]", b"[" * 100_000, b"1e999"):
        with pytest.raises(MalformedZnode):
            decode_token(data)


class _Clock:
    now_ms = 1_000

    def __call__(self) -> int:
        return self.now_ms


def store_of(
    zookeeper: ZooKeeperClient, clock: _Clock, name: str, wall: WallClock | None = None
) -> DelegationTokenStore:
    numbers = iter(range(1_000))
    tokens = DelegationTokens(b"secret", max_lifetime_ms=10_000, expiry_ms=5_000)
    return DelegationTokenStore(
        zookeeper, tokens, clock, lambda: f"{name}{next(numbers)}", wall or WallClock()
    )


async def test_a_jump_of_the_wall_clock_ends_no_token(zookeeper_port: int) -> None:
    clock, wall = _Clock(), WallClock()
    async with (
        open_zookeeper(f"127.0.0.1:{zookeeper_port}/jumps") as zookeeper,
        trio.open_nursery() as nursery,
    ):
        store = store_of(zookeeper, clock, "a", wall)
        await nursery.start(store.run, lambda: True, 20)
        token = await store.create(ALICE, ALICE, [], -1)
        assert isinstance(token, TokenInfo)
        wall.note(clock.now_ms, clock.now_ms + 10**9)
        await trio.sleep(0.2)
        given = store.tokens.hmac_of(token.token_id)
        assert isinstance(await store.renew(given, ALICE, 6_000), TokenInfo)
        clock.now_ms += REST_MS  # the clock has jumped and stays
        await eventually(lambda: len(store.tokens) == 0)
        nursery.cancel_scope.cancel()


async def test_brokers_hear_of_each_others_tokens(zookeeper_port: int) -> None:
    clock = _Clock()
    async with (
        open_zookeeper(f"127.0.0.1:{zookeeper_port}/tokens") as zookeeper,
        trio.open_nursery() as nursery,
    ):
        first, second = store_of(zookeeper, clock, "a"), store_of(zookeeper, clock, "b")
        await nursery.start(first.run, lambda: False, 50)
        token = await first.create(ALICE, ALICE, [BOB], -1)
        assert isinstance(token, TokenInfo)
        await nursery.start(second.run, lambda: False, 50)
        given = first.tokens.hmac_of(token.token_id)
        assert await second.renew(given, KafkaPrincipal("User", "eve"), 1) is (
            ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
        )
        renewed = await second.renew(given, BOB, 7_000)
        assert isinstance(renewed, TokenInfo)

        def knows() -> bool:
            found = first.tokens.token_credentials(token.token_id)
            return found is not None and found.expiry_ms == renewed.expiry_ms

        await eventually(knows)
        stored = await zookeeper.execute_one(GetData(token_path(token.token_id)))
        assert decode_token(stored.data) == renewed
        await first.expire(given, ALICE, -1)
        await eventually(lambda: len(second.tokens) == 0)
        changes = await zookeeper.execute_one(GetChildren(TOKEN_CHANGES))
        assert sorted(changes.children) == [f"token_change_{n:010}" for n in range(3)]

        # The controller ends what has expired, and nobody else does.
        await second.create(ALICE, ALICE, [], 1)
        lasting = await second.create(ALICE, ALICE, [], 9)
        assert isinstance(lasting, TokenInfo)
        clock.now_ms += 5
        await trio.sleep(0.2)
        assert len(second.tokens) == 2
        third = store_of(zookeeper, clock, "c")
        await nursery.start(third.run, lambda: True, 50)
        await eventually(lambda: [*first.tokens.expired(2**60)] == [lasting.token_id])

        # A node that cannot be read changes nothing.
        await zookeeper.execute_one(SetData(token_path(lasting.token_id), b"{"))
        nursery.cancel_scope.cancel()
    async with (
        open_zookeeper(f"127.0.0.1:{zookeeper_port}/tokens") as zookeeper,
        trio.open_nursery() as nursery,
    ):
        fourth = store_of(zookeeper, clock, "d")
        await nursery.start(fourth.run, lambda: False, 50)
        assert len(fourth.tokens) == 0
        nursery.cancel_scope.cancel()
