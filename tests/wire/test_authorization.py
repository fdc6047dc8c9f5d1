"""What clients see of ACLs: hidden topics, changes on open connections, and the log for people."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pybroker_kafka.protocol.acls import AclOperation, AclPermission, ResourceType
from pybroker_kafka.protocol.apis.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from pybroker_kafka.protocol.apis.create_acls import AclCreation, CreateAclsRequest
from pybroker_kafka.protocol.apis.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from pybroker_kafka.protocol.apis.metadata import MetadataRequest
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.uuids import ZERO_UUID
from tests.support.patience import until
from tests.support.processes import BrokerProcess, free_port, zookeeper_process
from tests.support.sasl_client import log_in
from tests.support.wire import Topic, WireClient, batch, fetch_request
from tests.wire.feature_steps import finalize
from tests.wire.transaction_steps import again

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
CONFIG = {
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,USERS:SASL_PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.users.plain.sasl.jaas.config": f'{MODULE} user_alice="secret";',
    "super.users": "User:ANONYMOUS",
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
}
FAILED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
ANY, LITERAL = 1, 3


class Guarded:
    """A broker, its administrator, and alice, who may do what she is allowed."""

    def __init__(self, broker: BrokerProcess, users: str) -> None:
        self.broker = broker
        self.admin = WireClient(broker.bootstrap)
        self._users = users
        self.alice = self.another_of_alice()

    def another_of_alice(self) -> WireClient:
        client = WireClient(self._users)
        assert log_in(client, "PLAIN", "alice", "secret").error_code == 0
        return client

    def allow(
        self, operation: AclOperation, name: str, kind: ResourceType = ResourceType.TOPIC
    ) -> None:
        creation = AclCreation(
            resource_type=kind, resource_name=name, resource_pattern_type=LITERAL,
            principal="User:alice", host="*", operation=operation,
            permission_type=AclPermission.ALLOW,
        )  # fmt: skip
        (result,) = self.admin.call(CreateAclsRequest(creations=[creation])).results
        assert result.error_code == 0

    def forbid(self, name: str) -> None:
        everything = DeleteAclsFilter(
            resource_type_filter=ResourceType.TOPIC, resource_name_filter=name,
            pattern_type_filter=LITERAL, principal_filter=None, host_filter=None, operation=ANY,
            permission_type=ANY,
        )  # fmt: skip
        (result,) = self.admin.call(DeleteAclsRequest(filters=[everything])).filter_results
        assert result.error_code == 0


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    directory: Path = tmp_path_factory.mktemp("guarded")
    port, users = free_port(), f"127.0.0.1:{free_port()}"
    listeners = f"PLAINTEXT://127.0.0.1:{port},USERS://{users}"
    with zookeeper_process(directory) as connect:
        config = {**CONFIG, "listeners": listeners}
        broker = BrokerProcess(directory / "broker", connect, config, port=port)
        broker.start()
        try:
            yield Guarded(broker, users)
        finally:
            broker.kill()


@pytest.fixture
def topic(guarded: Guarded) -> Topic:
    return guarded.admin.create_topic()


def test_a_topic_is_hidden_until_it_may_be_described(guarded: Guarded, topic: Topic) -> None:
    def seen() -> list[str]:
        answer = guarded.alice.call(MetadataRequest(topics=None), 9)
        return [one.name for one in answer.topics]

    assert topic.name not in seen()
    guarded.allow(AclOperation.DESCRIBE, topic.name)
    assert seen() == [topic.name]
    guarded.forbid(topic.name)
    assert topic.name not in seen()


def test_a_change_counts_at_once_on_open_connections(guarded: Guarded, topic: Topic) -> None:
    alice = guarded.alice
    for _ in range(3):
        assert alice.produce(topic.name, batch(b"v")).error_code == FAILED
        guarded.allow(AclOperation.WRITE, topic.name)
        for _ in range(2):
            assert alice.produce(topic.name, batch(b"v")).error_code == 0
        guarded.forbid(topic.name)
    assert len(guarded.admin.read(topic)) == 6


def test_with_acks_0_the_connection_is_closed(guarded: Guarded, topic: Topic) -> None:
    alice = guarded.another_of_alice()
    alice.produce(topic.name, batch(b"v"), acks=0)
    assert alice.is_closed_by_broker()


def test_a_session_loses_a_topic_and_gets_it_back(guarded: Guarded, topic: Topic) -> None:
    guarded.allow(AclOperation.READ, topic.name)
    opened = guarded.alice.call(fetch_request(topic, session=(0, 0)))
    assert [p.error_code for t in opened.responses for p in t.partitions] == [0]

    def next_one(epoch: int) -> list[int]:
        request = fetch_request([], session=(opened.session_id, epoch))
        answer = guarded.alice.call(request)
        assert answer.error_code == 0
        return [p.error_code for t in answer.responses for p in t.partitions]

    assert next_one(1) == []
    guarded.forbid(topic.name)
    assert next_one(2) == [FAILED]
    assert next_one(3) == [FAILED]
    guarded.allow(AclOperation.READ, topic.name)
    guarded.admin.append(topic.name, b"v")
    assert next_one(4) == [0]
    assert next_one(5) == [0]


def test_offsets_of_queues_are_refused_beside_the_topics_id(guarded: Guarded, topic: Topic) -> None:
    finalize(guarded.admin, {"share.version": 1})
    guarded.allow(AclOperation.READ, "queue", ResourceType.GROUP)
    allowed = guarded.admin.create_topic()
    guarded.allow(AclOperation.READ, allowed.name)
    names = [topic.name, "nobody-has-it", allowed.name]
    guarded.alice.coordinator("queue")
    request = AlterShareGroupOffsetsRequest(
        group_id="queue",
        topics=[
            AlterShareGroupOffsetsRequestTopic(
                topic_name=name,
                partitions=[AlterShareGroupOffsetsRequestPartition(partition_index=0)],
            )
            for name in names
        ],
    )
    answer = again(lambda: guarded.alice.call(request, 0))
    assert [
        (t.topic_name, bytes(t.topic_id), t.partitions[0].error_code) for t in answer.responses
    ] == [
        (names[0], topic.id, FAILED),
        (names[1], ZERO_UUID, FAILED),
        (names[2], allowed.id, 0),
    ]


def test_the_log_says_which_acl_was_missing(guarded: Guarded, topic: Topic) -> None:
    guarded.alice.produce(topic.name, batch(b"v"))
    expected = f"acls add --allow User:alice --operation write --topic {topic.name}"
    until(lambda: expected in guarded.broker.log_text, lambda: guarded.broker.log_text[-2000:])
