"""Random requests of the APIs and versions that Kafka 3.9 does not have, as `random_requests`.

Job: `draw_new` makes a request to a world that has groups of each type beside the topics of
`random_requests`: groups with a member that stays, one share group without any, and new groups
that a request itself creates.
Invariants: no request changes what another one is answered, but for new groups, whose names are
drawn, and the state of the share group without members, which follows from the same requests.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

from pybroker_kafka.protocol.api import API_TABLE, ApiKey
from tests.support import random_requests as known
from tests.support.random_requests import (
    INTERNAL,
    MISSING,
    TOPICS,
    Body,
    Drawn,
    Random,
    TopicId,
    one_each,
    some,
    topics,
)

CONSUMER_GROUPS = ("g-consumer", "h-consumer")
SHARE_GROUPS = ("g-share", "h-share")
STREAMS_GROUPS = ("g-streams", "h-streams")
EMPTY_SHARE_GROUP = "g-empty"
GROUPS_OF_EACH_TYPE = (
    *CONSUMER_GROUPS, *SHARE_GROUPS, *STREAMS_GROUPS, EMPTY_SHARE_GROUP, "g-a", "g-none",
)  # fmt: skip
SHARE_MEMBERS = ("AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg")
GROUP_CONFIG, CLIENT_METRICS, TOPIC_CONFIG, BROKER_CONFIG = 32, 16, 2, 4
EPOCH_OF_NOBODY = 5
REBALANCE_MS = 10_000
# What Kafka 3.9 has already, and Kafka 4 has more to say about.
ALSO = {
    ApiKey.FIND_COORDINATOR: 6,
    ApiKey.DELETE_GROUPS: 0,
    ApiKey.LIST_GROUPS: 5,
    ApiKey.DESCRIBE_CONFIGS: 4,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: 1,
}


def group_of_any_type(choose: Random) -> str:
    return choose.choice(GROUPS_OF_EACH_TYPE)


def groups_of_any_type(choose: Random) -> list[str]:
    return some(choose, GROUPS_OF_EACH_TYPE, 4)


def fresh(choose: Random, prefix: str) -> str:
    return f"{prefix}-new-{choose.getrandbits(48):x}"


def with_ids(of: Callable[[Random, int], Body], field: str) -> Callable[[Random, int], Body]:
    """A request whose topics have ids beside their names."""

    def drawn(choose: Random, version: int) -> Body:
        body = of(choose, version)
        _add_ids(body.get(field, []))
        for one in body.get("groups", []):
            _add_ids(one["topics"] or [])
        return body

    return drawn


def _add_ids(entries: list[Body]) -> None:
    for one in entries:
        one["topic_id"] = TopicId(one["name"])


def joining_or_unknown(choose: Random, groups: tuple[str, ...]) -> Body:
    """A member that begins a new group, or one that a group does not have."""
    if choose.random() < 0.3:
        name = fresh(choose, choose.choice("gh"))
        return {"group_id": name, "member_id": SHARE_MEMBERS[0], "member_epoch": 0}
    name = choose.choice((*groups, *groups, "g-a", "g-none"))
    return {"group_id": name, "member_id": SHARE_MEMBERS[1], "member_epoch": EPOCH_OF_NOBODY}


def consumer_group_heartbeat(choose: Random, version: int) -> Body:
    body = joining_or_unknown(choose, CONSUMER_GROUPS)
    joins = body["member_epoch"] == 0
    names = some(choose, (*TOPICS, *MISSING, *INTERNAL))
    body["subscribed_topic_names"] = names if joins or choose.random() < 0.6 else None
    if version >= 1 and choose.random() < 0.3:
        body["subscribed_topic_regex"] = choose.choice(["t-.*", "p-.*", ".*"])
    if joins:
        body |= {"rebalance_timeout_ms": REBALANCE_MS, "topic_partitions": []}
    return body


def share_group_heartbeat(choose: Random, version: int) -> Body:
    body = joining_or_unknown(choose, SHARE_GROUPS)
    names = some(choose, (*TOPICS, *MISSING, *INTERNAL))
    is_told = body["member_epoch"] == 0 or choose.random() < 0.6
    return body | {"subscribed_topic_names": names if is_told else None}


def streams_group_heartbeat(choose: Random, version: int) -> Body:
    """With topics that are missing, some of which the broker creates."""
    body = joining_or_unknown(choose, STREAMS_GROUPS)
    if body["member_epoch"]:
        return body
    sources = some(
        choose, (*TOPICS, *TOPICS, *MISSING) + (INTERNAL if choose.random() < 0.1 else ()), 2
    )
    internal = [fresh(choose, choose.choice("tp")) for _ in range(choose.randint(0, 2))]
    subtopology = {
        "subtopology_id": "0",
        "source_topics": sources,
        "state_changelog_topics": [{"name": name} for name in internal],
    }
    return body | {
        "rebalance_timeout_ms": REBALANCE_MS,
        "topology": {"epoch": 0, "subtopologies": [subtopology]},
        "active_tasks": [],
        "standby_tasks": [],
        "warmup_tasks": [],
        "process_id": "process",
        "client_tags": [],
    }


def internal_topics(drawn: Drawn) -> list[str]:
    """Topics that a streams group of this request has to have."""
    if drawn.key is not ApiKey.STREAMS_GROUP_HEARTBEAT or "topology" not in drawn.body:
        return []
    (subtopology,) = drawn.body["topology"]["subtopologies"]
    return [one["name"] for one in subtopology["state_changelog_topics"]]


def describe_groups(choose: Random, version: int) -> Body:
    asked = groups_of_any_type(choose)
    has_operations = choose.random() < 0.6
    return {
        "groups": asked, "group_ids": asked, "include_authorized_operations": has_operations
    }  # fmt: skip


def list_groups(choose: Random, version: int) -> Body:
    return {"types_filter": choose.choice([["consumer"], ["share"], ["streams"], ["classic"]])}


def delete_groups(choose: Random, version: int) -> Body:
    """With members, or missing."""
    return {
        "groups_names": some(
            choose, (*CONSUMER_GROUPS, *SHARE_GROUPS, *STREAMS_GROUPS, "g-gone", "h-gone"), 4
        )
    }


def share_fetch(choose: Random, version: int) -> Body:
    """The first one of a session."""
    return {
        "group_id": choose.choice(SHARE_GROUPS),
        "member_id": choose.choice(SHARE_MEMBERS),
        "share_session_epoch": 0,
        "max_wait_ms": 0,
        "min_bytes": 0,
        "max_bytes": 1_000_000,
        "max_records": 10,
        "batch_size": 10,
        "topics": [
            {"topic_id": TopicId(name), "partitions": [{"partition_index": 0}]}
            for name in some(choose, (*TOPICS, *MISSING))
        ],
    }


def share_acknowledge(choose: Random, version: int) -> Body:
    """Of a session that is not there."""
    accepted = {"first_offset": 0, "last_offset": 0, "acknowledge_types": [1]}
    return {
        "group_id": choose.choice((*SHARE_GROUPS, "g-none")),
        "member_id": "AAAAAAAAAAAAAAAAAAAAAw",
        "share_session_epoch": EPOCH_OF_NOBODY,
        "topics": [
            {
                "topic_id": TopicId(name),
                "partitions": [{"partition_index": 0, "acknowledgement_batches": [accepted]}],
            }
            for name in some(choose, (*TOPICS, *MISSING))
        ],
    }


def describe_share_group_offsets(choose: Random, version: int) -> Body:
    def asked() -> list[Body] | None:
        if choose.random() < 0.3:
            return None
        names = some(choose, (*TOPICS, *MISSING))
        return [{"topic_name": name, "partitions": [0, 1]} for name in names]

    return {"groups": [{"group_id": one, "topics": asked()} for one in groups_of_any_type(choose)]}


def share_group_of_offsets(choose: Random) -> str:
    return choose.choice((EMPTY_SHARE_GROUP, *SHARE_GROUPS, "g-none", "g-a"))


def alter_share_group_offsets(choose: Random, version: int) -> Body:
    partition = {"partition_index": 0, "start_offset": 0}
    names = some(choose, (*TOPICS, *MISSING))
    return {
        "group_id": share_group_of_offsets(choose),
        "topics": [{"topic_name": name, "partitions": [partition]} for name in names],
    }


def delete_share_group_offsets(choose: Random, version: int) -> Body:
    names = some(choose, (*TOPICS, *MISSING))
    return {
        "group_id": share_group_of_offsets(choose),
        "topics": [{"topic_name": name} for name in names],
    }


def share_state(choose: Random, version: int) -> Body:
    """Of a topic that does not exist."""
    partition = {"partition": 0, "state_epoch": 0, "leader_epoch": 0, "start_offset": 0}
    return {
        "group_id": choose.choice(SHARE_GROUPS),
        "topics": [{"topic_id": TopicId("t-none"), "partitions": [partition]}],
    }


def find_coordinator(choose: Random, version: int) -> Body:
    return known.find_coordinator(choose, version) | (
        {"key_type": 2, "coordinator_keys": ["g-share:AAAAAAAAAAAAAAAAAAAAAQ:0"]}
    )


def list_config_resources(choose: Random, version: int) -> Body:
    return {"resource_types": choose.choice([[], [CLIENT_METRICS], [GROUP_CONFIG], [TOPIC_CONFIG]])}


def describe_topic_partitions(choose: Random, version: int) -> Body:
    asked = topics(choose) if choose.random() < 0.8 else []
    cursor = None
    if choose.random() < 0.3:
        cursor = {"topic_name": choose.choice(TOPICS), "partition_index": choose.randint(0, 1)}
    return {
        "topics": [{"name": name} for name in asked],
        "response_partition_limit": choose.choice([1, 3, 2000]),
        "cursor": cursor,
    }


def resources(choose: Random) -> list[tuple[int, str]]:
    pool = [(GROUP_CONFIG, name) for name in ("g-share", "h-consumer", "g-none")]
    pool += [(CLIENT_METRICS, "metrics"), (TOPIC_CONFIG, "t-a"), (BROKER_CONFIG, "1")]
    return choose.sample(pool, choose.randint(1, 3))


def describe_configs(choose: Random, version: int) -> Body:
    return {
        "resources": [
            {"resource_type": kind, "resource_name": name, "configuration_keys": None}
            for kind, name in resources(choose)
        ]
    }


def alter_configs(choose: Random, version: int) -> Body:
    changes = {
        GROUP_CONFIG: ("consumer.session.timeout.ms", "50000"),
        CLIENT_METRICS: ("interval.ms", "60000"),
        TOPIC_CONFIG: ("retention.ms", "100000"),
        BROKER_CONFIG: ("log.cleaner.threads", "1"),
    }
    return {
        "resources": [
            {
                "resource_type": kind, "resource_name": name,
                "configs": [{"name": changes[kind][0], "value": changes[kind][1]}],
            }
            for kind, name in resources(choose)
        ],
        "validate_only": True,
    }  # fmt: skip


def telemetry(choose: Random, version: int) -> Body:
    return {"subscription_id": 1, "client_instance_id": b"\1" * 16}


def alter_reassignments(choose: Random, version: int) -> Body:
    """Of topics that exist: without a KRaft controller a missing one has no reassignment either."""
    asked = one_each(some(choose, TOPICS), {"partition_index": 0, "replicas": None})
    return {"timeout_ms": 5000, "topics": asked}


DRAWERS: Mapping[ApiKey, Callable[[Random, int], Body]] = {
    **known.DRAWERS,
    ApiKey.PRODUCE: with_ids(known.produce, "topic_data"),
    ApiKey.OFFSET_COMMIT: with_ids(known.offset_commit, "topics"),
    ApiKey.OFFSET_FETCH: with_ids(known.offset_fetch, "topics"),
    ApiKey.FIND_COORDINATOR: find_coordinator,
    ApiKey.DESCRIBE_GROUPS: describe_groups,
    ApiKey.LIST_GROUPS: list_groups,
    ApiKey.DELETE_GROUPS: delete_groups,
    ApiKey.DESCRIBE_CONFIGS: describe_configs,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: alter_configs,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: alter_reassignments,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: consumer_group_heartbeat,
    ApiKey.CONSUMER_GROUP_DESCRIBE: describe_groups,
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: telemetry,
    ApiKey.PUSH_TELEMETRY: telemetry,
    ApiKey.LIST_CONFIG_RESOURCES: list_config_resources,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: describe_topic_partitions,
    ApiKey.SHARE_GROUP_HEARTBEAT: share_group_heartbeat,
    ApiKey.SHARE_GROUP_DESCRIBE: describe_groups,
    ApiKey.SHARE_FETCH: share_fetch,
    ApiKey.SHARE_ACKNOWLEDGE: share_acknowledge,
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: share_state,
    ApiKey.READ_SHARE_GROUP_STATE: share_state,
    ApiKey.WRITE_SHARE_GROUP_STATE: share_state,
    ApiKey.DELETE_SHARE_GROUP_STATE: share_state,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: share_state,
    ApiKey.STREAMS_GROUP_HEARTBEAT: streams_group_heartbeat,
    ApiKey.STREAMS_GROUP_DESCRIBE: describe_groups,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: describe_share_group_offsets,
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: alter_share_group_offsets,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: delete_share_group_offsets,
}
# More often: those that can be denied in part.
WEIGHTS = {
    **known.WEIGHTS,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: 3, ApiKey.CONSUMER_GROUP_DESCRIBE: 3,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: 4, ApiKey.SHARE_GROUP_HEARTBEAT: 3,
    ApiKey.SHARE_GROUP_DESCRIBE: 3, ApiKey.SHARE_FETCH: 4, ApiKey.STREAMS_GROUP_HEARTBEAT: 4,
    ApiKey.STREAMS_GROUP_DESCRIBE: 3, ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: 4,
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: 3, ApiKey.DELETE_SHARE_GROUP_OFFSETS: 3,
}  # fmt: skip


def new_versions() -> dict[ApiKey, range]:
    """Of APIs that ask for permissions: the versions that Kafka 3.9 does not have."""
    found = {}
    for key in DRAWERS:
        spec = API_TABLE[key]
        if spec.later is not None:
            found[key] = range(spec.later.version, spec.max_version + 1)
        elif key in ALSO:
            found[key] = range(ALSO[key], spec.max_version + 1)
    return found


def draw_new(choose: random.Random, versions: Mapping[ApiKey, range]) -> Drawn:
    keys = [key for key in DRAWERS if versions.get(key)]
    (key,) = choose.choices(keys, [WEIGHTS.get(key, 1) for key in keys])
    version = choose.choice(versions[key])
    body: dict[str, Any] = DRAWERS[key](choose, version)
    return Drawn(key, version, body)
