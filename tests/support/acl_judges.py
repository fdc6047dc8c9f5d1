"""Brokers that are compared by what they allow: the same random ACLs and requests for each.

Job: `Judged` is one broker with a world of topics, groups and transactions, and a connection of
each client, over which it answers drawn requests; `random_acls` are the ACLs of one round; `told`
is a difference between two answers, with the ACLs that are about the client.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

from pybroker_kafka.protocol.acls import AclOperation, PatternType, ResourceType
from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.apis.create_acls import AclCreation, CreateAclsRequest
from pybroker_kafka.protocol.apis.create_topics import CreatableTopic, CreateTopicsRequest
from pybroker_kafka.protocol.apis.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from pybroker_kafka.protocol.apis.describe_acls import DescribeAclsRequest
from pybroker_kafka.protocol.apis.metadata import MetadataRequest, MetadataRequestTopic
from pybroker_kafka.protocol.apis.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pybroker_kafka.protocol.errors import ErrorCode
from tests.support.apache_kafka_4 import ApacheKafka4Process
from tests.support.patience import until
from tests.support.processes import BrokerProcess
from tests.support.random_requests import (
    DELETABLE,
    GROUPS,
    TOPICS,
    TRANSACTION_TIMEOUT_MS,
    TRANSACTIONS,
    USERS,
    Drawn,
    built,
    comparable,
)
from tests.support.sasl_client import log_in
from tests.support.wire import TRANSACTION, WireClient, batch
from tests.wire.transaction_steps import Producer, add, again, init

HOSTS = ("127.0.0.1", "127.0.0.2")
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SECRETS = " ".join(f'user_{name}="{name}-secret"' for name in USERS)
# Of every broker that is judged: a listener for the administrator, and one for clients that log in.
CONFIG = {
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.users.plain.sasl.jaas.config": f"{MODULE} {SECRETS};",
    "super.users": "User:ANONYMOUS",  # the administrator, and the brokers
    "transaction.max.timeout.ms": str(TRANSACTION_TIMEOUT_MS),
    "transaction.state.log.num.partitions": "2",
    "offsets.topic.num.partitions": "2",
    "num.partitions": "2",
}
ANY, DENY, ALLOW = 1, 2, 3
SILENT_SECONDS, WAIT_SECONDS = 8.0, 120.0
MAX_TOLD = 1500  # of a request or an answer
BEING_CREATED = 5  # LEADER_NOT_AVAILABLE


class Client(NamedTuple):
    user: str
    host: str


CLIENTS = tuple(Client(user, host) for user in USERS for host in HOSTS)

Acl = tuple[int, str, int, str, str, int, int]


class Judged:
    """One broker with its world, and a connection of each client."""

    def __init__(self, process: BrokerProcess | ApacheKafka4Process, users: str) -> None:
        self.users = users
        self.admin = WireClient(process.bootstrap)
        self.clients = {who: self.connected(who) for who in CLIENTS}
        self.ids: dict[str, bytes] = {}

    def connected(self, who: Client) -> WireClient:
        client = WireClient(self.users, source=who.host)
        log_in(client, "PLAIN", who.user, f"{who.user}-secret")
        return client

    def is_appended(self, topic: str, record: bytes) -> bool:
        return bool(self.admin.produce(topic, record).error_code == ErrorCode.NONE)

    def prepare(self) -> None:
        admin = self.admin
        again(lambda: admin.call(MetadataRequest(topics=[])), lambda a: 0 if a.brokers else 15)
        for name in (*TOPICS, DELETABLE):
            admin.create_topic(partitions=2, name=name)
        record = batch(b"record")
        for name in TOPICS:  # a broker of KRaft hears of a topic after its creation is answered
            until(partial(self.is_appended, name, record))
        for group in GROUPS:
            admin.coordinator(group)
            offset = OffsetCommitRequestPartition(committed_offset=1)
            request = OffsetCommitRequest(
                group_id=group,
                generation_id_or_member_epoch=-1,
                topics=[OffsetCommitRequestTopic(name=t, partitions=[offset]) for t in TOPICS],
            )
            again(
                lambda request=request: admin.call(request, 7),  # type: ignore[misc]
                lambda answer: answer.topics[0].partitions[0].error_code,
            )
        for name in TRANSACTIONS:
            admin.coordinator(name, TRANSACTION)
            begin = partial(init, admin, name, 4, timeout_ms=TRANSACTION_TIMEOUT_MS)
            answer = again(begin)
            if name == TRANSACTIONS[0]:
                producer = Producer(name, answer.producer_id, answer.producer_epoch)
                add(admin, producer, ("t-a", 0), ("p-b", 1), version=3)
        self.learn_ids()

    def learn_ids(self) -> None:
        answer = self.admin.call(MetadataRequest(topics=None), 12)
        self.ids = {topic.name: bytes(topic.topic_id) for topic in answer.topics}

    def allow(self, acls: list[Acl]) -> None:
        """These, and nothing else."""
        one = DeleteAclsFilter(
            resource_type_filter=ANY, resource_name_filter=None, pattern_type_filter=ANY,
            principal_filter=None, host_filter=None, operation=ANY, permission_type=ANY,
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

    def allowed(self) -> set[Acl]:
        """The ACLs that the broker knows."""
        everything = DescribeAclsRequest(
            resource_type_filter=ANY, resource_name_filter=None, pattern_type_filter=ANY,
            principal_filter=None, host_filter=None, operation=ANY, permission_type=ANY,
        )  # fmt: skip
        return {
            (
                *(one.resource_type, one.resource_name, one.pattern_type),
                *(acl.principal, acl.host, acl.operation, acl.permission_type),
            )
            for one in self.admin.call(everything, 2).resources
            for acl in one.acls
        }

    def ask(self, who: Client, drawn: Drawn) -> Any:
        try:
            with self.clients[who].timeout(SILENT_SECONDS):
                answer = self.clients[who].call(built(drawn, self.ids), drawn.version)
        except (ConnectionError, TimeoutError) as error:
            self.clients[who].close()
            self.clients[who] = self.connected(who)
            return type(error).__name__
        self.end(drawn, answer)
        return comparable(answer, self.names)

    def end(self, drawn: Drawn, answer: Any) -> None:
        """Wait for what the request began, and take out of its answer what cannot be compared."""
        if drawn.key is ApiKey.DELETE_TOPICS and any(r.error_code == 0 for r in answer.responses):
            self._restore()
        if drawn.key is ApiKey.METADATA:
            self.wait_for(t.name for t in answer.topics if t.error_code == BEING_CREATED)
        if drawn.key is ApiKey.DESCRIBE_LOG_DIRS:
            answer.results = answer.results[:0]

    @property
    def names(self) -> dict[bytes, str]:
        return {topic_id: name for name, topic_id in self.ids.items()}

    def _restore(self) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        topic = CreatableTopic(name=DELETABLE, num_partitions=2, replication_factor=1)
        request = CreateTopicsRequest(topics=[topic], timeout_ms=15_000)
        while self.admin.call(request).topics[0].error_code:
            assert time.monotonic() < deadline, "it cannot be created again"
            time.sleep(0.05)
        self.learn_ids()

    def wait_for(self, names: Iterable[str]) -> None:
        """Until these have leaders."""
        asked = [MetadataRequestTopic(name=name) for name in names]
        if asked:
            until(
                lambda: all(
                    topic.partitions and all(p.error_code == 0 for p in topic.partitions)
                    for topic in self.admin.call(MetadataRequest(topics=asked), 4).topics
                ),
                names,
                seconds=WAIT_SECONDS,
            )
            self.learn_ids()


def random_acls(choose: random.Random, groups: Sequence[str] = GROUPS) -> list[Acl]:
    names = {
        ResourceType.TOPIC: [*TOPICS, "t-none", "t-new", DELETABLE, "__consumer_offsets"],
        ResourceType.GROUP: [*groups, "g-none", "g-less"],
        ResourceType.TRANSACTIONAL_ID: [*TRANSACTIONS, "x-none"],
        ResourceType.USER: [f"User:{name}" for name in (*USERS, "carol")],
        ResourceType.DELEGATION_TOKEN: ["*"],
    }
    prefixes = {
        ResourceType.TOPIC: ["t", "t-", "p-", "d", "__"],
        ResourceType.GROUP: ["g", "g-", "h-"],
        ResourceType.TRANSACTIONAL_ID: ["x-", "x-n", "y"],
        ResourceType.USER: ["User:"],
        ResourceType.DELEGATION_TOKEN: ["*"],
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
        operation = choose.choice([AclOperation.ALL, *(o for o in AclOperation if o > 2)])
        permission = choose.choice([ALLOW, ALLOW, ALLOW, DENY])
        host = choose.choice([*HOSTS, "*"])
        principal = choose.choice([f"User:{name}" for name in (*USERS, *USERS, "*", "carol")])
        acls.append((kind, name, pattern, principal, host, operation, permission))
    return acls


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


def apart(one: Any, other: Any) -> tuple[Any, Any]:
    """What two answers do not share."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        pairs = {name: apart(one[name], other[name]) for name in one if one[name] != other[name]}
        first, second = ({name: pair[side] for name, pair in pairs.items()} for side in (0, 1))
        return first, second
    if isinstance(one, list) and isinstance(other, list):
        left, right = list(one), list(other)
        for element in one:
            if element in right:
                left.remove(element)
                right.remove(element)
        if len(left) == len(right) == 1:
            return apart(left[0], right[0])
        return left, right
    return one, other


def told(asked: str, who: Client, acls: list[Acl], answers: list[Any]) -> str:
    ours, theirs = apart(*answers)
    lines = [asked[:MAX_TOLD], f"   ours   {ours}"[:MAX_TOLD], f"   theirs {theirs}"[:MAX_TOLD]]
    lines += [
        f"   acl {ResourceType(kind).name} {name} {PatternType(pattern).name} {principal} {host} "
        f"{AclOperation(operation).name} {'ALLOW' if permission == ALLOW else 'DENY'}"
        for kind, name, pattern, principal, host, operation, permission in acls
        if host in (who.host, "*") and principal in (f"User:{who.user}", "User:*")
    ]
    return "\n".join(lines)
