"""Logins of a listener out of a JAAS file, as compose files for Kafka give it: in KAFKA_OPTS."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker_kafka.protocol.apis.metadata import MetadataRequest
from tests.support.processes import BrokerProcess, free_port, zookeeper_process
from tests.support.sasl_client import log_in
from tests.support.wire import WireClient

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
FILE = f"""KafkaServer {{
  {SCRAM} required
    username="adminscram" password="admin-secret";
  {PLAIN} required
    username="adminplain" password="admin-secret"
    user_adminplain="admin-secret";
}};
other.KafkaServer {{
  {PLAIN} required user_bob="b";
}};
Client {{ }};
"""


def test_a_broker_with_a_jaas_file_in_kafka_opts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients and brokers log in with the section of all listeners, but to one that has its own."""
    (tmp_path / "kafka_server_jaas.conf").write_text(FILE)
    option = f"-Djava.security.auth.login.config={tmp_path}/kafka_server_jaas.conf"
    monkeypatch.setenv("KAFKA_OPTS", option)
    port = free_port(3)
    names = ("PLAINTEXT", "SASL_PLAINTEXT", "OTHER")
    config = {
        "listeners": ",".join(f"{n}://127.0.0.1:{port + i}" for i, n in enumerate(names)),
        "listener.security.protocol.map": (
            "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,OTHER:SASL_PLAINTEXT"
        ),
        "inter.broker.listener.name": "SASL_PLAINTEXT",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "connection.failed.authentication.delay.ms": "0",
    }
    with zookeeper_process(tmp_path) as connect:
        broker = BrokerProcess(tmp_path / "broker", connect, config, 1, port)
        try:
            broker.start()
            for offset, name, password, is_in in (
                (1, "adminplain", "admin-secret", True),
                (1, "adminplain", "wrong", False),
                (1, "bob", "b", False),
                (2, "bob", "b", True),
                (2, "adminplain", "admin-secret", False),
            ):
                with WireClient(f"127.0.0.1:{port + offset}") as client:
                    answer = log_in(client, "PLAIN", name, password)
                    assert (answer.error_code == 0) is is_in, (offset, name)
                    if is_in:
                        assert client.call(MetadataRequest(topics=[]), 9).brokers
        finally:
            broker.kill()
