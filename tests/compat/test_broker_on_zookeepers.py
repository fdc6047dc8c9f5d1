"""A broker on our ZooKeeper and on the real one: the same znodes, the same life over crashes."""

import contextlib
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec
from kazoo.client import KazooClient

from pybroker_kafka.protocol.apis.api_versions import ApiVersionsRequest
from tests.support.processes import BrokerProcess, ZooKeeperProcess, zookeeper_process
from tests.support.real_zookeeper import real_zookeeper
from tests.support.wire import WireClient

TOPIC = "flights"
RECORDS = 100
WAIT_S = 120.0
SESSION_TIMEOUT_MS = 18_000


@contextlib.contextmanager
def zookeeper(kind: str, directory: Path) -> Iterator[str]:
    if kind == "embedded":
        with zookeeper_process(directory) as connect:
            yield connect
    else:
        with real_zookeeper(directory) as port:
            yield f"127.0.0.1:{port}"


@contextlib.contextmanager
def looking_at(connect: str) -> Iterator[KazooClient]:
    client = KazooClient(connect)
    client.start()
    try:
        yield client
    finally:
        client.stop()


def paths_below(client: KazooClient, path: str = "") -> Iterator[str]:
    for name in sorted(client.get_children(path or "/")):
        yield f"{path}/{name}"
        yield from paths_below(client, f"{path}/{name}")


def fields_of(client: KazooClient, path: str) -> object:
    """What must be the same in every run: the version, the fields, and who owns it."""
    data, stat = client.get(path)
    try:
        content: object = json.loads(data) if data else None
    except ValueError:
        content = None
    shape = sorted(content) if isinstance(content, dict) else content
    return stat.version, shape, stat.ephemeralOwner != 0


def create_topic(broker: BrokerProcess, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(name, 3, 1)])[name].result(WAIT_S)


def produce(broker: BrokerProcess) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all"})
    for number in range(RECORDS):
        producer.produce(TOPIC, b"%d" % number, partition=number % 3)
    assert producer.flush(WAIT_S) == 0


def count_records(broker: BrokerProcess) -> int:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    latest = {TopicPartition(TOPIC, number): OffsetSpec.latest() for number in range(3)}
    found = admin.list_offsets(latest)
    return sum(future.result(WAIT_S).offset for future in found.values())


def follow_the_features(broker: BrokerProcess, client: KazooClient) -> None:
    """The version of /feature is the epoch that ApiVersions answers, also after a change."""
    data, stat = client.get("/feature")
    assert client.set("/feature", data).version == stat.version + 1
    deadline = time.monotonic() + WAIT_S
    with WireClient(broker.bootstrap) as asker:
        while True:
            request = ApiVersionsRequest(
                client_software_name="test", client_software_version="1.0.0"
            )
            if asker.call(request, 3).finalized_features_epoch == stat.version + 1:
                return
            assert time.monotonic() < deadline, "the broker does not follow /feature"
            time.sleep(0.05)


def life_of_a_broker(directory: Path, connect: str) -> dict[str, object]:
    """Start, topic, records, SIGKILL, start at once; returns the znodes at the end."""
    config = {
        "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
        "log.flush.interval.messages": "1",
    }
    broker = BrokerProcess(directory, connect, config)
    broker.start()
    try:
        create_topic(broker, TOPIC)
        produce(broker)
        with looking_at(connect) as client:
            before = client.exists("/brokers/ids/1").czxid
            broker.kill()
            # At once: the old session has not expired, its node is still there.
            assert client.exists("/brokers/ids/1").czxid == before
            took_s = broker.start()
            assert took_s < SESSION_TIMEOUT_MS / 1000
            assert client.exists("/brokers/ids/1").czxid > before
            assert count_records(broker) == RECORDS
            assert client.get("/controller_epoch")[0] == b"2"
            follow_the_features(broker, client)
            ours = [path for path in paths_below(client) if not path.startswith("/zookeeper")]
            znodes = {path: fields_of(client, path) for path in ours}
            assert broker.stop() == 0
            assert client.get_children("/brokers/ids") == []
        return znodes
    finally:
        broker.kill()


@pytest.mark.nightly
def test_a_broker_leaves_the_same_znodes_on_both(tmp_path: Path) -> None:
    found = {}
    for kind in ("embedded", "real"):
        with zookeeper(kind, tmp_path / kind) as connect:
            found[kind] = life_of_a_broker(tmp_path / kind / "broker", connect)
    assert found["embedded"] == found["real"]
    assert f"/brokers/topics/{TOPIC}/partitions/2/state" in found["embedded"]


@pytest.mark.parametrize("pause_s", [0.0, 2.0])
def test_a_broker_lives_through_the_death_of_its_zookeeper(tmp_path: Path, pause_s: float) -> None:
    """SIGKILL of the embedded ZooKeeper, which then starts again on its data: nobody expires."""
    server = ZooKeeperProcess(tmp_path)
    server.start()
    connect = server.connect
    broker = BrokerProcess(
        tmp_path / "broker", connect, {"zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS)}
    )
    broker.start()
    try:
        with looking_at(connect) as client:
            before = client.exists("/brokers/ids/1").czxid
        server.kill()
        time.sleep(pause_s)
        server.start()
        create_topic(broker, TOPIC)
        produce(broker)
        assert count_records(broker) == RECORDS
        with looking_at(connect) as client:
            assert client.exists("/brokers/ids/1").czxid == before
            assert client.get_children("/brokers/topics") == [TOPIC]
        assert broker.stop() == 0
    finally:
        broker.kill()
        server.kill()
