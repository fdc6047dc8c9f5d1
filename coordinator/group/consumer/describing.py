"""The answer about one consumer group, of ConsumerGroupDescribe.

Topics that do not exist any more are left out of assignments, since they have no names. What a
member has to give up is still its own. Mirrors ConsumerGroup.asDescribedGroup.
"""

from collections.abc import Collection, Mapping
from typing import Final

from ....protocol.apis.consumer_group_describe import (
    ConsumerGroupDescribeResponseAssignment,
    ConsumerGroupDescribeResponseDescribedGroup,
    ConsumerGroupDescribeResponseTopicPartitions,
)
from ....protocol.apis.consumer_group_describe import Member as MemberView
from .consumer_group import ConsumerGroup
from .member import Member
from .topics import TopicImage

_CLASSIC_MEMBER: Final = 0
_CONSUMER_MEMBER: Final = 1


def describe_consumer_group(
    group: ConsumerGroup, image: TopicImage, default_assignor: str
) -> ConsumerGroupDescribeResponseDescribedGroup:
    return ConsumerGroupDescribeResponseDescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=group.preferred_assignor(default_assignor),
        members=[_member(group, member, image) for member in group.members.values()],
    )


def _member(group: ConsumerGroup, member: Member, image: TopicImage) -> MemberView:
    metadata, progress = member.metadata, member.progress
    owned: dict[bytes, list[int]] = {}
    for partitions in (progress.assigned, progress.revoking):
        for topic_id, epochs in partitions.items():
            owned.setdefault(topic_id, []).extend(epochs)
    return MemberView(
        member_id=member.member_id,
        instance_id=metadata.instance_id,
        rack_id=metadata.rack_id,
        member_epoch=progress.epoch,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        subscribed_topic_names=sorted(metadata.topic_names),
        subscribed_topic_regex=metadata.topic_regex,
        assignment=_assignment(owned, image),
        target_assignment=_assignment(group.target(member.member_id), image),
        member_type=_CLASSIC_MEMBER if member.is_classic else _CONSUMER_MEMBER,
    )


def _assignment(
    partitions: Mapping[bytes, Collection[int]], image: TopicImage
) -> ConsumerGroupDescribeResponseAssignment:
    topics = []
    for topic_id in sorted(partitions):
        name = image.topic_name(topic_id)
        if name is not None:
            topics.append(
                ConsumerGroupDescribeResponseTopicPartitions(
                    topic_id=topic_id, topic_name=name, partitions=sorted(partitions[topic_id])
                )
            )
    return ConsumerGroupDescribeResponseAssignment(topic_partitions=topics)
