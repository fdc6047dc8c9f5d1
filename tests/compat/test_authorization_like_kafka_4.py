"""Random ACLs and random requests that Kafka 3.9 does not have: Apache Kafka 4.3.1 answers alike.

Each seed is one set of ACLs and some requests under it, of the new APIs and of the new versions of
old ones, with everything finalized here. More of them by hand:
`PYBROKER_ACL_SEEDS=1000:2000 pytest tests/compat/test_authorization_like_kafka_4.py`.
Left out:

- telemetry, which Apache Kafka advertises only with a plugin that receives it, and for which it
  asks no permission;
- that KRaft says UNKNOWN_TOPIC_OR_PARTITION where the reassignment of a missing topic is cancelled,
  and we NO_REASSIGNMENT_IN_PROGRESS, as Kafka with ZooKeeper;
- that it says UNKNOWN_TOPIC_OR_PARTITION of a topic that it has begun to create;
- what it answers to a ShareFetch or ShareAcknowledge of a topic id that nobody has: under some ACLs
  its authorizer fails at the topic without a name, and the answer is UNKNOWN_SERVER_ERROR.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.apis.consumer_group_describe import ConsumerGroupDescribeRequest
from pybroker_kafka.protocol.apis.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from pybroker_kafka.protocol.apis.share_group_describe import ShareGroupDescribeRequest
from pybroker_kafka.protocol.apis.share_group_heartbeat import ShareGroupHeartbeatRequest
from pybroker_kafka.protocol.features import RELEASES
from tests.support import acl_judges
from tests.support.acl_judges import (
    BEING_CREATED,
    CLIENTS,
    Acl,
    Judged,
    count_codes,
    random_acls,
    told,
)
from tests.support.apache_kafka_4 import running_kafka_4
from tests.support.patience import until
from tests.support.processes import BrokerProcess, free_port, zookeeper_process
from tests.support.random_requests import MISSING, OF_NOBODY, TOPICS, Drawn, built
from tests.support.random_requests_4 import (
    CONSUMER_GROUPS,
    EMPTY_SHARE_GROUP,
    GROUPS_OF_EACH_TYPE,
    REBALANCE_MS,
    SHARE_GROUPS,
    SHARE_MEMBERS,
    STREAMS_GROUPS,
    draw_new,
    internal_topics,
    new_versions,
    share_fetch,
)
from tests.support.wire import WireClient
from tests.wire.feature_steps import finalize

pytestmark = pytest.mark.nightly

SEEDS = os.environ.get("PYBROKER_ACL_SEEDS", "0:20")
REQUESTS = 20  # with one set of ACLs
WHILE_THE_TEST_RUNS_MS = "86400000"
TYPES = ("consumer", "share", "streams")
CONFIG = {
    **acl_judges.CONFIG,
    **{f"group.{of}.max.session.timeout.ms": WHILE_THE_TEST_RUNS_MS for of in TYPES},
    **{f"group.{of}.session.timeout.ms": WHILE_THE_TEST_RUNS_MS for of in TYPES},
    **{f"group.{of}.assignment.interval.ms": "0" for of in TYPES},
    "group.streams.initial.rebalance.delay.ms": "0",
    "share.coordinator.state.topic.num.partitions": "2",
}
OURS = {
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,USERS:SASL_PLAINTEXT",
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
}
THEIRS = {
    "listener.security.protocol.map":
        "PLAINTEXT:PLAINTEXT,USERS:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
}  # fmt: skip
SUBSCRIPTIONS = (["t-a", "p-b"], ["t-a"])  # of the members of the groups of a type
FINAL_EPOCH = -1
TELEMETRY = {ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY}
MISSING_INTERNAL_TOPICS = 3
GROUP_DENIED, TOPIC_DENIED, CLUSTER_DENIED = 30, 29, 31
UNKNOWN_SERVER_ERROR, UNKNOWN_TOPIC = -1, 3


class JudgedOfKafka4(Judged):
    """With a group of each type."""

    def prepare(self) -> None:
        super().prepare()
        for group, names in zip(CONSUMER_GROUPS, SUBSCRIPTIONS, strict=True):
            self._join_consumers(group, names)
        for group, names in zip(SHARE_GROUPS, SUBSCRIPTIONS, strict=True):
            self._join_queue(group, names)
        for group, names in zip(STREAMS_GROUPS, SUBSCRIPTIONS, strict=True):
            self._join_streams(group, names)
        self._join_queue(EMPTY_SHARE_GROUP, list(SUBSCRIPTIONS[0]))
        leave = ShareGroupHeartbeatRequest(
            group_id=EMPTY_SHARE_GROUP, member_id=SHARE_MEMBERS[0], member_epoch=FINAL_EPOCH
        )
        assert self.admin.call(leave, 1).error_code == 0
        for group in SHARE_GROUPS:
            until(lambda group=group: self._is_read(group))  # type: ignore[misc]
        self.learn_ids()

    def _join_consumers(self, group: str, names: list[str]) -> None:
        self.admin.coordinator(group)
        request = ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=SHARE_MEMBERS[0],
            subscribed_topic_names=names,
            rebalance_timeout_ms=REBALANCE_MS,
            topic_partitions=[],
        )
        answer = self.admin.call(request, 1)
        assert answer.error_code == 0, answer

        def has_partitions() -> bool:
            describe = ConsumerGroupDescribeRequest(group_ids=[group])
            (found,) = self.admin.call(describe, 1).groups
            return len(found.members[0].assignment.topic_partitions) == len(names)

        until(has_partitions)

    def _join_queue(self, group: str, names: list[str]) -> None:
        """Heartbeats until the member has partitions: they are initialized first."""
        self.admin.coordinator(group)
        epoch = 0

        def has_partitions() -> bool:
            nonlocal epoch
            request = ShareGroupHeartbeatRequest(
                group_id=group,
                member_id=SHARE_MEMBERS[0],
                member_epoch=epoch,
                subscribed_topic_names=names,
            )
            answer = self.admin.call(request, 1)
            assert answer.error_code == 0, answer
            epoch = answer.member_epoch
            (found,) = self.admin.call(ShareGroupDescribeRequest(group_ids=[group]), 1).groups
            return len(found.members[0].assignment.topic_partitions) == len(names)

        until(has_partitions)

    def _join_streams(self, group: str, names: list[str]) -> None:
        self.admin.coordinator(group)
        subtopology = {"subtopology_id": "0", "source_topics": names}
        body = {
            "group_id": group, "member_id": SHARE_MEMBERS[0], "member_epoch": 0,
            "rebalance_timeout_ms": REBALANCE_MS, "process_id": "process",
            "topology": {"epoch": 0, "subtopologies": [subtopology]},
            "active_tasks": [], "standby_tasks": [], "warmup_tasks": [], "client_tags": [],
        }  # fmt: skip
        request = built(Drawn(ApiKey.STREAMS_GROUP_HEARTBEAT, 0, body), self.ids)
        answer = self.admin.call(request, 0)
        assert answer.error_code == 0, answer

    def _is_read(self, group: str) -> bool:
        """Whether the group's state of every partition is there."""
        body = share_fetch(random.Random(0), 2) | {
            "group_id": group,
            "topics": [
                {"topic_id": self.ids[name], "partitions": [{"partition_index": 0}]}
                for name in TOPICS
            ],
        }
        answer = self.admin.call(built(Drawn(ApiKey.SHARE_FETCH, 2, body), self.ids), 2)
        return answer.error_code == 0 and all(
            partition.error_code == 0
            for topic in answer.responses
            for partition in topic.partitions
        )

    def allow(self, acls: list[Acl]) -> None:
        """A broker of KRaft hears of ACLs after the controller has answered."""
        super().allow(acls)
        until(lambda: self.allowed() == set(acls))

    def end(self, drawn: Drawn, answer: Any) -> None:
        if drawn.key is ApiKey.METADATA:
            for topic in answer.topics:
                if topic.error_code == UNKNOWN_TOPIC and "-auto-" in topic.name:
                    topic.error_code = BEING_CREATED
        super().end(drawn, answer)
        if drawn.key is ApiKey.STREAMS_GROUP_HEARTBEAT and not answer.error_code:
            missing = [
                one for one in answer.status or [] if one.status_code == MISSING_INTERNAL_TOPICS
            ]
            if missing and not any("Unauthorized" in one.status_detail for one in missing):
                self.wait_for(internal_topics(drawn))


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Judged]]:
    """pybroker with its ZooKeeper, and Apache Kafka."""
    directory: Path = tmp_path_factory.mktemp("judged")
    port = free_port()
    ours, theirs = (f"127.0.0.1:{free_port()}" for _ in range(2))
    with ExitStack() as stack:
        connect = stack.enter_context(zookeeper_process(directory))
        listeners = f"PLAINTEXT://127.0.0.1:{port},USERS://{ours}"
        config = {**CONFIG, **OURS, "listeners": listeners}
        process = BrokerProcess(directory / "ours", connect, config, port=port)
        stack.callback(process.kill)
        process.start()
        with WireClient(process.bootstrap) as client:
            finalize(client, dict(RELEASES["4.3"]))
        kafka = stack.enter_context(
            running_kafka_4(directory / "theirs", CONFIG | THEIRS, [f"USERS://{theirs}"])
        )
        brokers = [JudgedOfKafka4(process, ours), JudgedOfKafka4(kafka, theirs)]
        for broker in brokers:
            broker.prepare()
        yield list(brokers)


