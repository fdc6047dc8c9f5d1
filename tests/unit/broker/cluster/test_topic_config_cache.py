"""Topic configs of a broker: own ones, and the one that all other topics share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

import trio

from pybroker_kafka.broker.cluster.topic_config_cache import TopicConfigCache
from pybroker_kafka.broker.config import KafkaConfig
from pybroker_kafka.broker.zk.config_store import ConfigStore, topic_entity
from pybroker_kafka.storage.log_config import LogConfig

HOUR_MS = 3_600_000


class Store:
    """Has a config of its own for each topic named `own-N`: N hours of retention."""

    async def read_many(self, entities: Iterable[Any]) -> dict[Any, Mapping[str, str]]:
        own = {topic_entity(f"own-{hours}"): hours for hours in range(3)}
        return {
            entity: {"retention.ms": str(own[entity] * HOUR_MS)} if entity in own else {}
            for entity in entities
        }


def loaded(*topics: str) -> TopicConfigCache:
    config = KafkaConfig({"log.retention.ms": str(9 * HOUR_MS)})
    cache = TopicConfigCache(config, cast("ConfigStore", Store()))
    trio.run(cache.load, topics)
    return cache


def test_topics_share_a_config_unless_they_have_one_of_their_own() -> None:
    cache = loaded("a", "b", "own-1", "own-2")
    assert cache.config_for("a") is cache.config_for("b") is cache.config_for("unknown")
    assert cache.config_for("a").retention_ms == 9 * HOUR_MS
    assert [cache.config_for(f"own-{n}").retention_ms // HOUR_MS for n in (1, 2)] == [1, 2]


def test_a_change_of_one_topic_is_of_that_topic_alone() -> None:
    cache = loaded("a", "b")
    told: list[tuple[str, LogConfig]] = []
    cache.on_change.append(lambda topic, config: told.append((topic, config)))
    before = cache.config_for("b")
    cache.changed("a", {"retention.ms": "5"})
    assert [(topic, config.retention_ms) for topic, config in told] == [("a", 5)]
    assert cache.config_for("b") is before
    cache.changed("a", {})
    assert cache.config_for("a") is before
    cache.forget("a")
    assert "a" not in cache
    assert cache.config_for("a") is before


def test_all_follow_altered_defaults_of_the_broker() -> None:
    cache = loaded("a", "b", "own-1")
    before = cache.config_for("a")
    told: list[str] = []
    cache.on_change.append(lambda topic, _config: told.append(topic))
    cache._broker_config.dynamic_default["log.retention.ms"] = "7"
    cache.broker_defaults_changed()
    assert sorted(told) == ["a", "b", "own-1"]
    assert cache.config_for("a") is cache.config_for("b") is not before
    assert cache.config_for("a").retention_ms == 7
    assert cache.config_for("own-1").retention_ms == HOUR_MS
