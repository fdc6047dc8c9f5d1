"""The answer about one streams group, of StreamsGroupDescribe.

Topics of a topology that is right have their sizes; otherwise those that the application gave.
Mirrors StreamsGroup.asDescribedGroup.
"""

from collections.abc import Collection, Iterable, Mapping

from ....protocol.apis.streams_group_describe import (
    StreamsGroupDescribeResponseAssignment,
    StreamsGroupDescribeResponseDescribedGroup,
    StreamsGroupDescribeResponseEndpoint,
    StreamsGroupDescribeResponseKeyValue,
    StreamsGroupDescribeResponseMember,
    StreamsGroupDescribeResponseSubtopology,
    StreamsGroupDescribeResponseTaskIds,
    StreamsGroupDescribeResponseTopicInfo,
    StreamsGroupDescribeResponseTopology,
)
from .member import Member
from .streams_group import StreamsGroup
from .tasks import Tasks
from .topology import TopicInfo


def describe_streams_group(group: StreamsGroup) -> StreamsGroupDescribeResponseDescribedGroup:
    return StreamsGroupDescribeResponseDescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        topology=_topology(group),
        members=[
            _member(member, group.target(member.member_id)) for member in group.members.values()
        ],
    )


def _topology(group: StreamsGroup) -> StreamsGroupDescribeResponseTopology | None:
    if group.topology is None:
        return None  # of a group whose record was lost, which Kafka cannot describe
    configured = group.configured
    subtopologies = []
    for name, one in sorted(group.topology.by_id.items()):
        changelogs: Iterable[TopicInfo] = one.state_changelog_topics
        repartition: Iterable[TopicInfo] = one.repartition_source_topics
        if configured is not None and configured.is_ready and configured.subtopologies is not None:
            changelogs = configured.subtopologies[name].state_changelog_topics.values()
            repartition = configured.subtopologies[name].repartition_source_topics.values()
        subtopologies.append(
            StreamsGroupDescribeResponseSubtopology(
                subtopology_id=name,
                source_topics=sorted(one.source_topics),
                repartition_sink_topics=sorted(one.repartition_sink_topics),
                state_changelog_topics=_topics(changelogs),
                repartition_source_topics=_topics(repartition),
            )
        )
    return StreamsGroupDescribeResponseTopology(
        epoch=group.topology.epoch, subtopologies=subtopologies
    )


def _topics(topics: Iterable[TopicInfo]) -> list[StreamsGroupDescribeResponseTopicInfo]:
    return [
        StreamsGroupDescribeResponseTopicInfo(
            name=topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            topic_configs=_pairs(topic.configs),
        )
        for topic in sorted(topics)
    ]


def _pairs(
    pairs: Iterable[tuple[str, str]],
) -> list[StreamsGroupDescribeResponseKeyValue]:
    return [StreamsGroupDescribeResponseKeyValue(key=key, value=value) for key, value in pairs]


def _member(member: Member, target: Tasks) -> StreamsGroupDescribeResponseMember:
    metadata, assigned = member.metadata, member.progress.assigned
    endpoint = metadata.user_endpoint
    return StreamsGroupDescribeResponseMember(
        member_id=member.member_id,
        member_epoch=member.progress.epoch,
        instance_id=metadata.instance_id,
        rack_id=metadata.rack_id,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        topology_epoch=metadata.topology_epoch,
        process_id=metadata.process_id,
        user_endpoint=None
        if endpoint is None
        else StreamsGroupDescribeResponseEndpoint(host=endpoint.host, port=endpoint.port),
        client_tags=_pairs(metadata.client_tags),
        assignment=_assignment(assigned.active, assigned.standby, assigned.warmup),
        target_assignment=_assignment(*target),
    )


_ByName = Mapping[str, Collection[int]]


def _assignment(
    active: _ByName, standby: _ByName, warmup: _ByName
) -> StreamsGroupDescribeResponseAssignment:
    return StreamsGroupDescribeResponseAssignment(
        active_tasks=_tasks(active), standby_tasks=_tasks(standby), warmup_tasks=_tasks(warmup)
    )


def _tasks(tasks: _ByName) -> list[StreamsGroupDescribeResponseTaskIds]:
    return [
        StreamsGroupDescribeResponseTaskIds(subtopology_id=name, partitions=sorted(tasks[name]))
        for name in sorted(tasks)
    ]
