"""The answer about one share group, of ShareGroupDescribe.

Topics that do not exist any more are left out of assignments, since they have no names. Mirrors
ShareGroup.asDescribedGroup.
"""

from ....protocol.apis.share_group_describe import (
    Assignment,
    DescribedGroup,
    TopicPartitions,
)
from ....protocol.apis.share_group_describe import Member as MemberView
from ..consumer.member import Member
from ..consumer.topics import TopicImage
from .share_group import ShareGroup
from .simple_assignor import NAME


def describe_share_group(group: ShareGroup, image: TopicImage) -> DescribedGroup:
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=NAME,
        members=[_member(member, image) for member in group.members.values()],
    )


def _member(member: Member, image: TopicImage) -> MemberView:
    metadata, assigned = member.metadata, member.progress.assigned
    topics = []
    for topic_id in sorted(assigned):
        name = image.topic_name(topic_id)
        if name is not None:
            partitions = sorted(assigned[topic_id])
            topics.append(
                TopicPartitions(topic_id=topic_id, topic_name=name, partitions=partitions)
            )
    return MemberView(
        member_id=member.member_id,
        rack_id=metadata.rack_id,
        member_epoch=member.progress.epoch,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        subscribed_topic_names=sorted(metadata.topic_names),
        assignment=Assignment(topic_partitions=topics),
    )
