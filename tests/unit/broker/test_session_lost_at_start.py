"""A ZooKeeper session that expires while the broker starts: it reads and registers again.

The session is ended by a second connection that takes it over and closes it, just when the broker
is about to begin a certain step.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio

import pybroker_kafka.broker.server
from pybroker_kafka.broker.cluster.controller_runtime import ControllerRuntime
from pybroker_kafka.broker.coordinators.group_runtime import offsets_partition_count
from pybroker_kafka.broker.server import run_broker
from pybroker_kafka.broker.zk.zookeeper import SessionEvent
from pybroker_kafka.broker.zk.zookeeper_client import (
    ZooKeeperClient,
    ZooKeeperUnavailable,
    open_zookeeper,
)
from pybroker_kafka.protocol.zookeeper.operations import GetData, SessionExpired
from pybroker_kafka.replication.controller import znodes
from tests.support.in_process import broker as running_broker
from tests.support.in_process import config_of, zookeeper
from tests.support.raw_zookeeper import close_session


async def end_session(client: ZooKeeperClient) -> None:
    port = int(client.connect.rpartition(":")[2])
    # In a thread: the server is on this loop.
    await trio.to_thread.run_sync(close_session, port, client.session)


async def test_in_the_middle_of_a_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:

    async def after_the_end(client: ZooKeeperClient, config: Any) -> int:
        await end_session(client)
        return await offsets_partition_count(client, config)

    monkeypatch.setattr(pybroker_kafka.broker.server, "offsets_partition_count", after_the_end)
    with trio.fail_after(120):
        await serve_and_look(tmp_path)


async def test_a_step_that_does_not_go_on_ends_the_start_with_a_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    async def expired(client: ZooKeeperClient, config: Any) -> int:
        raise SessionExpired

    monkeypatch.setattr(pybroker_kafka.broker.server, "offsets_partition_count", expired)
    async with zookeeper() as port:
        with pytest.raises(ZooKeeperUnavailable, match="expired while the broker was starting"):
            with trio.fail_after(120):
                await run_broker(config_of(port, tmp_path))


async def test_before_the_controller_can_hear_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = ControllerRuntime.run

    async def after_the_end(self: ControllerRuntime, *, task_status: Any) -> None:
        client = self._zookeeper
        assert isinstance(client, ZooKeeperClient)
        events, ended = client.session_events(), client.session[0]
        await end_session(client)
        with trio.fail_after(120):
            async for event in events:
                if event is SessionEvent.CONNECTED and client.session[0] != ended:
                    break
        await run(self, task_status=task_status)

    monkeypatch.setattr(ControllerRuntime, "run", after_the_end)
    # Without a controller the broker would wait for a minute, and go on without one.
    with trio.fail_after(120):
        await serve_and_look(tmp_path)


async def serve_and_look(tmp_path: Path) -> None:
    async with zookeeper() as port, running_broker(port, tmp_path):
        address = f"127.0.0.1:{port}"
        async with open_zookeeper(
            address, session_timeout_ms=6_000, connection_timeout_ms=6_000
        ) as other:
            found = await other.execute_one(GetData(znodes.broker_path(3)))
        assert found.ok
