"""Our assignors beside the Java client's: assignments are the same bytes on random groups.

A case is a line: assignor, tab, topics as `name=racks,racks;...` (the racks of a partition's
replicas, with slashes), tab, members as `id|subscription in base64|instance id;...`.
"""

from __future__ import annotations

import base64
import random
from collections.abc import Iterator

import pytest

from pybroker_kafka.client.consumer.assignments import (
    Assignment,
    Assignor,
    Subscription,
    TopicShape,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from pybroker_kafka.client.consumer.named_assignors import ASSIGNORS
from pybroker_kafka.protocol.topics import TopicPartition
from tests.support import examples
from tests.support.apache_kafka import java_answers

SEED = 3907
CASES = examples.of(100)  # of each assignor
# A former owner that cannot change any more: Java's leader stumbles, and ours does not.
JAVA_FAILS = "failed: java.lang.NullPointerException"

Topics = dict[str, TopicShape]
Members = dict[str, Subscription]


def random_topics(rng: random.Random) -> Topics:
    names = rng.sample(["a", "b", "orders", "clicks-2", "t.10", "t.9", "Ä", "zz", "m1", "m2"], 4)
    racks = rng.choice([[], [], ["r1", "r2", "r3"]])
    topics = {}
    for name in names[: rng.randint(1, 4)]:
        count = rng.choice([1, 2, 3, 4, 7, 12, 30])
        replicas = rng.randint(1, 3)
        topics[name] = TopicShape(
            tuple(frozenset(rng.sample(racks, min(replicas, len(racks)))) for _ in range(count))
        )
    return topics


def random_members(rng: random.Random, topics: Topics) -> Members:
    names = [*topics, "missing"]
    alike = rng.random() < 0.5
    wanted = rng.sample(names, rng.randint(1, len(names)))
    has_racks = rng.random() < 0.4
    members = {}
    for _ in range(rng.randint(1, rng.choice([3, 6, 20]))):
        member = f"consumer-{rng.randint(1, 99)}-{rng.getrandbits(64):x}"
        mine = wanted if alike else rng.sample(names, rng.randint(1, len(names)))
        members[member] = Subscription(
            topics=tuple(mine),
            rack=rng.choice(["r1", "r2", "r9"]) if has_racks and rng.random() < 0.8 else None,
            instance_id=f"static-{rng.getrandbits(32):x}" if rng.random() < 0.2 else None,
        )
    return members


def owning(
    rng: random.Random, assignor: Assignor, topics: Topics, members: Members, before: Assignment
) -> Members:
    """Members that say what they had, most of them the truth."""
    found = {}
    generation = rng.randint(0, 3)
    for member, subscription in members.items():
        owned: list[TopicPartition] = list(before.get(member, ()))
        since = generation
        if rng.random() < 0.1:  # it has slept through a few generations
            since = rng.randint(-1, generation)
        if rng.random() < 0.1:
            topic = rng.choice(list(topics))
            count = rng.randint(0, topics[topic].partition_count)
            owned += [(topic, n) for n in range(count) if (topic, n) not in owned]
        if rng.random() < 0.05:
            owned.append(("gone", 0))
        rng.shuffle(owned)
        found[member] = subscription._replace(
            owned=tuple(owned),
            generation=since,
            user_data=assignor.user_data(owned, since),
        )
    return found


def cases(assignor: Assignor, rng: random.Random) -> Iterator[tuple[Topics, Members]]:
    while True:
        topics = random_topics(rng)
        members = random_members(rng, topics)
        yield topics, members
        before = assignor.assign(topics, members)
        for _ in range(rng.randint(0, 3)):  # the group changes
            kept = {m: s for m, s in members.items() if rng.random() < 0.8}
            members = {**kept, **random_members(rng, topics)} if rng.random() < 0.5 else kept
            if not members:
                break
            members = owning(rng, assignor, topics, members, before)
            yield topics, members
            before = assignor.assign(topics, members)


def as_line(name: str, topics: Topics, members: Members) -> str:
    shapes = ";".join(
        f"{topic}={','.join('/'.join(sorted(racks)) for racks in shape.racks)}"
        for topic, shape in topics.items()
    )
    people = ";".join(
        f"{member}|{base64.b64encode(encode_subscription(each)).decode()}|{each.instance_id or ''}"
        for member, each in members.items()
    )
    return f"{name}\t{shapes}\t{people}"


def test_assignments_are_javas() -> None:
    lines, ours = [], []
    for name, make in ASSIGNORS.items():
        assignor = make()
        rng = random.Random(f"{SEED} {name}")
        for _, (topics, members) in zip(range(CASES), cases(assignor, rng), strict=False):
            lines.append(as_line(name, topics, members))
            told = {
                m: decode_subscription(encode_subscription(s), s.instance_id)
                for m, s in members.items()
            }
            found = assignor.assign(topics, told)
            ours.append(
                ";".join(
                    f"{m}={base64.b64encode(encode_assignment(found[m])).decode()}"
                    for m in sorted(found)
                )
            )
    theirs = java_answers("Assignments", lines, source="Assignments.java").splitlines()
    assert len(theirs) == len(lines)
    failed = {i for i, their in enumerate(theirs) if their.startswith(JAVA_FAILS)}
    assert len(failed) < len(lines) / 500
    wrong = [i for i, our in enumerate(ours) if our != theirs[i] and i not in failed]
    detail = "\n".join(
        f"{lines[i]}\nours   {ours[i]}\ntheirs {theirs[i]}"
        for i in sorted(wrong, key=lambda i: len(lines[i]))[:1]
    )
    assert not wrong, f"{len(wrong)} of {len(lines)} differ, seed {SEED}:\n{detail}"


@pytest.mark.parametrize("name", ["sticky", "cooperative-sticky"])
def test_who_stays_keeps_what_it_has(name: str) -> None:
    """And nobody has more than one partition more than another, where all want the same."""
    assignor = ASSIGNORS[name]()
    topics = {"t": TopicShape((frozenset(),) * 12)}
    members = {f"m{n}": Subscription(("t",)) for n in range(3)}
    before = assignor.assign(topics, members)
    del members["m1"]
    told = {
        m: s._replace(
            owned=tuple(before[m]), generation=1, user_data=assignor.user_data(before[m], 1)
        )
        for m, s in members.items()
    }
    after = assignor.assign(topics, told)
    assert [len(mine) for mine in after.values()] == [6, 6]
    assert all(set(before[m]) <= set(after[m]) for m in members)
