"""A broker whose own user may not give orders to brokers: it runs, as Apache's, and says why
nothing comes of it; once that is allowed it is a broker like others, without another start."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from pybroker_kafka.protocol.apis.create_acls import AclCreation, CreateAclsRequest
from pybroker_kafka.protocol.apis.metadata import MetadataRequest
from pybroker_kafka.protocol.errors import ErrorCode
from tests.support.patience import until
from tests.support.processes import BrokerProcess, free_port, zookeeper_process
from tests.support.sasl_client import log_in
from tests.support.wire import WireClient

READY_SECONDS = 30.0  # of 60 after which it went on without a controller
WAIT_SECONDS = 30.0
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
CLUSTER, LITERAL, ALLOW, CLUSTER_ACTION = 4, 3, 3, 9


def configs(port: int) -> dict[str, str]:
    return {
        "listeners": f"PLAINTEXT://127.0.0.1:{port},BROKERS://127.0.0.1:{port + 1}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,BROKERS:SASL_PLAINTEXT",
        "inter.broker.listener.name": "BROKERS",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.brokers.plain.sasl.jaas.config": (
            f'{MODULE} username="broker" password="b" user_broker="b" user_admin="a";'
        ),
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:admin",
    }


def test_it_is_ready_and_says_what_is_missing(tmp_path: Path) -> None:
    first, second = free_port(2), free_port(2)
    with zookeeper_process(tmp_path) as connect, ExitStack() as stack:
        broker = BrokerProcess(tmp_path / "1", connect, configs(first), 1, first)
        stack.callback(broker.kill)
        assert broker.start() < READY_SECONDS
        admin = stack.enter_context(WireClient(f"127.0.0.1:{first + 1}"))
        assert log_in(admin, "PLAIN", "admin", "a").error_code == 0
        assert admin.call(MetadataRequest(topics=[]), 9).brokers == []
        assert "An UpdateMetadata of User:broker" in broker.log_text
        assert "lacks CLUSTER_ACTION on the cluster" in broker.log_text
        assert "Traceback" not in broker.log_text
        rule = AclCreation(
            resource_type=CLUSTER, resource_name="kafka-cluster", resource_pattern_type=LITERAL,
            principal="User:broker", host="*", operation=CLUSTER_ACTION, permission_type=ALLOW,
        )  # fmt: skip
        (made,) = admin.call(CreateAclsRequest(creations=[rule]), 3).results
        assert made.error_code == ErrorCode.NONE
        # The controller tells all brokers of the next that comes.
        other = BrokerProcess(tmp_path / "2", connect, configs(second), 2, second)
        stack.callback(other.kill)
        other.start()
        until(
            lambda: len(admin.call(MetadataRequest(topics=[]), 9).brokers) >= 2,
            seconds=WAIT_SECONDS,
        )
