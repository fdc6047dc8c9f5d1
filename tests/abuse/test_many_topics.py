"""More topics in one CreateTopics than can be made in its time: answered all the same, they come
later, and a good client beside it goes on."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from pybroker_kafka.protocol.apis.create_topics import CreatableTopic, CreateTopicsRequest
from pybroker_kafka.protocol.apis.metadata import MetadataRequest
from pybroker_kafka.protocol.errors import ErrorCode
from tests.abuse.beside import assert_unharmed, bystander
from tests.support.patience import fair
from tests.support.wire import WireClient

COUNT = 400
TIMEOUT_MS = 300
LATE_SECONDS = 10.0  # of an answer on a very busy machine
WAIT_SECONDS = 120.0


@pytest.mark.nightly
def test_more_topics_than_there_is_time_for(tmp_path: Path) -> None:
    with bystander(tmp_path) as good, WireClient(good.bootstrap) as client:
        rounds = 0

        def create() -> None:
            nonlocal rounds
            rounds += 1
            topics = [
                CreatableTopic(name=f"many-{rounds}-{n}", num_partitions=1, replication_factor=1)
                for n in range(COUNT)
            ]
            began = fair.now()
            with client.timeout(60.0):
                answer = client.call(CreateTopicsRequest(topics=topics, timeout_ms=TIMEOUT_MS))
            assert fair.now() - began < TIMEOUT_MS / 1000 + LATE_SECONDS
            assert [topic.name for topic in answer.topics] == [topic.name for topic in topics]
            codes = {topic.error_code for topic in answer.topics}
            assert ErrorCode.REQUEST_TIMED_OUT in codes
            assert codes <= {ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT}

        assert_unharmed(good, f"CreateTopics x {COUNT} in {TIMEOUT_MS} ms", create)
        deadline = time.monotonic() + WAIT_SECONDS
        wanted = {f"many-{rounds}-{n}" for n in range(COUNT)}
        while True:
            found = client.call(MetadataRequest(topics=None), 9).topics
            if wanted <= {topic.name for topic in found}:
                break
            assert time.monotonic() < deadline, "what was not ready in time does not come"
            time.sleep(0.2)
