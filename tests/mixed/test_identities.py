"""Apache Kafka and us in one cluster whose brokers know each other by tickets of Kerberos, or by
client certificates on the listener between brokers; what another is, may not act as a broker.

Takes about 30 s. Skipped without Java and Maven; tickets without MIT's KDC and the package gssapi.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
import trio

from pybroker_kafka import Cluster, Producer, SimpleRecord, create_topic
from pybroker_kafka.client.errors import ClientError
from tests.support.apache_kafka import ApacheKafkaProcess, kafka_jars
from tests.support.certificates import PASSWORD, AuthorityFiles
from tests.support.kerberos import REALM, kerberos
from tests.support.processes import BrokerProcess, free_port, zookeeper_process

pytestmark = pytest.mark.timeout(240)

OURS, THEIRS = 1, 2
TOPIC = "kept"
RECORDS = 100
WAIT_SECONDS = 60.0
SERVICE = f"kafka/localhost@{REALM}"
KERBEROS = "com.sun.security.auth.module.Krb5LoginModule required"
RULES = "RULE:^CN=([^,]+).*$/$1/,DEFAULT"


class Known(NamedTuple):
    """Where clients come in, and how."""

    bootstrap: str
    client: Mapping[str, str]
    nodes: Mapping[int, BrokerProcess]


def common(port: int, protocol: str) -> dict[str, str]:
    return {
        "listeners": f"PLAINTEXT://127.0.0.1:{port - 1},BROKERS://localhost:{port}",
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,BROKERS:{protocol}",
        "inter.broker.listener.name": "BROKERS",
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "default.replication.factor": "2",
        "min.insync.replicas": "2",
        "controlled.shutdown.enable": "false",
    }


@contextmanager
def running(
    directory: Path, connect: str, configs: Mapping[int, dict[str, str]]
) -> Iterator[dict[int, BrokerProcess]]:
    with ExitStack() as stack:
        nodes: dict[int, BrokerProcess] = {}
        for node, config in configs.items():
            kind = ApacheKafkaProcess if node == THEIRS else BrokerProcess
            port = int(config["listeners"].partition(",")[0].rpartition(":")[2])
            nodes[node] = kind(directory / str(node), connect, config, node, port)
            stack.callback(nodes[node].kill)
            nodes[node].launch()
        for process in nodes.values():
            process.wait_until_ready()
        yield nodes


@pytest.fixture
def by_tickets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Known]:
    kafka_jars()
    with kerberos(tmp_path / "realm") as realm:
        table = realm.key_table(SERVICE)
        realm.log_in("alice", realm.key_table("alice"))
        for name, value in realm.environment.items():
            monkeypatch.setenv(name, value)
        conf = realm.environment["KRB5_CONFIG"]
        monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"-Djava.security.krb5.conf={conf}")
        module = f'{KERBEROS} useKeyTab=true storeKey=true keyTab="{table}" principal="{SERVICE}";'
        ports = {node: free_port(2) + 1 for node in (OURS, THEIRS)}
        configs = {
            node: {
                **common(port, "SASL_PLAINTEXT"),
                "sasl.kerberos.service.name": "kafka",
                "super.users": "User:kafka;User:alice",
                "listener.name.brokers.gssapi.sasl.jaas.config": module,
            }
            for node, port in ports.items()
        }
        client = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "GSSAPI",
            "sasl.kerberos.service.name": "kafka",
            "sasl.jaas.config": f"{KERBEROS} useTicketCache=true;",
        }
        with (
            zookeeper_process(tmp_path) as connect,
            running(tmp_path, connect, configs) as nodes,
        ):
            yield Known(addresses(ports), client, nodes)


def addresses(ports: Mapping[int, int]) -> str:
    return ",".join(f"localhost:{port}" for port in ports.values())


def stores(authority: AuthorityFiles, name: str) -> dict[str, str]:
    return {
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(authority.issue(name, addresses=()).with_suffix(".p12")),
        "ssl.keystore.password": PASSWORD,
        "ssl.key.password": PASSWORD,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.ca),
    }


def by_certificate(authority: AuthorityFiles, name: str, port: int) -> dict[str, str]:
    return {
        **common(port, "SSL"),
        **stores(authority, name),
        "listener.name.brokers.ssl.client.auth": "required",
        "ssl.principal.mapping.rules": RULES,
        "super.users": "User:broker-1;User:broker-2;User:alice",
    }


async def replicated(known: Known) -> list[set[int]]:
    """The ISR of each partition after records with acks=all in all of them."""
    async with (
        Cluster(known.bootstrap, security=known.client) as cluster,
        Producer(cluster) as producer,
    ):
        await create_topic(cluster, TOPIC, partitions=2, replication_factor=2)
        records = [SimpleRecord(1, str(n).encode(), b"value") for n in range(RECORDS)]
        with trio.fail_after(WAIT_SECONDS):
            await producer.send_all(TOPIC, records)
        topic = await cluster.led_topic(TOPIC)
        assert {part.leader_id for part in topic.partitions} == {OURS, THEIRS}
        return [set(part.isr_nodes) for part in topic.partitions]


def test_brokers_know_each_other_by_tickets(by_tickets: Known) -> None:
    assert trio.run(replicated, by_tickets) == [{OURS, THEIRS}] * 2
    assert "Traceback" not in by_tickets.nodes[OURS].log_text


def test_brokers_know_each_other_by_certificates(tmp_path: Path) -> None:
    """And who shows none gets in nowhere."""
    kafka_jars()
    authority = AuthorityFiles(tmp_path / "certificates")
    ports = {node: free_port(2) + 1 for node in (OURS, THEIRS)}
    configs = {
        node: by_certificate(authority, f"broker-{node}", ports[node]) for node in (OURS, THEIRS)
    }
    client = {"security.protocol": "SSL", **stores(authority, "alice")}
    with (
        zookeeper_process(tmp_path) as connect,
        running(tmp_path, connect, configs) as nodes,
    ):
        known = Known(addresses({node: ports[node] for node in nodes}), client, nodes)
        assert trio.run(replicated, known) == [{OURS, THEIRS}] * 2
        assert "Traceback" not in nodes[OURS].log_text
        without = {key: text for key, text in client.items() if "keystore" not in key}
        with pytest.raises(ClientError):
            trio.run(replicated, known._replace(client=without))
