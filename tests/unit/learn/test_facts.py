"""Each fact, out of what a cluster that is played says."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from pybroker_kafka.client.admin.config_types import ConfigResource, ResourceKind
from pybroker_kafka.client.admin.records import EARLIEST, LATEST
from pybroker_kafka.client.consumer.received import Received
from pybroker_kafka.learn.answers import Answer, Number, Numbers, Word
from pybroker_kafka.learn.facts import FACTS, answer
from pybroker_kafka.learn.living import NoAnswer

RECORDS = [
    Received("t", 0, 0, 100, b"ann", b"old"),
    Received("t", 1, 0, 300, b"ann", b"newest"),
    Received("t", 1, 1, 200, None, None),
]
OFFSETS = {EARLIEST: 4, LATEST: 9}
FILES = {"segment_count": 2, "segments": [{"base_offset": 0}, {"base_offset": 50}]}
STEPS = [
    {"title": "Which segment", "chosen": 1, "rows": [(0,), (50,)]},
    {"title": "The offset index", "chosen": 1, "rows": [(0, 50, 0), (1, 57, 500)]},
]
WAITING = [
    {"kind": "Produce", "oldest": []},
    {"kind": "Fetch", "oldest": [{"for": "follower 2: 1 bytes"}, {"for": "1 bytes, has 0; t-0"}]},
]
ZNODES = {
    "/brokers/ids": {"children": ["1", "3"]},
    "/controller": {"data": '{"version":2,"brokerid":3}'},
    "/controller_epoch": {"data": "12"},
    "/config/topics/t": {"version": 5},
}


def gives(found: object) -> Callable[..., Awaitable[Any]]:
    async def call(*_arguments: object, **_keywords: object) -> object:
        return found

    return call


class Played:
    """In the place of a `Living`."""

    def __init__(self) -> None:
        member = SimpleNamespace(assignment=(("t", 0), ("t", 1)))
        other = SimpleNamespace(assignment=(("t", 2),))
        group = SimpleNamespace(state="Stable", members=(other, member))
        listed = {1: (), 2: (SimpleNamespace(group_id="g", coordinator=2),)}
        state = SimpleNamespace(state="Ongoing", producer_epoch=7)
        committed = SimpleNamespace(values={("t", 0): SimpleNamespace(offset=6)})
        self.cluster = SimpleNamespace(forget_coordinator=lambda *_: None)
        self.admin = SimpleNamespace(
            records=SimpleNamespace(offsets=self.offsets),
            groups=SimpleNamespace(
                describe=gives({"g": group}), list=gives(SimpleNamespace(values=listed))
            ),
            group_offsets=SimpleNamespace(list=gives(committed)),
            transactions=SimpleNamespace(describe=gives({"id": state})),
            configs=SimpleNamespace(describe=self.configs),
        )

    async def offsets(self, wanted: dict[Any, int], *, read_committed: bool = False) -> object:
        ((place, where),) = wanted.items()
        return {place: SimpleNamespace(offset=OFFSETS[where] - 2 * read_committed)}

    async def configs(self, resources: list[ConfigResource], *, names: list[str]) -> object:
        entry = SimpleNamespace(name="a.key", value="42")
        assert names in (["a.key"], ["none"])
        assert resources[0].kind in (ResourceKind.BROKER, ResourceKind.TOPIC)
        return {resources[0]: (entry,)}

    async def records(self, topic: str, *, committed: bool = False) -> list[Received]:
        return RECORDS[: 2 if committed else None] if topic == "t" else []

    async def partition(self, topic: str, number: int) -> object:
        assert (topic, number) == ("t", 0)
        return SimpleNamespace(leader_id=3, leader_epoch=8, isr_nodes=[3, 1], offline_replicas=[2])

    async def inside(self, broker: int, view: str, **query: object) -> object:
        assert broker == 1
        views: dict[str, object] = {
            "replica": {"log_end_offset": 11},
            "files": FILES,
            "look-up": STEPS if query.get("offset") != "3" else STEPS[:0],
            "waiting": WAITING,
        }
        return views[view]

    async def znode(self, path: str) -> object:
        return ZNODES[path]


CASES: list[tuple[str, Answer]] = [
    ("records t", Number(3)),
    ("committed-records t", Number(2)),
    ("records-in t 1", Number(2)),
    ("partition-of-key t ann", Number(1)),
    ("value-bytes t", Number(6)),
    ("log-start t 0", Number(4)),
    ("high-watermark t 0", Number(9)),
    ("last-stable t 0", Number(7)),
    ("log-end t 0 1", Number(11)),
    ("committed g t 0", Number(6)),
    ("lag g t 0", Number(3)),
    ("leader t 0", Number(3)),
    ("leader-epoch t 0", Number(8)),
    ("isr t 0", Numbers(frozenset({1, 3}))),
    ("offline t 0", Numbers(frozenset({2}))),
    ("group-state g", Word("Stable")),
    ("members g", Number(2)),
    ("largest-share g", Number(2)),
    ("coordinator g", Number(2)),
    ("transaction-state id", Word("Ongoing")),
    ("producer-epoch id", Number(7)),
    ("segments t 0 1", Number(2)),
    ("segment-of t 0 1 49", Number(0)),
    ("segment-of t 0 1 50", Number(50)),
    ("index-entry t 0 1 58", Number(57)),
    ("broker-config 1 a.key", Number(42)),
    ("topic-config t a.key", Number(42)),
    ("waiting-fetches 1", Number(1)),
    ("registered", Numbers(frozenset({1, 3}))),
    ("controller", Number(3)),
    ("controller-epoch", Number(12)),
    ("znode-version /config/topics/t", Number(5)),
]
UNKNOWN = [
    ("partition-of-key t bob", "no record of t has the key bob"),
    ("value-bytes empty", "empty has no records"),
    ("committed g t 1", "g has committed nothing of t-1"),
    ("coordinator other", "no broker has a group other"),
    ("segment-of t 0 1 -1", "offset -1 is not in the log"),
    ("index-entry t 0 1 3", "offset 3 is not in the log"),
    ("broker-config 1 none", "has no none"),
]


@pytest.mark.parametrize(("fact", "expected"), CASES)
async def test_a_fact(fact: str, expected: Answer) -> None:
    living: Any = Played()
    assert await answer(living, tuple(fact.split())) == expected


@pytest.mark.parametrize(("fact", "why"), UNKNOWN)
async def test_what_the_cluster_does_not_know(fact: str, why: str) -> None:
    living: Any = Played()
    with pytest.raises(NoAnswer, match=why):
        await answer(living, tuple(fact.split()))


async def test_an_index_without_an_entry_before_the_offset() -> None:
    living: Any = Played()
    first: dict[str, Any] = {"title": "The offset index", "chosen": None, "rows": []}

    async def inside(_broker: int, view: str, **_query: object) -> object:
        return FILES if view == "files" else [first]

    living.inside = inside
    assert await answer(living, ("index-entry", "t", "0", "1", "52")) == Number(50)


def test_all_facts_are_tried() -> None:
    assert {fact.split()[0] for fact, _ in CASES} == FACTS.keys()
