"""Paths and payloads of the znodes: pure encoding and decoding.

Job: one place that knows Kafka's tree below the chroot. Payloads are compact UTF-8 JSON, read
leniently (unknown keys ignored, missing optional keys defaulted) and written as Apache Kafka 3.9
writes them. Reading something else raises only `MalformedZnode`.

Mirrors kafka.zk.ZkData. Leaves out ACLs, delegation tokens, old consumers and KRaft migration.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...protocol.uuids import uuid_from_text, uuid_to_text
from ..metadata_cache import Endpoint

CLUSTER_ID = "/cluster/id"
BROKER_IDS = "/brokers/ids"
BROKER_SEQUENCE = "/brokers/seqid"
TOPICS = "/brokers/topics"
CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
DELETE_TOPICS = "/admin/delete_topics"
PREFERRED_ELECTION = "/admin/preferred_replica_election"
REASSIGN_PARTITIONS = "/admin/reassign_partitions"
ISR_CHANGES = "/isr_change_notification"
LOG_DIR_EVENTS = "/log_dir_event_notification"
CONFIG_CHANGES = "/config/changes"
CONFIG_CHANGE_PREFIX = "/config/changes/config_change_"
PRODUCER_ID_BLOCK = "/latest_producer_id_block"
FEATURE = "/feature"

PERSISTENT_PATHS: Sequence[str] = (
    "/consumers",
    BROKER_IDS,
    TOPICS,
    CONFIG_CHANGES,
    DELETE_TOPICS,
    BROKER_SEQUENCE,
    ISR_CHANGES,
    PRODUCER_ID_BLOCK,
    LOG_DIR_EVENTS,
    "/config/topics",
    "/config/clients",
    "/config/users",
    "/config/brokers",
    "/config/ips",
)

PRODUCER_ID_BLOCK_SIZE = 1000
RECOVERED = 0
RECOVERING = 1


class MalformedZnode(Exception):
    """A znode holds something that Kafka would not have written."""


def broker_path(broker_id: int) -> str:
    return f"{BROKER_IDS}/{broker_id}"


def topic_path(topic: str) -> str:
    return f"{TOPICS}/{topic}"


def partitions_path(topic: str) -> str:
    return f"{TOPICS}/{topic}/partitions"


def partition_path(topic: str, partition: int) -> str:
    return f"{TOPICS}/{topic}/partitions/{partition}"


def partition_state_path(topic: str, partition: int) -> str:
    return f"{TOPICS}/{topic}/partitions/{partition}/state"


def delete_topic_path(topic: str) -> str:
    return f"{DELETE_TOPICS}/{topic}"


def config_path(entity_path: str) -> str:
    """`entity_path` is for example topics/t, brokers/1, users/u/clients/c."""
    return f"/config/{entity_path}"


def _encode(payload: object) -> bytes:
    return json.dumps(payload, separators=(",", ":")).encode()


def _decode(data: bytes | None, what: str) -> dict[str, Any]:
    try:
        payload = json.loads(data or b"")
    except (ValueError, RecursionError) as error:
        raise MalformedZnode(f"{what} holds no JSON: {bytes(data or b'')[:80]!r}") from error
    if not isinstance(payload, dict):
        raise MalformedZnode(f"{what} holds no JSON object: {bytes(data or b'')[:80]!r}")
    return payload


class _Reading:
    """Turns errors in reading values from a payload into MalformedZnode."""

    __slots__ = ("what",)

    def __init__(self, what: str) -> None:
        self.what = what

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, (KeyError, ValueError, TypeError, AttributeError)):
            raise MalformedZnode(f"{self.what} is not as expected: {error!r}") from error


# Broker registration


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """`epoch` is the czxid of the node, known once it is registered."""

    broker_id: int
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    epoch: int = -1
    features: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def endpoint(self, listener: str) -> Endpoint | None:
        return next((e for e in self.endpoints if e.listener == listener), None)


def encode_broker(
    registration: BrokerRegistration, wall_ms: int, jmx_port: int = -1, version: int = 5
) -> bytes:
    """/brokers/ids/N: racks come with version 3, names of listeners with 4, features with 5. Host
    and port of old readers are those of the first PLAINTEXT endpoint, null and -1 without one.
    Brokers before 3.9 cannot read a least level of 0."""
    endpoints = registration.endpoints
    plain = next((e for e in endpoints if e.security_protocol == "PLAINTEXT"), None)
    payload: dict[str, object] = {
        "version": version,
        "host": plain.host if plain else None,
        "port": plain.port if plain else -1,
        "jmx_port": jmx_port,
        "timestamp": str(wall_ms),
        "endpoints": [f"{e.listener}://{_bracketed(e.host)}:{e.port}" for e in endpoints],
    }
    if version >= 4:
        payload["listener_security_protocol_map"] = {
            e.listener: e.security_protocol for e in endpoints
        }
    if version >= 5:
        payload["features"] = {
            name: {"min_version": max(low, 1), "max_version": high}
            for name, (low, high) in registration.features.items()
        }
    if registration.rack is not None and version >= 3:
        payload["rack"] = registration.rack
    return _encode(payload)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def decode_broker(broker_id: int, data: bytes | None, epoch: int) -> BrokerRegistration:
    """/brokers/ids/N of any version; `epoch` is the znode's czxid. Raises MalformedZnode."""
    what = broker_path(broker_id)
    payload = _decode(data, what)
    with _Reading(what):
        version = int(payload["version"])
        if version < 1:
            raise MalformedZnode(f"{what} has unknown version {version}")
        if version == 1:
            host, port = payload["host"], int(payload["port"])
            endpoints: tuple[Endpoint, ...] = (Endpoint("PLAINTEXT", "PLAINTEXT", host, port),)
        else:
            protocols = payload.get("listener_security_protocol_map") or {}
            endpoints = tuple(_decode_endpoint(text, protocols) for text in payload["endpoints"])
        features = {
            name: (int(levels["min_version"]), int(levels["max_version"]))
            for name, levels in (payload.get("features") or {}).items()
        }
        return BrokerRegistration(broker_id, endpoints, payload.get("rack"), epoch, features)


