"""`pybroker doctor` and the errors of clients name the thing that is in the way."""

from __future__ import annotations

import http.server
import json
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from pybroker_kafka import Cluster, Producer, create_topic
from pybroker_kafka.client.diagnosis import Finding, State, diagnose
from pybroker_kafka.client.probing import STEP_SECONDS, Peer, Unreached, peer_at
from pybroker_kafka.testing import KafkaCluster
from tests.support.in_process import broker, zookeeper
from tests.support.patience import Limit
from tests.support.processes import PYBROKER, free_port


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    with KafkaCluster(brokers=2) as running:
        yield running


def findings(bootstrap: str, **security: str) -> list[Finding]:
    found: list[Finding] = []
    settings = {name.replace("_", "."): text for name, text in security.items()}
    trio.run(diagnose, bootstrap, settings, found.append)
    return found


def bad(bootstrap: str, **security: str) -> Finding:
    found = [one for one in findings(bootstrap, **security) if one.state is State.BAD]
    assert len(found) == 1, found
    return found[0]


def port_of(address: str) -> tuple[str, int]:
    host, _, port = address.split(",")[0].rpartition(":")
    return host, int(port)


def test_a_healthy_cluster(cluster: KafkaCluster) -> None:
    cluster.topic("healthy")
    found = findings(cluster.bootstrap)
    assert {one.state for one in found} == {State.OK}, found
    text = "\n".join(one.text for one in found)
    assert "has 2 brokers" in text
    assert "broker 2 is reached at" in text
    assert "is the controller" in text
    assert "all replicas are in sync" in text
    assert "have space left" in text


def test_nobody_is_there() -> None:
    found = bad("127.0.0.1:1")
    assert found.text == "127.0.0.1:1 is not reached: nobody listens there"
    assert "pybroker start" in found.remedy
    assert "cannot resolve the name 'nowhere.invalid'" in bad("nowhere.invalid:9092").text


async def test_one_that_does_not_answer_is_told_in_time() -> None:
    limit = Limit(STEP_SECONDS + 2)
    # A listener whose queue is full drops further connections.
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        port = full.getsockname()[1]
        waiting = [socket.socket() for _ in range(4)]
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(("127.0.0.1", port))
        found = await peer_at("127.0.0.1", port)
        assert isinstance(found, Unreached)
        assert "no answer within 3 s" in found.reason
        assert not limit.is_over
        for each in waiting:
            each.close()


def test_a_port_of_another_kind(cluster: KafkaCluster, tmp_path: Path) -> None:
    host, port = port_of(cluster.bootstrap)
    assert trio.run(peer_at, host, port) is Peer.KAFKA
    found = bad(cluster.bootstrap.split(",")[0], security_protocol="SSL")
    assert "speaks Kafka's protocol" in found.text
    assert "security.protocol=PLAINTEXT" in found.remedy
    with http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        assert "speaks a web server" in bad(f"127.0.0.1:{server.server_port}").text
        server.shutdown()
        thread.join()


def test_zookeeper_and_tls() -> None:
    with KafkaCluster(secure=True) as secured:
        host, port = port_of(secured.bootstrap)
        assert trio.run(peer_at, host, port) is Peer.TLS
        found = bad(secured.bootstrap)
        assert "speaks TLS" in found.text
        assert "security.protocol=SSL or SASL_SSL" in found.remedy


async def test_an_advertised_address_that_nobody_knows(tmp_path: Path) -> None:
    inside, outside = free_port(), free_port()
    configs = {
        "listeners": f"OUTSIDE://127.0.0.1:{outside},INSIDE://127.0.0.1:{inside}",
        "advertised_listeners": f"OUTSIDE://broker.invalid:9092,INSIDE://127.0.0.1:{inside}",
        "listener_security_protocol_map": "OUTSIDE:PLAINTEXT,INSIDE:PLAINTEXT",
        "inter_broker_listener_name": "INSIDE",
        "offsets_topic_replication_factor": "1",
    }
    bootstrap = f"127.0.0.1:{outside}"
    told: list[str] = []
    found: list[Finding] = []
    async with zookeeper() as port, broker(port, tmp_path, None, **configs):
        await diagnose(bootstrap, {}, found.append)
        (one,) = [one for one in found if one.state is State.BAD]
        assert "broker 3 says that it is reached at broker.invalid:9092" in one.text
        assert "this machine cannot resolve the name" in one.text
        assert f"(asked at {bootstrap})" in one.text
        assert "set advertised.listeners of broker 3" in one.remedy
        limit, heard = Limit(STEP_SECONDS), trio.Event()

        def hear(text: str) -> None:
            told.append(text)
            heard.set()

        async with Cluster(f"127.0.0.1:{inside}") as cluster:
            await create_topic(cluster, "some")
        with trio.CancelScope() as scope:
            async with Producer(bootstrap, report=hear) as producer:
                await producer.enqueue("some", b"")
                await heard.wait()
                assert not limit.is_over
                scope.cancel()
                await trio.lowlevel.checkpoint()
    assert "broker 3 says that it is reached at broker.invalid:9092" in told[0]
    assert "advertised.listeners" in told[0]


def test_what_ails_a_cluster(cluster: KafkaCluster) -> None:
    cluster.topic("ailing", partitions=4)
    cluster.kill(2)
    limit = Limit(30)
    while not limit.is_over:
        found = findings(cluster.bootstrap)
        text = "\n".join(one.text for one in found if one.state is not State.OK)
        if "ailing-" in text and "replicas out of sync" in text:
            break
    assert not limit.is_over, found
    cluster.heal()
    while any(one.state is not State.OK for one in findings(cluster.bootstrap)):
        assert not limit.is_over


def test_the_command(cluster: KafkaCluster) -> None:
    command = [*PYBROKER, "doctor", "--bootstrap-server"]
    done = subprocess.run(
        [*command, cluster.bootstrap], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    assert "is the controller" in done.stdout
    assert "Python 3." in done.stdout
    done = subprocess.run(
        [*command, "127.0.0.1:1", "--json"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    first = json.loads(done.stdout)[0]
    assert first["state"] == "bad"
    assert "nobody listens there" in first["text"]
