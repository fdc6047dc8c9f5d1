"""The uniform assignor, the default: members get equally many partitions, and keep what they have.

Balance comes before stickiness: with one subscription for all, sizes differ by at most one. Members
of different subscriptions are in `uniform_heterogeneous`. Racks are not looked at, as in Kafka 4.3,
where they only make the group's metadata hash.

Mirrors Kafka's UniformAssignor and UniformHomogeneousAssignmentBuilder.
"""

from typing import Final

from .assignment import Assignment, AssignorError, Division, frozen, id_order
from .uniform_heterogeneous import assign_heterogeneous

NAME: Final = "uniform"


def assign(division: Division) -> dict[str, Assignment]:
    """The target of each member."""
    if not division.subscribers:
        return {}
    if division.is_homogeneous:
        return _assign_homogeneous(division)
    return assign_heterogeneous(division)


def _assign_homogeneous(division: Division) -> dict[str, Assignment]:
    subscribers, counts = division.subscribers, division.partition_counts
    topic_ids = subscribers[0].topic_ids
    if not topic_ids:
        return {}
    owned = {
        (topic_id, partition)
        for subscriber in subscribers
        for topic_id, partitions in subscriber.target.items()
        for partition in partitions
    }
    free = [
        (topic_id, partition)
        for topic_id in sorted(topic_ids, key=id_order)
        for partition in range(counts[topic_id])
        if (topic_id, partition) not in owned
    ]
    total = sum(counts[topic_id] for topic_id in topic_ids)
    least, extras = divmod(total, len(subscribers))
    result: dict[str, Assignment] = {}
    wanting: list[tuple[str, int]] = []
    for index, subscriber in enumerate(subscribers):
        has_extra = extras > 0
        room = least + has_extra
        kept: dict[bytes, set[int]] = {}
        for topic_id, partitions in subscriber.target.items():
            if topic_id not in topic_ids:
                continue
            stay = sorted(partitions)[:room]
            free += [(topic_id, partition) for partition in sorted(partitions)[room:]]
            room -= len(stay)
            kept[topic_id] = set(stay)
        if room > 0 and has_extra and len(subscribers) - index > extras:
            # A member behind this one may have it already.
            room -= 1
            has_extra = False
        if room > 0:
            wanting.append((subscriber.member_id, room))
        extras -= has_extra
        result[subscriber.member_id] = frozen(kept)
    return _fill(result, wanting, free)


def _fill(
    result: dict[str, Assignment], wanting: list[tuple[str, int]], free: list[tuple[bytes, int]]
) -> dict[str, Assignment]:
    """Give the free partitions to the members with room, in their order."""
    position = 0
    for member_id, room in wanting:
        mine = {topic_id: set(partitions) for topic_id, partitions in result[member_id].items()}
        for topic_id, partition in free[position : position + room]:
            mine.setdefault(topic_id, set()).add(partition)
        position += room
        result[member_id] = frozen(mine)
    if position < len(free):
        raise AssignorError("Partitions were left unassigned")
    return result
