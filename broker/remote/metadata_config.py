"""The configs of the metadata topic's manager: keys with the prefix `rlmm.config.`, without it.

Unknown keys are ignored, as in Kafka. Clients of the topic take `bootstrap.servers` and the
security settings of Kafka's clients from `remote.log.metadata.common.client.*`; if there are none,
the caller says how brokers reach each other.

Mirrors: TopicBasedRemoteLogMetadataManagerConfig. Leaves out the settings of the producer alone and
of the consumer alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ..config import ConfigError

CLIENT_PREFIX: Final = "remote.log.metadata.common.client."

_INT_MAX: Final = 2**31 - 1
_LONG_MAX: Final = 2**63 - 1
# By field: the key, the least and the most value.
_NUMBERS: Final = {
    "replication_factor": ("remote.log.metadata.topic.replication.factor", 1, 2**15 - 1),
    "partitions": ("remote.log.metadata.topic.num.partitions", 1, _INT_MAX),
    "retention_ms": ("remote.log.metadata.topic.retention.ms", -1, _LONG_MAX),
    "consume_wait_ms": ("remote.log.metadata.consume.wait.ms", 0, _LONG_MAX),
    "retry_timeout_ms": (
        "remote.log.metadata.initialization.retry.max.timeout.ms", 0, _LONG_MAX,
    ),
    "retry_interval_ms": ("remote.log.metadata.initialization.retry.interval.ms", 0, _LONG_MAX),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class MetadataTopicConfig:
    replication_factor: int = 3
    partitions: int = 50
    retention_ms: int = -1  # of the topic's records; -1: without a limit
    consume_wait_ms: int = 120_000  # until a written record has been read back
    retry_timeout_ms: int = 120_000  # then a topic that cannot be made is an error in the log
    retry_interval_ms: int = 100
    client: Mapping[str, str] = field(default_factory=dict)  # of both clients, without the prefix


def metadata_topic_config(configs: Mapping[str, str], prefix: str) -> MetadataTopicConfig:
    """Raises ConfigError; `prefix` is for its text."""
    values: dict[str, int] = {}
    for name, (key, least, most) in _NUMBERS.items():
        text = configs.get(key)
        if text is None:
            continue
        try:
            values[name] = int(text)
        except ValueError:
            raise ConfigError(f"{prefix}{key}={text} is no number") from None
        if not least <= values[name] <= most:
            raise ConfigError(f"{prefix}{key}={text} is not within {least} and {most}")
    if values.get("retention_ms") == 0:
        raise ConfigError(f"{prefix}{_NUMBERS['retention_ms'][0]}=0 is neither -1 nor above 0")
    client = {
        key.removeprefix(CLIENT_PREFIX): value
        for key, value in configs.items()
        if key.startswith(CLIENT_PREFIX)
    }
    return MetadataTopicConfig(**values, client=client)
