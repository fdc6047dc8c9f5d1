"""The readers of the fault cases where their client libraries need a user's help."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio
from confluent_kafka import Producer

from pybroker_kafka.coordinator.group.commits import Commits
from pybroker_kafka.protocol.apis.offset_fetch import OffsetFetchResponseGroup
from pybroker_kafka.protocol.errors import ErrorCode
from tests.support.in_process import broker, zookeeper
from tests.support.ledger import ConfluentReader
from tests.support.patience import eventually

RECORDS = 20


async def test_librdkafka_is_told_of_another_coordinator_before_it_has_its_offsets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetch = Commits.fetch
    refused: list[str] = []

    def refuse_once(self: Commits, group_id: str, *args: Any, **options: Any) -> Any:
        if not refused:
            refused.append(group_id)
            return OffsetFetchResponseGroup(group_id=group_id, error_code=ErrorCode.NOT_COORDINATOR)
        return fetch(self, group_id, *args, **options)

    monkeypatch.setattr(Commits, "fetch", refuse_once)
    async with (
        zookeeper() as port,
        broker(
            port,
            tmp_path,
            group_initial_rebalance_delay_ms="0",
            offsets_topic_replication_factor="1",
        ) as running,
    ):
        bootstrap = f"127.0.0.1:{running.port}"
        producer = Producer({"bootstrap.servers": bootstrap})
        for number in range(RECORDS):
            producer.produce("told", b"%d" % number)
        await trio.to_thread.run_sync(producer.flush, 30)
        reader = ConfluentReader(bootstrap, "reader", "told")
        reader.start()
        await eventually(lambda: len(reader.read) == RECORDS)
        reader.end()
        await trio.to_thread.run_sync(reader.join)
    assert refused == ["reader"]
    assert reader.reopened == 1
    assert reader.crash is None
