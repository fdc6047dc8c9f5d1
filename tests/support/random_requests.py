"""Random requests to a small world of topics, groups and transactions, of all APIs that ask for
permissions, and their answers in a form in which two brokers can be compared.

Job: `draw` makes a request of the version that it draws, as nested dictionaries that `built` makes
a message of: fields that the version does not have are left out, and a `TopicId` becomes the id
that the topic has on that broker. `comparable` is what an answer says: error codes, names,
bitmaps; not times, sizes, offsets, texts or where brokers are.
Invariants: no request changes what another one is answered, but by deleting a topic, which the
caller puts back.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from pybroker_kafka.protocol.api import ApiKey, request_class
from pybroker_kafka.protocol.schema import Struct, version_range
from pybroker_kafka.protocol.uuids import ZERO_UUID
from tests.support.wire import batch

TOPICS = ("t-a", "t-b", "p-a", "p-b")
MISSING = ("t-none", "p-none")
INTERNAL = ("__consumer_offsets",)
GROUPS = ("g-a", "g-b", "h-a")
TRANSACTIONS = ("x-a", "x-b", "y-a")
DELETABLE = "d-a"
OF_NOBODY = "unknown"  # a topic id in an answer
TRANSACTION_TIMEOUT_MS = 86_400_000  # longer than a test: none times out in the middle
MANY, MANY_SHARE = 250, 0.04
LEFT_OUT_VERSIONS = {
    ApiKey.PRODUCE: range(3),  # they take older batches
    # Apache Kafka forgets to say the error of the group: it answers as if there were no offsets.
    ApiKey.OFFSET_FETCH: range(1, 2),
}
FIRST_VERSION_THAT_MAY_NOT_CREATE = 4  # of Metadata
USERS = ("alice", "bob")
NOBODY = 999_999_999  # a producer id that nobody has
FAR_BROKER = 77


class TopicId(str):
    """Stands for the id of a topic of this name."""

    __slots__ = ()


class Drawn(NamedTuple):
    key: ApiKey
    version: int
    body: dict[str, Any]


Random = random.Random
Body = dict[str, Any]


def some(choose: Random, of: tuple[str, ...], most: int = 3) -> list[str]:
    """Each at most once."""
    return choose.sample(of, choose.randint(1, min(most, len(of))))


def topic(choose: Random) -> str:
    return choose.choice((*TOPICS, *TOPICS, *MISSING, *INTERNAL))


def few_topics(choose: Random) -> list[str]:
    return some(choose, (*TOPICS, *MISSING, *INTERNAL))


def topics(choose: Random) -> list[str]:
    """Now and then so many that the request is handled in parts."""
    asked = few_topics(choose)
    if choose.random() < MANY_SHARE:
        asked += [f"{choose.choice('tp')}-many-{number}" for number in range(MANY)]
    return asked


def group(choose: Random) -> str:
    return choose.choice((*GROUPS, *GROUPS, "g-none"))


def transaction(choose: Random) -> str:
    return choose.choice((*TRANSACTIONS, *TRANSACTIONS, "x-none"))


def one_each(names: list[str], partition: Body, field: str = "name") -> list[Body]:
    """Topics of one partition each."""
    return [{field: name, "partitions": [partition]} for name in names]


def numbers_of(names: list[str], field: str = "name", of: str = "partitions") -> list[Body]:
    return [{field: name, of: [0, 1]} for name in names]


def produce(choose: Random, version: int) -> Body:
    is_transactional = choose.random() < 0.2
    records = batch(b"v")
    if is_transactional:
        records = batch(
            b"v", producer_id=NOBODY, producer_epoch=0, base_sequence=0, is_transactional=True
        )
    return {
        "transactional_id": transaction(choose) if is_transactional else None,
        "acks": choose.choice([1, -1]),
        "timeout_ms": 5000,
        "topic_data": [
            {"name": name, "partition_data": [{"index": choose.randint(0, 1), "records": records}]}
            for name in topics(choose)
        ],
    }


def fetch(choose: Random, version: int) -> Body:
    names = topics(choose)
    is_follower = choose.random() < 0.2
    entries = [
        {
            "topic": name,
            "topic_id": TopicId(name),
            "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 100_000}],
        }
        for name in names
    ]
    return {
        "replica_id": FAR_BROKER if is_follower else -1,
        "replica_state": {"replica_id": FAR_BROKER if is_follower else -1, "replica_epoch": -1},
        "max_wait_ms": 0,
        "min_bytes": 0,
        "max_bytes": 1_000_000,
        "session_epoch": -1,
        "topics": entries,
    }


def metadata(choose: Random, version: int) -> Body:
    asked: list[Body] | None = None
    creates = choose.random() < (0.3 if version >= FIRST_VERSION_THAT_MAY_NOT_CREATE else 1)
    if choose.random() < 0.8:
        if creates:
            # What is created for one request is not asked for by another one.
            fresh = tuple(f"{one}-auto-{choose.getrandbits(48):x}" for one in ("t", "p"))
            asked = [{"name": name} for name in some(choose, (*TOPICS, *INTERNAL, *fresh), 5)]
        elif version >= 12 and choose.random() < 0.4:
            asked = [{"name": None, "topic_id": TopicId(name)} for name in topics(choose)]
        else:
            asked = [{"name": name} for name in topics(choose)]
    elif version == 0:
        asked = []
    return {
        "topics": asked,
        "allow_auto_topic_creation": creates,
        "include_cluster_authorized_operations": choose.random() < 0.5,
        "include_topic_authorized_operations": choose.random() < 0.5,
    }


def list_offsets(choose: Random, version: int) -> Body:
    return {
        "replica_id": -1,
        "topics": one_each(topics(choose), {"partition_index": 0, "timestamp": -1}),
    }


def controller(choose: Random, version: int) -> Body:
    """Of a controller of long ago."""
    return {
        "controller_id": 1, "controller_epoch": 0, "broker_epoch": -1,
        "topic_states": [], "live_brokers": [],
    }  # fmt: skip


def controlled_shutdown(choose: Random, version: int) -> Body:
    return {"broker_id": FAR_BROKER}


def offset_commit(choose: Random, version: int) -> Body:
    offset = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
    return {
        "group_id": group(choose),
        "generation_id_or_member_epoch": -1,
        "topics": one_each(topics(choose), offset),
    }


def offset_fetch(choose: Random, version: int) -> Body:
    def asked() -> list[Body] | None:
        if version >= 2 and choose.random() < 0.3:
            return None
        return numbers_of(topics(choose), of="partition_indexes")

    names = some(choose, (*GROUPS, "g-none")) if version >= 8 else [group(choose)]
    return {
        "group_id": names[0],
        "topics": asked() if version < 8 else [],
        "groups": [{"group_id": name, "topics": asked()} for name in names],
    }


def find_coordinator(choose: Random, version: int) -> Body:
    kind = choose.choice([0, 0, 1, 1, 2]) if version >= 1 else 0
    names: tuple[str, ...] = (*GROUPS, "g-none") if kind == 0 else (*TRANSACTIONS, "x-none")
    if kind == 2:
        names = ("s:AAAAAAAAAAAAAAAAAAAAAQ:0",)
    asked = some(choose, names)
    return {"key": asked[0], "key_type": kind, "coordinator_keys": asked}


def join_group(choose: Random, version: int) -> Body:
    """With a time-out that is refused, or without the id that is asked for."""
    return {
        "group_id": group(choose), "session_timeout_ms": 1 if version < 4 else 10_000,
        "rebalance_timeout_ms": 10_000, "member_id": "", "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b""}],
    }  # fmt: skip


def member(choose: Random, version: int) -> Body:
    return {
        "group_id": group(choose), "generation_id": 1, "member_id": "nobody",
        "protocol_type": "consumer", "protocol_name": "range",
        "members": [{"member_id": "nobody"}],
    }  # fmt: skip


def describe_groups(choose: Random, version: int) -> Body:
    return {
        "groups": some(choose, (*GROUPS, "g-none")),
        "include_authorized_operations": choose.random() < 0.6,
    }


def nothing(choose: Random, version: int) -> Body:
    return {}


def create_topics(choose: Random, version: int) -> Body:
    names = some(choose, ("t-new", "p-new", "t-a", "__cluster_metadata"))
    return {
        "topics": [
            {"name": name, "num_partitions": 1, "replication_factor": 1}
            for name in (names * 2 if choose.random() < 0.1 else names)
        ],
        "timeout_ms": 5000,
        "validate_only": True,
    }


def delete_topics(choose: Random, version: int) -> Body:
    names = some(choose, (DELETABLE, *MISSING))
    is_by_id = choose.random() < 0.5
    return {
        "topic_names": names,
        "topics": [
            {"name": None, "topic_id": TopicId(name)} if is_by_id else {"name": name}
            for name in names
        ],
        "timeout_ms": 10_000,
    }


def delete_records(choose: Random, version: int) -> Body:
    asked = one_each(topics(choose), {"partition_index": 0, "offset": 0})
    return {"topics": asked, "timeout_ms": 5000}


def init_producer_id(choose: Random, version: int) -> Body:
    name = choose.choice([None, None, "x-b", "y-a", "x-none"])
    return {"transactional_id": name, "transaction_timeout_ms": TRANSACTION_TIMEOUT_MS}


def offset_for_leader_epoch(choose: Random, version: int) -> Body:
    asked = one_each(topics(choose), {"partition": 0, "leader_epoch": 0}, "topic")
    return {"replica_id": -1, "topics": asked}


def add_partitions_to_txn(choose: Random, version: int) -> Body:
    name, asked = transaction(choose), numbers_of(topics(choose))
    one = {
        "transactional_id": name, "producer_id": NOBODY, "producer_epoch": 0,
        "verify_only": choose.random() < 0.5, "topics": asked,
    }  # fmt: skip
    return {
        "transactions": [one],
        "v3_and_below_transactional_id": name,
        "v3_and_below_producer_id": NOBODY,
        "v3_and_below_topics": asked,
    }


def add_offsets_to_txn(choose: Random, version: int) -> Body:
    return {
        "transactional_id": transaction(choose),
        "producer_id": NOBODY,
        "group_id": group(choose),
    }


def end_txn(choose: Random, version: int) -> Body:
    return {"transactional_id": transaction(choose), "producer_id": NOBODY, "committed": True}


def write_txn_markers(choose: Random, version: int) -> Body:
    marker = {"producer_id": NOBODY, "topics": numbers_of(["t-none"], of="partition_indexes")}
    return {"markers": [marker]}


def txn_offset_commit(choose: Random, version: int) -> Body:
    offset = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
    return {
        "transactional_id": transaction(choose), "group_id": group(choose), "producer_id": NOBODY,
        "topics": one_each(topics(choose), offset),
    }  # fmt: skip


ACL = {"resource_name": "zz", "principal": "User:zz", "host": "*", "operation": 3,
       "permission_type": 3, "resource_type": 2, "resource_pattern_type": 3}  # fmt: skip
ACL_FILTER = {"resource_name_filter": "zz", "principal_filter": "User:zz", "host_filter": None,
              "operation": 1, "permission_type": 1, "resource_type_filter": 2,
              "pattern_type_filter": 3}  # fmt: skip


def describe_acls(choose: Random, version: int) -> Body:
    return dict(ACL_FILTER)


def create_acls(choose: Random, version: int) -> Body:
    return {"creations": [ACL]}


def delete_acls(choose: Random, version: int) -> Body:
    return {"filters": [ACL_FILTER]}


def resources(choose: Random, *, with_loggers: bool) -> list[tuple[int, str]]:
    pool = [(2, name) for name in (*TOPICS, *MISSING)] + [(4, "1"), (4, "")]
    if with_loggers:
        pool.append((8, "1"))
    return choose.sample(pool, choose.randint(1, 3))


def describe_configs(choose: Random, version: int) -> Body:
    return {
        "resources": [
            {"resource_type": kind, "resource_name": name, "configuration_keys": None}
            for kind, name in resources(choose, with_loggers=version > 0)
        ]
    }


def alter_configs(choose: Random, version: int) -> Body:
    changes = {2: ("retention.ms", "100000"), 4: ("log.cleaner.threads", "1")}
    asked = resources(choose, with_loggers=False)
    return {
        "resources": [
            {
                "resource_type": kind, "resource_name": name,
                "configs": [{"name": changes[kind][0], "value": changes[kind][1]}],
            }
            for kind, name in asked
            if name or kind == 2
        ],
        "validate_only": True,
    }  # fmt: skip


def alter_replica_log_dirs(choose: Random, version: int) -> Body:
    return {"dirs": [{"path": "/no/such/directory", "topics": numbers_of(topics(choose))}]}


def describe_log_dirs(choose: Random, version: int) -> Body:
    return {"topics": None}


def create_partitions(choose: Random, version: int) -> Body:
    names = topics(choose)[:2]
    return {
        "topics": [
            {"name": name, "count": 60, "assignments": None}
            for name in (names * 2 if choose.random() < 0.1 else names)
        ],
        "timeout_ms": 5000,
        "validate_only": True,
    }


def create_token(choose: Random, version: int) -> Body:
    owner = choose.choice([None, *USERS, "carol"])
    return {
        "owner_principal_type": None if owner is None else "User", "owner_principal_name": owner,
        "renewers": [], "max_lifetime_ms": 600_000,
    }  # fmt: skip


def change_token(choose: Random, version: int) -> Body:
    return {"hmac": b"none", "renew_period_ms": 1000, "expiry_time_period_ms": 1000}


def describe_tokens(choose: Random, version: int) -> Body:
    owners = some(choose, (*USERS, "carol"))
    asked = [{"principal_type": "User", "principal_name": one} for one in owners]
    return {"owners": asked if choose.random() < 0.5 else None}


def delete_groups(choose: Random, version: int) -> Body:
    return {"groups_names": some(choose, ("g-gone", "g-less", "h-less"))}


def elect_leaders(choose: Random, version: int) -> Body:
    """Few: with an error of the whole request, the first part of many is all that is told."""
    asked = [{"topic": name, "partitions": [0]} for name in few_topics(choose)]
    return {"topic_partitions": asked, "timeout_ms": 5000}


def alter_reassignments(choose: Random, version: int) -> Body:
    asked = one_each(few_topics(choose), {"partition_index": 0, "replicas": None})
    return {"timeout_ms": 5000, "topics": asked}


def list_reassignments(choose: Random, version: int) -> Body:
    return {"timeout_ms": 5000, "topics": numbers_of(few_topics(choose), of="partition_indexes")}


def offset_delete(choose: Random, version: int) -> Body:
    return {
        "group_id": choose.choice([*GROUPS, "g-none"]),
        "topics": one_each(topics(choose), {"partition_index": 1}),
    }


def describe_client_quotas(choose: Random, version: int) -> Body:
    return {"components": [{"entity_type": "user", "match_type": 2, "match": None}]}


def alter_client_quotas(choose: Random, version: int) -> Body:
    entity = {"entity_type": "user", "entity_name": "zz"}
    change = {"key": "producer_byte_rate", "value": 1e9}
    return {"entries": [{"entity": [entity], "ops": [change]}], "validate_only": True}


def describe_scram(choose: Random, version: int) -> Body:
    return {"users": [{"name": "zz"}]}


def alter_scram(choose: Random, version: int) -> Body:
    return {"deletions": [{"name": "zz", "mechanism": 1}]}


def alter_partition(choose: Random, version: int) -> Body:
    return {"broker_id": FAR_BROKER, "broker_epoch": 1}


def update_features(choose: Random, version: int) -> Body:
    return {"timeout_ms": 5000, "feature_updates": [], "validate_only": True}


def describe_cluster(choose: Random, version: int) -> Body:
    return {"include_cluster_authorized_operations": choose.random() < 0.7, "endpoint_type": 1}


def describe_producers(choose: Random, version: int) -> Body:
    names = [*topics(choose), *(["%"] if choose.random() < 0.1 else [])]
    return {"topics": numbers_of(names, of="partition_indexes")}


def describe_transactions(choose: Random, version: int) -> Body:
    return {"transactional_ids": some(choose, (*TRANSACTIONS, "x-none"))}


def allocate_producer_ids(choose: Random, version: int) -> Body:
    return {"broker_id": FAR_BROKER, "broker_epoch": 1}


def consumer_group(choose: Random, version: int) -> Body:
    return {"group_id": group(choose), "group_ids": ["g-a"], "member_id": "m"}


DRAWERS: Mapping[ApiKey, Callable[[Random, int], Body]] = {
    ApiKey.PRODUCE: produce,
    ApiKey.FETCH: fetch,
    ApiKey.LIST_OFFSETS: list_offsets,
    ApiKey.METADATA: metadata,
    ApiKey.LEADER_AND_ISR: controller,
    ApiKey.STOP_REPLICA: controller,
    ApiKey.UPDATE_METADATA: controller,
    ApiKey.CONTROLLED_SHUTDOWN: controlled_shutdown,
    ApiKey.OFFSET_COMMIT: offset_commit,
    ApiKey.OFFSET_FETCH: offset_fetch,
    ApiKey.FIND_COORDINATOR: find_coordinator,
    ApiKey.JOIN_GROUP: join_group,
    ApiKey.HEARTBEAT: member,
    ApiKey.LEAVE_GROUP: member,
    ApiKey.SYNC_GROUP: member,
    ApiKey.DESCRIBE_GROUPS: describe_groups,
    ApiKey.LIST_GROUPS: nothing,
    ApiKey.CREATE_TOPICS: create_topics,
    ApiKey.DELETE_TOPICS: delete_topics,
    ApiKey.DELETE_RECORDS: delete_records,
    ApiKey.INIT_PRODUCER_ID: init_producer_id,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: offset_for_leader_epoch,
    ApiKey.ADD_PARTITIONS_TO_TXN: add_partitions_to_txn,
    ApiKey.ADD_OFFSETS_TO_TXN: add_offsets_to_txn,
    ApiKey.END_TXN: end_txn,
    ApiKey.WRITE_TXN_MARKERS: write_txn_markers,
    ApiKey.TXN_OFFSET_COMMIT: txn_offset_commit,
    ApiKey.DESCRIBE_ACLS: describe_acls,
    ApiKey.CREATE_ACLS: create_acls,
    ApiKey.DELETE_ACLS: delete_acls,
    ApiKey.DESCRIBE_CONFIGS: describe_configs,
    ApiKey.ALTER_CONFIGS: alter_configs,
    ApiKey.ALTER_REPLICA_LOG_DIRS: alter_replica_log_dirs,
    ApiKey.DESCRIBE_LOG_DIRS: describe_log_dirs,
    ApiKey.CREATE_PARTITIONS: create_partitions,
    ApiKey.CREATE_DELEGATION_TOKEN: create_token,
    ApiKey.RENEW_DELEGATION_TOKEN: change_token,
    ApiKey.EXPIRE_DELEGATION_TOKEN: change_token,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: describe_tokens,
    ApiKey.DELETE_GROUPS: delete_groups,
    ApiKey.ELECT_LEADERS: elect_leaders,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: alter_configs,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: alter_reassignments,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: list_reassignments,
    ApiKey.OFFSET_DELETE: offset_delete,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: describe_client_quotas,
    ApiKey.ALTER_CLIENT_QUOTAS: alter_client_quotas,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: describe_scram,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: alter_scram,
    ApiKey.ALTER_PARTITION: alter_partition,
    ApiKey.UPDATE_FEATURES: update_features,
    ApiKey.DESCRIBE_CLUSTER: describe_cluster,
    ApiKey.DESCRIBE_PRODUCERS: describe_producers,
    ApiKey.DESCRIBE_TRANSACTIONS: describe_transactions,
    ApiKey.LIST_TRANSACTIONS: nothing,
    ApiKey.ALLOCATE_PRODUCER_IDS: allocate_producer_ids,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: consumer_group,
    ApiKey.CONSUMER_GROUP_DESCRIBE: consumer_group,
}
# More often: those that can be denied in part.
WEIGHTS = {
    ApiKey.PRODUCE: 4, ApiKey.FETCH: 4, ApiKey.METADATA: 6, ApiKey.OFFSET_FETCH: 4,
    ApiKey.OFFSET_COMMIT: 3, ApiKey.FIND_COORDINATOR: 3, ApiKey.CREATE_TOPICS: 3,
    ApiKey.DELETE_TOPICS: 2, ApiKey.ADD_PARTITIONS_TO_TXN: 3, ApiKey.TXN_OFFSET_COMMIT: 3,
}  # fmt: skip


def draw(choose: Random, versions: Mapping[ApiKey, range]) -> Drawn:
    """Of these APIs and versions."""
    keys = [key for key in DRAWERS if key in versions]
    (key,) = choose.choices(keys, [WEIGHTS.get(key, 1) for key in keys])
    left_out = LEFT_OUT_VERSIONS.get(key, ())
    version = choose.choice([one for one in versions[key] if one not in left_out])
    return Drawn(key, version, DRAWERS[key](choose, version))


def built(drawn: Drawn, ids: Mapping[str, bytes]) -> Any:
    """The message for a broker on which topics have these ids."""
    return _make(request_class(drawn.key), drawn.version, drawn.body, ids)


def _make(of: type[Struct], version: int, values: Body, ids: Mapping[str, bytes]) -> Any:
    message = of()
    for field in of._fields:
        low, high = version_range(field.versions)
        if field.name not in values or not low <= version <= high:
            continue
        value = values[field.name]
        if isinstance(value, TopicId):
            value = ids.get(value) or hashlib.md5(value.encode()).digest()
        elif isinstance(value, dict):
            value = _make(field.element, version, value, ids)
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            value = [_make(field.element, version, one, ids) for one in value]
        setattr(message, field.name, value)
    return message


# Not what the authorizer decides.
_LEFT_OUT = frozenset(
    {
        "throttle_time_ms", "error_message", "host", "port", "rack", "cluster_id",
        "node_endpoints", "brokers", "base_offset", "log_append_time_ms", "log_start_offset",
        "high_watermark", "last_stable_offset", "aborted_transactions", "offset", "timestamp",
        "old_style_offsets", "end_offset", "leader_epoch", "committed_offset",
        "committed_leader_epoch", "low_watermark", "producer_id", "producer_epoch",
        "transaction_start_time_ms", "results_of_log_dirs", "session_id", "member_id",
        "current_leader", "active_producers", "producer_id_start", "producer_id_len",
        "record_errors", "diverging_epoch", "preferred_read_replica", "controller_id",
        "partition_epoch", "token_id", "hmac", "issue_timestamp", "issue_timestamp_ms",
        "expiry_timestamp", "expiry_timestamp_ms", "max_timestamp", "max_timestamp_ms",
        "assignment", "acquired_records", "acquisition_lock_timeout_ms", "lag", "start_offset",
        "status_detail", "member_epoch", "active_tasks", "standby_tasks", "warmup_tasks",
        "client_instance_id", "subscription_id",
    }
)  # fmt: skip
# Only whether there is any.
_ANY = frozenset({"configs", "records", "log_dirs"})


def comparable(answer: Any, names: Mapping[bytes, str]) -> Any:
    """What it says; lists are sorted, and ids of topics are their names."""
    if isinstance(answer, Struct):
        said = {}
        for field in answer._fields:
            value = getattr(answer, field.name)
            if field.name in _LEFT_OUT:
                continue
            if field.name in _ANY:
                value = bool(value)
            elif field.kind == "uuid":
                raw = bytes(value)
                value = "zero" if raw == ZERO_UUID else names.get(raw, OF_NOBODY)
            said[field.name] = comparable(value, names)
        return said
    if isinstance(answer, list):
        return sorted((comparable(one, names) for one in answer), key=repr)
    if isinstance(answer, (bytes, memoryview, bytearray)):
        return bool(answer)
    return answer
