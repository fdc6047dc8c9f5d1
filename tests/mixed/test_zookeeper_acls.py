"""Apache Kafka and ours with the same secured ZooKeeper, the real one or ours: the same ACLs on the
same znodes.

Over TLS with a certificate and with SASL, each in a chroot of its own; about 12 seconds each.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)
from kazoo.client import KazooClient

from tests.support.apache_kafka import ApacheKafkaProcess, java_command
from tests.support.patience import until
from tests.support.processes import BrokerProcess
from tests.support.secured_zookeeper import (
    SASL_PASSWORD,
    SASL_USER,
    SecuredZooKeeper,
    secured_zookeeper,
)

WAIT_S = 120.0


@pytest.fixture(scope="module", params=["real", "ours"])
def zookeeper(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SecuredZooKeeper]:
    with secured_zookeeper(tmp_path_factory.mktemp("secured"), request.param) as running:
        yield running


def settings_for(zookeeper: SecuredZooKeeper, jaas: Path) -> dict[str, str]:
    return {
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
        "zookeeper.ssl.truststore.location": str(zookeeper.authority),
        "zookeeper.ssl.keystore.location": str(zookeeper.broker_store),
        "zookeeper.set.acl": "true",
        "pybroker.jaas.file": str(jaas),
        "offsets.topic.replication.factor": "1",
    }


def use(broker: BrokerProcess) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    # librdkafka does not ask again for a controller that the first answer does not have.
    until(lambda: admin.list_topics(timeout=WAIT_S).controller_id == 1)
    for future in admin.create_topics([NewTopic("t", 1, 1), NewTopic("gone", 1, 1)]).values():
        future.result(WAIT_S)
    entry = ConfigEntry("retention.ms", "1000", incremental_operation=AlterConfigOpType.SET)
    of_topic = ConfigResource(ResourceType.TOPIC, "t", incremental_configs=[entry])
    entry = ConfigEntry("log.cleaner.threads", "2", incremental_operation=AlterConfigOpType.SET)
    of_broker = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
    for resource in (of_topic, of_broker):
        for future in admin.incremental_alter_configs([resource]).values():
            future.result(WAIT_S)
    for future in admin.delete_topics(["gone"]).values():
        future.result(WAIT_S)


def acls_below(client: KazooClient, path: str) -> dict[str, list[str]]:
    acls, _ = client.get_acls(path)
    found = {path: sorted(f"{one.id.scheme}:{one.id.id}={one.perms}" for one in acls)}
    for name in client.get_children(path):
        found |= acls_below(client, f"{path}/{name}")
    return found


def test_the_same_acls(zookeeper: SecuredZooKeeper, tmp_path: Path) -> None:
    jaas = tmp_path / "client.jaas"
    jaas.write_text(
        "Client { org.apache.zookeeper.server.auth.DigestLoginModule required\n"
        f'  username="{SASL_USER}" password="{SASL_PASSWORD}"; }};\n'
    )
    settings = settings_for(zookeeper, jaas)
    connect = f"localhost:{zookeeper.secure_port}"
    java, class_path = java_command("")[:-3], java_command("")[-3:-1]
    login = f"-Djava.security.auth.login.config={jaas}"
    brokers = [
        ApacheKafkaProcess(
            tmp_path / "theirs", f"{connect}/theirs", settings, java=[*java, login, *class_path]
        ),
        BrokerProcess(tmp_path / "ours", f"{connect}/ours", settings),
    ]
    try:
        for broker in brokers:
            broker.launch()
        for broker in brokers:
            broker.wait_until_ready()
            use(broker)
    finally:
        for broker in brokers:
            broker.kill()
    theirs, ours = looked_at(zookeeper, "/theirs"), looked_at(zookeeper, "/ours")
    shared = theirs.keys() & ours.keys()
    assert {path: ours[path] for path in shared} == {path: theirs[path] for path in shared}
    needed = {
        "",
        "/consumers",
        "/config/users",
        "/config/brokers/1",
        "/config/topics/t",
        "/feature",
    }
    needed |= {"/brokers/topics/t/partitions/0/state", "/controller_epoch", "/cluster/id"}
    assert needed <= shared
    assert len({tuple(acl) for acl in ours.values()}) == 3, "sensitive, readable, open"


def looked_at(zookeeper: SecuredZooKeeper, chroot: str) -> dict[str, list[str]]:
    """Sensitive nodes hide from all who are not their owner: so as the owner."""
    options = {"mechanism": "DIGEST-MD5", "username": SASL_USER, "password": SASL_PASSWORD}
    client = KazooClient(f"127.0.0.1:{zookeeper.port}", sasl_options=options)
    client.start()
    try:
        found = acls_below(client, chroot)
    finally:
        client.stop()
        client.close()
    return {path.removeprefix(chroot): acl for path, acl in found.items()}
