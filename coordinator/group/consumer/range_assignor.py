"""The range assignor: each member gets neighbouring partitions of each of its topics.

With the same topics and equal partition counts, a member gets the same numbers of each topic.
Static members come first, by instance id, so that a restart under another member id moves nothing.

Mirrors Kafka's RangeAssignor.
"""

from .assignment import Assignment, Division, Subscriber

NAME = "range"


def _order(subscriber: Subscriber) -> tuple[bool, str]:
    instance_id = subscriber.instance_id
    return instance_id is None, subscriber.member_id if instance_id is None else instance_id


def assign(division: Division) -> dict[str, Assignment]:
    """The target of each member."""
    ordered = sorted(division.subscribers, key=_order)
    counts = division.partition_counts
    members: dict[bytes, int] = {}
    for subscriber in ordered:
        for topic_id in subscriber.topic_ids:
            members[topic_id] = members.get(topic_id, 0) + 1
    place = dict.fromkeys(members, 0)
    result: dict[str, Assignment] = {}
    for subscriber in ordered:
        mine: dict[bytes, frozenset[int]] = {}
        for topic_id in subscriber.topic_ids:
            quota, extra = divmod(counts[topic_id], members[topic_id])
            index = place[topic_id]
            place[topic_id] += 1
            start = index * quota + min(index, extra)
            end = start + quota + (index < extra)
            if start < end:
                mine[topic_id] = frozenset(range(start, end))
        result[subscriber.member_id] = mine
    return result
