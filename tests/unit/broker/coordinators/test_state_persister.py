"""States of share partitions, kept by a broker's own coordinator, and asked for over the wire."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio

from pybroker_kafka.broker.coordinators.persister import Persister
from pybroker_kafka.coordinator.share.answers import DELETE, INITIALIZE, READ, SUMMARY, WRITE, Kind
from pybroker_kafka.coordinator.share.state import Key
from pybroker_kafka.protocol.apis import delete_share_group_state as delete
from pybroker_kafka.protocol.apis import initialize_share_group_state as initialize
from pybroker_kafka.protocol.apis import read_share_group_state as read
from pybroker_kafka.protocol.apis import read_share_group_state_summary as summary
from pybroker_kafka.protocol.apis.find_coordinator import FindCoordinatorRequest
from pybroker_kafka.protocol.errors import ErrorCode
from tests.support.share_broker import share_broker
from tests.support.share_node import written

ACKNOWLEDGED = 2


def request(kind: Kind, topic_id: bytes, *asked: Any) -> Any:
    topics = [kind.asked(topic_id=topic_id, partitions=list(asked))]
    return kind.request(group_id="g", topics=topics)


def errors_of(response: Any) -> list[int]:
    return [result.error_code for topic in response.results for result in topic.partitions]


async def test_a_state_is_kept_and_forgotten(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async with share_broker(monkeypatch, tmp_path) as kafka:
        topic_id = await kafka.create_topic("t", 3)
        persister: Persister = kafka.parts.coordinators.persister
        begun = [
            initialize.PartitionData(partition=partition, state_epoch=1, start_offset=5)
            for partition in range(3)
        ]
        response: Any = await persister.initialize_state(request(INITIALIZE, topic_id, *begun))
        assert errors_of(response) == [0, 0, 0]
        asked = written((5, 9, ACKNOWLEDGED, 1), count=5)
        assert errors_of(await persister.write_state(request(WRITE, topic_id, asked))) == [0]
        found = await persister.read_summary(
            request(SUMMARY, topic_id, summary.PartitionData(partition=0))
        )
        assert found.results[0].partitions[0].delivery_complete_count == 5
        # Over the wire.
        key = Key("g", topic_id, 0).text
        wire = kafka.client
        answer = await wire.ask(FindCoordinatorRequest(key_type=2, coordinator_keys=[key, "g"]), 6)
        codes = [(one.error_code, one.node_id) for one in answer.coordinators]
        assert codes == [(0, 3), (ErrorCode.INVALID_REQUEST, -1)]
        asking = read.PartitionData(partition=0, leader_epoch=2)
        response = await wire.ask(request(READ, topic_id, asking), 0)
        (batch,) = response.results[0].partitions[0].state_batches
        assert (batch.first_offset, batch.last_offset, batch.delivery_state) == (5, 9, 2)
        assert errors_of(await persister.write_state(request(WRITE, topic_id, asked))) == [
            ErrorCode.FENCED_LEADER_EPOCH
        ]
        gone = delete.PartitionData(partition=0)
        assert errors_of(await persister.delete_state(request(DELETE, topic_id, gone))) == [0]
        response = await persister.read_state(request(READ, topic_id, asking))
        assert errors_of(response) == [ErrorCode.INVALID_REQUEST]


async def test_states_are_with_several_brokers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async with share_broker(monkeypatch, tmp_path, second_broker="4") as kafka:
        topic_id = await kafka.create_topic("t", 12)
        ours, theirs = (parts.coordinators for parts in kafka.all_parts)
        begun = [
            initialize.PartitionData(partition=partition, state_epoch=1, start_offset=5)
            for partition in range(12)
        ]
        response: Any = await ours.persister.initialize_state(request(INITIALIZE, topic_id, *begun))
        assert errors_of(response) == [0] * 12
        kept = [len(list(one.shares.machine.states())) for one in (ours, theirs)]
        assert sum(kept) == 12
        assert all(kept)
        # Several at once, of which those for the same broker go together.
        found: list[int] = []

        async def write(partition: int, persister: Persister) -> None:
            asked = written((5, 5 + partition, ACKNOWLEDGED, 1), partition=partition)
            found.extend(errors_of(await persister.write_state(request(WRITE, topic_id, asked))))

        async with trio.open_nursery() as nursery:
            for partition in range(12):
                for one in (ours, theirs):
                    nursery.start_soon(write, partition, one.persister)
        assert found == [0] * 24
        asking = [
            read.PartitionData(partition=partition, leader_epoch=0) for partition in range(12)
        ]
        for one in (ours, theirs):
            response = await one.persister.read_state(request(READ, topic_id, *asking))
            ends = [
                result.state_batches[0].last_offset
                for topic in response.results
                for result in topic.partitions
            ]
            assert ends == [5 + partition for partition in range(12)]
