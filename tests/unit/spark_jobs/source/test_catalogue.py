"""The offsets that Spark's planning asks for: at once where they are told at once."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from pybroker_kafka.client.cluster import RETRY_BACKOFF_SECONDS, Cluster
from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.spark_jobs.source.catalogue import Catalogue
from pybroker_kafka.spark_jobs.source.limits import LATEST
from pybroker_kafka.spark_jobs.source.options import SourceOptions
from tests.support.offset_broker import ADDRESS, TOPIC, OffsetBroker

OPTIONS = {"kafka.bootstrap.servers": ADDRESS, "subscribe": TOPIC}


class CatalogueOf(Catalogue):
    """Over a network in memory."""

    def __init__(self, broker: OffsetBroker) -> None:
        super().__init__(SourceOptions.parse(OPTIONS, streaming=True))
        self._broker = broker

    def cluster(self) -> Cluster:
        return self._broker.cluster()


@pytest.mark.parametrize(
    ("codes", "asked"), [([], 1), ([ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER], 2)]
)
async def test_offsets(
    nursery: trio.Nursery, autojump_clock: MockClock, codes: list[ErrorCode], asked: int
) -> None:
    broker = OffsetBroker(nursery)
    broker.codes = codes
    began = trio.current_time()
    wanted = {(TOPIC, 0): LATEST, (TOPIC, 1): LATEST, ("gone", 0): LATEST}
    found = await CatalogueOf(broker)._offsets(wanted)
    assert found == {(TOPIC, 0): 0, (TOPIC, 1): 100}
    assert trio.current_time() - began == pytest.approx((asked - 1) * RETRY_BACKOFF_SECONDS)
    assert broker.count(ApiKey.LIST_OFFSETS) == asked
