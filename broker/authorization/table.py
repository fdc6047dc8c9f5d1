"""What each API asks the authorizer, in which order, and what is answered when it is denied.

Job: `TABLE`, one row for each API that is served with ZooKeeper; data, and the conditions in it.
`guard` enforces `whole`, `each` and `hidden`; `by_handler` is what the handler asks by itself, in
the middle of its work, with `request.permits`.
Invariants: every API has a row, also one that asks nothing, and says why it does not (a test); the
order of a row is that of the questions.

Mirrors the handlers of kafka.server.KafkaApis, AclApis, ConfigHelper and ConfigAdminManager, as
they are with ZooKeeper.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from ...protocol.api import ApiKey
from ...protocol.errors import ErrorCode
from ..network.request import Request
from ..security.authorizer import AclOperation, ResourceType

ANY_NAME: Final = "*"
"""As the field of a question: of any resource of its type."""
ITEM: Final = ""
"""As the field of a question about elements: they are names themselves."""


class Question(NamedTuple):
    """May this be done to this kind of resource?

    `field` of the request, or of an element, has the resource's name. Of the cluster there is one.
    """

    operation: AclOperation
    kind: ResourceType
    field: str = ITEM


class When(NamedTuple):
    text: str
    holds: Callable[[Request], bool]


class Whole(NamedTuple):
    """Asked of the request as a whole; one of `any_of` will do."""

    any_of: tuple[Question, ...]
    denied: ErrorCode
    when: When | None = None


class Each(NamedTuple):
    """Asked for each element of a list of the request; others are done nevertheless.

    Not asked at all if `unless` is allowed. If `goes_on`, the handler is called even if nothing is
    left: an error of the request as a whole comes first.
    """

    elements: str
    question: Question
    denied: ErrorCode
    unless: Question | None = None
    goes_on: bool = False


class Hidden(NamedTuple):
    """What is left out of the response: elements in the list at the end of `path`."""

    path: tuple[str, ...]
    question: Question
    unless: Question | None = None


class ByHandler(NamedTuple):
    """Asked in the handler; `denied` says in words what is answered."""

    any_of: tuple[Question, ...]
    denied: str


class Row(NamedTuple):
    whole: tuple[Whole, ...] = ()
    each: Each | None = None
    hidden: tuple[Hidden, ...] = ()
    by_handler: tuple[ByHandler, ...] = ()
    only_controller: bool = False
    """Others answer NOT_CONTROLLER before anything is asked."""
    note: str = ""


_A, _R = AclOperation, ResourceType
_TOPIC_FAILED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_GROUP_FAILED = ErrorCode.GROUP_AUTHORIZATION_FAILED
_CLUSTER_FAILED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
_TRANSACTION_FAILED = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def _cluster(*operations: AclOperation) -> Whole:
    return Whole(
        tuple(Question(operation, _R.CLUSTER) for operation in operations), _CLUSTER_FAILED
    )


def _topics(operation: AclOperation, name: str = "name", *, of: str = "topics") -> Each:
    return Each(of, Question(operation, _R.TOPIC, name), _TOPIC_FAILED)


_MAGIC_POSITION, _MAGIC_V2 = 16, 2
_ATTRIBUTES_POSITION, _TRANSACTIONAL = 22, 0x10


def _is_transactional(request: Request) -> bool:
    """By the first batch of each partition. Without an id the handler refuses it."""
    if request.body.transactional_id is None:
        return False
    for topic in request.body.topic_data:
        for partition in topic.partition_data:
            records = partition.records
            if (
                records is not None
                and len(records) > _ATTRIBUTES_POSITION
                and records[_MAGIC_POSITION] == _MAGIC_V2
                and records[_ATTRIBUTES_POSITION] & _TRANSACTIONAL
            ):
                return True
    return False


_TRANSACTIONAL_RECORDS = When("with transactional records", _is_transactional)
_WITH_ID = When("with a transactional id", lambda r: r.body.transactional_id is not None)
_WITHOUT_ID = When("without a transactional id", lambda r: r.body.transactional_id is None)
_OF_BROKERS = When("v4+, of brokers", lambda r: r.api_version >= 4)

_BROKERS_ONLY = Row((_cluster(_A.CLUSTER_ACTION),))
_READ_GROUP = Whole((Question(_A.READ, _R.GROUP, "group_id"),), _GROUP_FAILED)
_MEMBER = Row((_READ_GROUP,))
_WRITE_TRANSACTION = Whole(
    (Question(_A.WRITE, _R.TRANSACTIONAL_ID, "transactional_id"),), _TRANSACTION_FAILED
)
_DESCRIBE_CLUSTER = Question(_A.DESCRIBE, _R.CLUSTER)
_ALTER_CONFIGS = Row(
    by_handler=(
        ByHandler(
            (Question(_A.ALTER_CONFIGS, _R.TOPIC, "resource_name"),),
            "of a topic: TOPIC_AUTHORIZATION_FAILED for it",
        ),
        ByHandler(
            (Question(_A.ALTER_CONFIGS, _R.CLUSTER),),
            "of a broker, its loggers or the defaults of all: CLUSTER_AUTHORIZATION_FAILED for it",
        ),
    ),
    note="What is wrong with the form of a resource is said first.",
)
_NO_NEW_GROUPS = Row(note="Refused with UNSUPPORTED_VERSION before anything is asked.")

_ROWS: Final[dict[ApiKey, Row]] = {
    ApiKey.PRODUCE: Row(
        (_WRITE_TRANSACTION._replace(when=_TRANSACTIONAL_RECORDS),),
        _topics(_A.WRITE, of="topic_data"),
        note="With acks=0 the connection is closed when what is allowed is appended.",
    ),
    ApiKey.FETCH: Row(
        by_handler=(
            ByHandler(
                (Question(_A.CLUSTER_ACTION, _R.CLUSTER),),
                "of a follower: TOPIC_AUTHORIZATION_FAILED for every partition",
            ),
            ByHandler(
                (Question(_A.READ, _R.TOPIC, "topic"),),
                "of a consumer: TOPIC_AUTHORIZATION_FAILED for the topic's partitions",
            ),
        ),
        note="Asked at each fetch of a session, for all partitions of the session.",
    ),
    ApiKey.LIST_OFFSETS: Row(each=_topics(_A.DESCRIBE)),
    ApiKey.METADATA: Row(
        by_handler=(
            ByHandler(
                (Question(_A.DESCRIBE, _R.TOPIC, "name"),),
                "TOPIC_AUTHORIZATION_FAILED, whether there is such a topic or not; without its "
                "name if asked for by id; left out if all topics are asked for",
            ),
            ByHandler(
                (Question(_A.CREATE, _R.CLUSTER), Question(_A.CREATE, _R.TOPIC, "name")),
                "of a topic to be created: TOPIC_AUTHORIZATION_FAILED",
            ),
            ByHandler((_DESCRIBE_CLUSTER,), "no authorized operations on the cluster"),
        ),
        note="Authorized operations of topics and of the cluster are those that are allowed.",
    ),
    ApiKey.LEADER_AND_ISR: _BROKERS_ONLY,
    ApiKey.STOP_REPLICA: _BROKERS_ONLY,
    ApiKey.UPDATE_METADATA: _BROKERS_ONLY,
    ApiKey.CONTROLLED_SHUTDOWN: _BROKERS_ONLY,
    ApiKey.OFFSET_COMMIT: Row((_READ_GROUP,), _topics(_A.READ)),
    ApiKey.OFFSET_FETCH: Row(
        by_handler=(
            ByHandler(
                (Question(_A.DESCRIBE, _R.GROUP, "group_id"),),
                "GROUP_AUTHORIZATION_FAILED for the group",
            ),
            ByHandler(
                (Question(_A.DESCRIBE, _R.TOPIC, "name"),),
                "TOPIC_AUTHORIZATION_FAILED for the topic's partitions; left out if all topics "
                "are asked for",
            ),
        ),
        note="An error of the group comes before those of topics.",
    ),
    ApiKey.FIND_COORDINATOR: Row(
        by_handler=(
            ByHandler(
                (Question(_A.DESCRIBE, _R.GROUP, "key"),),
                "of a group: GROUP_AUTHORIZATION_FAILED for the key",
            ),
            ByHandler(
                (Question(_A.DESCRIBE, _R.TRANSACTIONAL_ID, "key"),),
                "of a transactional id: TRANSACTIONAL_ID_AUTHORIZATION_FAILED for the key",
            ),
            ByHandler(
                (Question(_A.CLUSTER_ACTION, _R.CLUSTER),),
                "of a share group (v6): CLUSTER_AUTHORIZATION_FAILED for the key",
            ),
        )
    ),
    ApiKey.JOIN_GROUP: _MEMBER,
    ApiKey.HEARTBEAT: _MEMBER,
    ApiKey.LEAVE_GROUP: _MEMBER,
    ApiKey.SYNC_GROUP: _MEMBER,
    ApiKey.DESCRIBE_GROUPS: Row(
        each=Each("groups", Question(_A.DESCRIBE, _R.GROUP), _GROUP_FAILED),
        note="Authorized operations are those that are allowed.",
    ),
    ApiKey.LIST_GROUPS: Row(
        hidden=(
            Hidden(
                ("groups",), Question(_A.DESCRIBE, _R.GROUP, "group_id"), unless=_DESCRIBE_CLUSTER
            ),
        )
    ),
    ApiKey.SASL_HANDSHAKE: Row(note="Before anybody is known; afterwards ILLEGAL_SASL_STATE."),
    ApiKey.API_VERSIONS: Row(note="For everybody."),
    ApiKey.CREATE_TOPICS: Row(
        by_handler=(
            ByHandler(
                (Question(_A.CREATE, _R.CLUSTER), Question(_A.CREATE, _R.TOPIC, "name")),
                "TOPIC_AUTHORIZATION_FAILED for the topic",
            ),
            ByHandler(
                (Question(_A.DESCRIBE_CONFIGS, _R.TOPIC, "name"),),
                "the topic's configs, partitions and replicas are not told",
            ),
        ),
        note="After NOT_CONTROLLER and what is wrong with the names.",
    ),
    ApiKey.DELETE_TOPICS: Row(
        by_handler=(
            ByHandler(
                (Question(_A.DESCRIBE, _R.TOPIC, "name"),),
                "of a topic asked for by id: TOPIC_AUTHORIZATION_FAILED without its name",
            ),
            ByHandler(
                (Question(_A.DELETE, _R.TOPIC, "name"),),
                "TOPIC_AUTHORIZATION_FAILED, whether there is such a topic or not",
            ),
        ),
        note="After NOT_CONTROLLER, TOPIC_DELETION_DISABLED and UNKNOWN_TOPIC_ID.",
    ),
    ApiKey.DELETE_RECORDS: Row(each=_topics(_A.DELETE)),
    ApiKey.INIT_PRODUCER_ID: Row(
        (
            _WRITE_TRANSACTION._replace(when=_WITH_ID),
            Whole(
                (
                    Question(_A.IDEMPOTENT_WRITE, _R.CLUSTER),
                    Question(_A.WRITE, _R.TOPIC, ANY_NAME),
                ),
                _CLUSTER_FAILED,
                _WITHOUT_ID,
            ),
        )
    ),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Row(
        each=_topics(_A.DESCRIBE, "topic")._replace(unless=Question(_A.CLUSTER_ACTION, _R.CLUSTER))
    ),
    ApiKey.ADD_PARTITIONS_TO_TXN: Row(
        (_cluster(_A.CLUSTER_ACTION)._replace(when=_OF_BROKERS),),
        by_handler=(
            ByHandler(
                (Question(_A.WRITE, _R.TRANSACTIONAL_ID, "transactional_id"),),
                "v0-3: TRANSACTIONAL_ID_AUTHORIZATION_FAILED for all partitions",
            ),
            ByHandler(
                (Question(_A.WRITE, _R.TOPIC, "name"),),
                "v0-3: TOPIC_AUTHORIZATION_FAILED for the topic's partitions, and "
                "OPERATION_NOT_ATTEMPTED for all others",
            ),
        ),
    ),
    ApiKey.ADD_OFFSETS_TO_TXN: Row((_WRITE_TRANSACTION, _READ_GROUP)),
    ApiKey.END_TXN: Row((_WRITE_TRANSACTION,)),
    ApiKey.WRITE_TXN_MARKERS: Row((_cluster(_A.ALTER, _A.CLUSTER_ACTION),)),
    ApiKey.TXN_OFFSET_COMMIT: Row((_WRITE_TRANSACTION, _READ_GROUP), _topics(_A.READ)),
    ApiKey.DESCRIBE_ACLS: Row((_cluster(_A.DESCRIBE),)),
    ApiKey.CREATE_ACLS: Row((_cluster(_A.ALTER),)),
    ApiKey.DELETE_ACLS: Row((_cluster(_A.ALTER),)),
    ApiKey.DESCRIBE_CONFIGS: Row(
        by_handler=(
            ByHandler(
                (Question(_A.DESCRIBE_CONFIGS, _R.TOPIC, "resource_name"),),
                "of a topic: TOPIC_AUTHORIZATION_FAILED for it",
            ),
            ByHandler(
                (Question(_A.DESCRIBE_CONFIGS, _R.CLUSTER),),
                "of anything else: CLUSTER_AUTHORIZATION_FAILED for it",
            ),
        )
    ),
    ApiKey.ALTER_CONFIGS: _ALTER_CONFIGS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _ALTER_CONFIGS,
    ApiKey.ALTER_REPLICA_LOG_DIRS: Row((_cluster(_A.ALTER),)),
    ApiKey.DESCRIBE_LOG_DIRS: Row((_cluster(_A.DESCRIBE),)),
    ApiKey.SASL_AUTHENTICATE: Row(note="Before anybody is known; afterwards ILLEGAL_SASL_STATE."),
    ApiKey.CREATE_PARTITIONS: Row(
        by_handler=(
            ByHandler(
                (Question(_A.ALTER, _R.TOPIC, "name"),), "TOPIC_AUTHORIZATION_FAILED for the topic"
            ),
        ),
        note="After NOT_CONTROLLER and duplicates.",
    ),
    ApiKey.CREATE_DELEGATION_TOKEN: Row(
        by_handler=(
            ByHandler(
                (Question(_A.CREATE_TOKENS, _R.USER, "owner"),),
                "for somebody else: DELEGATION_TOKEN_AUTHORIZATION_FAILED",
            ),
        )
    ),
    ApiKey.RENEW_DELEGATION_TOKEN: Row(note="The token says who may renew it."),
    ApiKey.EXPIRE_DELEGATION_TOKEN: Row(note="The token says who may end it."),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: Row(
        by_handler=(
            ByHandler(
                (
                    Question(_A.DESCRIBE, _R.DELEGATION_TOKEN, "token_id"),
                    Question(_A.DESCRIBE_TOKENS, _R.USER, "owner"),
                ),
                "of others' tokens: left out",
            ),
        )
    ),
    ApiKey.DELETE_GROUPS: Row(
        each=Each("groups_names", Question(_A.DELETE, _R.GROUP), _GROUP_FAILED)
    ),
    ApiKey.ELECT_LEADERS: Row((_cluster(_A.ALTER),)),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Row((_cluster(_A.ALTER),)),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: Row((_cluster(_A.DESCRIBE),)),
    ApiKey.OFFSET_DELETE: Row(
        (Whole((Question(_A.DELETE, _R.GROUP, "group_id"),), _GROUP_FAILED),),
        _topics(_A.READ)._replace(goes_on=True),
    ),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: Row((_cluster(_A.DESCRIBE_CONFIGS),)),
    ApiKey.ALTER_CLIENT_QUOTAS: Row((_cluster(_A.ALTER_CONFIGS),)),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: Row((_cluster(_A.DESCRIBE),)),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: Row((_cluster(_A.ALTER),), only_controller=True),
    ApiKey.ALTER_PARTITION: _BROKERS_ONLY,
    ApiKey.UPDATE_FEATURES: Row((_cluster(_A.ALTER),)),
    ApiKey.ENVELOPE: Row(
        note="Nothing is forwarded with ZooKeeper: the connection is closed, whoever it is."
    ),
    ApiKey.DESCRIBE_CLUSTER: Row(
        by_handler=(ByHandler((_DESCRIBE_CLUSTER,), "no authorized operations on the cluster"),),
        note="The brokers are told to everybody.",
    ),
    ApiKey.DESCRIBE_PRODUCERS: Row(
        by_handler=(
            ByHandler(
                (Question(_A.READ, _R.TOPIC, "name"),),
                "TOPIC_AUTHORIZATION_FAILED for the topic's partitions",
            ),
        ),
        note="After INVALID_TOPIC_EXCEPTION.",
    ),
    ApiKey.DESCRIBE_TRANSACTIONS: Row(
        each=Each(
            "transactional_ids", Question(_A.DESCRIBE, _R.TRANSACTIONAL_ID), _TRANSACTION_FAILED
        ),
        hidden=(
            Hidden(("transaction_states", "topics"), Question(_A.DESCRIBE, _R.TOPIC, "topic")),
        ),
    ),
    ApiKey.LIST_TRANSACTIONS: Row(
        hidden=(
            Hidden(
                ("transaction_states",),
                Question(_A.DESCRIBE, _R.TRANSACTIONAL_ID, "transactional_id"),
            ),
        )
    ),
    ApiKey.ALLOCATE_PRODUCER_IDS: _BROKERS_ONLY,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _NO_NEW_GROUPS,
    ApiKey.CONSUMER_GROUP_DESCRIBE: _NO_NEW_GROUPS,
}

TABLE: Final[Mapping[ApiKey, Row]] = MappingProxyType(_ROWS)
