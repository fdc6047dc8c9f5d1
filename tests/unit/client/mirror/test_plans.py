"""Topics, configs, ACLs, checkpoints and offsets of groups: what is decided about them."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from pybroker_kafka.client.admin.acls import Acl
from pybroker_kafka.client.admin.configs import (
    Alteration,
    ConfigEntry,
    ConfigOperation,
    ConfigSource,
)
from pybroker_kafka.client.admin.group_offsets import CommittedOffset
from pybroker_kafka.client.mirror.checkpoints import Checkpoints
from pybroker_kafka.client.mirror.formats import Checkpoint, OffsetSync
from pybroker_kafka.client.mirror.settings import NEVER, FlowSettings, read_settings
from pybroker_kafka.client.mirror.sync_store import SyncStore
from pybroker_kafka.client.mirror.topic_plan import (
    ALL_OPERATIONS,
    ALLOW,
    FIRST_PARTITIONS,
    LITERAL,
    MOST_PARTITIONS,
    READ,
    TOPIC,
    WRITE,
    OwnTopic,
    config_changes,
    created_configs,
    own_topics,
    plan_topics,
    portions,
    target_acls,
)

DENY, PREFIXED = 2, 4


def flow(**more: str) -> FlowSettings:
    given = {
        "clusters": "A,B",
        "A.bootstrap.servers": "a:1",
        "B.bootstrap.servers": "b:1",
        "A->B.enabled": "true",
    }
    named = {key.replace("_", "."): value for key, value in more.items()}
    return read_settings(given | named).flows[0]


def test_topics_are_created_and_grown() -> None:
    source = {"new": 2, "grows": 3, "same": 1, "less": 1, "B.back": 1, "__offsets": 5}
    target = {"A.grows": 1, "A.same": 1, "A.less": 4, "back": 1}
    plan = plan_topics(flow(), source, target)
    assert plan.to_create == {"new": 2}
    assert plan.to_grow == {"grows": 3}
    assert plan.copied == [("grows", 0), ("less", 0), ("same", 0)]


@given(st.dictionaries(st.text(min_size=1, max_size=3), st.integers(1, 300), max_size=300))
def test_topics_are_created_in_portions_that_grow(counts: dict[str, int]) -> None:
    found = list(portions(counts))
    assert [item for some in found for item in some.items()] == sorted(counts.items())
    for number, some in enumerate(found):
        most = min(FIRST_PARTITIONS << number, MOST_PARTITIONS)
        assert len(some) == 1 or sum(some.values()) <= most
        if number + 1 < len(found):  # the next one would not have fitted in
            assert sum(some.values()) + next(iter(found[number + 1].values())) > most


def test_the_mirrors_own_topics() -> None:
    syncs, positions = OwnTopic("mm2-offset-syncs.B.internal", 3), "mm2-offsets.A.internal"
    others = [OwnTopic("A.checkpoints.internal", 3), OwnTopic("heartbeats", 1)]
    made = replace(flow(), heartbeats_factor=1)
    assert own_topics(made) == ([syncs], [OwnTopic(positions, 3, 25), *others])
    assert own_topics(replace(made, copies=False)) == ([], [OwnTopic("heartbeats", 1)])
    at_target = [OwnTopic(positions, 3, 25), OwnTopic("mm2-offset-syncs.A.internal", 3), *others]
    assert own_topics(replace(made, syncs_at_source=False)) == ([], at_target)
    quiet = replace(made, emits_syncs=False, heartbeats=NEVER)
    assert own_topics(quiet) == ([], [OwnTopic(positions, 3, 25)])


def entry(name: str, value: str | None, source: ConfigSource) -> ConfigEntry:
    return ConfigEntry(name, value, source, False, False, (), None)


def test_configs_that_a_topic_is_created_with() -> None:
    entries = [
        entry("retention.ms", "5", ConfigSource.TOPIC),
        entry("segment.bytes", "7", ConfigSource.DEFAULT),
        entry("cleanup.policy", "compact", ConfigSource.DYNAMIC_BROKER),
        entry("max.message.bytes", "9", ConfigSource.STATIC_BROKER),
        entry("min.insync.replicas", "2", ConfigSource.TOPIC),  # config.properties.exclude
        replace(entry("secret", "x", ConfigSource.TOPIC), is_sensitive=True),
        replace(entry("fixed", "x", ConfigSource.TOPIC), is_read_only=True),
    ]
    assert created_configs(flow(), entries) == {"retention.ms": "5", "cleanup.policy": "compact"}
    with_defaults = created_configs(flow(use_defaults_from="source"), entries)
    assert with_defaults == {"retention.ms": "5", "cleanup.policy": "compact", "segment.bytes": "7"}


def test_configs_that_have_changed() -> None:
    source = [
        entry("a", "1", ConfigSource.TOPIC),
        entry("b", "1", ConfigSource.TOPIC),
        entry("c", "1", ConfigSource.DEFAULT),
        entry("d", "1", ConfigSource.DEFAULT),
        entry("unknown there", "1", ConfigSource.TOPIC),
    ]
    target = [
        entry("a", "1", ConfigSource.TOPIC),
        entry("b", "2", ConfigSource.DEFAULT),
        entry("c", "2", ConfigSource.TOPIC),
        entry("d", "2", ConfigSource.DEFAULT),
    ]
    assert config_changes(flow(), source, target) == [
        Alteration("b", ConfigOperation.SET, "1"),
        Alteration("c", ConfigOperation.DELETE, None),
    ]
    changes = config_changes(flow(use_defaults_from="source"), source, target)
    assert {one.name for one in changes} == {"b", "c", "d"}


def acl(name: str, operation: int, permission: int = ALLOW, pattern: int = LITERAL) -> Acl:
    return Acl(TOPIC, name, pattern, "User:alice", "*", operation, permission)


def test_acls_that_read() -> None:
    found = target_acls(
        flow(),
        [
            acl("t", READ),
            acl("t", WRITE),
            acl("t", WRITE, DENY),
            acl("u", ALL_OPERATIONS),
            acl("u", ALL_OPERATIONS, DENY),
            acl("t", READ, pattern=PREFIXED),
            acl("__t", READ),
            replace(acl("g", READ), resource_type=3),
        ],
    )
    assert found == [
        acl("A.t", READ),
        acl("A.t", WRITE, DENY),
        acl("A.u", READ),
        acl("A.u", ALL_OPERATIONS, DENY),
    ]


def store(*pairs: tuple[int, int]) -> SyncStore:
    made = SyncStore(keeps_history=True)
    for source, target in pairs:
        made.take(OffsetSync("t", 0, source, target))
    made.is_complete = True
    return made


def test_checkpoints_are_written_when_they_are_news() -> None:
    made = Checkpoints()
    at = {("t", 0): CommittedOffset(7, metadata="m"), ("no", 0): CommittedOffset(1)}
    [first] = made.news(flow(topics="t"), store((5, 3)), "g", at)
    assert first == Checkpoint("g", "A.t", 0, 7, 4, "m")
    made.take(first)
    assert made.news(flow(topics="t"), store((5, 3)), "g", at) == []
    assert made.news(flow(topics="t"), store((5, 3), (7, 5)), "g", at) != []  # known better now
    back = {("t", 0): CommittedOffset(6)}
    assert made.news(flow(topics="t"), store((5, 3)), "g", back) != []
    too_old = {("t", 0): CommittedOffset(2)}
    assert made.news(flow(topics="t"), store((5, 3)), "g", too_old) == []


def test_groups_of_topics_that_came_from_the_target_go_back_to_theirs() -> None:
    made = Checkpoints()
    known = SyncStore(keeps_history=True)
    known.take(OffsetSync("B.t", 0, 1, 1))
    known.is_complete = True
    [found] = made.news(flow(), known, "g", {("B.t", 0): CommittedOffset(1)})
    assert found.topic == "t"


def test_offsets_of_groups_never_go_back_and_active_groups_are_left_alone() -> None:
    made = Checkpoints()
    for number, offset in ((0, 10), (1, 10), (2, 10)):
        made.take(Checkpoint("g", "A.t", number, 99, offset, "m"))
    committed = {("A.t", 0): CommittedOffset(9), ("A.t", 1): CommittedOffset(10)}
    wanted = {("A.t", 0): CommittedOffset(10, -1, "m"), ("A.t", 2): CommittedOffset(10, -1, "m")}
    assert made.to_commit("g", "Empty", committed) == wanted
    assert len(made.to_commit("g", "Dead", {})) == 3
    assert made.to_commit("g", "Stable", committed) == {}
    assert made.to_commit("other", "Empty", {}) == {}
