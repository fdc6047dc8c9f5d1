"""A broker obeys the quotas that it finds when it starts, and those that others set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio

from pybroker_kafka.protocol.apis.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    OpData,
)
from tests.support.in_process import broker, zookeeper
from tests.support.network import RawClient, api_versions

TINY = 1e-9


def quota_of(name: str, kind: str, key: str, value: float | None) -> AlterClientQuotasRequest:
    entity = AlterClientQuotasRequestEntityData(entity_type=kind, entity_name=name)
    change = OpData(key=key, value=value or 0.0, remove=value is None)
    entry = AlterClientQuotasRequestEntryData(entity=[entity], ops=[change])
    return AlterClientQuotasRequest(entries=[entry])


async def alter(client: RawClient, *quota: Any) -> None:
    answer = await client.ask(quota_of(*quota), 1)
    assert [entry.error_code for entry in answer.entries] == [0], answer


async def is_held(client: RawClient) -> bool:
    answer = await client.ask(api_versions(), 3)
    return bool(answer.throttle_time_ms)


async def test_quotas_hold_from_the_start_and_on_all_brokers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with zookeeper() as port:
        async with broker(port, tmp_path / "one") as one:
            client = await one.client()
            # `RawClient` calls itself so; the one user there is on a plain listener.
            await alter(client, "test", "client-id", "request_percentage", TINY)
            await alter(client, "192.0.2.1", "ip", "connection_creation_rate", 5.0)
            await alter(client, "localhost", "ip", "connection_creation_rate", 1000.0)
            await one.stop()
        async with (
            broker(port, tmp_path / "one") as one,
            broker(port, tmp_path / "two", broker_id="4") as two,
        ):
            client, other = await one.client(), await two.client()
            assert await is_held(client)
            assert await is_held(other)
            await alter(other, "ANONYMOUS", "user", "request_percentage", 1e9)
            for each in (one, two):
                for _ in range(500):
                    if not await is_held(await each.client()):
                        break
                    await trio.sleep(0.01)
                else:
                    pytest.fail("the quota of the user is not obeyed")
    assert caplog.records == []
