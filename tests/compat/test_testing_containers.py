"""Tests that were written for testcontainers, with one import changed."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.admin import NewTopic

from pybroker_kafka.testing import ClusterError, KafkaContainer, RedpandaContainer
from tests.support.processes import free_port

# Of testcontainers-python 4.15, by name: the parameters. Left out are hooks of subclasses
# (configure, tc_start, create_file), and files and facts of a container.
OF_CONTAINERS: dict[str, list[str]] = {
    "start": ["timeout"],
    "stop": ["force", "delete_volume"],
    "get_bootstrap_server": [],
    "get_container_host_ip": [],
    "get_exposed_port": ["port"],
    "get_logs": [],
    "get_wrapped_container": [],
    "get_docker_client": [],
    "exec": ["command"],
    "with_env": ["key", "value"],
    "with_envs": ["variables"],
    "with_env_file": ["env_file"],
    "with_bind_ports": ["container", "host"],
    "with_exposed_ports": ["ports"],
    "with_network": ["network"],
    "with_network_aliases": ["aliases"],
    "with_kwargs": ["kwargs"],
    "maybe_emulate_amd64": [],
    "waiting_for": ["strategy"],
    "with_command": ["command"],
    "with_name": ["name"],
    "with_volume_mapping": ["host", "container", "mode"],
    "with_tmpfs_mount": ["container_path", "size"],
}
OF_KAFKA: dict[str, list[str]] = {"with_kraft": [], "with_cluster_id": ["cluster_id"]}
OF_REDPANDA: dict[str, list[str]] = {"get_schema_registry_address": []}


def send_and_read(servers: str) -> None:
    producer = KafkaProducer(bootstrap_servers=servers)
    producer.send("orders", b"x").get(30)
    producer.close()
    consumer = KafkaConsumer(
        "orders", bootstrap_servers=servers, group_id="g", auto_offset_reset="earliest"
    )
    assert next(consumer).value == b"x"
    consumer.close()


@pytest.mark.parametrize(
    ("container", "methods"),
    [
        (KafkaContainer, {**OF_CONTAINERS, **OF_KAFKA}),
        (RedpandaContainer, {**OF_CONTAINERS, **OF_REDPANDA}),
    ],
)
def test_the_methods_are_there(container: type[Any], methods: dict[str, list[str]]) -> None:
    for name, parameters in methods.items():
        assert [*inspect.signature(getattr(container, name)).parameters][1:] == parameters, name


@pytest.mark.parametrize(
    "make", [KafkaContainer, lambda: KafkaContainer().with_kraft(), RedpandaContainer]
)
def test_as_its_page_shows_it(make: Any) -> None:
    with make() as kafka:
        send_and_read(kafka.get_bootstrap_server())
        assert kafka.status == "running"
        assert [one.value for one in kafka.cluster.records("orders")] == [b"x"]
    assert kafka.status == "exited"


def test_settings(tmp_path: Path) -> None:
    port = free_port()
    variables = tmp_path / "variables"
    variables.write_text("# of the broker\nKAFKA_NUM_PARTITIONS=3\nexport OTHER='x'\n")
    kafka = (
        KafkaContainer("confluentinc/cp-kafka:7.9.0", port=9095)
        .with_bind_ports(9095, port)
        .with_env("KAFKA_AUTO_CREATE_TOPICS_ENABLE", "false")
        .with_env("KAFKA_LISTENERS", "PLAINTEXT://0.0.0.0:9095,BROKER://0.0.0.0:9092")
        .with_env("KAFKA_PROCESS_ROLES", "broker,controller")
        .with_env_file(variables)
        .with_kraft()
        .with_cluster_id("any")
        .with_name("kafka")
        .with_volume_mapping("/tmp", "/data", "rw")
        .with_network_aliases("kafka")
    )
    with pytest.raises(ClusterError, match="not been started"):
        kafka.get_bootstrap_server()
    kafka.start(timeout=60)
    try:
        assert kafka.get_bootstrap_server() == f"127.0.0.1:{port}"
        host = f"{kafka.get_container_host_ip()}:{kafka.get_exposed_port(kafka.port)}"
        admin = KafkaAdminClient(bootstrap_servers=host)
        admin.create_topics([NewTopic("orders", -1, -1)])
        admin.close()
        assert len(kafka.cluster.produce("orders", "x", partition=2)) == 1
        assert b"Broker 1 is ready" in kafka.get_logs()[0]
        for refused in (kafka.get_wrapped_container, lambda: kafka.exec("ls")):
            with pytest.raises(ClusterError, match="there is no container"):
                refused()
        with pytest.raises(ClusterError, match="leads nowhere"):
            kafka.get_exposed_port(1)
    finally:
        kafka.stop()
    kafka.stop()


def test_what_no_container_could_be() -> None:
    kafka = KafkaContainer().with_env("KAFKA_CLIENT_USERS", "alice")
    with pytest.raises(ClusterError, match="KAFKA_CLIENT_USERS"), kafka:
        pass
    with pytest.raises(ClusterError, match="schema registry"):
        RedpandaContainer().get_schema_registry_address()
