"""The cluster as one answer of Metadata shows it, and the changes between two of them; pure.

Invariants: the result of `changed_topics`, applied to the older view, gives the newer one; two
equal views have no events between them. An event names many partitions at once, so that the death
of a broker is a line and not a thousand. Leaves out: changes that came and went between two looks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from ..protocol.apis.metadata import MetadataResponse

NAMES_SHOWN: Final = 5


class Placed(NamedTuple):
    """A partition; a leader of -1: it has none."""

    leader: int
    epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]


class Address(NamedTuple):
    """The address of a broker, and its rack."""

    host: str
    port: int
    rack: str | None


class ClusterView(NamedTuple):
    """Partitions of a topic by their number; None for one that the answer does not have."""

    cluster_id: str | None
    controller: int
    brokers: Mapping[int, Address]
    topics: Mapping[str, tuple[Placed | None, ...]]


class Happening(NamedTuple):
    """A line of the timeline; `kind` is one word, for its colour and for filters.

    `at_ms` since 1970; None: it was seen just now.
    """

    kind: str
    text: str
    at_ms: int | None = None


NOTHING_YET: Final = ClusterView(None, -1, {}, {})


def view_of(answer: MetadataResponse) -> ClusterView:
    """Topics with an error are left out: they are being created or deleted, or not ours to see."""
    topics: dict[str, tuple[Placed | None, ...]] = {}
    for topic in answer.topics:
        if topic.name is None or topic.error_code:
            continue
        count = 1 + max((part.partition_index for part in topic.partitions), default=-1)
        placed: list[Placed | None] = [None] * count
        for part in topic.partitions:
            placed[part.partition_index] = Placed(
                part.leader_id,
                part.leader_epoch,
                tuple(part.replica_nodes),
                tuple(part.isr_nodes),
                tuple(part.offline_replicas),
            )
        topics[topic.name] = tuple(placed)
    brokers = {one.node_id: Address(one.host, one.port, one.rack) for one in answer.brokers}
    return ClusterView(answer.cluster_id, answer.controller_id, brokers, topics)


def changed_topics(
    old: ClusterView, new: ClusterView
) -> dict[str, tuple[Placed | None, ...] | None]:
    """The new or changed topics; None for deleted ones."""
    found: dict[str, tuple[Placed | None, ...] | None] = {
        name: placed for name, placed in new.topics.items() if old.topics.get(name) != placed
    }
    found.update(dict.fromkeys(old.topics.keys() - new.topics.keys()))
    return found


def happenings(old: ClusterView, new: ClusterView) -> list[Happening]:
    """The changes from one view to the next for the timeline; none from before the first view."""
    if old == NOTHING_YET:
        return []
    found = [
        Happening("broker", f"broker {number} has left")
        for number in sorted(old.brokers.keys() - new.brokers.keys())
    ]
    found += [
        Happening("broker", f"broker {number} is there")
        for number in sorted(new.brokers.keys() - old.brokers.keys())
    ]
    if old.controller != new.controller:
        found.append(Happening("controller", _controller(old.controller, new.controller)))
    found += _of_topics(old, new)
    found += _of_partitions(old, new)
    return found


def _controller(old: int, new: int) -> str:
    if new < 0:
        return f"there is no controller; it was broker {old}"
    return f"broker {new} is the controller" + (f", it was {old}" if old >= 0 else "")


def _of_topics(old: ClusterView, new: ClusterView) -> Iterator[Happening]:
    for what, names in (
        ("created", new.topics.keys() - old.topics.keys()),
        ("deleted", old.topics.keys() - new.topics.keys()),
    ):
        if names:
            yield Happening("topic", f"{what}: {_some(sorted(names), 'topics')}")
    for name in sorted(new.topics.keys() & old.topics.keys()):
        before, after = len(old.topics[name]), len(new.topics[name])
        if before < after:
            yield Happening("topic", f"{name} has {after} partitions, it had {before}")


def _of_partitions(old: ClusterView, new: ClusterView) -> Iterator[Happening]:
    leaders: defaultdict[tuple[int, int], list[str]] = defaultdict(list)
    shrinks: defaultdict[tuple[int, ...], list[str]] = defaultdict(list)
    grows: defaultdict[tuple[int, ...], list[str]] = defaultdict(list)
    moves: list[str] = []
    for name, before, after in _pairs(old, new):
        if before.leader != after.leader:
            leaders[before.leader, after.leader].append(name)
        gone, come = set(before.isr) - set(after.isr), set(after.isr) - set(before.isr)
        if gone:
            shrinks[tuple(sorted(gone))].append(name)
        if come:
            grows[tuple(sorted(come))].append(name)
        if before.replicas != after.replicas:
            moves.append(name)
    for (left, came), names in sorted(leaders.items()):
        was = f", it was {left}" if left >= 0 else ""
        leader = f"leader is {came}{was}" if came >= 0 else f"no leader, it was {left}"
        yield Happening("leader" if came >= 0 else "offline", f"{leader}: {_partitions(names)}")
    for lost, names in sorted(shrinks.items()):
        yield Happening("shrink", f"{_brokers(lost)} out of the ISR: {_partitions(names)}")
    for back, names in sorted(grows.items()):
        yield Happening("expand", f"{_brokers(back)} into the ISR: {_partitions(names)}")
    if moves:
        yield Happening("move", f"other replicas: {_partitions(moves)}")


def rolled(found: Mapping[int, Collection[str]]) -> list[Happening]:
    """A line a broker: which of its logs have begun another segment."""
    return [
        Happening("roll", f"broker {broker}: another segment of {_partitions(names)}")
        for broker, names in sorted(found.items())
    ]


def _pairs(old: ClusterView, new: ClusterView) -> Iterator[tuple[str, Placed, Placed]]:
    """Partitions that are in both and differ, by name."""
    for topic, placed in new.topics.items():
        earlier = old.topics.get(topic, ())
        if earlier == placed:
            continue
        for number, (before, after) in enumerate(zip(earlier, placed, strict=False)):
            if before is not None and after is not None and before != after:
                yield f"{topic}-{number}", before, after


def _partitions(names: Collection[str]) -> str:
    return _some(names, "partitions")


def _brokers(numbers: Iterable[int]) -> str:
    return "broker " + ", ".join(map(str, numbers))


def _some(names: Collection[str], what: str) -> str:
    """The first few by name, and how many they are."""
    shown = ", ".join(sorted(names)[:NAMES_SHOWN])
    return shown if len(names) <= NAMES_SHOWN else f"{len(names)} {what} ({shown}, ...)"
