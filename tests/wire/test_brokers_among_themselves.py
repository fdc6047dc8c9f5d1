"""Two brokers that log in at each other, and a plane of control: about 10 s.

The second one's user is not there at first: it is a member of the cluster that cannot replicate,
until the user is made; no restart is needed.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest

from pybroker_kafka.protocol.acls import AclOperation, AclPermission, PatternType, ResourceType
from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.apis.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from pybroker_kafka.protocol.apis.create_acls import AclCreation, CreateAclsRequest
from pybroker_kafka.protocol.apis.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from pybroker_kafka.protocol.apis.init_producer_id import InitProducerIdRequest
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.sasl import ScramHash
from tests.support.patience import until
from tests.support.processes import BrokerProcess, free_port, zookeeper_process
from tests.support.wire import WireClient
from tests.wire.test_metadata import metadata

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
ITERATIONS = 4096
PORTS = 3  # of each broker: for clients, for brokers, for control


class Pair(NamedTuple):
    first: BrokerProcess
    second: BrokerProcess
    client: WireClient


def config(node: int, port: int) -> dict[str, str]:
    names = ("PLAINTEXT", "BROKERS", "CONTROL")
    urls = [f"{name}://127.0.0.1:{port + index}" for index, name in enumerate(names)]
    return {
        "listeners": ",".join(urls),
        "listener.security.protocol.map": (
            "PLAINTEXT:PLAINTEXT,BROKERS:SASL_PLAINTEXT,CONTROL:PLAINTEXT"
        ),
        "inter.broker.listener.name": "BROKERS",
        "control.plane.listener.name": "CONTROL",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256",
        "listener.name.brokers.scram-sha-256.sasl.jaas.config": (
            f'{SCRAM} username="broker-{node}" password="secret-{node}";'
        ),
        "replica.lag.time.max.ms": "1500",
        "replica.fetch.backoff.ms": "100",
    }


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with two_brokers(tmp_path_factory.mktemp("pair"), {}) as running:
        yield running


@contextlib.contextmanager
def two_brokers(directory: Path, more: Mapping[str, str]) -> Iterator[Pair]:
    with zookeeper_process(directory) as connect:
        brokers = []
        try:
            for node in (1, 2):
                port = free_port(PORTS)
                settings = {**config(node, port), **more}
                brokers.append(BrokerProcess(directory / str(node), connect, settings, node, port))
                brokers[-1].start()
            first, second = brokers
            with WireClient(first.bootstrap) as client:
                yield Pair(first, second, client)
        finally:
            for broker in brokers:
                broker.kill()


def make_user(client: WireClient, name: str, password: str) -> None:
    salt = secrets.token_bytes(16)
    salted = ScramHash.SHA_256.salted_password(password, salt, ITERATIONS)
    request = AlterUserScramCredentialsRequest(
        upsertions=[
            ScramCredentialUpsertion(
                name=name, mechanism=1, iterations=ITERATIONS, salt=salt, salted_password=salted
            )
        ]
    )
    (result,) = client.call(request, 0).results
    assert result.error_code == ErrorCode.NONE


def partition_of(client: WireClient, topic: str) -> Any:
    version = max(client.versions(ApiKey.METADATA))
    (partition,) = metadata(client, version, topic).topics[0].partitions
    return partition


def create_topic(client: WireClient) -> None:
    """With both brokers in its first ISR, whatever they may."""
    assignment = [CreatableReplicaAssignment(partition_index=0, broker_ids=[1, 2])]
    topic = CreatableTopic(
        name="kept", num_partitions=-1, replication_factor=-1, assignments=assignment
    )
    (created,) = client.call(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 5).topics
    assert created.error_code == ErrorCode.NONE
    nodes = metadata(client, max(client.versions(ApiKey.METADATA)), "kept").brokers
    assert {node.node_id for node in nodes} == {1, 2}
    assert sorted(partition_of(client, "kept").isr_nodes) == [1, 2]


def test_a_broker_that_cannot_log_in(pair: Pair) -> None:
    client = pair.client
    create_topic(client)
    until(lambda: partition_of(client, "kept").isr_nodes == [1])
    assert pair.second.is_running
    assert "the login of broker-2 with SCRAM-SHA-256 failed" in pair.second.log_text
    assert "secret-2" not in pair.second.log_text
    make_user(client, "broker-2", "secret-2")
    until(lambda: sorted(partition_of(client, "kept").isr_nodes) == [1, 2])


def test_control_has_connections_of_its_own(pair: Pair) -> None:
    """Those of the controller to each broker, and of a broker that asks the controller."""
    with WireClient(pair.second.bootstrap) as client:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1_000)
        until(lambda: client.call(request, 2).error_code == ErrorCode.NONE)
    for of, to in ((pair.first, pair.first), (pair.first, pair.second), (pair.second, pair.first)):
        control = to.port + PORTS - 1
        ports = {
            one.raddr.port for one in psutil.Process(of.pid).net_connections("tcp") if one.raddr
        }
        assert control in ports


def test_a_broker_that_may_not_replicate(tmp_path: Path) -> None:
    """It has logged in, and is no super user as the other one is."""
    rules = {
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:broker-1;User:ANONYMOUS",
    }
    with two_brokers(tmp_path, rules) as running:
        client = running.client
        for node in (1, 2):
            make_user(client, f"broker-{node}", f"secret-{node}")
        create_topic(client)
        until(lambda: partition_of(client, "kept").isr_nodes == [1])
        assert running.second.is_running
        creation = AclCreation(
            resource_type=ResourceType.CLUSTER,
            resource_name="kafka-cluster",
            resource_pattern_type=PatternType.LITERAL,
            principal="User:broker-2",
            host="*",
            operation=AclOperation.CLUSTER_ACTION,
            permission_type=AclPermission.ALLOW,
        )
        (created,) = client.call(CreateAclsRequest(creations=[creation]), 3).results
        assert created.error_code == ErrorCode.NONE
        until(lambda: sorted(partition_of(client, "kept").isr_nodes) == [1, 2])
