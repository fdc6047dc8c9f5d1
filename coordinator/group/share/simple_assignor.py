"""The assignor of share groups: partitions are shared by as few members as possible, evenly.

Each partition goes to as many members as it takes for all of them to have some. Members keep what
they have, as far as the numbers allow. If all members are subscribed to the same topics, all
partitions are divided at once, otherwise topic by topic among its subscribers.

The order is that of members and partitions (Kafka's is that of its hash tables). Mirrors
SimpleAssignor, SimpleHomogeneousAssignmentBuilder and SimpleHeterogeneousAssignmentBuilder.
"""

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Final

from ..consumer.assignment import Assignment, Division, id_order

NAME: Final = "simple"

_Partition = tuple[tuple[int, int], int]  # the order of its topic id, and its number


def assign(division: Division, assignable: Assignment) -> dict[str, Assignment]:
    """The targets of all members; `assignable` are the partitions that may be assigned."""
    subscribers = division.subscribers
    topic_ids = frozenset[bytes]().union(*(one.topic_ids for one in subscribers))
    if not topic_ids:
        return {}
    ids = {id_order(topic_id): topic_id for one in subscribers for topic_id in one.target}
    ids |= {id_order(topic_id): topic_id for topic_id in topic_ids}
    partitions = {
        topic_id: [
            (id_order(topic_id), partition)
            for partition in range(division.partition_counts[topic_id])
            if partition in assignable.get(topic_id, ())
        ]
        for topic_id in topic_ids
    }
    old = [_pairs(one.target) for one in subscribers]
    if division.is_homogeneous:
        old = [{pair for pair in some if ids[pair[0]] in topic_ids} for some in old]
        everything = [pair for topic_id in topic_ids for pair in partitions[topic_id]]
        found = _divide(sorted(everything), range(len(subscribers)), old)
    else:
        found = old
        for topic_id in sorted(topic_ids, key=id_order):
            order = id_order(topic_id)
            of_topic = [{pair for pair in some if pair[0] == order} for some in found]
            members = [n for n, one in enumerate(subscribers) if topic_id in one.topic_ids]
            divided = _divide(partitions[topic_id], members, of_topic)
            found = [
                (some - before) | after
                for some, before, after in zip(found, of_topic, divided, strict=True)
            ]
    return {
        one.member_id: _assignment(pairs, ids)
        for one, pairs in zip(subscribers, found, strict=True)
    }


def _pairs(target: Assignment) -> set[_Partition]:
    return {
        (id_order(topic_id), partition)
        for topic_id, partitions in target.items()
        for partition in partitions
    }


def _assignment(
    pairs: set[_Partition], ids: Mapping[tuple[int, int], bytes]
) -> dict[bytes, frozenset[int]]:
    found: dict[bytes, set[int]] = {}
    for order, partition in pairs:
        found.setdefault(ids[order], set()).add(partition)
    return {topic_id: frozenset(partitions) for topic_id, partitions in found.items()}


def _divide(
    partitions: Sequence[_Partition], members: Sequence[int], old: Sequence[set[_Partition]]
) -> list[set[_Partition]]:
    """What each member has from now on; `old` has an element for members that get nothing, too."""
    sharing = -(-len(members) // len(partitions)) if partitions else 0
    share = sharing * len(partitions) / len(members)
    desired = [0] * len(old)
    for place, member in enumerate(members):
        desired[member] = ceil(share * (place + 1)) - ceil(share * place)
    found = [set(some) for some in old]
    holders: dict[_Partition, list[int]] = {}
    for member, some in enumerate(found):
        for pair in sorted(some)[: max(len(some) - desired[member], 0)]:
            some.remove(pair)  # it has too many
        for pair in some:
            holders.setdefault(pair, []).append(member)
    for pair, having in holders.items():
        for member in having[: max(len(having) - sharing, 0)]:
            having.remove(member)  # it is shared too much
            found[member].remove(pair)
    for pair in partitions:
        holders.setdefault(pair, [])
    _fill(holders, sharing, desired, members, found)
    return found


def _fill(
    holders: Mapping[_Partition, list[int]],
    sharing: int,
    desired: Sequence[int],
    members: Sequence[int],
    found: Sequence[set[_Partition]],
) -> None:
    """Give partitions in turn to members that have too few."""
    waiting = [member for member in members if len(found[member]) < desired[member]]
    place, has_given = 0, False
    for pair in sorted(holders):
        while len(holders[pair]) < sharing and waiting:
            if place >= len(waiting):
                if not has_given:
                    break
                place, has_given = 0, False
            member = waiting[place]
            place += 1
            if member in holders[pair]:
                continue
            holders[pair].append(member)
            found[member].add(pair)
            has_given = True
            if len(found[member]) >= desired[member]:
                place -= 1
                del waiting[place]
