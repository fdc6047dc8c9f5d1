"""The partitions behind the endpoint of each member, for interactive queries.

Mirrors EndpointToPartitionsManager. A topic that does not exist is left out, and without
a valid topology there are no tasks: Kafka answers such heartbeats with an error.
"""

from ....protocol.apis.streams_group_heartbeat import (
    EndpointToPartitions,
    StreamsGroupHeartbeatResponseEndpoint,
    StreamsGroupHeartbeatResponseTopicPartition,
)
from ..consumer.topics import TopicImage
from .member import Endpoint, Member
from .streams_group import StreamsGroup
from .tasks import TaskSet


def endpoints(group: StreamsGroup, image: TopicImage) -> list[EndpointToPartitions]:
    """Of all members that have an endpoint."""
    return [
        _of_member(group, member, member.metadata.user_endpoint, image)
        for member in group.members.values()
        if member.metadata.user_endpoint is not None
    ]


def _of_member(
    group: StreamsGroup, member: Member, endpoint: Endpoint, image: TopicImage
) -> EndpointToPartitions:
    assigned = member.progress.assigned
    active = {name: frozenset(epochs) for name, epochs in assigned.active.items()}
    return EndpointToPartitions(
        user_endpoint=StreamsGroupHeartbeatResponseEndpoint(host=endpoint.host, port=endpoint.port),
        active_partitions=_partitions(group, active, image),
        standby_partitions=_partitions(group, assigned.standby, image),
    )


def _partitions(
    group: StreamsGroup, tasks: TaskSet, image: TopicImage
) -> list[StreamsGroupHeartbeatResponseTopicPartition]:
    """Of each topic that a subtopology with tasks reads, the partitions of these tasks."""
    found = []
    for name in sorted(tasks):
        subtopology = None if group.topology is None else group.topology.by_id.get(name)
        for topic in sorted(set(subtopology.inputs)) if subtopology is not None else ():
            topic_id = image.topic_id(topic)
            count = None if topic_id is None else image.partition_count(topic_id)
            if count is not None:
                partitions = sorted(tasks[name])
                found.append(
                    StreamsGroupHeartbeatResponseTopicPartition(
                        topic=topic, partitions=partitions[:count]
                    )
                )
    return found
