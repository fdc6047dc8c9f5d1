"""A share group's member against a whole broker, whose share coordinator keeps the state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pybroker_kafka.protocol.apis import initialize_share_group_state as initialize
from pybroker_kafka.protocol.apis import read_share_group_state as read
from pybroker_kafka.protocol.apis import share_acknowledge as acknowledging
from pybroker_kafka.protocol.apis import share_fetch as fetching
from tests.support.replication import batch
from tests.support.replication_handlers import values
from tests.support.share_broker import ShareBroker, share_broker
from tests.support.wire import produce_request

GROUP = "g"
ACCEPT, RELEASE = 1, 2
ACKNOWLEDGED = 2


async def begin(kafka: ShareBroker, topic_id: bytes) -> None:
    """As the group's coordinator does for a new partition of a group."""
    partition = initialize.PartitionData(partition=0, state_epoch=1, start_offset=0)
    topic = initialize.InitializeStateData(topic_id=topic_id, partitions=[partition])
    request = initialize.InitializeShareGroupStateRequest(group_id=GROUP, topics=[topic])
    answer = await kafka.parts.coordinators.persister.initialize_state(request)
    assert answer.results[0].partitions[0].error_code == 0, answer


async def fetch(
    kafka: ShareBroker, topic_id: bytes, epoch: int, max_wait_ms: int = 5000, member: str = "m"
) -> Any:
    topics = [
        fetching.FetchTopic(
            topic_id=topic_id,
            partitions=[fetching.FetchPartition(partition_index=0, acknowledgement_batches=[])],
        )
    ]
    request = fetching.ShareFetchRequest(
        group_id=GROUP,
        member_id=member,
        share_session_epoch=epoch,
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_records=100,
        batch_size=100,
        topics=topics if not epoch else [],
        forgotten_topics_data=[],
    )
    answer = await kafka.client.ask(request, 2)
    assert answer.error_code == 0, answer
    (part,) = answer.responses[0].partitions
    assert part.error_code == 0, answer
    return part


async def acknowledge(
    kafka: ShareBroker, topic_id: bytes, epoch: int, *batches: tuple[int, int, list[int]]
) -> None:
    partition = acknowledging.AcknowledgePartition(
        partition_index=0,
        acknowledgement_batches=[
            acknowledging.AcknowledgementBatch(
                first_offset=first, last_offset=last, acknowledge_types=types
            )
            for first, last, types in batches
        ],
    )
    topic = acknowledging.AcknowledgeTopic(topic_id=topic_id, partitions=[partition])
    request = acknowledging.ShareAcknowledgeRequest(
        group_id=GROUP, member_id="m", share_session_epoch=epoch, topics=[topic]
    )
    answer = await kafka.client.ask(request, 2)
    assert answer.responses[0].partitions[0].error_code == 0, answer


async def state(kafka: ShareBroker, topic_id: bytes) -> list[tuple[int, int, int, int]]:
    partition = read.PartitionData(partition=0, leader_epoch=0)
    topic = read.ReadStateData(topic_id=topic_id, partitions=[partition])
    request = read.ReadShareGroupStateRequest(group_id=GROUP, topics=[topic])
    answer = await kafka.parts.coordinators.persister.read_state(request)
    found = answer.results[0].partitions[0]
    assert found.error_code == 0, answer
    return [
        (found.start_offset, each.first_offset, each.last_offset, each.delivery_state)
        for each in found.state_batches
    ]


async def test_what_is_stored_counts_for_the_next_leader(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async with share_broker(monkeypatch, tmp_path) as kafka:
        topic_id = await kafka.create_topic("t")
        await begin(kafka, topic_id)
        await kafka.client.ask(produce_request("t", bytes(batch(b"a", b"b", b"c", b"d"))), 9)
        part = await fetch(kafka, topic_id, 0)
        assert values(part.records) == [b"a", b"b", b"c", b"d"]
        await acknowledge(kafka, topic_id, 1, (1, 1, [ACCEPT]), (2, 2, [RELEASE]))
        assert await state(kafka, topic_id) == [(0, 1, 1, 2), (0, 2, 2, 0)]
        leader = kafka.parts.share_leader
        leader.forget_group(GROUP)
        delivered = {}
        for epoch in (2, 3):
            part = await fetch(kafka, topic_id, epoch, 200)
            for each in part.acquired_records:
                for offset in range(each.first_offset, each.last_offset + 1):
                    assert offset not in delivered
                    delivered[offset] = each.delivery_count
            if len(delivered) == 3:
                break
        assert delivered == {0: 1, 2: 2, 3: 1}
        await acknowledge(kafka, topic_id, epoch + 1, (0, 0, [ACCEPT]), (2, 3, [ACCEPT]))
        # The start offset is stored with the next change.
        assert {found[0] for found in await state(kafka, topic_id)} == {0}
        assert {found[3] for found in await state(kafka, topic_id)} == {ACKNOWLEDGED}
        await kafka.client.ask(produce_request("t", bytes(batch(b"e"))), 9)
        await fetch(kafka, topic_id, epoch + 2)
        await acknowledge(kafka, topic_id, epoch + 3, (4, 4, [ACCEPT]))
        assert await state(kafka, topic_id) == [(4, 4, 4, ACKNOWLEDGED)]
