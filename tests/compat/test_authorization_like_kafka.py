"""Random ACLs and random requests of random clients: Apache Kafka 3.9.1 and pybroker answer alike.

Each seed is one set of ACLs and some requests under it, over all versions of the APIs. More of them
by hand: `PYBROKER_ACL_SEEDS=1000:2000 pytest tests/compat/test_authorization_like_kafka.py`.
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from pybroker.broker.security.authorizer import AclOperation, PatternType, ResourceType
from pybroker.protocol.api import ApiKey
from pybroker.protocol.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pybroker.protocol.messages.metadata import MetadataRequest
from pybroker.protocol.messages.security import (
    AclCreation,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
)
from tests.support.apache_kafka import ApacheKafkaProcess
from tests.support.processes import BrokerProcess, zookeeper_process
from tests.support.random_requests import (
    DELETABLE,
    GROUPS,
    TOPICS,
    TRANSACTIONS,
    Drawn,
    built,
    comparable,
    draw,
)
from tests.support.wire import TRANSACTION, WireClient
from tests.wire.transaction_steps import Producer, add, again, init

SEEDS = os.environ.get("PYBROKER_ACL_SEEDS", "0:15")
REQUESTS = 20  # with one set of ACLs
ADMIN_HOST = "127.0.0.1"  # of the brokers themselves, too
HOSTS = ("127.0.0.2", "127.0.0.3")
CONFIG = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "transaction.state.log.num.partitions": "2",
    "offsets.topic.num.partitions": "2",
    "num.partitions": "2",
    # Created topics would make later answers depend on how fast they are.
    "auto.create.topics.enable": "false",
}
ANY, DENY, ALLOW = 1, 2, 3
SILENT_SECONDS = 8.0

Acl = tuple[int, str, int, str, str, int, int]


class Judged:
    """One broker with its world, and connections from several addresses."""

    def __init__(self, process: BrokerProcess) -> None:
        self.bootstrap = process.bootstrap
        self.clients = {host: client_from(process, host) for host in (ADMIN_HOST, *HOSTS)}
        self.admin = self.clients[ADMIN_HOST]
        self.ids: dict[str, bytes] = {}

    def prepare(self) -> None:
        admin = self.admin
        again(lambda: admin.call(MetadataRequest(topics=[])), lambda a: 0 if a.brokers else 15)
        for name in (*TOPICS, DELETABLE):
            admin.create_topic(partitions=2, name=name)
        for name in TOPICS:
            admin.append(name, b"record")
        for group in GROUPS:
            admin.coordinator(group)
            offset = OffsetCommitRequestPartition(committed_offset=1)
            request = OffsetCommitRequest(
                group_id=group,
                generation_id_or_member_epoch=-1,
                topics=[OffsetCommitRequestTopic(name=t, partitions=[offset]) for t in TOPICS],
            )
            admin.call(request, 7)
        for name in TRANSACTIONS:
            admin.coordinator(name, TRANSACTION)
            answer = again(lambda name=name: init(admin, name, 4))  # type: ignore[misc]
            if name == TRANSACTIONS[0]:
                producer = Producer(name, answer.producer_id, answer.producer_epoch)
                add(admin, producer, ("t-a", 0), ("p-b", 1), version=3)
        self.learn_ids()

    def learn_ids(self) -> None:
        answer = self.admin.call(MetadataRequest(topics=None), 12)
        self.ids = {topic.name: bytes(topic.topic_id) for topic in answer.topics}

    def allow(self, acls: list[Acl]) -> None:
        """These, and nothing else but what the administrator may do."""
        for host in ("*", *HOSTS):
            one = DeleteAclsFilter(
                resource_type_filter=ANY, pattern_type_filter=ANY, operation=ANY,
                resource_name_filter=None, principal_filter=None, host_filter=host,
                permission_type=ANY,
            )  # fmt: skip
            answer = self.admin.call(DeleteAclsRequest(filters=[one]), 2)
            assert not answer.filter_results[0].error_code, answer
        if not acls:
            return
        creations = [
            AclCreation(
                resource_type=kind, resource_name=name, resource_pattern_type=pattern,
                principal=principal, host=host, operation=operation, permission_type=permission,
            )
            for kind, name, pattern, principal, host, operation, permission in acls
        ]  # fmt: skip
        answer = self.admin.call(CreateAclsRequest(creations=creations), 2)
        assert not any(result.error_code for result in answer.results), answer

    def ask(self, host: str, drawn: Drawn) -> Any:
        try:
            with self.clients[host].timeout(SILENT_SECONDS):
                answer = self.clients[host].call(built(drawn, self.ids), drawn.version)
        except (ConnectionError, TimeoutError) as error:
            self.clients[host].close()
            self.clients[host] = client_from(self, host)
            return type(error).__name__
        if drawn.key is ApiKey.DELETE_TOPICS:
            self._restore(answer)
        if drawn.key is ApiKey.DESCRIBE_LOG_DIRS:
            answer.results = answer.results[:0]
        names = {topic_id: name for name, topic_id in self.ids.items()}
        return comparable(answer, names)

    def _restore(self, answer: Any) -> None:
        if any(r.error_code == 0 for r in answer.responses):
            self.admin.create_topic(partitions=2, name=DELETABLE)

    def refresh(self, drawn: Drawn) -> None:
        if drawn.key is ApiKey.DELETE_TOPICS:
            self.learn_ids()


def client_from(process: Any, host: str) -> WireClient:
    """A connection from this address of the loopback interface."""
    return WireClient(process.bootstrap, source=host)


def let_the_administrator_in(connect: str) -> None:
    """Nobody may give the first permission: it is written to ZooKeeper."""
    acl = {
        "principal": "User:ANONYMOUS", "permissionType": "Allow", "operation": "All",
        "host": ADMIN_HOST,
    }  # fmt: skip
    payload = json.dumps({"version": 1, "acls": [acl]}).encode()
    zookeeper = KazooClient(connect)
    zookeeper.start(timeout=20)
    for kind in ("Topic", "Group", "TransactionalId"):
        zookeeper.create(f"/kafka-acl/{kind}/*", payload, makepath=True)
    zookeeper.create("/kafka-acl/Cluster/kafka-cluster", payload, makepath=True)
    zookeeper.stop()
    zookeeper.close()


def random_acls(choose: random.Random) -> list[Acl]:
    names = {
        ResourceType.TOPIC: [*TOPICS, "t-none", "t-new", DELETABLE, "__consumer_offsets"],
        ResourceType.GROUP: [*GROUPS, "g-none"],
        ResourceType.TRANSACTIONAL_ID: [*TRANSACTIONS, "x-none"],
    }
    prefixes = {
        ResourceType.TOPIC: ["t", "t-", "p-", "d", "__"],
        ResourceType.GROUP: ["g", "g-", "h-"],
        ResourceType.TRANSACTIONAL_ID: ["x-", "x-n", "y"],
    }
    acls: list[Acl] = []
    for _ in range(choose.choice([0, 3, 6, 12, 20])):
        kind = choose.choice([*names, ResourceType.TOPIC, ResourceType.CLUSTER])
        pattern = PatternType.LITERAL
        if kind is ResourceType.CLUSTER:
            name = "kafka-cluster"
        else:
            form = choose.random()
            if form < 0.25:
                name = "*"
            elif form < 0.55:
                name, pattern = choose.choice(prefixes[kind]), PatternType.PREFIXED
            else:
                name = choose.choice(names[kind])
        operation = choose.choice([AclOperation.ALL, *(o for o in AclOperation if 3 <= o <= 12)])
        permission = choose.choice([ALLOW, ALLOW, ALLOW, DENY])
        # What is denied to all hosts would be denied to the administrator.
        host = choose.choice([*HOSTS, *([] if permission == DENY else ["*"])])
        principal = choose.choice(["User:ANONYMOUS"] * 6 + ["User:*", "User:other"])
        acls.append((kind, name, pattern, principal, host, operation, permission))
    return acls


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Judged]]:
    """pybroker and Apache Kafka, each with its ZooKeeper."""
    directory: Path = tmp_path_factory.mktemp("judged")
    with (
        zookeeper_process(directory / "ours") as ours,
        zookeeper_process(directory / "theirs") as theirs,
    ):
        processes = [
            BrokerProcess(directory / "pybroker", ours, CONFIG),
            ApacheKafkaProcess(directory / "kafka", theirs, CONFIG),
        ]
        try:
            for process, connect in zip(processes, (ours, theirs), strict=True):
                let_the_administrator_in(connect)
                process.start()
            brokers = [Judged(process) for process in processes]
            for broker in brokers:
                broker.prepare()
            yield brokers
        finally:
            for process in processes:
                process.kill()


def test_the_same_answers(judged: list[Judged]) -> None:
    ours, theirs = judged
    first, last = map(int, SEEDS.split(":"))
    codes: Counter[int] = Counter()
    differences = []
    asked = 0
    versions = common_versions(judged)
    for seed in range(first, last):
        choose = random.Random(seed)
        acls = random_acls(choose)
        for broker in judged:
            broker.allow(acls)
        for number in range(REQUESTS):
            drawn = draw(choose, versions)
            host = choose.choice(HOSTS)
            answers = [broker.ask(host, drawn) for broker in judged]
            for broker in judged:
                broker.refresh(drawn)
            asked += 1
            count_codes(answers[1], codes)
            if answers[0] != answers[1]:
                differences.append(told(seed, number, host, acls, drawn, answers))
    print(f"{asked} requests, codes {sorted(codes.items())}, {len(differences)} differences")
    assert not differences, "\n\n".join([f"{len(differences)} of {asked}", *differences[:40]])
    assert {0, 29, 30, 31, 53} <= codes.keys()
    assert ours.clients.keys() == theirs.clients.keys()


def common_versions(brokers: list[Judged]) -> dict[ApiKey, range]:
    """What is served here, which the other one serves as well."""
    ours, theirs = (broker.admin for broker in brokers)
    served = {ApiKey(key): theirs.versions(key) for key in ours.advertised}
    assert served == ours.advertised
    return served


def count_codes(said: Any, codes: Counter[int]) -> None:
    if isinstance(said, list):
        for one in said:
            count_codes(one, codes)
    elif isinstance(said, dict):
        for name, value in said.items():
            if name in ("error_code", "partition_error_code"):
                codes[value] += 1
            else:
                count_codes(value, codes)


def told(
    seed: int, number: int, host: str, acls: list[Acl], drawn: Drawn, answers: list[Any]
) -> str:
    lines = [f"seed {seed} #{number} from {host}: {drawn.key.name} v{drawn.version} {drawn.body}"]
    lines += [f"   ours   {answers[0]}", f"   theirs {answers[1]}"]
    relevant = [acl for acl in acls if acl[4] in (host, "*")]
    lines += [
        f"   acl {ResourceType(a[0]).name} {a[1]} {PatternType(a[2]).name} {a[3]} {a[4]} "
        f"{AclOperation(a[5]).name} {'ALLOW' if a[6] == ALLOW else 'DENY'}"
        for a in relevant
    ]
    return "\n".join(lines)
