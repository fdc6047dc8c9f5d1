"""Unusable dynamic configs that a broker finds in ZooKeeper: left out, told, and never its end."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from pybroker_kafka.protocol.errors import ErrorCode
from tests.support.patience import until
from tests.support.processes import BrokerProcess, zookeeper_process
from tests.support.wire import WireClient, batch
from tests.wire.test_configs import BROKER, FROM_BROKER, describe, values
from tests.wire.test_odd_configs import leaders_answer

UNUSABLE = {
    "log.roll.ms": "-1",
    "log.retention.ms": "0",
    "log.flush.interval.ms": "-2147483648",
    "log.roll.jitter.ms": "-1",
    "log.cleaner.min.cleanable.ratio": "NaN",
    "log.cleaner.io.buffer.load.factor": "-1",
    "log.cleaner.dedupe.buffer.size": "1",
    "num.replica.fetchers": "0",
    "num.io.threads": "none",
    "max.connections": "0",
    "max.connections.per.ip": "0",
    "listeners": "SSL://:1",
    "log.dirs": "/elsewhere",
    "principal.builder.class": "a.Builder",
}
UNREADABLE = {"listener.name.plaintext.ssl.keystore.password": "hunter2"}
USABLE = {"log.segment.bytes": "7777", "background.threads": "7"}
PREFIX = "Dynamic configs that cannot be used are left out: "


def znode(configs: Mapping[str, str]) -> bytes:
    return json.dumps({"version": 1, "config": configs}).encode()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[tuple[KazooClient, BrokerProcess]]:
    with zookeeper_process(tmp_path) as connect:
        client = KazooClient(connect)
        client.start()
        broker = BrokerProcess(tmp_path / "broker", connect)
        try:
            yield client, broker
        finally:
            broker.kill()
            client.stop()
            client.close()


def complaints(broker: BrokerProcess) -> list[str]:
    return [line.partition(PREFIX)[2] for line in broker.log_text.splitlines() if PREFIX in line]


def works(kafka: WireClient) -> None:
    topic = kafka.create_topic().name
    assert kafka.produce(topic, batch(b"value")).error_code == 0
    assert values(kafka, topic, "segment.bytes", "segment.ms") == ["7777", "604800000"]


def test_a_broker_starts_without_what_it_cannot_use(
    place: tuple[KazooClient, BrokerProcess],
) -> None:
    zookeeper, broker = place
    path = "/config/brokers/1"
    zookeeper.create(path, znode({**UNUSABLE, **UNREADABLE, **USABLE}), makepath=True)
    zookeeper.create("/config/brokers/<default>", b"no JSON", makepath=True)
    broker.start()
    (line,) = complaints(broker)
    for name in UNUSABLE:
        assert f"{name} (" in line
    for name in UNREADABLE:
        assert f"cannot be read are left out: {name} (password.encoder.secret" in broker.log_text
    assert "hunter2" not in broker.log_text
    assert "The configs of brokers/<default> are left out" in broker.log_text
    with WireClient(broker.bootstrap) as kafka:
        works(kafka)
        shown = describe(kafka, "1", *UNUSABLE, *UNREADABLE, *USABLE, kind=BROKER)
        taken = {name for name, config in shown.items() if config.config_source == FROM_BROKER}
        assert taken == set(USABLE)

        # And while it runs, whoever writes them.
        zookeeper.set(path, znode({**USABLE, "log.roll.ms": "0"}))
        change = json.dumps({"version": 2, "entity_path": "brokers/1"}).encode()
        zookeeper.create("/config/changes/config_change_", change, sequence=True)
        until(lambda: len(complaints(broker)) >= 2)
        assert complaints(broker)[1].startswith("log.roll.ms (log.roll.ms must be at least 1)")
        works(kafka)
    assert "Traceback" not in broker.log_text


def test_a_topics_unusable_configs_stop_no_broker(
    place: tuple[KazooClient, BrokerProcess],
) -> None:
    zookeeper, broker = place
    broker.start()
    with WireClient(broker.bootstrap) as kafka:
        topics = [kafka.create_topic().name for _ in range(3)]
    told = (
        "retention.ms, segment.bytes",
        "message.format.version, min.cleanable.dirty.ratio",
        None,
    )
    contents = (
        znode({"retention.ms": "-5", "segment.bytes": "1", "no.such.key": "1", "flush.ms": "7"}),
        znode({"message.format.version": "x" * 32_000, "min.cleanable.dirty.ratio": "NaN"}),
        b"{no JSON",
    )
    for topic, data in zip(topics, contents, strict=True):
        zookeeper.set(f"/config/topics/{topic}", data)
    broker.kill()
    broker.start()
    with WireClient(broker.bootstrap) as kafka:
        for topic in topics:
            assert leaders_answer(kafka, topic) is ErrorCode.NONE
    for topic, names in zip(topics, told, strict=True):
        line = f"Configs of topic {topic} that cannot be used are left out: {names}"
        if names is None:
            line = f"The configs of topics/{topic} are left out"
        assert line in broker.log_text
    assert "Traceback" not in broker.log_text
