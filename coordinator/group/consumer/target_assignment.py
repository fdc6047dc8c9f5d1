"""The target of each member: the assignor's answer for all members as they are now.

Mirrors TargetAssignmentBuilder.ConsumerTargetAssignmentBuilder.
"""

from collections.abc import Callable, Mapping
from typing import Final

from . import range_assignor, uniform_assignor
from .assignment import Assignment, Division, Subscriber
from .consumer_group import ConsumerGroup
from .member import MemberMetadata
from .topics import TopicImage

ASSIGNORS: Final[Mapping[str, Callable[[Division], dict[str, Assignment]]]] = {
    uniform_assignor.NAME: uniform_assignor.assign,
    range_assignor.NAME: range_assignor.assign,
}


def topic_ids(
    group: ConsumerGroup, metadata: MemberMetadata, image: TopicImage
) -> frozenset[bytes]:
    """The topics that exist among those that a member is subscribed to."""
    found = (image.topic_id(name) for name in group.topics_of(metadata))
    return frozenset(topic_id for topic_id in found if topic_id is not None)


def compute_targets(
    group: ConsumerGroup, assignor: str, image: TopicImage
) -> dict[str, Assignment]:
    """The targets of all members by member id; raises AssignorError."""
    known: dict[tuple[frozenset[str], str | None], frozenset[bytes]] = {}
    subscribers = []
    for member_id in sorted(group.members):
        metadata = group.members[member_id].metadata
        subscription = (metadata.topic_names, metadata.topic_regex)
        if subscription not in known:
            known[subscription] = topic_ids(group, metadata, image)
        subscribers.append(
            Subscriber(
                member_id, metadata.instance_id, known[subscription], group.target(member_id)
            )
        )
    counts = {
        topic_id: image.partition_count(topic_id) or 0
        for topic_id in frozenset().union(*known.values())
    }
    division = Division(subscribers, counts, group.is_homogeneous)
    found = ASSIGNORS[assignor](division)
    return {member_id: found.get(member_id, {}) for member_id in sorted(group.members)}
