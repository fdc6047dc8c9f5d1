"""Streams groups: records, assignments, topics and steps are those of Apache Kafka 4.3.1's classes.

tests/golden/streams-groups.json is what tests/support/java/StreamsGroupAnswers.java printed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pybroker_kafka.coordinator.group.streams.changes import (
    Change,
    GroupEpoch,
    SetEpoch,
    SetMember,
    SetProgress,
    SetTarget,
    SetTargetEpoch,
    SetTopology,
    TargetEpoch,
)
from pybroker_kafka.coordinator.group.streams.member import (
    Endpoint,
    MemberMetadata,
    MemberState,
    Progress,
)
from pybroker_kafka.coordinator.group.streams.reconciliation import (
    Target,
    UnknownStateError,
    step,
)
from pybroker_kafka.coordinator.group.streams.records import read, record
from pybroker_kafka.coordinator.group.streams.sticky_task_assignor import (
    MemberSpec,
    SubtopologySpec,
    assign,
)
from pybroker_kafka.coordinator.group.streams.tasks import OwnedTasks, Tasks, TaskSet
from pybroker_kafka.coordinator.group.streams.topic_configuration import configure
from pybroker_kafka.coordinator.group.streams.topology import (
    CopartitionGroup,
    Subtopology,
    TopicInfo,
    Topology,
)
from pybroker_kafka.protocol.errors import KafkaError
from tests.unit.coordinator.group.consumer_harness import Topics

GOLDEN = Path(__file__).resolve().parents[3] / "golden" / "streams-groups.json"
ANSWERS: dict[str, Any] = json.loads(GOLDEN.read_text(encoding="utf-8"))
TIME_MS = 1_700_000_000_000


def task_set(tasks: dict[str, list[int]]) -> TaskSet:
    return {name: frozenset(partitions) for name, partitions in tasks.items()}


def owned_tasks(tasks: Any) -> OwnedTasks:
    active, standby, warmup = tasks
    return OwnedTasks(
        {name: dict(map(tuple, pairs)) for name, pairs in active.items()},
        task_set(standby),
        task_set(warmup),
    )


# Records

PLAIN = MemberMetadata(
    client_id="client",
    client_host="/127.0.0.1",
    rebalance_timeout_ms=300_000,
    topology_epoch=0,
    process_id="p",
)
FULL = PLAIN._replace(
    instance_id="i",
    rack_id="r",
    topology_epoch=2,
    user_endpoint=Endpoint("h", 65_535),
    client_tags=(("a", "1"), ("b", "2")),
)
PROGRESS = Progress(
    7,
    5,
    MemberState.UNREVOKED_TASKS,
    OwnedTasks({"1": {0: 3, 2: 7}, "0": {1: 4}}, {"1": frozenset({1})}, {"2": frozenset({3})}),
    OwnedTasks({"0": {3: 2}}, {"0": frozenset({4})}, {"0": frozenset({5})}),
)
TARGET = Tasks({"1": frozenset({3, 1}), "0": frozenset({2})}, {"1": frozenset({0})})
TOPOLOGY = Topology(
    3,
    (
        Subtopology(
            "0",
            ("a", "b"),
            ("x.*",),
            repartition_sink_topics=("r",),
            copartition_groups=(CopartitionGroup((0, 1), (0,)),),
        ),
        Subtopology(
            "1",
            repartition_source_topics=(TopicInfo("r", 2),),
            state_changelog_topics=(TopicInfo("c", 0, 3, (("cleanup.policy", "compact"),)),),
        ),
    ),
)
CHANGES: dict[str, Change] = {
    "member": SetMember("m", PLAIN),
    "full member": SetMember("m", FULL),
    "no member": SetMember("m", None),
    "progress": SetProgress("m", PROGRESS),
    "first progress": SetProgress("m", Progress()),
    "no progress": SetProgress("m", None),
    "target": SetTarget("m", TARGET),
    "empty target": SetTarget("m", Tasks()),
    "no target": SetTarget("m", None),
    "target epoch": SetTargetEpoch(TargetEpoch(4, TIME_MS)),
    "untimed target epoch": SetTargetEpoch(TargetEpoch(4)),
    "no target epoch": SetTargetEpoch(None),
    "epoch": SetEpoch(GroupEpoch(5, -6_000_000_000, 3, (("num.standby.replicas", "1"),))),
    "epoch without topics": SetEpoch(GroupEpoch(5, 0)),
    "no epoch": SetEpoch(None),
    "topology": SetTopology(TOPOLOGY),
    "no topology": SetTopology(None),
}


def test_the_version() -> None:
    assert ANSWERS["version"] == "4.3.1"
    assert ANSWERS["records"].keys() == CHANGES.keys()


@pytest.mark.parametrize("name", CHANGES)
def test_records(name: str) -> None:
    key, value = (
        None if text is None else bytes.fromhex(text) for text in ANSWERS["records"][name][:2]
    )
    assert key is not None
    assert record("g", CHANGES[name]) == (key, value)
    assert read(key, value) == ("g", CHANGES[name])


# Assignments


@pytest.mark.parametrize("index", range(len(ANSWERS["assignments"])))
def test_assignments(index: int) -> None:
    case = ANSWERS["assignments"][index]
    members = [
        MemberSpec(f"m{n}", process, Tasks(task_set(active), task_set(standby)))
        for n, (process, active, standby) in enumerate(case["members"])
    ]
    subtopologies = [
        SubtopologySpec(str(n), count, is_stateful)
        for n, (count, is_stateful) in enumerate(case["subtopologies"])
    ]
    ours = assign(members, subtopologies, case["replicas"])
    theirs = {
        f"m{n}": Tasks(task_set(active), task_set(standby))
        for n, (active, standby) in enumerate(case["answers"])
    }
    assert ours == theirs


# Topics


@pytest.mark.parametrize("index", range(len(ANSWERS["topics"])))
def test_topics(index: int) -> None:
    case = ANSWERS["topics"][index]
    topology = Topology(
        0,
        tuple(
            Subtopology(
                str(n),
                tuple(sources),
                repartition_source_topics=tuple(TopicInfo(*one) for one in repartition),
                repartition_sink_topics=tuple(sinks),
                state_changelog_topics=tuple(map(TopicInfo, changelogs)),
                copartition_groups=(CopartitionGroup(tuple(first), (), tuple(second)),),
            )
            for n, (sources, repartition, sinks, changelogs, first, second) in enumerate(
                case["subtopologies"]
            )
        ),
    )
    ours: dict[str, Any]
    try:
        found = configure(topology, Topics(**case["existing"]))
    except KafkaError as error:
        ours = {"error": int(error.code)}
    else:
        ours = {
            "status": None if found.problem is None else int(found.problem.status),
            "tasks": None
            if found.subtopologies is None
            else {name: one.task_count for name, one in found.subtopologies.items()},
            "missing": {name: topic.partitions for name, topic in found.missing_topics.items()},
        }
    assert ours == case["answer"]


# Steps


@pytest.mark.parametrize("index", range(len(ANSWERS["steps"])))
def test_steps(index: int) -> None:
    case = ANSWERS["steps"][index]
    epoch, state, assigned, revoking = case["member"]
    before = Progress(
        epoch, epoch - 1, MemberState(state), owned_tasks(assigned), owned_tasks(revoking)
    )

    def processes(role: str, name: str, partition: int) -> list[str]:
        return [p for r, s, n, p in case["holders"] if (r, s, n) == (role, name, partition)]

    target = Target(
        case["target"][0],
        Tasks(*map(task_set, case["target"][1])),
        "p0",
        lambda name, n: next(iter(processes("active", name, n)), None),
        lambda name, n: processes("standby", name, n),
        lambda name, n: processes("warmup", name, n),
    )
    owns = case["owns"]
    try:
        after = step(before, target, None if owns is None else Tasks(*map(task_set, owns)))
    except UnknownStateError:
        assert case["answer"] is None
        return
    found, previous, state, assigned, revoking = case["answer"]
    expected = Progress(
        found, previous, MemberState(state), owned_tasks(assigned), owned_tasks(revoking)
    )
    assert after == expected
