"""Quotas that one kind of broker writes are obeyed by the other, and gone when it removes them."""

from __future__ import annotations

import pytest

from tests.mixed.cluster import KAFKA_A, OURS, MixedCluster
from tests.support.wire import WireClient, unique
from tests.wire.test_client_quotas import HEARTBEAT, Entity, alter

pytestmark = pytest.mark.timeout(900)


def throttle_ms(cluster: MixedCluster, node: int, client: str) -> int:
    with WireClient(cluster.nodes[node].bootstrap, client) as asking:
        return int(asking.call(HEARTBEAT, 4).throttle_time_ms)


@pytest.mark.parametrize(("writer", "obeys"), [(KAFKA_A, OURS), (OURS, KAFKA_A)])
def test_quotas_of_the_other_kind(cluster: MixedCluster, writer: int, obeys: int) -> None:
    client = unique("ö *")
    entities: list[Entity] = [
        {"client-id": client}, {"user": "ANONYMOUS", "client-id": client}, {"client-id": None},
    ]  # fmt: skip
    with WireClient(cluster.nodes[writer].bootstrap) as wire:
        for entity in entities:
            alter(wire, entity, {"request_percentage": 1e-9})
            cluster.wait_for(lambda: throttle_ms(cluster, obeys, client), f"{entity} is obeyed")
            alter(wire, entity, {"request_percentage": None})
            cluster.wait_for(
                lambda: throttle_ms(cluster, obeys, client) == 0, f"{entity} has no quota"
            )
