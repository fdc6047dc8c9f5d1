"""AlterConfigs, IncrementalAlterConfigs and DescribeConfigs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pybroker_kafka.protocol.apis.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsRequestAlterableConfig,
    AlterConfigsRequestAlterConfigsResource,
)
from pybroker_kafka.protocol.apis.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from pybroker_kafka.protocol.apis.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from tests.support.admin_requests.cases import (
    APPEND,
    BROKER,
    CLIENT_METRICS,
    DELETE,
    GROUP,
    LOGGER,
    LONG_NAME,
    SET,
    SUBTRACT,
    TOPIC,
    Case,
)


def whole(
    kind: int, name: str, configs: Mapping[str, str | None], validate_only: bool = True
) -> AlterConfigsRequest:
    return AlterConfigsRequest(
        resources=[
            AlterConfigsRequestAlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    AlterConfigsRequestAlterableConfig(name=key, value=value)
                    for key, value in configs.items()
                ],
            )
        ],
        validate_only=validate_only,
    )


def incremental(
    kind: int, name: str, *changes: tuple[int, str, str | None], validate_only: bool = True
) -> IncrementalAlterConfigsRequest:
    return IncrementalAlterConfigsRequest(
        resources=[
            IncrementalAlterConfigsRequestAlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    IncrementalAlterConfigsRequestAlterableConfig(
                        name=key, config_operation=operation, value=value
                    )
                    for operation, key, value in changes
                ],
            )
        ],
        validate_only=validate_only,
    )


def twice(request: Any) -> Any:
    request.resources = request.resources * 2
    return request


Configs = tuple[int, str, dict[str, str | None]]
CONFIGS: dict[str, Configs] = {
    "topic": (TOPIC, "known", {"retention.ms": "5"}),
    "topic, nothing": (TOPIC, "known", {}),
    "topic, unknown key": (TOPIC, "known", {"no.such": "1"}),
    "topic, bad number": (TOPIC, "known", {"retention.ms": "soon"}),
    "topic, empty number": (TOPIC, "known", {"retention.ms": ""}),
    "topic, low number": (TOPIC, "known", {"segment.bytes": "1"}),
    "topic, bad choice": (TOPIC, "known", {"cleanup.policy": "burn"}),
    "topic, bad boolean": (TOPIC, "known", {"preallocate": "perhaps"}),
    "topic, bad ratio": (TOPIC, "known", {"min.cleanable.dirty.ratio": "x"}),
    "topic, high ratio": (TOPIC, "known", {"min.cleanable.dirty.ratio": "2"}),
    "topic, bad compression": (TOPIC, "known", {"compression.type": "rar"}),
    "topic, bad level": (TOPIC, "known", {"compression.gzip.level": "77"}),
    "topic, bad throttle": (TOPIC, "known", {"follower.replication.throttled.replicas": "0:x"}),
    "topic, null": (TOPIC, "known", {"retention.ms": None}),
    "topic, nulls": (TOPIC, "known", {"retention.ms": None, "segment.ms": None}),
    "topic, compaction backwards": (
        TOPIC, "known", {"min.compaction.lag.ms": "9", "max.compaction.lag.ms": "3"}),
    "topic, local beyond": (TOPIC, "known", {"local.retention.ms": "9", "retention.ms": "3"}),
    "topic, remote": (TOPIC, "known", {"remote.storage.enable": "true"}),
    "topic, remote copies": (TOPIC, "known", {"remote.log.copy.disable": "true"}),
    "topic, remote deletion": (TOPIC, "known", {"remote.log.delete.on.disable": "true"}),
    "topic, bad version": (TOPIC, "known", {"message.format.version": "9.9"}),
    "topic that is unknown": (TOPIC, "unknown", {"retention.ms": "5"}),
    "topic with an illegal name": (TOPIC, "a b", {"retention.ms": "5"}),
    "topic without a name": (TOPIC, "", {"retention.ms": "5"}),
    "broker": (BROKER, "1", {"log.retention.ms": "5"}),
    "broker, nothing": (BROKER, "1", {}),
    "broker, empty": (BROKER, "1", {"log.retention.ms": ""}),
    "broker, null": (BROKER, "1", {"log.retention.ms": None}),
    "broker, bad number": (BROKER, "1", {"log.retention.ms": "soon"}),
    "broker, bad thread count": (BROKER, "1", {"num.io.threads": "0"}),
    "broker, threads too many": (BROKER, "1", {"num.io.threads": "999"}),
    "broker, bad choice": (BROKER, "1", {"log.cleanup.policy": "burn"}),
    "broker, static": (BROKER, "1", {"broker.rack": "r"}),
    "broker, two static": (BROKER, "1", {"broker.rack": "r", "num.partitions": "3"}),
    "broker, unknown key": (BROKER, "1", {"no.such": "1"}),
    "broker, listener": (BROKER, "1", {"listener.name.plaintext.ssl.keystore.type": "PEM"}),
    "broker, unknown listener": (BROKER, "1", {"listener.name.none.max.connections": "3"}),
    "broker, listeners": (BROKER, "1", {"listeners": "nonsense"}),
    "broker, max connections per ip": (
        BROKER, "1", {"max.connections.per.ip.overrides": "not a host:x"}),
    "broker that is another": (BROKER, "7", {"log.retention.ms": "5"}),
    "broker that is no number": (BROKER, "one", {"log.retention.ms": "5"}),
    "all brokers": (BROKER, "", {"log.retention.ms": "5"}),
    "all brokers, of one": (BROKER, "", {"ssl.keystore.location": "/no"}),
    "all brokers, two of one": (
        BROKER, "", {"ssl.keystore.location": "/no", "ssl.keystore.type": "JKS"}),
    "all brokers, static": (BROKER, "", {"broker.rack": "r"}),
    "logger": (LOGGER, "1", {"kafka": "INFO"}),
    "logger, bad level": (LOGGER, "1", {"kafka": "LOUD"}),
    "logger, unknown": (LOGGER, "1", {"no.such": "INFO"}),
    "logger, null": (LOGGER, "1", {"kafka": None}),
    "logger of another": (LOGGER, "7", {"kafka": "INFO"}),
    "logger of nobody": (LOGGER, "", {"kafka": "INFO"}),
    "logger of a word": (LOGGER, "one", {"kafka": "INFO"}),
    "unknown kind": (3, "known", {"retention.ms": "5"}),
    "unknown high kind": (99, "known", {"retention.ms": "5"}),
    "no kind": (0, "known", {"retention.ms": "5"}),
    "any kind": (1, "known", {"retention.ms": "5"}),
    "client metrics": (CLIENT_METRICS, "m", {"interval.ms": "100"}),
    "client metrics without a name": (CLIENT_METRICS, "", {"interval.ms": "100"}),
    "group": (GROUP, "g", {"consumer.session.timeout.ms": "50000"}),
}  # fmt: skip
CHANGES: dict[str, tuple[int, str, tuple[tuple[int, str, str | None], ...]]] = {
    "append": (TOPIC, "known", ((APPEND, "cleanup.policy", "compact"),)),
    "append to a number": (TOPIC, "known", ((APPEND, "retention.ms", "5"),)),
    "append to unknown": (TOPIC, "known", ((APPEND, "no.such", "5"),)),
    "append null": (TOPIC, "known", ((APPEND, "cleanup.policy", None),)),
    "subtract": (TOPIC, "known", ((SUBTRACT, "cleanup.policy", "delete"),)),
    "subtract from a number": (TOPIC, "known", ((SUBTRACT, "retention.ms", "5"),)),
    "delete": (TOPIC, "known", ((DELETE, "retention.ms", None),)),
    "delete unknown": (TOPIC, "known", ((DELETE, "no.such", None),)),
    "unknown operation": (TOPIC, "known", ((9, "retention.ms", "5"),)),
    "two operations": (TOPIC, "known", (
        (SET, "retention.ms", "5"), (DELETE, "retention.ms", None))),
    "same twice": (TOPIC, "known", ((SET, "retention.ms", "5"), (SET, "retention.ms", "6"))),
    "broker append to a number": (BROKER, "1", ((APPEND, "log.retention.ms", "5"),)),
    "broker append": (BROKER, "1", ((APPEND, "log.cleanup.policy", "compact"),)),
    "broker append to unknown": (BROKER, "1", ((APPEND, "no.such", "5"),)),
    "broker delete": (BROKER, "1", ((DELETE, "log.retention.ms", None),)),
    "broker delete static": (BROKER, "1", ((DELETE, "broker.rack", None),)),
    "broker delete unknown": (BROKER, "1", ((DELETE, "no.such", None),)),
    "broker null": (BROKER, "", ((SET, "log.retention.ms", None),)),
    "broker unknown operation": (BROKER, "", ((9, "log.retention.ms", "5"),)),
    "broker same twice": (BROKER, "", (
        (SET, "log.retention.ms", "5"), (SET, "log.retention.ms", "6"))),
    "logger append": (LOGGER, "1", ((APPEND, "kafka", "INFO"),)),
    "logger subtract": (LOGGER, "1", ((SUBTRACT, "kafka", "INFO"),)),
    "logger delete": (LOGGER, "1", ((DELETE, "kafka.server", None),)),
    "logger delete root": (LOGGER, "1", ((DELETE, "root", None),)),
    "logger delete unknown": (LOGGER, "1", ((DELETE, "no.such", None),)),
    "logger unknown operation": (LOGGER, "1", ((9, "kafka", "INFO"),)),
}  # fmt: skip
ALTER_CONFIGS = [
    *(Case(f"alter {name}", whole(*asked)) for name, asked in CONFIGS.items()),
    Case("alter twice", twice(whole(TOPIC, "known", {"retention.ms": "5"}))),
    *(
        Case(
            f"change {name}",
            incremental(kind, resource, *((SET, *pair) for pair in configs.items())),
        )
        for name, (kind, resource, configs) in CONFIGS.items()
    ),
    *(
        Case(f"change {name}", incremental(kind, resource, *changes))
        for name, (kind, resource, changes) in CHANGES.items()
    ),
    Case("change twice", twice(incremental(TOPIC, "known", (SET, "retention.ms", "5")))),
]


def described(
    kind: int, name: str, keys: Sequence[str] | None = None, *, synonyms: bool = False
) -> DescribeConfigsRequest:
    return DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(
                resource_type=kind,
                resource_name=name,
                configuration_keys=None if keys is None else list(keys),
            )
        ],
        include_synonyms=synonyms,
    )


DESCRIBE_CONFIGS = [
    Case("describe topic", described(TOPIC, "configured")),
    Case("describe topic's keys", described(TOPIC, "configured", ["retention.ms", "no.such"])),
    Case("describe topic's no keys", described(TOPIC, "configured", [])),
    Case("describe topic's synonyms",
         described(TOPIC, "configured", ["retention.ms", "segment.ms"], synonyms=True), (1, 1000)),
    Case("describe unknown topic", described(TOPIC, "unknown")),
    Case("describe illegal topic", described(TOPIC, "a b")),
    Case("describe topic without a name", described(TOPIC, "")),
    Case("describe topic with dots", described(TOPIC, "..")),
    Case("describe long topic", described(TOPIC, LONG_NAME)),
    Case("describe broker's keys", described(BROKER, "1", ["log.retention.ms", "num.io.threads"])),
    Case("describe another broker", described(BROKER, "7")),
    Case("describe broker of a word", described(BROKER, "one")),
    Case("describe all brokers", described(BROKER, "")),
    Case("describe another's loggers", described(LOGGER, "7")),
    Case("describe nobody's loggers", described(LOGGER, "")),
    Case("describe a word's loggers", described(LOGGER, "one")),
    Case("describe unknown kind", described(3, "known")),
    Case("describe high kind", described(99, "known")),
    Case("describe no kind", described(0, "known")),
    Case("describe client metrics", described(CLIENT_METRICS, "m")),
    Case("describe client metrics without a name", described(CLIENT_METRICS, "")),
    Case("describe group", described(GROUP, "g")),
]  # fmt: skip
