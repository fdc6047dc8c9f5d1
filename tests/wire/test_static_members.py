"""Static members on a broker whose cluster may have brokers that do not know them."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker_kafka.protocol.apis.heartbeat import HeartbeatRequest
from pybroker_kafka.protocol.apis.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pybroker_kafka.protocol.apis.sync_group import SyncGroupRequest
from pybroker_kafka.protocol.errors import ErrorCode
from tests.support.processes import BrokerProcess, zookeeper_process
from tests.support.wire import Topic, WireClient
from tests.wire.group_steps import join_request

GROUP = "g"


def errors(client: WireClient, topic: Topic, instance: str | None) -> dict[str, int]:
    """What a member with this instance id is told; it is none of the group."""
    join = join_request(5, GROUP)
    join.group_instance_id = instance
    sync = SyncGroupRequest(group_id=GROUP, generation_id=1, member_id="m")
    sync.group_instance_id = instance
    heartbeat = HeartbeatRequest(group_id=GROUP, generation_id=1, member_id="m")
    heartbeat.group_instance_id = instance
    answers = {
        "join": client.call(join, 5).error_code,
        "sync": client.call(sync, 3).error_code,
        "heartbeat": client.call(heartbeat, 3).error_code,
    }
    entry = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    commit = OffsetCommitRequest(
        group_id=GROUP,
        generation_id_or_member_epoch=1,
        member_id="m",
        group_instance_id=instance,
        topics=[OffsetCommitRequestTopic(name=topic.name, partitions=[entry])],
    )
    told = set()
    for _ in range(5):  # those that are like the one before go a way of their own
        (partition,) = client.call(commit, 7).topics[0].partitions
        told.add(partition.error_code)
    (answers["commit"],) = told
    return answers


@pytest.mark.parametrize("version", ["2.2", "2.3"])
def test_they_are_refused_below_the_release_that_has_them(tmp_path: Path, version: str) -> None:
    with zookeeper_process(tmp_path) as connect:
        config = {"inter.broker.protocol.version": version}
        broker = BrokerProcess(tmp_path / "broker", connect, config)
        broker.start()
        try:
            with WireClient(broker.bootstrap) as client:
                topic = client.create_topic()
                client.coordinator(GROUP)
                dynamic = errors(client, topic, None)
                static = errors(client, topic, "i")
        finally:
            broker.kill()
    unsupported = ErrorCode.UNSUPPORTED_VERSION
    assert unsupported not in dynamic.values()
    if version == "2.2":
        assert static == dict.fromkeys(static, unsupported)
    else:
        assert unsupported not in static.values()
