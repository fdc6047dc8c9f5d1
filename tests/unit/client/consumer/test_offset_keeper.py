"""Offsets asked for and committed: who is answered goes on at once, others ask again later."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
from trio.testing import MockClock

from pybroker_kafka.client.cluster import RETRY_BACKOFF_SECONDS
from pybroker_kafka.client.consumer.group import Group
from pybroker_kafka.client.consumer.offset_keeper import CommitFailed, OffsetKeeper
from pybroker_kafka.client.consumer.offset_requests import Committed, Member
from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.errors import ErrorCode
from tests.support.offset_broker import TOPIC, OffsetBroker

BOTH = [(TOPIC, 0), (TOPIC, 1)]
AGAIN = ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.fixture
def broker(nursery: trio.Nursery) -> OffsetBroker:
    return OffsetBroker(nursery)


def member_of(group_id: str) -> Group:
    found: Any = SimpleNamespace(
        work=SimpleNamespace(purpose="group"),
        group_id=group_id,
        generation=1,
        is_subscribed=True,
        member=lambda: Member(group_id, "me", found.generation),
        reader=lambda: Member(group_id, "me", found.generation),
        note_commit=lambda code: None,
    )
    return cast(Group, found)


@pytest.mark.parametrize(("codes", "asked"), [([], 1), ([ErrorCode.NONE, AGAIN], 2)])
async def test_offsets_of_logs(
    broker: OffsetBroker, autojump_clock: MockClock, codes: list[ErrorCode], asked: int
) -> None:
    broker.codes = codes
    async with broker.cluster() as cluster:
        keeper = OffsetKeeper(cluster, None, reads_committed=False)
        began = trio.current_time()
        found = await keeper.offsets_at(dict.fromkeys(BOTH, -1))
        assert {key: one.offset for key, one in found.items()} == {(TOPIC, 0): 0, (TOPIC, 1): 100}
        assert trio.current_time() - began == pytest.approx((asked - 1) * RETRY_BACKOFF_SECONDS)
        assert broker.count(ApiKey.LIST_OFFSETS) == asked
        assert await keeper.offsets_at({}) == {}
        assert broker.count(ApiKey.LIST_OFFSETS) == asked


@pytest.mark.parametrize(
    ("codes", "asked"), [([], 1), ([ErrorCode.NONE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS], 2)]
)
async def test_commits(
    broker: OffsetBroker, autojump_clock: MockClock, codes: list[ErrorCode], asked: int
) -> None:
    broker.codes = codes
    async with broker.cluster() as cluster:
        keeper = OffsetKeeper(cluster, member_of("readers"), reads_committed=False)
        began = trio.current_time()
        await keeper.commit(dict.fromkeys(BOTH, Committed(7)), 1)
        assert trio.current_time() - began == pytest.approx((asked - 1) * RETRY_BACKOFF_SECONDS)
        assert broker.count(ApiKey.OFFSET_COMMIT) == asked
        await keeper.commit({}, 1)
        assert broker.count(ApiKey.OFFSET_COMMIT) == asked


async def test_a_commit_is_not_repeated_in_a_later_generation(
    broker: OffsetBroker, autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    """Another member may have the partition by then, and have committed more."""
    broker.codes = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    async with broker.cluster() as cluster:
        group = member_of("readers")
        keeper = OffsetKeeper(cluster, group, reads_committed=False)
        generation = keeper.generation

        async def rebalance() -> None:
            await trio.sleep(RETRY_BACKOFF_SECONDS / 2)
            group.generation += 1  # type: ignore[misc]

        nursery.start_soon(rebalance)
        with pytest.raises(CommitFailed, match="rebalanced since generation 1"):
            await keeper.commit(dict.fromkeys(BOTH, Committed(7)), generation)
        assert broker.count(ApiKey.OFFSET_COMMIT) == 1
        await keeper.commit(dict.fromkeys(BOTH, Committed(8)), keeper.generation)


async def test_a_member_reads_offsets_in_its_epoch(
    broker: OffsetBroker, autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    broker.codes = [ErrorCode.STALE_MEMBER_EPOCH]
    async with broker.cluster() as cluster:
        group = member_of("readers")
        keeper = OffsetKeeper(cluster, group, reads_committed=False)

        async def heartbeat() -> None:
            await trio.sleep(RETRY_BACKOFF_SECONDS / 2)
            group.generation += 1  # type: ignore[misc]

        nursery.start_soon(heartbeat)
        found = await keeper.committed(BOTH)
        assert {place: one.offset for place, one in found.items()} == dict.fromkeys(BOTH, 7)
        assert broker.readers == [("me", 1), ("me", 2)]
