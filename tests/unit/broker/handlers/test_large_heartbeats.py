"""A heartbeat of more topics than a group could keep is refused before they are looked at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pybroker_kafka.broker.handlers.consumer_groups import MAX_TOPICS
from pybroker_kafka.protocol.apis.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from pybroker_kafka.protocol.apis.find_coordinator import FindCoordinatorRequest
from pybroker_kafka.protocol.apis.share_group_heartbeat import ShareGroupHeartbeatRequest
from pybroker_kafka.protocol.errors import ErrorCode
from tests.support.in_process import broker, zookeeper
from tests.support.patience import eventually

VERSION = 1


@pytest.mark.parametrize(
    "request_class", [ConsumerGroupHeartbeatRequest, ShareGroupHeartbeatRequest]
)
@pytest.mark.parametrize(
    ("count", "name", "expected"),
    [
        (MAX_TOPICS, "t{}", ErrorCode.NONE),
        (MAX_TOPICS + 1, "t{}", ErrorCode.INVALID_REQUEST),
        (9_000, "t{}" + "-" * 120, ErrorCode.INVALID_REQUEST),
    ],
)
async def test_it_is_refused(
    tmp_path: Path, request_class: Any, count: int, name: str, expected: ErrorCode
) -> None:
    values: dict[str, Any] = {
        "group_id": "g", "member_id": "m", "member_epoch": 0,
        "subscribed_topic_names": [name.format(number) for number in range(count)],
    }  # fmt: skip
    if request_class is ConsumerGroupHeartbeatRequest:
        values |= {"rebalance_timeout_ms": 1000, "topic_partitions": []}
    configs: Any = {"offsets_topic_num_partitions": "1", "offsets_topic_replication_factor": "1"}
    async with (
        zookeeper() as port,
        broker(port, tmp_path, pybroker_features="4.3", **configs) as running,
    ):
        client = await running.client()
        await client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4)

        async def is_answered() -> bool:
            answer = await client.ask(request_class(**values), VERSION)
            return ErrorCode(answer.error_code) is expected

        await eventually(is_answered)
