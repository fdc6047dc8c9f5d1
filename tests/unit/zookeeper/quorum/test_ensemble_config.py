"""zoo.cfg: members, limits, and refusals with their reasons."""

from pathlib import Path

import pytest

from pybroker_kafka.zookeeper.quorum.ensemble_config import (
    ConfigurationError,
    QuorumTlsConfig,
    SecurePort,
    Server,
    parse_config,
    parse_properties,
)

THREE = """
# three members and an observer
dataDir=/var/lib/zookeeper
clientPort = 2181
tickTime=500
initLimit=10
syncLimit=5
server.1=zk1:2888:3888
server.2=zk2:2888:3888:participant
server.3=[::1]:2888:3888;127.0.0.1:2191
server.4=zk4:2888:3888:observer
autopurge.purgeInterval=1
"""


def test_a_member() -> None:
    config = parse_config(parse_properties(THREE), "3\n")
    assert config.my_id == 3
    assert config.voters == {1, 2, 3}
    assert config.data_dir == Path("/var/lib/zookeeper")
    assert (config.client_host, config.client_port) == ("127.0.0.1", 2191)
    assert (config.tick_ms, config.init_limit, config.sync_limit) == (500, 10, 5)
    assert config.servers[3] == Server(3, "::1", 2888, 3888, False, ("127.0.0.1", 2191))
    assert not config.is_observer
    assert parse_config(parse_properties(THREE), "4").is_observer
    assert parse_config(parse_properties(THREE), "1").client_host == "0.0.0.0"
    assert config.ignored == ("autopurge.purgeInterval",)
    assert config.text.decode().splitlines() == [
        "server.1=zk1:2888:3888:participant",
        "server.2=zk2:2888:3888:participant",
        "server.3=[::1]:2888:3888:participant;127.0.0.1:2191",
        "server.4=zk4:2888:3888:observer",
        "version=0",
    ]


def test_one_server_alone() -> None:
    config = parse_config({"dataDir": "/d", "clientPort": "2181"}, None)
    assert config.servers == {}
    assert config.tick_ms == 3000


@pytest.mark.parametrize(
    ("change", "my_id", "reason"),
    [
        ("dataDir=", "1", "dataDir is not set"),
        ("initLimit=x", "1", "initLimit=x is not a number"),
        ("tickTime=0", "1", "less than 1"),
        ("server.5=zk", "1", "server.5=zk is not host"),
        ("server.5=zk:1:2:boss", "1", "is not host"),
        ("server.x=zk:1:2", "1", "no number"),
        ("server.300=zk:1:2", "1", "from 0 to 255"),
        ("server.5=a:1:2|b:1:2", "1", "one address"),
        ("client.portUnification=true", "1", "of one kind"),
        ("secureClientPortAddress=::1", "1", "secureClientPort is not"),
        ("secureClientPort=x", "1", "secureClientPort=x is not a number"),
        ("secureClientPort=2281\nssl.ocsp=true", "1", "OCSP"),
        ("secureClientPort=2281\nssl.context.supplier.class=x", "1", "no such key"),
        ("quorum.auth.enableSasl=true", "1", "a section QuorumServer"),
        ("quorum.auth.learnerRequireSasl=true", "1", "needs quorum.auth.enableSasl"),
        ("quorum.auth.serverRequireSasl=true", "1", "needs quorum.auth.enableSasl"),
        ("localSessionsEnabled=true", "1", "whole ensemble"),
        ("dynamicConfigFile=/d/zoo.cfg.dynamic", "1", "fixed"),
        ("ssl.quorum.crl=true", "1", "revoked"),
        ("ssl.quorum.context.supplier.class=x", "1", "no such key"),
        ("reconfigEnabled=true", "1", "fixed"),
        ("group.1=1:2", "1", "one vote"),
        ("nonsense", "1", "has no value"),
        ("", "9", "no server.9"),
        ("", "x", "not a number"),
        ("", None, "no file myid"),
    ],
)
def test_refusals(change: str, my_id: str | None, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        parse_config(parse_properties(THREE + change + "\n"), my_id)


def test_tls_between_members() -> None:
    keys = "ssl.quorum.keyStore.location=/k.pem\nssl.quorum.trustStore.location=/t.pem\n"
    assert parse_config(parse_properties(THREE), "1").tls is None
    assert parse_config(parse_properties(THREE + keys), "1").tls is None
    config = parse_config(parse_properties(THREE + keys + "sslQuorum=true\n"), "1")
    stores = {
        "ssl.quorum.keyStore.location": "/k.pem",
        "ssl.quorum.trustStore.location": "/t.pem",
    }
    assert config.tls == QuorumTlsConfig(stores)
    assert config.ignored == ("autopurge.purgeInterval",)
    both = THREE + keys + "portUnification=true\n"
    assert parse_config(parse_properties(both), "1").tls == QuorumTlsConfig(stores, False, True)
    both += "sslQuorum=true\n"
    assert parse_config(parse_properties(both), "1").tls == QuorumTlsConfig(stores, True, True)


def test_tls_at_the_client_port() -> None:
    keys = "ssl.keyStore.location=/k.pem\nssl.clientAuth=none\n"
    without = parse_config(parse_properties(THREE + keys), "1")
    assert (without.secure_port, without.access.schemes) == (None, {"digest"})
    assert without.ignored[1:] == ("ssl.keyStore.location", "ssl.clientAuth")
    found = parse_config(parse_properties(THREE + keys + "secureClientPort=2281\n"), "1")
    stores = {"ssl.keyStore.location": "/k.pem", "ssl.clientAuth": "none"}
    assert found.secure_port == SecurePort("0.0.0.0", 2281, stores)
    assert found.access.schemes == {"digest", "x509"}
    assert found.ignored == ("autopurge.purgeInterval",)
    alone = "dataDir=/d\nsecureClientPort=2281\nsecureClientPortAddress=::1\n"
    config = parse_config(parse_properties(alone), None)
    assert (config.client_port, config.secure_port) == (None, SecurePort("::1", 2281, {}))


def test_members_need_their_limits() -> None:
    with pytest.raises(ConfigurationError, match="syncLimit is not set"):
        parse_config(parse_properties(THREE.replace("syncLimit=5", "")), "1")
    only = "dataDir=/d\nclientPort=1\ninitLimit=5\nsyncLimit=5\nserver.1=a:1:2:observer"
    with pytest.raises(ConfigurationError, match="no server is a participant"):
        parse_config(parse_properties(only), "1")