def _decode_endpoint(text: str, protocols: Mapping[str, str]) -> Endpoint:
    listener, separator, address = text.partition("://")
    host, colon, port = address.rpartition(":")
    if not separator or not colon:
        raise ValueError(f"no endpoint: {text!r}")
    return Endpoint(listener, protocols.get(listener, listener), host.strip("[]"), int(port))


# Topic assignment


@dataclass(frozen=True, slots=True)
class ReplicaAssignment:
    """Replicas in order of preference; adding and removing only while being reassigned."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def is_being_reassigned(self) -> bool:
        return bool(self.adding or self.removing)

    @property
    def origin_replicas(self) -> tuple[int, ...]:
        return tuple(r for r in self.replicas if r not in self.adding)

    @property
    def target_replicas(self) -> tuple[int, ...]:
        return tuple(r for r in self.replicas if r not in self.removing)

    def reassign_to(self, target: Sequence[int]) -> "ReplicaAssignment":
        """The assignment between the origin and `target`, independently of an earlier target."""
        origin = self.origin_replicas
        return ReplicaAssignment(
            tuple(dict.fromkeys((*target, *origin))),
            adding=tuple(r for r in dict.fromkeys(target) if r not in origin),
            removing=tuple(r for r in origin if r not in target),
        )

    def without(self, broker_id: int) -> "ReplicaAssignment":
        return ReplicaAssignment(
            tuple(r for r in self.replicas if r != broker_id),
            tuple(r for r in self.adding if r != broker_id),
            tuple(r for r in self.removing if r != broker_id),
        )


@dataclass(frozen=True, slots=True)
class TopicAssignment:
    topic_id: bytes | None
    partitions: Mapping[int, ReplicaAssignment]


def encode_topic(assignment: TopicAssignment) -> bytes:
    items = sorted(assignment.partitions.items())
    payload: dict[str, object] = {
        "version": 3,
        "partitions": {str(p): list(a.replicas) for p, a in items},
        "adding_replicas": {str(p): list(a.adding) for p, a in items if a.adding},
        "removing_replicas": {str(p): list(a.removing) for p, a in items if a.removing},
    }
    if assignment.topic_id is not None:
        payload["topic_id"] = uuid_to_text(assignment.topic_id)
    return _encode(payload)


def decode_topic(topic: str, data: bytes | None) -> TopicAssignment:
    """/brokers/topics/T of any version; before version 2 there are no reassignments, before
    version 3 no topic id. Raises MalformedZnode."""
    what = topic_path(topic)
    payload = _decode(data, what)
    with _Reading(what):
        adding = payload.get("adding_replicas") or {}
        removing = payload.get("removing_replicas") or {}
        # A topic may have thousands of partitions, few of which differ in their replicas.
        known: dict[tuple[Any, ...], ReplicaAssignment] = {}
        partitions = {}
        for key, replicas in payload["partitions"].items():
            listed = tuple(replicas), tuple(adding.get(key, ())), tuple(removing.get(key, ()))
            assignment = known.get(listed)
            if assignment is None:
                assignment = known[listed] = ReplicaAssignment(*map(_ids, listed))
            partitions[int(key)] = assignment
        text = payload.get("topic_id")
        return TopicAssignment(uuid_from_text(text) if text else None, partitions)


def _ids(values: Sequence[Any]) -> tuple[int, ...]:
    return tuple(int(value) for value in values)


# Partition state


@dataclass(frozen=True, slots=True)
class LeaderAndIsr:
    """`partition_epoch` is the version of the znode; `controller_epoch` is that of the last
    writer."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    partition_epoch: int
    controller_epoch: int
    leader_recovery_state: int = RECOVERED


