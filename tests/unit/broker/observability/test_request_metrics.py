"""Under which names requests count."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from pybroker_kafka.broker.observability.metrics import BrokerMetrics
from pybroker_kafka.protocol.apis.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTransaction,
)
from pybroker_kafka.protocol.apis.fetch import FetchRequest, ReplicaState


class Answered(NamedTuple):
    """A request of one second."""

    body: Any
    received_at: float = 1.0
    started_at: float = 1.0
    local_done_at: float = 2.0
    responded_at: float = 2.0
    throttle_ms: int = 0


def counted(metrics: BrokerMetrics) -> dict[str, tuple[float, float]]:
    """By name, how many requests, and of how many the time is known."""
    families = {one.name: one for one in metrics.collect()}
    counts: dict[str, float] = {}
    for sample in families["kafka_network_requestmetrics_requests"].samples:
        counts[sample.labels["request"]] = counts.get(sample.labels["request"], 0) + sample.value
    times = {
        sample.labels["request"]: sample.value
        for sample in families["kafka_network_requestmetrics_totaltimems"].samples
        if sample.name.endswith("_count")
    }
    assert counts.keys() == times.keys()
    return {name: (count, times[name]) for name, count in counts.items()}


@pytest.mark.parametrize("version", [4, 14, 15, 17])
def test_a_fetch_is_one_of_a_consumer_or_of_a_follower_besides(version: int) -> None:
    metrics = BrokerMetrics()
    fetches = metrics.request("Fetch", version)
    if version < 15:
        consumer, follower = FetchRequest(), FetchRequest(replica_id=3)
    else:
        consumer = FetchRequest()
        follower = FetchRequest(replica_state=ReplicaState(replica_id=3))
    for body in (consumer, follower, consumer):
        fetches.record(Answered(body), 2.0)
    assert counted(metrics) == {
        "Fetch": (3, 3), "FetchConsumer": (2, 2), "FetchFollower": (1, 1),
    }  # fmt: skip


def test_what_only_verifies_a_transaction_has_a_name_of_its_own() -> None:
    metrics = BrokerMetrics()
    old, new = (metrics.request("AddPartitionsToTxn", version) for version in (3, 4))
    old.record(Answered(AddPartitionsToTxnRequest()), 2.0)
    for flags in ([True], [True, True], [True, False], [False]):
        parts = [AddPartitionsToTxnTransaction(verify_only=flag) for flag in flags]
        new.record(Answered(AddPartitionsToTxnRequest(transactions=parts)), 2.0)
    assert counted(metrics) == {
        "AddPartitionsToTxn": (3, 3), "AddPartitionsToTxnVerification": (2, 2),
    }  # fmt: skip
