"""What is removed between two tests: the difference of two snapshots, against a dumb twin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pybroker_kafka.testkit.cleaning import INTERNAL_TOPICS, Snapshot, difference, is_kept

NAMES = ("orders", "orders-2", "bills", "__consumer_offsets")
ENTITIES = ("topics/orders", "topics/bills", "users/alice", "clients/shop", "brokers/1")
CONFIGS = ({"retention.ms": "1"}, {"retention.ms": "2"})
PATHS = ("/kafka-acl/Topic/orders", "/kafka-acl-extended/prefixed/Group/shop")
PATTERNS = ("orders", "o*", "alice", "*-2", "?hop", "*")

names = st.frozensets(st.sampled_from(NAMES))
snapshots = st.builds(
    Snapshot,
    topics=names,
    groups=names,
    transactional_ids=names,
    tokens=names,
    configs=st.dictionaries(st.sampled_from(ENTITIES), st.sampled_from(CONFIGS)),
    acls=st.dictionaries(st.sampled_from(PATHS), st.sampled_from(("a", "b"))),
)


def cleaned(now: Snapshot, before: Snapshot, keep: list[str]) -> Snapshot:
    """What `clean` leaves, entry by entry."""

    def stays(name: str) -> bool:
        return is_kept(name, keep)

    def names_left(old: frozenset[str], new: frozenset[str]) -> frozenset[str]:
        return frozenset(name for name in new if name in old or stays(name))

    topics = frozenset(
        name
        for name in now.topics
        if name in before.topics or stays(name) or name in INTERNAL_TOPICS
    )

    def restored(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
        result = {}
        for key in {*old, *new}:
            kind, _, name = key.rpartition("/")
            is_of_topic = kind == "topics"
            if is_of_topic and name in now.topics and name not in topics:
                continue  # deleted with it
            keeps = stays(name) or (
                is_of_topic and not (name in before.topics and name in now.topics)
            )
            value = new.get(key) if keeps else old.get(key)
            if value is not None:
                result[key] = value
        return result

    return Snapshot(
        topics,
        names_left(before.groups, now.groups),
        names_left(before.transactional_ids, now.transactional_ids),
        names_left(before.tokens, now.tokens),
        restored(before.configs, now.configs),
        restored(before.acls, now.acls),
    )


@given(snapshots, snapshots, st.lists(st.sampled_from(PATTERNS), max_size=2))
def test_the_difference_leads_to_what_is_left(
    before: Snapshot, now: Snapshot, keep: list[str]
) -> None:
    found = difference(before, now, keep)
    configs = {
        entity: config
        for entity, config in {**now.configs, **found.configs}.items()
        if config and entity.removeprefix("topics/") not in found.topics
    }
    acls = {path: acl for path, acl in {**now.acls, **found.acls}.items() if acl}
    left = Snapshot(
        now.topics - set(found.topics),
        now.groups - set(found.groups),
        now.transactional_ids - set(found.transactional_ids),
        now.tokens - set(found.tokens),
        configs,
        acls,
    )
    assert left == cleaned(now, before, keep)
    assert not any(difference(now, now, keep))


def test_what_is_removed_is_told() -> None:
    nothing = Snapshot(frozenset(), frozenset(), frozenset(), frozenset(), {}, {})
    now = nothing._replace(topics=frozenset({"b", "a"}), tokens=frozenset({"x"}))
    assert difference(nothing, now).words() == "a, b, token x"
    many = nothing._replace(groups=frozenset(f"g{number:02}" for number in range(23)))
    assert difference(nothing, many).words().endswith(", g19 and 3 more")


def test_credentials_are_not_shown() -> None:
    configs = {"users/alice": {"SCRAM-SHA-256": "salt=secret"}}
    shown = Snapshot(frozenset({"b", "a"}), frozenset(), frozenset(), frozenset(), configs, {})
    assert repr(shown) == "Snapshot(['a', 'b'], [], [], [], ['users/alice'], [])"
