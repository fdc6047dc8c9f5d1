"""Compose files that were written for Kafka's images, and settings for KRaft."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pybroker_kafka.broker.config import ConfigError, kraft
from pybroker_kafka.broker.config.checks import check_config
from pybroker_kafka.broker.config.loading import (
    NodeConfig,
    for_local_cluster,
    from_environment,
    load_node,
)
from tests.support.processes import ROOT

COMPOSED = ROOT / "tests/golden/compose"
IMAGE = ROOT / "docker/server.properties"

# By file: listeners, advertised listeners, the id, and further keys.
EXPECTED: dict[str, tuple[str, str, int, dict[str, str]]] = {
    "apache-kafka": (
        "PLAINTEXT_HOST://0.0.0.0:9092,PLAINTEXT://broker:19092",
        "PLAINTEXT_HOST://localhost:9092,PLAINTEXT://broker:19092",
        1,
        {"log.dirs": "/tmp/kraft-combined-logs", "inter.broker.listener.name": "PLAINTEXT"},
    ),
    "apache-kafka-bare": (
        "PLAINTEXT://0.0.0.0:9092",
        "PLAINTEXT://localhost:9092",
        1,
        {"log.dirs": "/var/lib/pybroker/logs", "offsets.topic.replication.factor": "1"},
    ),
    "apache-kafka-acls": (
        "PLAINTEXT://:9092",
        "PLAINTEXT://localhost:9092",
        5,
        {"authorizer.class.name": kraft.ZOOKEEPER_AUTHORIZER, "super.users": "User:ANONYMOUS"},
    ),
    "cp-kafka": (
        "PLAINTEXT://kafka:29092,PLAINTEXT_HOST://0.0.0.0:9092",
        "PLAINTEXT://kafka:29092,PLAINTEXT_HOST://localhost:9092",
        1,
        {"log.dirs": "/var/lib/kafka/data/data", "group.initial.rebalance.delay.ms": "0"},
    ),
    "cp-kafka-advertised": (
        "INTERNAL://0.0.0.0:9092,EXTERNAL://0.0.0.0:29092",
        "INTERNAL://kafka:9092,EXTERNAL://localhost:29092",
        1,
        {"transaction.state.log.min.isr": "1"},
    ),
    "cp-kafka-zookeeper": (
        "PLAINTEXT://0.0.0.0:9092",
        "PLAINTEXT://localhost:9092",
        1,
        {"zookeeper.connect": "zookeeper:2181"},
    ),
    "bitnami": (
        "PLAINTEXT://:9092,EXTERNAL://:9094",
        "PLAINTEXT://kafka:9092,EXTERNAL://localhost:9094",
        0,
        {"auto.create.topics.enable": "false", "log.dirs": "/bitnami/kafka/data"},
    ),
}


def service(name: str) -> dict[str, Any]:
    services = yaml.safe_load((COMPOSED / f"{name}.yaml").read_text())["services"]
    found: dict[str, Any] = services.get("kafka") or services["broker"]
    return found


def environment_of(name: str) -> dict[str, str]:
    """A service's variables, in either form of a compose file, and those of our image."""
    listed = service(name).get("environment", {})
    if isinstance(listed, list):
        listed = dict(one.split("=", 1) for one in listed)
    return {
        "PYBROKER_DATA_DIR": "/var/lib/pybroker",
        **{key: str(value) for key, value in listed.items()},
    }


def in_the_image(name: str, monkeypatch: pytest.MonkeyPatch) -> NodeConfig:
    """With the volumes of the service mounted."""
    mounted = {one.partition(":")[2] for one in service(name).get("volumes", ())}
    monkeypatch.setattr("os.path.ismount", mounted.__contains__)
    environment = environment_of(name)
    # What the image's properties file has, its variables win over; the id is one of both.
    return load_node(IMAGE, environment, {}, standalone=True)


