"""Random histories of consumer groups, at a broker of ours and at Apache Kafka 4.3 in KRaft mode.

`python -m tests.mixed.group_histories --seeds 200`: each seed is one history of raw requests, which
both get one after the other: members that come, go, pause, change their subscription and assignor,
send what does not fit, and commit. Compared are error codes, epochs and states, the assignments
too, and for each step; the first difference of a seed ends it, and is printed.

The members of a side say what their side gave them. No time counts: sessions are longer than a
history, and a target is computed at once. With the assignor `range` all is the same to the
partition; `uniform` goes through members in the order of a hash table there and by member id here,
so only errors, epochs of the group and the sizes of the targets are compared, and topics that only
some members want are left to `range`.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from pybroker_kafka.protocol.apis.consumer_group_describe import ConsumerGroupDescribeRequest
from pybroker_kafka.protocol.apis.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)
from pybroker_kafka.protocol.apis.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.features import Feature
from tests.support.apache_kafka_4 import running_kafka_4
from tests.support.patience import until
from tests.support.processes import running_broker
from tests.support.terminated import clean_up_when_terminated
from tests.support.wire import Topic, WireClient
from tests.wire.feature_steps import finalize

STEPS = 40
MEMBERS = 4
TOPICS = {"history-a": 5, "history-b": 3}
INSTANCES = (None, None, "one", "two")
CONFIG = {
    "group.consumer.assignment.interval.ms": "0",
    "offsets.topic.num.partitions": "1",
}
VERSION = 1
COMMIT_VERSION = 9
REBALANCE_MS = 120_000
_FENCED = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID)

# Of a commit to a group that does not exist: ours is the error of 3.9, whatever is finalized.
_COMMIT_ERRORS = {ErrorCode.GROUP_ID_NOT_FOUND: ErrorCode.ILLEGAL_GENERATION}

Owned = dict[str, list[int]]


class Member:
    """One member at one side."""

    def __init__(self) -> None:
        self.epoch = 0
        self.owned: Owned = {}


class Side:
    """One of the two brokers, with what its members know."""

    def __init__(self, client: WireClient, group: str, topics: dict[str, Topic]) -> None:
        self._client = client
        self._group = group
        self._topics = topics
        self._names = {topic.id: name for name, topic in topics.items()}
        self.members: dict[str, Member] = {}

    def beat(self, name: str, step: dict[str, Any]) -> tuple[Any, ...]:
        """A heartbeat; the error, the epoch and the assignment of the answer."""
        member = self.members.setdefault(name, Member())
        epoch = step.get("epoch", member.epoch + step.get("off", 0))
        joins = epoch == 0
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group,
            member_id=name,
            member_epoch=epoch,
            instance_id=step.get("instance"),
            server_assignor=step.get("assignor"),
        )
        if joins or step.get("full"):
            request.rebalance_timeout_ms = REBALANCE_MS
        if step.get("names") is not None:
            request.subscribed_topic_names = list(step["names"])
        if joins:
            request.topic_partitions = []
        elif step.get("owns", True) and epoch > 0:
            request.topic_partitions = [
                ConsumerGroupHeartbeatRequestTopicPartitions(
                    topic_id=self._topics[topic].id, partitions=partitions
                )
                for topic, partitions in member.owned.items()
                if partitions
            ]
        answer = self._client.call(request, VERSION)
        error = ErrorCode(answer.error_code)
        if error in _FENCED or epoch < 0:
            self.members[name] = Member()
        elif error is ErrorCode.NONE:
            member.epoch = answer.member_epoch
            if answer.assignment is not None:
                member.owned = {
                    self._names[one.topic_id]: sorted(one.partitions)
                    for one in answer.assignment.topic_partitions
                }
        if not step["exact"]:
            return (error.name,)
        told = None
        if error is ErrorCode.NONE and answer.assignment is not None and epoch >= 0:
            told = _whole(member.owned)
        return error.name, answer.member_epoch, told

    def commit(self, name: str, step: dict[str, Any]) -> tuple[Any, ...]:
        member = self.members.setdefault(name, Member())
        topic = next(iter(self._topics))
        owned = member.owned.get(topic) or [0]
        request = OffsetCommitRequest(
            group_id=self._group,
            member_id=name,
            generation_id_or_member_epoch=member.epoch + step["off"],
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=owned[0], committed_offset=step["offset"]
                        )
                    ],
                )
            ],
        )
        answer = self._client.call(request, COMMIT_VERSION)
        error = ErrorCode(answer.topics[0].partitions[0].error_code)
        return (_COMMIT_ERRORS.get(error, error).name,)

    def described(self, *, exact: bool) -> tuple[Any, ...]:
        """The group as ConsumerGroupDescribe has it."""
        request = ConsumerGroupDescribeRequest(group_ids=[self._group])
        (group,) = self._client.call(request, VERSION).groups
        error = ErrorCode(group.error_code).name
        assignor = group.assignor_name if not group.error_code else ""
        view = (error, group.group_epoch, group.assignment_epoch, assignor)
        if not exact and group.assignment_epoch < group.group_epoch:
            return view  # who stays has what it had: which of them had more depends on the order
        if not exact:
            targets = [_by_name(member.target_assignment) for member in group.members]
            return *view, sorted(sum(map(len, target.values())) for target in targets)
        members = sorted(
            (
                member.member_id,
                member.instance_id,
                member.member_epoch,
                tuple(sorted(member.subscribed_topic_names)),
                _whole(_by_name(member.assignment)),
                _whole(_by_name(member.target_assignment)),
            )
            for member in group.members
        )
        return *view, group.group_state, members


def _whole(owned: Owned) -> Owned:
    return {topic: partitions for topic, partitions in sorted(owned.items()) if partitions}


def _by_name(assignment: Any) -> Owned:
    return {one.topic_name: sorted(one.partitions) for one in assignment.topic_partitions}


def history(seed: int) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """The steps of a seed: what, by which member, with which values."""
    choose = random.Random(seed)
    exact = choose.random() < 0.7
    assignor = "range" if exact else "uniform"
    names = {f"m{number}": choose.choice(INSTANCES) for number in range(MEMBERS)}
    lives = dict.fromkeys(names, 0)
    for _ in range(STEPS):
        name = choose.choice(list(names))
        member, instance = f"{name}-{lives[name]}", names[name]
        topics = (
            sorted(choose.sample(list(TOPICS), choose.randint(1, 2))) if exact else list(TOPICS)
        )
        values: dict[str, Any] = {"exact": exact, "instance": instance}
        wants = {**values, "names": topics, "assignor": assignor}
        join = {**wants, "epoch": 0}
        kind = choose.random()
        if kind < 0.25:
            yield "beat", member, join
        elif kind < 0.62:
            yield "beat", member, {**values, "owns": choose.random() < 0.8}
        elif kind < 0.68 and exact:
            yield "beat", member, wants
        elif kind < 0.72:
            yield "beat", member, {**wants, "full": True}
        elif kind < 0.78:
            yield "beat", member, {**values, "epoch": -1}
        elif kind < 0.84:
            yield "beat", member, {**values, "epoch": -2}
            if instance is not None:
                lives[name] += 1
        elif kind < 0.89:
            yield "beat", member, {**values, "off": choose.choice((-1, 1) if exact else (1,))}
        elif kind < 0.92:
            yield "beat", member, {**values, "assignor": "none such"}
        elif kind < 0.94:
            yield "beat", "nobody", {**values, "epoch": choose.choice((-3, 5)), "instance": None}
        elif exact:
            off = choose.choice((0, 0, -1, 1))
            yield "commit", member, {"off": off, "offset": choose.randint(0, 9), "exact": exact}


def differences(seed: int, ours: WireClient, theirs: WireClient, topics: Any) -> str:
    """The first difference of a seed; empty if there is none."""
    group = f"history-{seed}"
    sides = [
        Side(client, group, known) for client, known in zip((ours, theirs), topics, strict=True)
    ]
    for number, (kind, member, values) in enumerate(history(seed)):
        answers = [getattr(side, kind)(member, values) for side in sides]
        views = [side.described(exact=values["exact"]) for side in sides]
        if answers[0] != answers[1] or views[0] != views[1]:
            return (
                f"seed {seed}, step {number}, {kind} of {member} {values}:\n"
                f"  ours   {answers[0]} {views[0]}\n  theirs {answers[1]} {views[1]}"
            )
    return ""


def is_loaded(client: WireClient) -> bool:
    (group,) = client.call(ConsumerGroupDescribeRequest(group_ids=["history"]), VERSION).groups
    return bool(group.error_code == ErrorCode.GROUP_ID_NOT_FOUND)


@contextmanager
def both() -> Iterator[tuple[WireClient, WireClient, list[dict[str, Topic]]]]:
    """A connection to a broker of ours and one to Kafka, and the topics of each."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        ours = stack.enter_context(running_broker(directory / "ours", CONFIG))
        theirs = stack.enter_context(running_kafka_4(directory / "theirs", CONFIG))
        clients = [stack.enter_context(WireClient(broker.bootstrap)) for broker in (ours, theirs)]
        finalize(clients[0], {Feature.GROUP: 1})
        topics = [
            {name: client.create_topic(count, name) for name, count in TOPICS.items()}
            for client in clients
        ]
        for client in clients:
            client.coordinator("history")
            until(partial(is_loaded, client))
        yield clients[0], clients[1], topics


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    clean_up_when_terminated()
    failed = 0
    with both() as (ours, theirs, topics):
        for seed in range(options.first, options.first + options.seeds):
            found = differences(seed, ours, theirs, topics)
            failed += bool(found)
            if found:
                print(found, flush=True)
    print(f"{options.seeds} histories, {failed} with a difference")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
