"""Cheap requests that used to cost everybody seconds: a good client beside them hardly notices."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pybroker_kafka.protocol.apis.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from pybroker_kafka.protocol.apis.metadata import MetadataRequest
from tests.abuse.beside import Bystander, assert_unharmed, bystander, for_seconds
from tests.abuse.test_largest_requests import send_and_drain
from tests.support.wire import WireClient

SECONDS = 1.0
BROKER = 4  # a kind of resource


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bystander]:
    with bystander(tmp_path_factory.mktemp("abuse")) as beside:
        yield beside


def test_nothing(good: Bystander) -> None:
    """What the machine gives without any abuse."""

    def nothing() -> None:
        with WireClient(good.bootstrap) as client:
            client.call(MetadataRequest(topics=[]))

    assert_unharmed(good, "nothing", for_seconds(SECONDS, nothing))


def test_the_same_broker_described_a_thousand_times(good: Bystander) -> None:
    """8 kB in, 25 MB out."""
    resource = DescribeConfigsResource(resource_type=BROKER, resource_name="1")
    with WireClient(good.bootstrap) as client:
        frame = client.frame(DescribeConfigsRequest(resources=[resource] * 1_000), 4)

    def describe() -> None:
        send_and_drain(good.bootstrap, frame)

    assert_unharmed(good, "DescribeConfigs x 1000", for_seconds(SECONDS, describe))
