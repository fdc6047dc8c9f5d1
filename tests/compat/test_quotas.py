"""Quotas as kafka-configs sets them, and what librdkafka and kafka-python get through under them.

The rate over half a minute, beside Apache Kafka's, is measured by hand: `quota_table`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compat.quota_table import rates
from tests.support.kafka_tools import kafka_tool
from tests.support.nightly import nightly
from tests.support.processes import BrokerProcess, running_broker

QUOTA = 400_000
SECONDS = 6.0  # two rounds of the windows: what is let through early is waited for later
CONFIGS = "kafka.admin.ConfigCommand"
# Two seconds are the longest that is let through at first.
WINDOWS = {"quota.window.num": "3", "quota.window.size.seconds": "1"}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    place: Path = tmp_path_factory.mktemp("quotas")
    with running_broker(place, WINDOWS) as started:
        yield started


def configs(broker: BrokerProcess, *arguments: str) -> str:
    return kafka_tool(CONFIGS, "--bootstrap-server", broker.bootstrap, *arguments)


@pytest.mark.nightly
def test_clients_get_what_their_quota_lets(broker: BrokerProcess) -> None:
    """None gets more than its quota. That a quota is not less than it says shows in the faster
    client: kafka-python gives up the fetch that it has tried while it was held, and waits."""
    found = rates(broker.bootstrap, SECONDS, QUOTA)
    for name, rate in found.items():
        assert rate < 1.25 * QUOTA, found
        others = [of for other, of in found.items() if other.split()[1] == name.split()[1]]
        assert max(others) > 0.75 * QUOTA, found


@pytest.mark.parametrize(
    ("entity", "shown"),
    [
        nightly(["--entity-type", "clients", "--entity-name", "app"], "client-id 'app'"),
        nightly(["--entity-type", "users", "--entity-name", "bob *"], "user-principal 'bob *'"),
        nightly(["--entity-type", "users", "--entity-default"], "the default user-principal"),
        (
            ["--entity-type", "users", "--entity-name", "bob", "--entity-type", "clients",
             "--entity-default"],
            "user-principal 'bob', the default client-id",
        ),
    ],
)  # fmt: skip
def test_kafka_configs_sets_shows_and_removes(
    broker: BrokerProcess, entity: list[str], shown: str
) -> None:
    values = "producer_byte_rate=1048576,request_percentage=12.5"
    assert "Completed updating" in configs(broker, "--alter", *entity, "--add-config", values)
    told = configs(broker, "--describe", *entity)
    assert shown in told
    assert "producer_byte_rate=1048576.0" in told
    assert "request_percentage=12.5" in told
    configs(broker, "--alter", *entity, "--delete-config", "producer_byte_rate,request_percentage")
    assert "byte_rate" not in configs(broker, "--describe", *entity)


def test_kafka_configs_limits_the_connections_of_an_address(broker: BrokerProcess) -> None:
    entity = ["--entity-type", "ips", "--entity-name", "192.0.2.7"]
    configs(broker, "--alter", *entity, "--add-config", "connection_creation_rate=50")
    assert "connection_creation_rate=50.0" in configs(broker, "--describe", *entity)
    configs(broker, "--alter", *entity, "--delete-config", "connection_creation_rate")
    assert "rate" not in configs(broker, "--describe", *entity)
