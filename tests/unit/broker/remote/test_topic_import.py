"""CreateTopics with the id and the leader epochs of a lost topic: who may, and what is refused."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pybroker_kafka.broker.handlers.topics import check_import_permitted
from pybroker_kafka.protocol.acls import CLUSTER_NAME, AclOperation, ResourceType
from pybroker_kafka.protocol.apis.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from pybroker_kafka.protocol.errors import ErrorCode, KafkaError
from pybroker_kafka.replication.controller.topic_import import IMPORT_CONFIG, TopicImport
from tests.support.in_process import broker, zookeeper
from tests.support.wire import WireClient, unique

from .test_tiered_broker import configs_of, in_thread

ID, OTHER_ID = bytes(range(1, 17)), bytes(range(2, 18))
ENABLED = {"remote.storage.enable": "true"}


def topic_of(configs: dict[str, str], partitions: int = 1) -> CreatableTopic:
    return CreatableTopic(
        name=unique(),
        num_partitions=partitions,
        replication_factor=1,
        configs=[CreatableTopicConfig(name=name, value=text) for name, text in configs.items()],
    )


def test_an_import_needs_the_right_to_alter_the_cluster() -> None:
    asked: list[tuple[AclOperation, ResourceType, str]] = []

    def denied(*what: Any) -> bool:
        asked.append(what)
        return False

    request: Any = SimpleNamespace(permits=denied)
    check_import_permitted(request, topic_of({"retention.ms": "1"}))
    assert asked == []
    with pytest.raises(KafkaError) as caught:
        check_import_permitted(request, topic_of({IMPORT_CONFIG: ""}))
    assert caught.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert asked == [(AclOperation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME)]


async def test_imports_that_cannot_be(tmp_path: Path) -> None:
    def create(kafka: WireClient, topic: CreatableTopic) -> tuple[int, str]:
        (made,) = kafka.call(CreateTopicsRequest(topics=[topic], timeout_ms=60_000)).topics
        return made.error_code, made.error_message or ""

    def check(kafka: WireClient) -> None:
        def refused(configs: dict[str, str], partitions: int = 1) -> str:
            code, text = create(kafka, topic_of(configs, partitions))
            assert code == ErrorCode.INVALID_CONFIG
            return text

        wanted = {**ENABLED, IMPORT_CONFIG: str(TopicImport(ID, (-1,)))}
        assert create(kafka, topic_of(wanted))[0] == ErrorCode.NONE
        assert "has this id" in refused(wanted)
        wanted[IMPORT_CONFIG] = str(TopicImport(OTHER_ID, (-1,)))
        assert "1 epochs for 2 partitions" in refused(wanted, 2)
        assert "remote.storage.enable" in refused({IMPORT_CONFIG: wanted[IMPORT_CONFIG]})
        assert "TOPICID" in refused({**ENABLED, IMPORT_CONFIG: "x"})
        # Nothing was in the tier after all: the leader begins at 0.
        wanted[IMPORT_CONFIG] = str(TopicImport(OTHER_ID, (7,)))
        assert create(kafka, topic_of(wanted))[0] == ErrorCode.NONE

    async with (
        zookeeper() as zookeeper_port,
        broker(zookeeper_port, tmp_path / "broker", None, **configs_of(tmp_path / "tier")) as one,
    ):
        await in_thread(one, check)