def test_each_file_has_its_expectation() -> None:
    assert {path.stem for path in COMPOSED.glob("*.yaml")} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_change_the_image_keep_the_file(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    node = in_the_image(name, monkeypatch)
    listeners, advertised, broker_id, more = EXPECTED[name]
    static = node.config.static
    assert static["listeners"] == listeners
    assert static["advertised.listeners"] == advertised
    assert node.config.broker_id == broker_id
    assert {key: static[key] for key in more} == more
    assert node.needs_zookeeper is ("zookeeper.connect" not in more)
    is_kraft = kraft.is_kraft(from_environment(environment_of(name)))
    assert bool(node.told) is is_kraft
    assert ("an embedded ZooKeeper takes the controller's place" in node.told) is is_kraft
    assert "\n" not in node.told
    if node.needs_zookeeper:
        check_config(type(node.config)({**static, "zookeeper.connect": "localhost:2181"}))
    else:
        check_config(node.config)


def test_a_properties_file_of_kraft(tmp_path: Path) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text(
        "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@localhost:9093\n"
        "listeners=PLAINTEXT://:9092,CONTROLLER://:9093\ninter.broker.listener.name=PLAINTEXT\n"
        "advertised.listeners=PLAINTEXT://localhost:9092\ncontroller.listener.names=CONTROLLER\n"
        "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT\n"
        f"log.dirs={tmp_path}/logs\n"
    )
    node = load_node(properties, {}, {"num.partitions": "4"}, standalone=False)
    assert node.needs_zookeeper
    assert node.told == (
        "settings for KRaft are translated: an embedded ZooKeeper takes the controller's place; "
        "left out are controller.listener.names, controller.quorum.voters, process.roles; "
        "not opened is the listener CONTROLLER"
    )
    assert node.config.static["listeners"] == "PLAINTEXT://:9092"
    assert node.config.static["num.partitions"] == "4"


def test_without_a_sign_of_kraft_nothing_changes() -> None:
    node = load_node(None, {"KAFKA_ZOOKEEPER_CONNECT": "z:1"}, {}, standalone=True)
    assert node == (node.config, False, "")
    assert node.config.static == {"zookeeper.connect": "z:1"}
    advertised = {"KAFKA_ADVERTISED_LISTENERS": "A://localhost:1"}
    assert "listeners" not in load_node(None, advertised, {}, standalone=False).config.static
    with pytest.raises(ConfigError, match="--standalone"):
        check_config(load_node(None, {}, {}, standalone=False).config)


@pytest.mark.parametrize(
    ("variables", "problem"),
    [
        ({"PROCESS_ROLES": "controller"}, "leave this node out"),
        ({"PROCESS_ROLES": "broker", "CONTROLLER_QUORUM_VOTERS": "1@c:9093"}, "the controller is"),
        ({"CONTROLLER_QUORUM_VOTERS": "1@a:9093,2@b:9093,3@c:9093"}, "3 controllers are named"),
        ({"CLIENT_USERS": "alice"}, "logins and certificates that Bitnami's image makes"),
    ],
)
def test_what_cannot_be_one_node(variables: dict[str, str], problem: str) -> None:
    environment = {f"KAFKA_{key}": value for key, value in variables.items()}
    with pytest.raises(ConfigError, match=problem):
        load_node(None, environment, {}, standalone=True)


def test_both_keys_of_a_migration_are_refused() -> None:
    environment = {"KAFKA_PROCESS_ROLES": "broker", "KAFKA_ZOOKEEPER_CONNECT": "z:1"}
    with pytest.raises(ConfigError, match=r"process\.roles is for KRaft"):
        check_config(load_node(None, environment, {}, standalone=True).config)


def test_a_local_cluster() -> None:
    assert for_local_cluster({"KAFKA_LISTENERS": "A://:1"}, {"a": "b"}) == ({"a": "b"}, "")
    environment = {
        "KAFKA_CFG_PROCESS_ROLES": "broker,controller",
        "KAFKA_CFG_NODE_ID": "7",
        "KAFKA_NUM_PARTITIONS": "3",
        "KAFKA_CFG_NUM_PARTITIONS": "4",
    }
    values, told = for_local_cluster(environment, {"flush.messages": "1"})
    assert values == {"num.partitions": "4", "flush.messages": "1"}
    assert told.startswith("settings for KRaft are translated")
    overrides = {"process.roles": "broker,controller", "node.id": "1", "num.partitions": "2"}
    assert for_local_cluster({}, overrides).values == {"num.partitions": "2"}


LISTENER_NAMES = ("PLAINTEXT", "CONTROLLER", "HOST")


@given(
    st.lists(st.sampled_from(LISTENER_NAMES), unique=True),
    st.sampled_from(["", "CONTROLLER", "controller", "HOST,CONTROLLER"]),
)
def test_listeners_of_controllers_go(names: list[str], controllers: str) -> None:
    values = {
        "process.roles": "broker,controller",
        "controller.listener.names": controllers,
        "listeners": ", ".join(f"{name}://:{9092 + at}" for at, name in enumerate(names)),
    }
    translated = kraft.translate(values).values
    gone = controllers.upper().split(",")
    left = [f"{name}://:{9092 + at}" for at, name in enumerate(names) if name not in gone]
    assert translated == ({"listeners": ",".join(left)} if left else {})
    assert kraft.translate(translated) == (translated, "")
