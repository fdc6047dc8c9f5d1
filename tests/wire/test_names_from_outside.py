"""Names that nobody in his right mind gives: none forges a line of the broker's log, and none that
ZooKeeper has no path for leaves a traceback there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from pybroker_kafka.console.node_logs import parsed
from pybroker_kafka.protocol.apis.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    OpData,
)
from pybroker_kafka.protocol.apis.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from pybroker_kafka.protocol.apis.create_acls import AclCreation, CreateAclsRequest
from pybroker_kafka.protocol.apis.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from pybroker_kafka.protocol.apis.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from pybroker_kafka.protocol.apis.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from pybroker_kafka.protocol.apis.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from pybroker_kafka.protocol.apis.metadata import MetadataRequest, MetadataRequestTopic
from pybroker_kafka.protocol.errors import ErrorCode
from tests.support.processes import BrokerProcess, free_port, running_broker
from tests.support.sasl_client import log_in
from tests.support.wire import WireClient

FORGED = "x\n[2026-01-01 00:00:00,000] ERROR forged (pybroker)\r\x1b[2J\x85\u2028"
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
CONFIG = {
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,USERS:SASL_PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "listener.name.users.plain.sasl.jaas.config": f'{MODULE} user_alice="alice-pass";',
    "connection.failed.authentication.delay.ms": "0",
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
}
TOPIC, BROKER = 2, 4


class Named(NamedTuple):
    """A broker, and where its listeners are."""

    process: BrokerProcess
    addresses: dict[str, str]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Named]:
    found = {name: f"127.0.0.1:{free_port()}" for name in ("PLAINTEXT", "USERS")}
    spec = ",".join(f"{name}://{address}" for name, address in found.items())
    directory = tmp_path_factory.mktemp("names")
    with running_broker(directory, {**CONFIG, "listeners": spec}) as process:
        yield Named(process, found)


@pytest.fixture
def admin(broker: Named) -> Iterator[WireClient]:
    with WireClient(broker.addresses["PLAINTEXT"]) as client:
        yield client


def test_no_name_forges_a_line(broker: Named, admin: WireClient) -> None:
    before = len(broker.process.log_text)
    admin.client_id = FORGED
    admin.call(MetadataRequest(topics=[MetadataRequestTopic(name=FORGED)]), 9)
    join = JoinGroupRequest(
        group_id=FORGED, session_timeout_ms=6000, rebalance_timeout_ms=6000, protocol_type=FORGED,
        protocols=[JoinGroupRequestProtocol(name=FORGED)],
    )  # fmt: skip
    admin.coordinator(FORGED)
    assert admin.call(join, 3).error_code == 0
    for mechanism in ("PLAIN", "SCRAM-SHA-256"):
        with WireClient(broker.addresses["USERS"]) as client:
            assert log_in(client, mechanism, FORGED, FORGED).error_code != 0
    for first in (f"GET /{FORGED} HTTP/1.1\r\n\r\n", FORGED, "\x00\x00\x00\x10" + FORGED):
        with WireClient(admin.bootstrap) as client:
            client.socket.sendall(first.encode())
            client.is_closed_by_broker()
    new = broker.process.log_text[before:]
    assert "forged" in new
    for line in new.split("\n"):
        assert not line or parsed(line) or line.startswith("    "), line
        assert line.isprintable()
        assert not line.startswith("[2026-01-01 00:00:00,000]")


def quota(*entity: tuple[str, str]) -> AlterClientQuotasRequest:
    parts = [AlterClientQuotasRequestEntityData(entity_type=k, entity_name=n) for k, n in entity]
    op = OpData(key="connection_creation_rate" if entity[0][0] == "ip" else "producer_byte_rate",
                value=5.0)  # fmt: skip
    return AlterClientQuotasRequest(
        entries=[AlterClientQuotasRequestEntryData(entity=parts, ops=[op])]
    )


@pytest.mark.parametrize("name", [".", ".."])
def test_what_zookeeper_has_no_path_for(broker: Named, admin: WireClient, name: str) -> None:
    names = [UserName(name=name), UserName(name="nobody")]
    answer = admin.call(DescribeUserScramCredentialsRequest(users=names), 0)
    assert [(one.user, one.error_code) for one in answer.results] == [
        (name, ErrorCode.UNKNOWN_SERVER_ERROR), ("nobody", ErrorCode.RESOURCE_NOT_FOUND),
    ]  # fmt: skip
    new = ScramCredentialUpsertion(
        name=name, mechanism=1, iterations=4096, salt=b"salt", salted_password=bytes(32)
    )
    (one,) = admin.call(AlterUserScramCredentialsRequest(upsertions=[new]), 0).results
    assert one.error_code != 0
    for entity in ([("user", name)], [("client-id", name)], [("user", "a"), ("client-id", name)],
                   [("ip", name)]):  # fmt: skip
        (entry,) = admin.call(quota(*entity), 1).entries
        assert entry.error_code != 0, entity
    acl = AclCreation(
        resource_type=2, resource_name=name, principal="User:a", host="*", operation=3,
        permission_type=3,
    )  # fmt: skip
    (made,) = admin.call(CreateAclsRequest(creations=[acl]), 3).results
    assert made.error_code != 0
    for kind in (TOPIC, BROKER):
        asked = DescribeConfigsResource(resource_type=kind, resource_name=name)
        (told,) = admin.call(DescribeConfigsRequest(resources=[asked]), 4).results
        assert told.error_code != 0
        change = IncrementalAlterConfigsRequestAlterConfigsResource(
            resource_type=kind, resource_name=name,
            configs=[IncrementalAlterConfigsRequestAlterableConfig(
                name="retention.ms" if kind == TOPIC else "log.cleaner.threads", value="2"
            )],
        )  # fmt: skip
        (done,) = admin.call(IncrementalAlterConfigsRequest(resources=[change]), 1).responses
        assert done.error_code != 0
    assert "Traceback" not in broker.process.log_text
