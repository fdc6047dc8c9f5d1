"""The addresses of members, from the content of `/zookeeper/config`."""

import pytest

from pybroker_kafka.broker.zk.ensemble_members import client_addresses


@pytest.mark.parametrize(
    ("config", "addresses"),
    [
        ("", []),
        ("version=0", []),
        ("server.1=zk1:2888:3888:participant\nversion=0", []),
        ("server.1=zk1:2888:3888;2181", ["zk1:2181"]),
        ("server.1=zk1:2888:3888:participant;0.0.0.0:2181\nversion=100000000", ["zk1:2181"]),
        ("server.1=zk1:2888:3888:observer;10.0.0.7:2182", ["10.0.0.7:2182"]),
        ("server.1=[fd00::1]:2888:3888;[::]:2181", ["[fd00::1]:2181"]),
        ("server.1=zk1:1:2;2181\nserver.2=zk2:1:2|zk3:1:2;2181\nserver.4=damaged", ["zk1:2181"]),
        ("no property", []),
    ],
)
def test_addresses(config: str, addresses: list[str]) -> None:
    assert client_addresses(config) == addresses