def encode_partition_state(state: LeaderAndIsr) -> bytes:
    payload: dict[str, object] = {
        "version": 1,
        "leader": state.leader,
        "leader_epoch": state.leader_epoch,
        "controller_epoch": state.controller_epoch,
        "isr": list(state.isr),
    }
    if state.leader_recovery_state != RECOVERED:
        payload["leader_recovery_state"] = state.leader_recovery_state
    return _encode(payload)


def decode_partition_state(data: bytes | None, version: int) -> LeaderAndIsr:
    what = "a partition state"
    payload = _decode(data, what)
    with _Reading(what):
        return LeaderAndIsr(
            leader=int(payload["leader"]),
            leader_epoch=int(payload["leader_epoch"]),
            isr=_ids(payload["isr"]),
            partition_epoch=version,
            controller_epoch=int(payload["controller_epoch"]),
            leader_recovery_state=int(payload.get("leader_recovery_state", RECOVERED)),
        )


# Controller, cluster, producer ids, features


def encode_controller(broker_id: int, wall_ms: int) -> bytes:
    return _encode(
        {
            "version": 2,
            "brokerid": broker_id,
            "timestamp": str(wall_ms),
            "kraftControllerEpoch": -1,
        }
    )


def decode_controller(data: bytes | None) -> int:
    payload = _decode(data, CONTROLLER)
    with _Reading(CONTROLLER):
        return int(payload["brokerid"])


def is_kraft_controller(data: bytes | None) -> bool:
    payload = _decode(data, CONTROLLER)
    with _Reading(CONTROLLER):
        return int(payload.get("kraftControllerEpoch", -1)) >= 0


def decode_controller_epoch(data: bytes | None) -> int:
    with _Reading(CONTROLLER_EPOCH):
        return int((data or b"").decode())


def encode_cluster_id(cluster_id: str) -> bytes:
    return _encode({"version": "1", "id": cluster_id})


def decode_cluster_id(data: bytes | None) -> str:
    payload = _decode(data, CLUSTER_ID)
    with _Reading(CLUSTER_ID):
        return str(payload["id"])


def encode_producer_id_block(broker_id: int, first_id: int) -> bytes:
    return _encode(
        {
            "version": 1,
            "broker": broker_id,
            "block_start": str(first_id),
            "block_end": str(first_id + PRODUCER_ID_BLOCK_SIZE - 1),
        }
    )


