"""Old formats in Apache Kafka and in ours: the same answers, the same records, the same sizes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.apache_kafka import ApacheKafkaProcess
from tests.support.old_formats import (
    Case,
    cases,
    observe,
    observe_odd_sets,
    observe_refusals,
)
from tests.support.processes import BrokerProcess, zookeeper_process
from tests.support.wire import WireClient

Pair = tuple[WireClient, WireClient]


@pytest.fixture(scope="module", params=[None, "2.8"], ids=["default", "2.8"])
def pair(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pair]:
    """Connections to Apache Kafka and to ours, each alone in its cluster."""
    config = {} if request.param is None else {"inter.broker.protocol.version": request.param}
    places = [tmp_path_factory.mktemp(name) for name in ("theirs", "ours")]
    with zookeeper_process(places[0]) as one, zookeeper_process(places[1]) as other:
        brokers: list[BrokerProcess] = [
            ApacheKafkaProcess(places[0] / "broker", one, config),
            BrokerProcess(places[1] / "broker", other, config),
        ]
        try:
            for broker in brokers:
                broker.start()
            with (
                WireClient(brokers[0].bootstrap) as theirs,
                WireClient(brokers[1].bootstrap) as ours,
            ):
                yield theirs, ours
        finally:
            for broker in brokers:
                broker.kill()


@pytest.mark.parametrize("case", cases(0, 1, 2, None), ids=str)
def test_every_format_in_every_format(pair: Pair, case: Case) -> None:
    theirs, ours = pair
    assert observe(ours, case) == observe(theirs, case)


@pytest.mark.parametrize("stored", [0, 1, 2, None])
def test_what_is_odd_and_what_is_refused(pair: Pair, stored: int | None) -> None:
    theirs, ours = pair
    for observed in (observe_odd_sets, observe_refusals):
        assert observed(ours, stored) == observed(theirs, stored)
