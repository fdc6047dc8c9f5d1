"""The permissions that a request needs: the parts of an API's access rules.

Job: `AccessRules`, which each page in `apis/` has, and its parts: data, with conditions.
The broker's guard enforces `whole`, `each` and `hidden`; `by_handler` lists the questions that the
handler itself asks during its work. Invariants: the order of the rules is that of the questions;
rules without questions give the reason in a note (a test).

Mirrors the handlers of kafka.server.KafkaApis, AclApis, ConfigHelper and ConfigAdminManager, as
they are with ZooKeeper.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, Protocol

from .acls import AclOperation, ResourceType
from .errors import ErrorCode

ANY_NAME: Final = "*"
"""As the field of a question: of any resource of its type."""
ITEM: Final = ""
"""As the field of a question about elements: they are names themselves."""


class AnyRequest(Protocol):
    """The attributes of a request that rules and error answers read."""

    @property
    def api_key(self) -> int: ...

    @property
    def api_version(self) -> int: ...

    @property
    def body(self) -> Any: ...


class Question(NamedTuple):
    """Whether an operation is allowed on a kind of resource.

    `field` of the request, or of an element, has the resource's name. The cluster is a single
    resource.
    """

    operation: AclOperation
    kind: ResourceType
    field: str = ITEM


class When(NamedTuple):
    text: str
    holds: Callable[[AnyRequest], bool]


class Whole(NamedTuple):
    """A question for the request as a whole; one allowed of `any_of` is enough."""

    any_of: tuple[Question, ...]
    denied: ErrorCode
    when: When | None = None


class Each(NamedTuple):
    """A question for each element of a list of the request; a denied element does not stop the
    others.

    It is not asked if `unless` is allowed. If `goes_on`, the handler is called even if nothing is
    left: an error of the request as a whole comes first.
    """

    elements: str
    question: Question
    denied: ErrorCode
    unless: Question | None = None
    goes_on: bool = False


class Hidden(NamedTuple):
    """Elements to leave out of the response, in the list at the end of `path`."""

    path: tuple[str, ...]
    question: Question
    unless: Question | None = None


class ByHandler(NamedTuple):
    """Questions that the handler asks; `denied` describes the answer in words."""

    any_of: tuple[Question, ...]
    denied: str


class AccessRules(NamedTuple):
    whole: tuple[Whole, ...] = ()
    each: Each | None = None
    hidden: tuple[Hidden, ...] = ()
    by_handler: tuple[ByHandler, ...] = ()
    only_controller: bool = False
    """Others answer NOT_CONTROLLER before anything is asked."""
    note: str = ""


# The usual rules


def on_cluster(*operations: AclOperation) -> Whole:
    """Asked of the cluster; one of the operations will do."""
    return Whole(
        tuple(Question(operation, ResourceType.CLUSTER) for operation in operations),
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    )


def on_group(operation: AclOperation) -> Whole:
    """Asked of the request's group."""
    return Whole(
        (Question(operation, ResourceType.GROUP, "group_id"),),
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
    )


def on_each_topic(operation: AclOperation, name: str = "name", *, of: str = "topics") -> Each:
    """Asked of each topic in the list `of`, whose elements have its name in the field `name`."""
    return Each(
        of, Question(operation, ResourceType.TOPIC, name), ErrorCode.TOPIC_AUTHORIZATION_FAILED
    )


BROKERS_ONLY: Final = AccessRules((on_cluster(AclOperation.CLUSTER_ACTION),))
MEMBER: Final = AccessRules((on_group(AclOperation.READ),))
WRITE_TRANSACTION: Final = Whole(
    (Question(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, "transactional_id"),),
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)
DESCRIBE_CLUSTER: Final = Question(AclOperation.DESCRIBE, ResourceType.CLUSTER)
ALTER_CONFIGS: Final = AccessRules(
    by_handler=(
        ByHandler(
            (Question(AclOperation.ALTER_CONFIGS, ResourceType.TOPIC, "resource_name"),),
            "of a topic: TOPIC_AUTHORIZATION_FAILED for it",
        ),
        ByHandler(
            (Question(AclOperation.ALTER_CONFIGS, ResourceType.GROUP, "resource_name"),),
            "of a group, once features are finalized: GROUP_AUTHORIZATION_FAILED for it",
        ),
        ByHandler(
            (Question(AclOperation.ALTER_CONFIGS, ResourceType.CLUSTER),),
            "of a broker, its loggers or the defaults of all: CLUSTER_AUTHORIZATION_FAILED for it",
        ),
    ),
    note="What is wrong with the form of a resource is said first.",
)
UNTIL_FINALIZED: Final = (
    "Until group.version is finalized, refused with UNSUPPORTED_VERSION before anything is asked."
)
