"""A whole broker with its ZooKeeper in the test's own loop."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from pybroker_kafka.broker.config import KafkaConfig
from pybroker_kafka.broker.server import BoundAddresses, run_broker
from pybroker_kafka.broker.zookeeper.server import serve_zookeeper
from tests.support.network import RawClient


class RunningBroker:
    def __init__(self, bound: BoundAddresses, stop: trio.Event, ended: trio.Event) -> None:
        self.bound = bound
        self.port = next(iter(bound.listeners.values()))[1]
        self._stop = stop
        self._ended = ended

    async def client(self) -> RawClient:
        return RawClient(await trio.open_tcp_stream("127.0.0.1", self.port))

    async def stop(self) -> None:
        self._stop.set()
        with trio.fail_after(120):
            await self._ended.wait()


@asynccontextmanager
async def zookeeper() -> AsyncIterator[int]:
    """The embedded ZooKeeper, in memory; yields its port."""
    async with trio.open_nursery() as nursery:

        async def serve(*, task_status: trio.TaskStatus[int]) -> None:
            await serve_zookeeper(None, port=0, task_status=task_status)

        yield await nursery.start(serve)
        nursery.cancel_scope.cancel()


def config_of(zookeeper_port: int, directory: Path, **configs: str) -> KafkaConfig:
    """Keys with underscores instead of dots."""
    return KafkaConfig(
        {
            "zookeeper.connect": f"127.0.0.1:{zookeeper_port}",
            "broker.id": "3",
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": str(directory),
            **{name.replace("_", "."): text for name, text in configs.items()},
        }
    )


@asynccontextmanager
async def broker(
    zookeeper_port: int, directory: Path, metrics_port: int | None = None, **configs: str
) -> AsyncIterator[RunningBroker]:
    config = config_of(zookeeper_port, directory, **configs)
    stop, ended = trio.Event(), trio.Event()
    metrics = None if metrics_port is None else ("127.0.0.1", metrics_port)

    async def serve(*, task_status: trio.TaskStatus[BoundAddresses]) -> None:
        await run_broker(config, stop=stop, metrics_address=metrics, task_status=task_status)
        ended.set()

    async with trio.open_nursery() as nursery:
        yield RunningBroker(await nursery.start(serve), stop, ended)
        nursery.cancel_scope.cancel()
