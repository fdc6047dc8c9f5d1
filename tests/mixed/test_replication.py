"""Each kind follows the other, joins its ISR and takes over from it; nothing acknowledged is lost.

Two producers, one of them idempotent, and a consumer group work all the time. The audit compares
the bytes of all replicas, those of the group's offsets included, whose coordinator moves between
the kinds.
"""

from __future__ import annotations

import pytest

from tests.mixed.cluster import KAFKA_A, KAFKA_B, OURS, MixedCluster, under_load

pytestmark = pytest.mark.timeout(900)

STATUS_OF_A_JVM_AFTER_SIGTERM = 143


@pytest.mark.parametrize("controller", [KAFKA_A, OURS])
def test_sigkill_of_either_kind(cluster: MixedCluster, controller: int) -> None:
    """First a node of the other kind than the controller, then the controller itself."""
    topic = f"killed-under-{controller}"
    cluster.elect(controller)
    with under_load(cluster, topic) as load:
        for victim in (KAFKA_B if controller == OURS else OURS, controller):
            cluster.all_agree_on_in_sync(topic)
            cluster.kill_and_expire(victim)
            cluster.all_agree_on_loss(topic, victim)
            load.goes_on()
            cluster.start(victim)
            cluster.all_agree_on_in_sync(topic)
            load.goes_on()


def test_controlled_shutdown_of_either_kind(cluster: MixedCluster) -> None:
    """Apache Kafka is the controller at first, then a rolling restart passes it on."""
    topic = "stopped"
    cluster.elect(KAFKA_A)
    with under_load(cluster, topic) as load:
        for node in (KAFKA_A, OURS):
            cluster.all_agree_on_in_sync(topic)
            status = cluster.nodes[node].stop()
            assert status == (0 if node == OURS else STATUS_OF_A_JVM_AFTER_SIGTERM)
            cluster.all_agree_on_brokers()
            cluster.all_agree_on_loss(topic, node)
            load.goes_on()
            cluster.start(node)
        cluster.all_agree_on_in_sync(topic)
