"""Variables of containers: the zoo.cfg that the image `zookeeper` would make of them."""

import pytest

from pybroker_kafka.zookeeper.quorum.ensemble_config import ConfigurationError, parse_config
from pybroker_kafka.zookeeper.quorum.environment import has_ensemble, properties_of

SERVERS = "server.1=zk1:2888:3888;2181 server.2=zk2:2888:3888;2181\n server.3=zk3:2888:3888;2181"


def test_the_defaults_of_the_image() -> None:
    config = parse_config(properties_of({"ZOO_SERVERS": SERVERS}), "2")
    assert config.voters == {1, 2, 3}
    assert (config.client_host, config.client_port) == ("0.0.0.0", 2181)
    assert (config.tick_ms, config.init_limit, config.sync_limit) == (2000, 5, 2)
    assert (str(config.data_dir), config.max_client_connections) == ("/data", 60)


def test_variables_and_more_lines_win_over_defaults() -> None:
    found = properties_of(
        {
            "ZOO_SERVERS": SERVERS,
            "ZOO_DATA_DIR": "/var/lib/zookeeper",
            "ZOO_TICK_TIME": "500",
            "ZOO_CFG_EXTRA": "syncLimit=6 minSessionTimeout=1000",
        }
    )
    assert found["dataDir"] == "/var/lib/zookeeper"
    assert (found["tickTime"], found["syncLimit"]) == ("500", "6")
    assert found["minSessionTimeout"] == "1000"


def test_without_servers_there_is_no_ensemble() -> None:
    assert has_ensemble({"ZOO_SERVERS": SERVERS})
    assert not has_ensemble({"ZOO_SERVERS": " "})
    assert not has_ensemble({"ZOO_MY_ID": "1"})


def test_a_line_that_is_none() -> None:
    with pytest.raises(ConfigurationError, match=r"ZOO_SERVERS: 'zk1:2888:3888' is not KEY=VALUE"):
        properties_of({"ZOO_SERVERS": "zk1:2888:3888"})
