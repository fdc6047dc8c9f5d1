"""A broker that lacks a finalized feature does not start, as Kafka's do not."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from kazoo.client import KazooClient

from pybroker_kafka.broker.server import run_broker
from pybroker_kafka.broker.zk.registration import RegistrationError
from pybroker_kafka.protocol.features import SUPPORTED, Feature
from pybroker_kafka.replication.controller import znodes
from tests.support.in_process import broker, config_of, zookeeper


@pytest.mark.parametrize(
    ("levels", "problem"),
    [
        ({"kraft.version": 1}, "kraft.version at level 1, which this broker does not support"),
        ({Feature.GROUP: 9}, r"group.version at level 9, .*\(levels 0-1\)"),
    ],
)
async def test_it_does_not_start(tmp_path: Path, levels: dict[str, int], problem: str) -> None:
    async with zookeeper() as port:
        await write(port, levels)
        with pytest.raises(RegistrationError, match=problem):
            await run_broker(config_of(port, tmp_path))


async def test_it_starts_with_all_that_it_supports(tmp_path: Path) -> None:
    async with zookeeper() as port:
        await write(port, {name: high for name, (_, high) in SUPPORTED.items()})
        async with broker(port, tmp_path):
            pass


async def write(port: int, levels: dict[str, int]) -> None:
    def create() -> None:
        client = KazooClient(f"127.0.0.1:{port}")
        client.start()
        client.create(znodes.FEATURE, znodes.encode_features(levels))
        client.stop()
        client.close()

    await trio.to_thread.run_sync(create)