def test_the_same_answers(judged: list[Judged]) -> None:
    first, last = map(int, SEEDS.split(":"))
    codes: Counter[int] = Counter()
    keys: Counter[str] = Counter()
    differences = []
    versions = common_versions(judged)
    for seed in range(first, last):
        choose = random.Random(seed)
        acls = random_acls(choose, GROUPS_OF_EACH_TYPE)
        for broker in judged:
            broker.allow(acls)
        for number in range(REQUESTS):
            drawn = draw_new(choose, versions)
            who = choose.choice(CLIENTS)
            answers = [broker.ask(who, drawn) for broker in judged]
            keys[drawn.key.name] += 1
            count_codes(answers[1], codes)
            if answers[0] != answers[1] and not is_their_failure(drawn, answers):
                asking = f"seed {seed} #{number}, {who}: {drawn.key.name} v{drawn.version}"
                differences.append(told(f"{asking} {drawn.body}", who, acls, answers))
    print(f"{keys.total()} requests, codes {sorted(codes.items())}, {len(differences)} differences")
    assert not differences, "\n\n".join([f"{len(differences)}", *differences[:40]])
    assert {0, TOPIC_DENIED, GROUP_DENIED, CLUSTER_DENIED} <= codes.keys()


def test_share_sessions_are_asked_for_at_each_request(judged: list[Judged]) -> None:
    first, last = map(int, SEEDS.split(":"))
    first_record = {"first_offset": 0, "last_offset": 0, "acknowledge_types": [1]}
    accepted = [{"partition_index": 0, "acknowledgement_batches": [first_record]}]
    for seed in range(first, last, 5):
        choose = random.Random(seed)
        who = choose.choice(CLIENTS)
        body = share_fetch(choose, 2)
        for epoch in (0, 1, 2, 3, FINAL_EPOCH):
            acls = random_acls(choose, GROUPS_OF_EACH_TYPE)
            asked: dict[str, Any] = body | {"share_session_epoch": epoch}
            acknowledges = epoch == FINAL_EPOCH or (epoch and choose.random() < 0.5)
            key = ApiKey.SHARE_ACKNOWLEDGE if acknowledges else ApiKey.SHARE_FETCH
            if acknowledges:
                asked["topics"] = [one | {"partitions": accepted} for one in body["topics"]]
            elif epoch:
                asked["topics"] = []
            said = []
            for broker in judged:
                broker.allow(acls)
                said.append(broker.ask(who, Drawn(key, 2, asked)))
            if is_their_failure(Drawn(key, 2, body), said):
                break
            assert said[0] == said[1], told(
                f"seed {seed}, {epoch} {key.name} {asked}", who, acls, said
            )


def is_their_failure(drawn: Drawn, said: list[Any]) -> bool:
    """Whether the last answer is the failure of Apache Kafka at a topic id that nobody has: asked
    for, or of a session, in which a topic may have been deleted since."""
    if drawn.key not in (ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE) or any(
        isinstance(one, str) for one in said
    ):
        return False
    asked = {topic["topic_id"] for topic in drawn.body["topics"]}
    known = [topic["topic_id"] for topic in said[0].get("responses", ())]
    is_missing = not asked.isdisjoint(MISSING) or OF_NOBODY in known
    return is_missing and said[-1]["error_code"] == UNKNOWN_SERVER_ERROR


def common_versions(brokers: list[Judged]) -> dict[ApiKey, range]:
    """New versions, all of which Apache Kafka serves as well."""
    ours, theirs = (broker.admin for broker in brokers)
    versions = {key: one for key, one in new_versions().items() if key not in TELEMETRY}
    for key, new in versions.items():
        assert new[-1] == ours.versions(key)[-1], key
        assert new[-1] in theirs.versions(key), key
    assert not TELEMETRY & set(theirs.advertised)
    return versions
