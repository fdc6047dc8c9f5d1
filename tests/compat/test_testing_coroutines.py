"""The coroutines of a cluster, under both loops."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
import trio

from pybroker_kafka.testing import AsyncKafkaCluster, ClusterError, KafkaCluster
from pybroker_kafka.testkit import coroutines
from pybroker_kafka.testkit.network import NetworkFaults
from pybroker_kafka.testkit.request_faults import RequestFaults

WAITING = 50  # more than any pool of threads has
# These read what is there, and do not wait for the cluster.
IMMEDIATE = {
    "address", "bootstrap", "brokers", "client_settings", "data_dir",
    "get_bootstrap_server", "is_running", "is_whole", "network", "node", "zookeeper",
    "zookeepers",
}  # fmt: skip


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    with KafkaCluster(brokers=2, network=True) as kafka:
        yield kafka


async def use(kafka: AsyncKafkaCluster, together: Callable[..., Awaitable[None]]) -> None:
    """What waits for records does not keep others from writing them."""
    topic = await kafka.topic("orders", partitions=2)
    read: list[int] = []

    async def wait() -> None:
        read.append(len(await kafka.records(topic, at_least=1)))

    async def write() -> None:
        (written,) = await kafka.produce(topic, "x", key="k")
        assert written.value == b"x"

    await together(*[wait] * WAITING, write)
    assert read == [1] * WAITING
    with pytest.raises(ClusterError, match=r"1 of 2 records"):
        await kafka.records(topic, at_least=2, timeout=3)
    async with kafka.kill(await kafka.leader(topic)) as fault:
        assert fault.is_active
        await kafka.wait_for_isr(topic, 1)
    assert not fault.is_active
    await kafka.wait_for_isr(topic, 2)
    fault = await kafka.pause(2)
    assert not kafka.cluster.is_whole
    await kafka.undo(fault)
    async with kafka.requests.fail("Metadata", "UNKNOWN_SERVER_ERROR", client_id="no one") as one:
        assert await kafka.hits(one) == 0
    async with kafka.network.cut("client", 1):
        assert not kafka.cluster.is_whole
    assert kafka.cluster.is_whole


def test_under_asyncio(cluster: KafkaCluster) -> None:
    async def gather(*calls: Callable[[], Awaitable[None]]) -> None:
        await asyncio.gather(*[call() for call in calls])

    asyncio.run(use(AsyncKafkaCluster(cluster), gather))


@pytest.mark.nightly
def test_under_trio(cluster: KafkaCluster) -> None:
    async def together(*calls: Callable[[], Awaitable[None]]) -> None:
        async with trio.open_nursery() as nursery:
            for call in calls:
                nursery.start_soon(call)

    trio.run(use, AsyncKafkaCluster(cluster), together)


def test_a_question_can_be_cancelled(cluster: KafkaCluster) -> None:
    topic = cluster.topic("empty")

    async def on_trio() -> None:
        with trio.move_on_after(0.1) as scope:
            await AsyncKafkaCluster(cluster).records(topic, at_least=1)
        assert scope.cancelled_caught

    async def on_asyncio() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(AsyncKafkaCluster(cluster).records(topic, at_least=1), 0.1)

    trio.run(on_trio)
    asyncio.run(on_asyncio())


def test_its_life() -> None:
    async def live() -> None:
        async with AsyncKafkaCluster(KafkaCluster()) as kafka:
            assert kafka.bootstrap == kafka.cluster.bootstrap
            before = await kafka.snapshot()
            await kafka.topic("orders", exact=True)
            await kafka.clean(before)
            await kafka.topic("orders", exact=True)
        assert not kafka.cluster.is_running
        await kafka.start()
        await kafka.stop()

    asyncio.run(live())


@pytest.mark.parametrize(
    ("blocking", "view", "left_out"),
    [
        (KafkaCluster, AsyncKafkaCluster, IMMEDIATE | {"requests"}),
        (NetworkFaults, coroutines.NetworkCoroutines, set()),
        (RequestFaults, coroutines.RequestCoroutines, set()),
    ],
)
def test_each_method_has_one(blocking: type[Any], view: type[Any], left_out: set[str]) -> None:
    ours = (base for base in blocking.__mro__ if base.__module__.startswith("pybroker_kafka"))
    names = {name for base in ours for name in vars(base) if not name.startswith("_")} - left_out
    for name in sorted(names):
        assert name in vars(view), name
        if name != "start" and not isinstance(vars(view)[name], property):
            assert inspect.signature(getattr(view, name)) == inspect.signature(
                getattr(blocking, name)
            ), name
