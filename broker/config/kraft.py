"""Settings of a KRaft node that is a whole cluster, translated for a broker with a ZooKeeper.

Job: configs and compose files of one node, as Kafka's images take them, name a controller beside
the broker (`process.roles`, `controller.quorum.voters`, a CONTROLLER listener). Here an embedded
ZooKeeper takes its place: the keys are taken out, and one line names them. Pure.

Invariants: nothing that restricts access is taken out, but a listener that is closed with it; a
node of a larger cluster is refused, since each would be a cluster of its own; without such keys
nothing changes.

Mirrors the checks of roles in KafkaConfig, `cub listeners` of Confluent's image (listeners from
advertised ones), and the replication factors of `config/kraft/server.properties`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from .errors import ConfigError

ROLES, VOTERS = "process.roles", "controller.quorum.voters"
BOOTSTRAP, CONTROLLERS = "controller.quorum.bootstrap.servers", "controller.listener.names"
SIGNS = (ROLES, VOTERS, BOOTSTRAP, CONTROLLERS)
LISTENERS, ADVERTISED = "listeners", "advertised.listeners"
PROTOCOLS = "listener.security.protocol.map"
AUTHORIZER = "authorizer.class.name"
KRAFT_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
ZOOKEEPER_AUTHORIZER = "kafka.security.authorizer.AclAuthorizer"
DROPPED_PREFIXES = ("controller.quorum.", "metadata.log.", "metadata.max.")
DROPPED = {
    ROLES, CONTROLLERS, "sasl.mechanism.controller.protocol", "early.start.listeners",
    "initial.broker.registration.timeout.ms", "broker.heartbeat.interval.ms",
    "broker.session.timeout.ms",
}  # fmt: skip
# A single broker could not create these topics with Kafka's defaults.
ONE_BROKER = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}


class Translation(NamedTuple):
    """The keys for this broker, and the line that names the differences ("": none)."""

    values: dict[str, str]
    told: str


def is_kraft(values: Mapping[str, str]) -> bool:
    """Whether these are settings of KRaft, and no ZooKeeper is named."""
    return not values.get("zookeeper.connect") and any(values.get(key) for key in SIGNS)


def translate(values: Mapping[str, str]) -> Translation:
    """For a broker with an embedded ZooKeeper. Raises ConfigError for part of a larger cluster."""
    _check_alone(values)
    controllers = {name.upper() for name in _parts(values.get(CONTROLLERS, ""))}
    result: dict[str, str] = {}
    dropped = []
    for key, text in values.items():
        if key in DROPPED or key.startswith(DROPPED_PREFIXES):
            dropped.append(key)
        elif key in (LISTENERS, ADVERTISED):
            left = [one for one in _parts(text) if _name_of(one) not in controllers]
            if left:
                result[key] = ",".join(left)
        elif key == PROTOCOLS:
            left = [one for one in _parts(text) if one.partition(":")[0].upper() not in controllers]
            if left:
                result[key] = ",".join(left)
        elif key == AUTHORIZER and text == KRAFT_AUTHORIZER:
            result[key] = ZOOKEEPER_AUTHORIZER
        elif key != "zookeeper.connect":  # it is empty
            result[key] = text
    changes = []
    if dropped:
        changes.append(f"left out are {', '.join(sorted(dropped))}")
    closed = controllers & {_name_of(one) for one in _parts(values.get(LISTENERS, ""))}
    if closed:
        changes.append(f"not opened is the listener {', '.join(sorted(closed))}")
    if values.get(AUTHORIZER) == KRAFT_AUTHORIZER:
        changes.append(f"{AUTHORIZER} is {ZOOKEEPER_AUTHORIZER}")
    if not changes:
        return Translation(result, "")
    return Translation(
        result,
        "settings for KRaft are translated: an embedded ZooKeeper takes the controller's place; "
        + "; ".join(changes),
    )


def for_one_broker(values: Mapping[str, str]) -> dict[str, str]:
    """With an id, and the replication factors of internal topics that one broker can have."""
    named = {} if "node.id" in values else {"broker.id": "1"}
    return {**named, **ONE_BROKER, **values}


def listeners_of(advertised: str) -> str:
    """Listeners at all addresses, with the names and ports of advertised ones."""
    found = []
    for entry in _parts(advertised):
        name, separator, address = entry.partition("://")
        port = address.rpartition(":")[2]
        if separator and port.isdecimal():
            found.append(f"{name}://0.0.0.0:{port}")
    return ",".join(found)


def _check_alone(values: Mapping[str, str]) -> None:
    roles = {role.lower() for role in _parts(values.get(ROLES, ""))}
    voters = set(_parts(values.get(VOTERS, ""))) or set(_parts(values.get(BOOTSTRAP, "")))
    if roles == {"controller"}:
        raise ConfigError(
            "process.roles=controller: a broker here needs no controller beside it; leave this "
            "node out, and give the broker process.roles=broker,controller"
        )
    if len(voters) > 1:
        raise ConfigError(
            f"{len(voters)} controllers are named: with an embedded ZooKeeper each, the nodes "
            "would be a cluster each. For several brokers run `pybroker start --brokers 3`, or "
            "one `pybroker zookeeper` and set zookeeper.connect"
        )
    if roles == {"broker"}:
        raise ConfigError(
            "process.roles=broker: the controller is another node; leave that out, and set "
            "process.roles=broker,controller, or run `pybroker zookeeper` and set zookeeper.connect"
        )


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _name_of(listener: str) -> str:
    return listener.partition("://")[0].upper()
