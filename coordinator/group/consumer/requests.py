"""A ConsumerGroupHeartbeat, and why it is refused.

A refused request is answered with an error and a message, and changes nothing. Mirrors checks of
GroupCoordinatorService and the `throwIf` methods of GroupMetadataManager.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

from ....protocol.apis.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ....protocol.errors import MAX_MESSAGE_LENGTH, ErrorCode, KafkaError
from ....protocol.regular_expressions import compiled
from .consumer_group import ConsumerGroup
from .member import JOINING_EPOCH, LEAVING_EPOCH, STATIC_LEAVING_EPOCH, Member, Owned, owns_only

NOT_GIVEN: Final = -1
_FIRST_OWN_MEMBER_ID_VERSION: Final = 1

# The topics of these names that the client of a request may describe.
Permitted = Callable[[Iterable[str]], Collection[str]]


class Refused(Exception):
    """The request is answered with an error, and nothing changes."""

    def __init__(self, error: ErrorCode, message: str | None = None) -> None:
        super().__init__(message)
        self.error = error
        # It may quote the request, and fits into any answer.
        self.message = None if message is None else message[:MAX_MESSAGE_LENGTH]


class Beat:
    """One heartbeat with the values that the machine needs."""

    __slots__ = ("client_host", "client_id", "owned", "permitted", "request", "token", "version")

    def __init__(
        self,
        token: object,
        request: ConsumerGroupHeartbeatRequest,
        version: int,
        client_id: str,
        client_host: str,
        permitted: Permitted,
    ) -> None:
        self.token = token
        self.request = request
        self.version = version
        self.client_id = client_id
        self.client_host = client_host
        self.permitted = permitted
        partitions = request.topic_partitions
        # The partitions that the member says it owns.
        self.owned: Owned | None = (
            None
            if partitions is None
            else {bytes(topic.topic_id): frozenset(topic.partitions) for topic in partitions}
        )

    @property
    def says_more(self) -> bool:
        """Whether the member says more than that it is there, and what it owns."""
        request = self.request
        return (
            request.rebalance_timeout_ms != NOT_GIVEN
            or request.subscribed_topic_names is not None
            or request.subscribed_topic_regex is not None
            or request.instance_id is not None
            or request.rack_id is not None
            or request.server_assignor is not None
        )

    @property
    def is_full(self) -> bool:
        """Whether the member said everything, as it does after an error."""
        request = self.request
        has_subscription = (
            request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
        )
        return (
            request.rebalance_timeout_ms != NOT_GIVEN
            and has_subscription
            and request.topic_partitions is not None
        )


def check_request(beat: Beat, assignors: Sequence[str]) -> None:
    """What is wrong with a request whatever the group."""
    request, epoch = beat.request, beat.request.member_epoch
    if beat.version >= _FIRST_OWN_MEMBER_ID_VERSION or epoch > 0 or epoch == LEAVING_EPOCH:
        _check_text(request.member_id, "MemberId")
    _check_text(request.group_id, "GroupId")
    _check_text(request.instance_id, "InstanceId")
    _check_text(request.rack_id, "RackId")
    problem = None
    if epoch == JOINING_EPOCH:
        if request.rebalance_timeout_ms == NOT_GIVEN:
            problem = "RebalanceTimeoutMs must be provided in first request."
        elif request.topic_partitions is None or request.topic_partitions:
            problem = "TopicPartitions must be empty when (re-)joining."
        elif request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
            problem = (
                "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when "
                "(re-)joining."
            )
    elif epoch == STATIC_LEAVING_EPOCH and request.instance_id is None:
        problem = "InstanceId can't be null."
    elif epoch < STATIC_LEAVING_EPOCH:
        problem = "MemberEpoch is invalid."
    if problem is not None:
        raise Refused(ErrorCode.INVALID_REQUEST, problem)
    assignor = request.server_assignor
    if assignor is not None and assignor not in assignors:
        raise Refused(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {assignor} is not supported. Supported assignors: "
            f"{', '.join(assignors)}.",
        )


def _check_text(text: str | None, name: str) -> None:
    if text is not None and not text.strip():
        raise Refused(ErrorCode.INVALID_REQUEST, f"{name} can't be empty.")


def check_regex(regex: str) -> None:
    try:
        compiled(regex)
    except KafkaError as error:
        raise Refused(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {error.message}.",
        ) from None


def check_epoch(member: Member, epoch: int, owned: Owned | None) -> None:
    """Whether a heartbeat in this epoch is the member's: one that has not seen its last epoch is,
    if it owns nothing else."""
    known = member.progress.epoch
    if epoch in (JOINING_EPOCH, known):
        return
    if (
        epoch < known
        and epoch == member.progress.previous_epoch
        and owns_only(owned, member.progress.assigned)
    ):
        return  # it has probably not seen the answer with its new epoch
    size = "greater" if epoch > known else "smaller"
    raise Refused(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {size} member epoch ({epoch}) than the one known by the "
        f"group coordinator ({known}). The member must abandon all its partitions and rejoin.",
    )


def known_static(member: Member | None, instance_id: str, member_id: str) -> Member:
    if member is None:
        raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if member.member_id != member_id:
        raise Refused(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member "
            f"{member.member_id}.",
        )
    return member


def check_released(existing: Member, member_id: str) -> None:
    """Whether another member may take the place of a static one: it has left for a while."""
    if existing.progress.epoch != STATIC_LEAVING_EPOCH:
        raise Refused(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {existing.metadata.instance_id} "
            f"cannot join the group because the instance id is owned by {existing.member_id} "
            "member.",
        )


def unknown_member(group: ConsumerGroup, member_id: str) -> Refused:
    return Refused(
        ErrorCode.UNKNOWN_MEMBER_ID,
        f"Member {member_id} is not a member of group {group.group_id}.",
    )