def decode_producer_id_block_end(data: bytes | None) -> int:
    payload = _decode(data, PRODUCER_ID_BLOCK)
    with _Reading(PRODUCER_ID_BLOCK):
        return int(payload["block_end"])


def encode_features(features: Mapping[str, int], version: int = 2, enabled: bool = True) -> bytes:
    """/feature; version 1 has the least level, too, which is the same."""
    keys = ("max_version_level",) if version > 1 else ("max_version_level", "min_version_level")
    levels = {name: dict.fromkeys(keys, level) for name, level in features.items()}
    return _encode({"version": version, "status": int(enabled), "features": levels})


def decode_features(data: bytes | None) -> dict[str, int]:
    """The finalized features; none while their status is disabled (0)."""
    payload = _decode(data, FEATURE)
    with _Reading(FEATURE):
        if int(payload.get("status", 0)) == 0:
            return {}
        features = payload.get("features") or {}
        return {name: int(levels["max_version_level"]) for name, levels in features.items()}


def is_feature_node(data: bytes | None, version: int, *, enabled: bool) -> bool:
    """Whether /feature is of this version, with versioning enabled or not."""
    payload = _decode(data, FEATURE)
    return payload.get("version") == version and payload.get("status") == int(enabled)


# Configs and notifications


def encode_config(config: Mapping[str, str]) -> bytes:
    return _encode({"version": 1, "config": dict(config)})


def decode_config(data: bytes | None) -> dict[str, str]:
    if not data:
        return {}
    payload = _decode(data, "a config entity")
    with _Reading("a config entity"):
        return {str(name): str(value) for name, value in (payload.get("config") or {}).items()}


def encode_config_change(entity_path: str) -> bytes:
    return _encode({"version": 2, "entity_path": entity_path})


def decode_config_change(data: bytes | None) -> str | None:
    """The entity path; None if the node is no config change (Kafka ignores it too)."""
    try:
        payload = _decode(data, CONFIG_CHANGES)
        if payload.get("version") == 1:
            return f"{payload['entity_type']}/{payload['entity_name']}"
        return str(payload["entity_path"])
    except (MalformedZnode, KeyError):
        return None


def decode_partition_list(data: bytes | None, what: str) -> list[tuple[str, int]]:
    """The partitions of a preferred election or of an ISR change notification."""
    payload = _decode(data, what)
    with _Reading(what):
        return [(str(item["topic"]), int(item["partition"])) for item in payload["partitions"]]


def encode_partition_list(partitions: Iterable[tuple[str, int]]) -> bytes:
    named = [{"topic": topic, "partition": index} for topic, index in sorted(partitions)]
    return _encode({"version": 1, "partitions": named})


def encode_reassignment(targets: Mapping[tuple[str, int], Sequence[int]]) -> bytes:
    partitions = [
        {"topic": topic, "partition": index, "replicas": list(replicas)}
        for (topic, index), replicas in sorted(targets.items())
    ]
    return _encode({"version": 1, "partitions": partitions})


def decode_reassignment(data: bytes | None) -> dict[tuple[str, int], tuple[int, ...]]:
    """The legacy tool's request: the target replicas of each partition."""
    payload = _decode(data, REASSIGN_PARTITIONS)
    with _Reading(REASSIGN_PARTITIONS):
        return {
            (str(item["topic"]), int(item["partition"])): _ids(item["replicas"])
            for item in payload["partitions"]
        }


def encode_log_dir_event(broker_id: int) -> bytes:
    return _encode({"version": 1, "broker": broker_id, "event": 1})


def decode_log_dir_event(data: bytes | None) -> int:
    payload = _decode(data, LOG_DIR_EVENTS)
    with _Reading(LOG_DIR_EVENTS):
        return int(payload["broker"])


def sequence_number(name: str) -> int:
    """The counter at the end of a sequential node's name; -1 if there is none."""
    digits = name[-10:]
    return int(digits) if digits.isdecimal() else -1
