"""A StreamsGroupHeartbeat, and why it is refused.

A refused request is answered with an error and a message, and changes nothing. Mirrors checks of
GroupCoordinatorService and the `throwIf` methods of GroupMetadataManager. A topology of more parts
than `MAX_SUBTOPOLOGIES` and `MAX_TOPICS` is refused, since its topics are looked at one by one.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from ....protocol.apis.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatRequestTopology,
    StreamsGroupHeartbeatResponse,
)
from ....protocol.errors import ErrorCode
from ..consumer.requests import Refused
from .member import JOINING_EPOCH, STATIC_LEAVING_EPOCH, Member
from .tasks import Tasks, TaskSet
from .topic_configuration import ConfiguredTopology
from .topology import TopicInfo

NOT_GIVEN: Final = -1
MAX_SUBTOPOLOGIES: Final = 500
MAX_TOPICS: Final = 5_000


class HeartbeatResult(NamedTuple):
    """The answer, and the internal topics to create before it is sent."""

    response: StreamsGroupHeartbeatResponse
    topics: Mapping[str, TopicInfo] = {}


def refusal(error: ErrorCode, message: str | None = None) -> HeartbeatResult:
    return HeartbeatResult(StreamsGroupHeartbeatResponse(error_code=error, error_message=message))


class Beat:
    """One heartbeat with the values that the machine needs."""

    __slots__ = ("client_host", "client_id", "owned", "request", "token")

    def __init__(
        self,
        token: object,
        request: StreamsGroupHeartbeatRequest,
        client_id: str,
        client_host: str,
    ) -> None:
        self.token = token
        self.request = request
        self.client_id = client_id
        self.client_host = client_host
        # The tasks that the member says it has. A subtopology may be named without any.
        self.owned: Tasks | None = None
        lists = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
        if None not in lists:
            self.owned = Tasks(*(_task_set(tasks or ()) for tasks in lists))


def _task_set(tasks: Sequence[Any]) -> TaskSet:
    found: dict[str, frozenset[int]] = {}
    for task in tasks:
        name = task.subtopology_id
        found[name] = found.get(name, frozenset()) | frozenset(task.partitions)
    return found


def check_request(request: StreamsGroupHeartbeatRequest) -> None:
    """What is wrong with a request whatever the group."""
    topology, epoch = request.topology, request.member_epoch
    problem = _unsupported(request)
    for text, name in (
        (request.member_id, "MemberId"),
        (request.group_id, "GroupId"),
        (request.rack_id, "RackId"),
    ):
        if problem is None and text is not None and not text.strip():
            problem = f"{name} can't be empty."
    if problem is None and epoch == JOINING_EPOCH:
        problem = _joining_problem(request)
        if problem is None and topology is not None:
            _check_topology(topology)
    elif problem is None and epoch == STATIC_LEAVING_EPOCH:
        problem = "InstanceId can't be null."
    elif problem is None and epoch < STATIC_LEAVING_EPOCH:
        problem = f"MemberEpoch is {epoch}, but must be greater than or equal to -2."
    if problem is None:
        given = [
            tasks is not None
            for tasks in (request.active_tasks, request.standby_tasks, request.warmup_tasks)
        ]
        if any(given) and not all(given):
            problem = "If one task-type is non-null, all must be non-null."
        elif epoch != JOINING_EPOCH and topology is not None:
            problem = "Topology can only be provided when (re-)joining."
    if problem is not None:
        raise Refused(ErrorCode.INVALID_REQUEST, problem)


def _unsupported(request: StreamsGroupHeartbeatRequest) -> str | None:
    """A part that Kafka 4.3 does not support yet."""
    if request.instance_id is not None:
        return "Static membership is not yet supported."
    if request.task_offsets is not None:
        return "TaskOffsets are not supported yet."
    if request.task_end_offsets is not None:
        return "TaskEndOffsets are not supported yet."
    if request.warmup_tasks:
        return "WarmupTasks are not supported yet."
    topology = request.topology
    if topology is not None and any(one.source_topic_regex for one in topology.subtopologies):
        return "Regular expressions for source topics are not supported yet."
    return None


def _joining_problem(request: StreamsGroupHeartbeatRequest) -> str | None:
    if request.rebalance_timeout_ms == NOT_GIVEN:
        return "RebalanceTimeoutMs must be provided in first request."
    if request.active_tasks:
        return "ActiveTasks must be empty when (re-)joining."
    if request.standby_tasks:
        return "StandbyTasks must be empty when (re-)joining."
    if request.topology is None:
        return "Topology must be non-null when (re-)joining."
    return None


def is_too_large(topology: StreamsGroupHeartbeatRequestTopology) -> bool:
    topics = sum(
        len(one.source_topics)
        + len(one.repartition_sink_topics)
        + len(one.repartition_source_topics)
        + len(one.state_changelog_topics)
        for one in topology.subtopologies
    )
    return len(topology.subtopologies) > MAX_SUBTOPOLOGIES or topics > MAX_TOPICS


def _check_topology(topology: StreamsGroupHeartbeatRequestTopology) -> None:
    subtopologies = topology.subtopologies
    changelogs = [topic for one in subtopologies for topic in one.state_changelog_topics]
    for topic in changelogs:
        if topic.partitions:
            raise Refused(
                ErrorCode.STREAMS_INVALID_TOPOLOGY,
                f"Changelog topic {topic.name} must have an undefined partition count, but it is "
                f"set to {topic.partitions}.",
            )
    if is_too_large(topology):
        raise Refused(
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
            f"The topology has more than {MAX_SUBTOPOLOGIES} subtopologies or {MAX_TOPICS} topics.",
        )
    ids = {one.subtopology_id for one in subtopologies}
    if len(ids) < len(subtopologies) or topology.epoch < 0:
        raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR)


def check_epoch(member: Member, epoch: int, owned: Tasks | None) -> None:
    """Whether a heartbeat in this epoch is the member's: one that has not seen its last epoch is,
    if it has no other tasks."""
    known = member.progress.epoch
    if epoch in (JOINING_EPOCH, known):
        return
    if (
        epoch < known
        and epoch == member.progress.previous_epoch
        and owned is not None
        and member.progress.assigned.has_all(owned)
    ):
        return  # it has probably not seen the answer with its new epoch
    size = "greater" if epoch > known else "smaller"
    raise Refused(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The streams group member has a {size} member epoch ({epoch}) than the one known by the "
        f"group coordinator ({known}). The member must abandon all its partitions and rejoin.",
    )


def check_tasks(owned: Tasks | None, configured: ConfiguredTopology) -> None:
    """Whether the tasks that a member says it has can be tasks of the topology."""
    subtopologies = configured.subtopologies
    if owned is None or subtopologies is None:
        return
    for tasks in owned:
        for name, partitions in tasks.items():
            found = subtopologies.get(name)
            if found is None:
                problem = f"Subtopology {name} does not exist in the topology."
                raise Refused(ErrorCode.INVALID_REQUEST, problem)
            for partition in sorted(partitions):
                if not 0 <= partition < found.task_count:
                    raise Refused(
                        ErrorCode.INVALID_REQUEST,
                        f"Task {partition} for subtopology {name} is invalid. Number of tasks for "
                        f"this subtopology: {found.task_count}",
                    )
