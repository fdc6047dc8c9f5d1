"""The topic configs of this broker's replicas, ready to be read without waiting.

A log is created in the middle of a LeaderAndIsr, which must not wait; so the configs of the topics
in it are fetched before it is handled (`load`). Changes come through the config store's `follow`.
All topics without a config of their own, which most are, share one LogConfig: it never changes.

Mirrors the part of ConfigRepository and TopicConfigHandler that concerns logs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping

from ...protocol.errors import KafkaError
from ...storage import message_format
from ...storage.log_config import TOPIC_CONFIGS, LogConfig
from ..config.kafka_config import KafkaConfig
from ..zk.config_store import ConfigStore, topic_entity

logger = logging.getLogger("pybroker.broker.configs")


class TopicConfigCache:
    __slots__ = ("_broker_config", "_configs", "_inherited", "_overrides", "_store", "on_change")

    def __init__(self, broker_config: KafkaConfig, store: ConfigStore) -> None:
        self._broker_config = broker_config
        self._store = store
        self._overrides: dict[str, dict[str, str]] = {}
        self._configs: dict[str, LogConfig] = {}
        # Of a topic that overrides nothing; None: not needed since the defaults were altered.
        self._inherited: LogConfig | None = None
        self.on_change: list[Callable[[str, LogConfig], None]] = []

    def __contains__(self, topic: str) -> bool:
        return topic in self._overrides

    def overrides(self, topic: str) -> Mapping[str, str]:
        return self._overrides.get(topic, {})

    def config_for(self, topic: str) -> LogConfig:
        config = self._configs.get(topic)
        if config is None:
            overrides = self._overrides.get(topic)
            config = self._build(topic, overrides) if overrides else self._inherited
            if config is None:
                config = self._inherited = self._build(topic, {})
            self._configs[topic] = config
        return config

    async def load(self, topics: Iterable[str]) -> None:
        """Fetch the configs of topics that are about to be hosted."""
        names = list(topics)
        found = await self._store.read_many(topic_entity(name) for name in names)
        for name in names:
            self._take(name, found[topic_entity(name)])

    def changed(self, topic: str, overrides: Mapping[str, str]) -> None:
        """A topic's config was altered: apply it if the topic is ours.

        A tiered topic that shall be none keeps all of its config: its records in the tier would be
        lost.
        """
        if topic in self._overrides:
            was_tiered = self.config_for(topic).remote_storage
            if was_tiered and not self._build(topic, overrides).remote_storage:
                logger.error(
                    "Topic %s keeps its config: its tiered storage cannot be disabled", topic
                )
                return
            self._take(topic, overrides)
            for callback in self.on_change:
                callback(topic, self.config_for(topic))

    def broker_defaults_changed(self) -> None:
        """The broker-wide defaults were altered: every topic without an override follows."""
        self._configs.clear()
        self._inherited = None
        for topic in self._overrides:
            config = self.config_for(topic)
            for callback in self.on_change:
                callback(topic, config)

    def forget(self, topic: str) -> None:
        self._overrides.pop(topic, None)
        self._configs.pop(topic, None)

    def _take(self, topic: str, overrides: Mapping[str, str]) -> None:
        self._overrides[topic] = dict(overrides)
        self._configs.pop(topic, None)
        version = overrides.get(message_format.TOPIC_FORMAT_VERSION)
        if version is not None and _is_valid(message_format.TOPIC_FORMAT_VERSION, version):
            inter_broker = self._broker_config.get_string(message_format.INTER_BROKER_VERSION)
            reason = message_format.ignored_topic_version(inter_broker, version)
            if reason is not None:
                logger.warning(
                    "message.format.version %s of topic %s is ignored: %s", version, topic, reason
                )

    def _build(self, topic: str, overrides: Mapping[str, str]) -> LogConfig:
        """Unknown names belong to other versions of Kafka; values that no log can have are
        logged.
        """
        unusable = [
            name
            for name, text in overrides.items()
            if name in TOPIC_CONFIGS and not _is_valid(name, text)
        ]
        if unusable:
            logger.error(
                "Configs of topic %s that cannot be used are left out: %s",
                topic, ", ".join(sorted(unusable)),
            )  # fmt: skip
        usable = {name: text for name, text in overrides.items() if name not in unusable}
        return LogConfig.from_overrides(usable, self._broker_config.explicit())


def _is_valid(name: str, text: str) -> bool:
    definition = TOPIC_CONFIGS.get(name)
    if definition is None:
        return False
    try:
        definition.parse(text)
    except KafkaError:
        return False
    return True
