"""Random histories of share groups, at a broker of ours and at Apache Kafka 4.3 in KRaft mode.

`python -m tests.mixed.share_histories --seeds 200`: each seed is one history of raw requests, which
both get one after the other: members that come, go and change their subscription; fetches in each
mode of acquisition; records that are accepted, released, rejected, taken for gaps, locked anew;
requests that do not fit; connections that break. Compared for each step: error codes, epochs, the
acquired records with their delivery counts, the group, and the start offset of each partition; the
first difference of a seed ends it, and is printed.

Members fetch whichever partitions the history says, so that the assignments do not matter: the
assignor goes through members and partitions in the order of hash tables there, so only the sizes of
assignments are compared. A fetch of several partitions has room for all of their records: how room
is divided among them is not compared. Nobody acknowledges beyond the last record: Kafka fails the
request with UNKNOWN_SERVER_ERROR, ours refuses the partition's results. No time counts: locks and
sessions are longer than a history.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from pybroker_kafka.protocol.apis import share_acknowledge, share_fetch
from pybroker_kafka.protocol.apis.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from pybroker_kafka.protocol.apis.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from pybroker_kafka.protocol.apis.share_group_describe import ShareGroupDescribeRequest
from pybroker_kafka.protocol.apis.share_group_heartbeat import ShareGroupHeartbeatRequest
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.features import Feature
from pybroker_kafka.protocol.records.builder import build_batch
from pybroker_kafka.protocol.records.record import SimpleRecord
from tests.support.apache_kafka_4 import running_kafka_4
from tests.support.patience import until
from tests.support.processes import running_broker
from tests.support.terminated import clean_up_when_terminated
from tests.support.wire import Topic, WireClient
from tests.wire.feature_steps import finalize
from tests.wire.test_group_configs import GROUP, described

STEPS = 40
MEMBERS = 3
TOPICS = {"shared-a": 2, "shared-b": 1}
BATCHES = (1, 4, 1, 6, 3, 2, 5, 1, 1, 8)  # records of each
LAST_OFFSET = sum(BATCHES) - 1
PLACES = [(name, partition) for name, count in TOPICS.items() for partition in range(count)]
DELIVERIES = 4
KEEPER = "keeper"  # has a session as long as the history lasts
VERSION = 1
WAIT_MS = 60
FIRST_WAIT_MS = 1_000  # the state of a share partition is read meanwhile
NOTICED_SECONDS = 0.3  # a connection that breaks
MAX_SETTLE_FETCHES = 1_000
CONFIG = {
    "offsets.topic.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.share.assignment.interval.ms": "0",
    "group.share.delivery.count.limit": str(DELIVERIES),
    "group.share.min.delivery.count.limit": "2",
    "group.share.record.lock.duration.ms": "60000",
    "group.share.session.timeout.ms": "60000",
    "group.share.max.share.sessions": "2000",
}
ACCEPT, RELEASE, REJECT, RENEW, GAP = 1, 2, 3, 4, 0

# Batches that are refused, whatever the member has.
UNFIT: list[list[tuple[int, int, list[int]]]] = [
    [(3, 2, [1])], [(0, 1, [1, 1, 1])], [(0, 0, [9])], [(5, 6, [1]), (0, 1, [1])], [(0, 0, [])],
    [(0, 0, [RENEW])], [(0, 0, [-1])],
]  # fmt: skip

Place = tuple[str, int]
Batches = dict[Place, list[tuple[int, int, list[int]]]]


class Fetch(NamedTuple):
    """What a member sends; an acknowledgement alone has no `places`."""

    epoch: int
    places: list[Place]
    forgotten: list[Place]
    batches: Batches
    max_records: int = 500
    mode: int = 0
    renews: bool = False
    version: int = 2


class Side:
    """One of the two brokers."""

    def __init__(self, bootstrap: str, group: str, topics: dict[str, Topic]) -> None:
        self._bootstrap = bootstrap
        self._group = group
        self._topics = topics
        self._names = {topic.id: name for name, topic in topics.items()}
        self._clients: dict[str, WireClient] = {}
        self._stack = ExitStack()
        self._admin = self._stack.enter_context(WireClient(bootstrap))
        self.epochs: dict[str, int] = {}

    def close(self) -> None:
        for name in list(self._clients):
            self.crash(name)
        self._stack.close()

    def _client(self, member: str) -> WireClient:
        client = self._clients.get(member)
        if client is None:
            client = self._clients[member] = WireClient(self._bootstrap)
        return client

    def crash(self, member: str) -> None:
        client = self._clients.pop(member, None)
        if client is not None:
            client.close()

    def settle(self, member: str) -> None:
        """The first member is there, and the states of all partitions are."""
        names = list(TOPICS)
        self.beat(member, 0, names)

        def has_all() -> bool:
            time.sleep(0.02)
            found = self.beat(member, None, None)
            return bool(found[-1] == len(PLACES))

        until(has_all)
        # States are read, and kept: a fetch of several partitions would find some of them ready.
        epoch = 0
        left: list[Place] = []
        for place in PLACES:
            has_one = False
            while not has_one:  # a busy broker reads the state later than a fetch waits
                asked = Fetch(epoch, [place], left, {}, max_records=1)
                error, found = self.fetch(KEEPER, asked)
                assert error == "NONE", error
                has_one = place in found and bool(found[place][2])
                epoch, left = epoch + 1, []
                assert epoch < MAX_SETTLE_FETCHES, f"no record of {place}"
            left = [place]
        back: Batches = {place: [(0, 0, [RELEASE])] for place in PLACES}
        self.acknowledge(KEEPER, Fetch(epoch, [], [], back))

    def beat(self, member: str, epoch: int | None, names: list[str] | None) -> tuple[Any, ...]:
        """The error, the epoch and the size of the assignment."""
        request = ShareGroupHeartbeatRequest(
            group_id=self._group,
            member_id=member,
            member_epoch=self.epochs.get(member, 0) if epoch is None else epoch,
            subscribed_topic_names=names,
        )
        answer = self._client(member).call(request, VERSION)
        error = ErrorCode(answer.error_code)
        if error is ErrorCode.NONE:
            self.epochs[member] = max(answer.member_epoch, 0)
        elif error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH):
            self.epochs[member] = 0
        size = None
        if answer.assignment is not None:
            size = sum(len(one.partitions) for one in answer.assignment.topic_partitions)
        return error.name, answer.member_epoch, size

    def fetch(self, member: str, asked: Fetch) -> tuple[Any, ...]:
        topics = {
            name: share_fetch.FetchTopic(topic_id=self._topics[name].id, partitions=[])
            for name, _ in dict.fromkeys([*asked.places, *asked.batches])
        }
        for place in dict.fromkeys([*asked.places, *asked.batches]):
            topics[place[0]].partitions.append(
                share_fetch.FetchPartition(
                    partition_index=place[1],
                    acknowledgement_batches=[
                        share_fetch.AcknowledgementBatch(
                            first_offset=first, last_offset=last, acknowledge_types=kinds
                        )
                        for first, last, kinds in asked.batches.get(place, ())
                    ],
                )
            )
        request = share_fetch.ShareFetchRequest(
            group_id=self._group,
            member_id=member,
            share_session_epoch=asked.epoch,
            is_renew_ack=asked.renews,
            max_bytes=0,
            topics=list(topics.values()),
            forgotten_topics_data=[
                share_fetch.ForgottenTopic(topic_id=self._topics[name].id, partitions=[partition])
                for name, partition in asked.forgotten
            ],
        )
        if not asked.renews:
            request.max_wait_ms = WAIT_MS if asked.epoch else FIRST_WAIT_MS
            request.min_bytes, request.max_bytes = 1, 1 << 20
            request.max_records = request.batch_size = asked.max_records
            request.share_acquire_mode = asked.mode
        answer = self._client(member).call(request, asked.version)
        parts = {
            (self._names[topic.topic_id], part.partition_index): (
                ErrorCode(part.error_code).name,
                ErrorCode(part.acknowledge_error_code).name,
                [
                    (one.first_offset, one.last_offset, one.delivery_count)
                    for one in part.acquired_records
                ],
            )
            for topic in answer.responses
            for part in topic.partitions
        }
        # Those with nothing to say are named or not.
        nothing: tuple[str, str, list[Any]] = ("NONE", "NONE", [])
        told = {place: part for place, part in sorted(parts.items()) if part != nothing}
        return ErrorCode(answer.error_code).name, told

    def acknowledge(self, member: str, asked: Fetch) -> tuple[Any, ...]:
        topics = {
            name: share_acknowledge.AcknowledgeTopic(topic_id=self._topics[name].id, partitions=[])
            for name, _ in asked.batches
        }
        for (name, partition), batches in asked.batches.items():
            topics[name].partitions.append(
                share_acknowledge.AcknowledgePartition(
                    partition_index=partition,
                    acknowledgement_batches=[
                        share_acknowledge.AcknowledgementBatch(
                            first_offset=first, last_offset=last, acknowledge_types=kinds
                        )
                        for first, last, kinds in batches
                    ],
                )
            )
        request = share_acknowledge.ShareAcknowledgeRequest(
            group_id=self._group,
            member_id=member,
            share_session_epoch=asked.epoch,
            is_renew_ack=asked.renews,
            topics=list(topics.values()),
        )
        answer = self._client(member).call(request, asked.version)
        parts = {
            (self._names[topic.topic_id], part.partition_index): ErrorCode(part.error_code).name
            for topic in answer.responses
            for part in topic.partitions
        }
        return ErrorCode(answer.error_code).name, dict(sorted(parts.items()))

    def described(self) -> tuple[Any, ...]:
        """The group and the start offsets of its partitions."""
        request = ShareGroupDescribeRequest(group_ids=[self._group])
        (group,) = self._admin.call(request, VERSION).groups
        members = sorted(
            (
                member.member_id,
                member.member_epoch,
                tuple(sorted(member.subscribed_topic_names)),
            )
            for member in group.members
        )
        sizes = sorted(
            sum(len(one.partitions) for one in member.assignment.topic_partitions)
            for member in group.members
        )
        if group.assignment_epoch < group.group_epoch:
            sizes = []  # those who stay have what they had: which of them had more depends on order
        view = (
            ErrorCode(group.error_code).name, group.group_state, group.group_epoch,
            group.assignment_epoch, members, sizes,
        )  # fmt: skip
        asked = DescribeShareGroupOffsetsRequestGroup(group_id=self._group, topics=None)
        (found,) = self._admin.call(DescribeShareGroupOffsetsRequest(groups=[asked]), 1).groups
        starts = {
            (topic.topic_name, part.partition_index): (part.start_offset, part.lag, part.error_code)
            for topic in found.topics
            for part in topic.partitions
        }
        return *view, found.error_code, dict(sorted(starts.items()))


class Member:
    """What a history knows of a member: the same on both sides, as long as they are alike."""

    def __init__(self) -> None:
        self.epoch = 0  # of its share session
        self.places: set[Place] = set()
        self.has: dict[Place, set[int]] = {}

    def lose(self) -> None:
        self.epoch = 0
        self.places = set()
        self.has = {}


class History:
    """Steps of a seed, each drawn from what the answers before were."""

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)
        self.members = {f"m{number}": Member() for number in range(MEMBERS)}

    def step(self, sides: tuple[Side, Side]) -> tuple[str, list[Any]]:
        """What was done, and the answers."""
        draw = self._draw
        name = draw.choice(list(self.members))
        member = self.members[name]
        kind = draw.random()
        if kind < 0.06:
            names = draw.choice((["shared-a"], ["shared-b"], list(TOPICS)))
            return self._beat(sides, name, 0, names)
        if kind < 0.14:
            return self._beat(sides, name, None, None)
        if kind < 0.18:
            names = draw.choice((["shared-a"], list(TOPICS)))
            return self._beat(sides, name, None, names)
        if kind < 0.20:
            return self._beat(sides, name, -1, None)
        if kind < 0.22:
            return self._beat(sides, name, draw.choice((77, -2, -3)), None)
        if kind < 0.25:
            text = f"{name} crashes"
            for side in sides:
                side.crash(name)
            member.lose()
            time.sleep(NOTICED_SECONDS)
            return text, []
        if kind < 0.62 or not member.epoch:
            return self._fetch(sides, name, member)
        return self._acknowledge(sides, name, member)

    def _beat(
        self, sides: tuple[Side, Side], name: str, epoch: int | None, names: list[str] | None
    ) -> tuple[str, list[Any]]:
        answers = [side.beat(name, epoch, names) for side in sides]
        # The sizes of assignments depend on the order of members.
        return f"beat of {name} {epoch} {names}", [answer[:2] for answer in answers]

    def _batches(self, member: Member, kinds: tuple[int, ...]) -> Batches:
        """Some of what it has, and now and then what it has not."""
        draw = self._draw
        found: Batches = {}
        for place, offsets in member.has.items():
            if not offsets or draw.random() < 0.25:
                continue
            some = sorted(draw.sample(sorted(offsets), draw.randint(1, len(offsets))))
            batches: list[tuple[int, int, list[int]]] = []
            for offset in some:
                kind = draw.choice(kinds)
                is_next = batches and batches[-1][1] == offset - 1
                if is_next and draw.random() < 0.7:
                    first, last, known = batches[-1]
                    if len(known) == 1 and known[0] == kind and draw.random() < 0.5:
                        batches[-1] = first, offset, known
                        continue
                    each = known if len(known) > 1 else known * (last - first + 1)
                    batches[-1] = first, offset, [*each, kind]
                else:
                    batches.append((offset, offset, [kind]))
            found[place] = batches
        if draw.random() < 0.12:
            first = draw.randint(0, LAST_OFFSET)
            last = min(first + draw.choice((0, 0, 3)), LAST_OFFSET)
            found[draw.choice(PLACES)] = [(first, last, [draw.choice(kinds)])]
        if draw.random() < 0.04:
            found[draw.choice(PLACES)] = draw.choice(UNFIT)
        return found

    def _epoch(self, member: Member) -> int:
        return member.epoch if self._draw.random() > 0.03 else self._draw.choice((0, 3, 99))

    def _fetch(self, sides: tuple[Side, Side], name: str, member: Member) -> tuple[str, list[Any]]:
        draw = self._draw
        epoch = self._epoch(member)
        renews = bool(epoch) and draw.random() < 0.05
        # No releases: whether the fetch finds those records depends on when they are stored.
        kinds = (RENEW, ACCEPT) if renews else (ACCEPT, ACCEPT, ACCEPT, REJECT, GAP)
        has_some = bool(epoch) and draw.random() < 0.5
        batches = self._batches(member, kinds) if has_some or draw.random() < 0.02 else {}
        if epoch:
            places = draw.sample(PLACES, draw.choice((0, 0, 1)))
            forgotten = draw.sample(PLACES, draw.choice((0, 0, 0, 1)))
        else:
            places, forgotten = draw.sample(PLACES, draw.choice((1, 1, 1, 2, 3))), []
        if draw.random() < 0.02:
            epoch = -1
        fetched = ({*places} if epoch == 0 else {*member.places, *places} - {*forgotten}) | {
            *batches
        }
        limit = draw.choice((1, 2, 5, 500)) if len(fetched) == 1 else 500
        asked = Fetch(
            epoch, places, forgotten, batches, limit, draw.choice((0, 0, 1)), renews,
            draw.choice((1, 2, 2)),
        )  # fmt: skip
        if asked.version == 1:
            asked = asked._replace(mode=0, renews=False)
        answers = [side.fetch(name, asked) for side in sides]
        error, parts = answers[0]
        self._sent(member, asked, error)
        if error == "NONE" and epoch >= 0:
            member.places = fetched
        for place, (_, refused, acquired) in parts.items():
            if place in asked.batches and refused == "NONE":
                self._settle(member, place, asked.batches[place])
            for first, last, _count in acquired:
                member.has.setdefault(place, set()).update(range(first, last + 1))
        for place, some in asked.batches.items():
            if place not in parts and error == "NONE":
                self._settle(member, place, some)
        return f"fetch of {name} {asked}", answers

    def _acknowledge(
        self, sides: tuple[Side, Side], name: str, member: Member
    ) -> tuple[str, list[Any]]:
        draw = self._draw
        renews = draw.random() < 0.1
        kinds = (RENEW, ACCEPT) if renews else (ACCEPT, ACCEPT, ACCEPT, RELEASE, REJECT, GAP)
        epoch = -1 if draw.random() < 0.06 else self._epoch(member)
        batches = self._batches(member, kinds)
        asked = Fetch(epoch, [], [], batches, renews=renews, version=draw.choice((1, 2, 2)))
        if asked.version == 1:
            asked = asked._replace(renews=False)
        answers = [side.acknowledge(name, asked) for side in sides]
        error, parts = answers[0]
        self._sent(member, asked, error)
        for place, some in batches.items():
            if parts.get(place) == "NONE":
                self._settle(member, place, some)
        return f"acknowledge of {name} {asked}", answers

    def _sent(self, member: Member, asked: Fetch, error: str) -> None:
        if error == "NONE" and asked.epoch < 0:
            member.lose()
            time.sleep(NOTICED_SECONDS)  # what is given back is stored after the answer
        elif error == "NONE" or asked.epoch == member.epoch:
            member.epoch = asked.epoch + 1 if error == "NONE" else member.epoch
        if error == "SHARE_SESSION_NOT_FOUND":
            member.lose()

    def _settle(self, member: Member, place: Place, batches: list[Any]) -> None:
        for first, last, kinds in batches:
            for offset in range(first, last + 1):
                kind = kinds[0] if len(kinds) == 1 else kinds[offset - first]
                if kind != RENEW:
                    member.has.get(place, set()).discard(offset)


def differences(seed: int, brokers: tuple[str, str], topics: Any) -> str:
    """The first difference of a seed; empty if there is none."""
    group = group_of(seed)
    sides = Side(brokers[0], group, topics[0]), Side(brokers[1], group, topics[1])
    history = History(seed)
    steps: list[str] = []
    try:
        for side in sides:
            side.settle("m0")
        for number in range(STEPS):
            text, answers = history.step(sides)
            steps.append(f"    {text} -> {answers[:1]}")
            views = [side.described() for side in sides]
            if (answers and answers[0] != answers[1]) or views[0] != views[1]:
                ours, theirs = answers or ("", "")
                before = "\n".join(steps)
                return (
                    f"seed {seed}, step {number}, {text}:\n{before}\n"
                    f"  ours   {ours} {views[0]}\n  theirs {theirs} {views[1]}"
                )
    finally:
        for side in sides:
            side.close()
    return ""


def group_of(seed: int) -> str:
    return f"shared-{seed}"


def _set_groups(client: WireClient, seeds: range) -> None:
    """All groups begin with the first record."""
    request = IncrementalAlterConfigsRequest(
        resources=[
            IncrementalAlterConfigsRequestAlterConfigsResource(
                resource_type=GROUP,
                resource_name=group_of(seed),
                configs=[
                    IncrementalAlterConfigsRequestAlterableConfig(
                        name="share.auto.offset.reset", config_operation=0, value="earliest"
                    )
                ],
            )
            for seed in seeds
        ]
    )
    assert not any(result.error_code for result in client.call(request).responses)

    def are_set() -> bool:
        result = described(client, group_of(seeds[-1]), "share.auto.offset.reset")
        return bool(result.configs and result.configs[0].value == "earliest")

    until(are_set)


@contextmanager
def both(seeds: range) -> Iterator[tuple[tuple[str, str], list[dict[str, Topic]]]]:
    """A broker of ours and Kafka, and the topics of each, with records."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        ours = stack.enter_context(running_broker(directory / "ours", CONFIG))
        theirs = stack.enter_context(running_kafka_4(directory / "theirs", CONFIG))
        known = []
        for broker in (ours, theirs):
            with WireClient(broker.bootstrap) as client:
                if broker is ours:
                    finalize(client, {Feature.GROUP: 1, Feature.SHARE: 1})
                topics = {name: client.create_topic(count, name) for name, count in TOPICS.items()}
                for topic, count in TOPICS.items():
                    for partition in range(count):
                        _fill(client, topic, partition)
                client.coordinator("shared")
                _set_groups(client, seeds)
                known.append(topics)
        yield (ours.bootstrap, theirs.bootstrap), known


def _fill(client: WireClient, topic: str, partition: int) -> None:
    number, now_ms = 0, int(time.time() * 1000)
    for count in BATCHES:
        records = [SimpleRecord(now_ms, None, b"%d" % (number + each)) for each in range(count)]
        client.produce(topic, bytes(build_batch(records)), partition=partition)
        number += count


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    clean_up_when_terminated()
    failed = 0
    seeds = range(options.first, options.first + options.seeds)
    with both(seeds) as (brokers, topics):
        for seed in seeds:
            found = differences(seed, brokers, topics)
            failed += bool(found)
            if found:
                print(found, flush=True)
    print(f"{options.seeds} histories, {failed} with a difference")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
