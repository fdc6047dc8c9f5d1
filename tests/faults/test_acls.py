"""ZooKeeper goes away while ACLs are changed: nothing opens, nothing closes, no answer is a lie.

A change that is asked for meanwhile is answered once ZooKeeper is back, and then holds. 10 seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest
from kazoo.client import KazooClient

from pybroker_kafka.protocol.acls import CLUSTER_NAME, AclOperation, AclPermission, ResourceType
from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.apis.create_acls import AclCreation, CreateAclsRequest
from pybroker_kafka.protocol.apis.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from pybroker_kafka.protocol.errors import ErrorCode
from tests.support.processes import BrokerProcess, ZooKeeperProcess
from tests.support.wire import WireClient, batch

SETTINGS = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "zookeeper.session.timeout.ms": "1500",
}
# Clients are nobody here, and so is the broker itself; who it is makes no difference to the ACLs.
ALL_OF_THE_CLUSTER = (
    b'{"version":1,"acls":[{"principal":"User:ANONYMOUS","permissionType":"Allow",'
    b'"operation":"All","host":"*"}]}'
)
AWAY_SECONDS = 2.5  # longer than a session lives
ALLOWED, DENIED = 0, ErrorCode.TOPIC_AUTHORIZATION_FAILED


class Running(NamedTuple):
    zookeeper: ZooKeeperProcess
    broker: BrokerProcess


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    directory = tmp_path_factory.mktemp("acls")
    zookeeper = ZooKeeperProcess(directory)
    broker = BrokerProcess(directory / "broker", zookeeper.connect, SETTINGS)
    try:
        zookeeper.start()
        before = KazooClient(zookeeper.connect)
        before.start()
        path = f"/kafka-acl/Cluster/{CLUSTER_NAME}"
        before.create(path, ALL_OF_THE_CLUSTER, makepath=True)
        before.stop()
        before.close()
        broker.start()
        yield Running(zookeeper, broker)
    finally:
        broker.kill()
        zookeeper.kill()


def creation(topic: str, permission: AclPermission = AclPermission.ALLOW) -> CreateAclsRequest:
    acl = AclCreation(
        resource_type=ResourceType.TOPIC,
        resource_name=topic,
        principal="User:*",
        host="*",
        operation=AclOperation.WRITE,
        permission_type=permission,
    )
    return CreateAclsRequest(creations=[acl])


def deletion(topic: str) -> DeleteAclsRequest:
    asked = DeleteAclsFilter(
        resource_type_filter=ResourceType.TOPIC,
        resource_name_filter=topic,
        pattern_type_filter=1,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    return DeleteAclsRequest(filters=[asked])


def pause(running: Running) -> Callable[[], object]:
    running.zookeeper.pause()
    return running.zookeeper.resume


def kill(running: Running) -> Callable[[], object]:
    running.zookeeper.kill()
    return running.zookeeper.start


@pytest.mark.parametrize("goes", [pause, kill])
def test_decisions_stay_while_zookeeper_is_away(
    goes: Callable[[Running], Callable[[], object]], running: Running
) -> None:
    bootstrap = running.broker.bootstrap
    with (
        WireClient(bootstrap) as client,
        WireClient(bootstrap) as opening,
        WireClient(bootstrap) as closing,
    ):
        shut, opened = client.create_topic().name, client.create_topic().name
        assert client.call(creation(opened)).results[0].error_code == 0

        def writes() -> tuple[int, int]:
            first, second = (client.produce(t, batch(b"x"), acks=1) for t in (shut, opened))
            return first.error_code, second.error_code

        assert writes() == (DENIED, ALLOWED)
        come_back = goes(running)
        opening_id = opening.post(creation(shut), 3)
        closing_id = closing.post(deletion(opened), 3)
        end = time.monotonic() + AWAY_SECONDS
        while time.monotonic() < end:
            assert writes() == (DENIED, ALLOWED)
            time.sleep(0.1)
        come_back()
        created = opening.receive(ApiKey.CREATE_ACLS, 3, opening_id)
        assert [result.error_code for result in created.results] == [0]
        deleted = closing.receive(ApiKey.DELETE_ACLS, 3, closing_id)
        assert [len(result.matching_acls) for result in deleted.filter_results] == [1]
        assert writes() == (ALLOWED, DENIED)
        client.call(creation(shut, AclPermission.DENY))
        assert writes() == (DENIED, DENIED)
