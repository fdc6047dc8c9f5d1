"""A broker that says it is about to stop, on a broker of its own: it leads nothing new then."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.apis.controlled_shutdown import ControlledShutdownRequest
from pybroker_kafka.protocol.apis.create_topics import CreatableTopic, CreateTopicsRequest
from pybroker_kafka.protocol.errors import ErrorCode
from tests.support.processes import running_broker
from tests.support.wire import WireClient, covers, unique
from tests.wire.control_steps import Control


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[WireClient]:
    with running_broker(tmp_path) as broker, WireClient(broker.bootstrap) as client:
        yield client


@covers(ApiKey.CONTROLLED_SHUTDOWN)
def test_a_broker_that_shuts_down_leads_nothing_new(kafka: WireClient) -> None:
    topic = kafka.create_topic(partitions=2)
    control = Control(kafka)
    for version in kafka.versions(ApiKey.CONTROLLED_SHUTDOWN):
        request = ControlledShutdownRequest(broker_id=control.me, broker_epoch=control.broker_epoch)
        answer = kafka.call(request, version)
        # Partitions without another replica do not count: nobody could take them.
        assert (answer.error_code, answer.remaining_partitions) == (0, [])
        assert kafka.append(topic.name, b"value") == version
    late = CreatableTopic(name=unique(), num_partitions=1, replication_factor=1)
    (result,) = kafka.call(CreateTopicsRequest(topics=[late], timeout_ms=300)).topics
    assert result.error_code == ErrorCode.REQUEST_TIMED_OUT
