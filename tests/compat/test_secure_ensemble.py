"""A secured cluster with three ZooKeepers: nobody else gets in, at any member or any port."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import AuthFailedError, SessionClosedRequireSaslError

from pybroker_kafka.testing import KafkaCluster
from pybroker_kafka.zookeeper.passwords import member_password
from tests.support.patience import until


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaCluster]:
    with KafkaCluster(brokers=2, zookeepers=3, secure=True) as running:
        yield running


def member_ports(pid: int) -> set[int]:
    """The ports on which a process listens."""
    inodes = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        found = re.fullmatch(r"socket:\[(\d+)\]", str(entry.readlink()))
        if found:
            inodes.add(found[1])
    ports = set()
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A" and fields[9] in inodes:
            ports.add(int(fields[1].rpartition(":")[2], 16))
    return ports


def try_to_read(client: KazooClient, login: str | None) -> None:
    client.start(timeout=10)
    if login is not None:
        client.add_auth("digest", login)
    client.get_children("/")


@pytest.mark.parametrize("login", [None, "cluster:guessed"])
def test_clients_without_the_login(kafka: KafkaCluster, login: str | None) -> None:
    for address in kafka.zookeeper.split(","):
        client = KazooClient(hosts=address, timeout=4, connection_retry={"max_tries": 0})
        try:
            with pytest.raises((SessionClosedRequireSaslError, AuthFailedError)):
                try_to_read(client, login)
        finally:
            client.stop()
            client.close()


def test_the_login_of_the_cluster_gets_in_at_each(kafka: KafkaCluster) -> None:
    login = (kafka.data_dir / "security" / "zookeeper").read_text().strip()
    for number, address in enumerate(kafka.zookeeper.split(",")):
        client = KazooClient(hosts=address, timeout=4, auth_data=[("digest", login)])
        client.start(timeout=30)
        try:
            client.create(f"/mine-{number}", b"x", ephemeral=True)
            assert sorted(client.get_children("/brokers/ids")) == ["1", "2"]
            session_id, password = client.client_id
            assert password != member_password(session_id)  # which anybody can compute
        finally:
            client.stop()
            client.close()


def test_a_session_moves_with_its_login(kafka: KafkaCluster) -> None:
    login = (kafka.data_dir / "security" / "zookeeper").read_text().strip()
    client = KazooClient(hosts=kafka.zookeeper, timeout=10, auth_data=[("digest", login)])
    client.start(timeout=30)
    try:
        client.create("/moved", b"x", ephemeral=True)
        session_id = client.client_id[0]
        with kafka.kill(kafka.zookeeper_leader()):
            kafka.topic("meanwhile")
            until(lambda: client.state == KazooState.CONNECTED)
            assert client.retry(client.exists, "/moved").ephemeralOwner == session_id
        kafka.wait_for_zookeepers()
        assert client.client_id[0] == session_id
    finally:
        client.stop()
        client.close()


def test_the_ports_between_members_are_closed_without_a_certificate(kafka: KafkaCluster) -> None:
    for name in kafka.zookeepers:
        node = kafka.node(name)
        inner = member_ports(node.pid) - {node.port}
        assert len(inner) == 2
        for port in inner:
            with socket.create_connection(("127.0.0.1", port), timeout=30) as stranger:
                stranger.sendall(b"\0" * 64)
                answer = stranger.recv(100)
                assert answer == b"" or answer[0] == 21  # an alert of TLS
    kafka.wait_for_zookeepers()
    kafka.topic("after-strangers")


def test_brokers_that_die_and_lose_sessions(kafka: KafkaCluster) -> None:
    with kafka.kill(1):
        kafka.wait_for_brokers()
    kafka.wait_for_brokers()
    kafka.expire_session(2)
    kafka.topic("again")
