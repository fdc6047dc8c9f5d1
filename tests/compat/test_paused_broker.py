"""Our producers while a broker is paused, its connections open and silent. About 10 s.

Most of it is the wait for ZooKeeper to miss the broker, and others to lead.
"""

from __future__ import annotations

from typing import Any

import trio

from pybroker_kafka import Producer
from pybroker_kafka.testing import KafkaCluster

CONFIG = {"zookeeper.session.timeout.ms": 2_000}
PATIENCE_SECONDS = 120
# Longer than the test may take: that a request is late is all that a producer can go by.
WAITS: dict[str, Any] = {"request_timeout_ms": 200_000, "delivery_timeout_ms": 200_000}


def test_a_paused_broker_is_left_once_others_lead() -> None:
    """By a producer that numbers its batches; one that does not would write twice, and waits."""

    async def main(kafka: KafkaCluster, topic: str) -> None:
        async with (
            Producer(kafka.bootstrap, **WAITS) as numbered,
            Producer(kafka.bootstrap, idempotence=False, **WAITS) as other,
        ):
            for producer in (numbered, other):
                await producer.send(topic, b"before")
            paused = await trio.to_thread.run_sync(kafka.leader, topic)
            await trio.to_thread.run_sync(kafka.pause, paused)
            try:
                with trio.fail_after(PATIENCE_SECONDS):
                    late = await other.enqueue(topic, b"of the other")
                    await numbered.send(topic, b"of the numbered")
                assert not late.is_done
            finally:
                with trio.CancelScope(shield=True):
                    await trio.to_thread.run_sync(kafka.resume, paused)
            with trio.fail_after(PATIENCE_SECONDS):
                await late

    with KafkaCluster(brokers=2, config=CONFIG) as kafka:
        topic = kafka.topic("orders", replication_factor=2)
        kafka.wait_for_isr(topic, 2)
        trio.run(main, kafka, topic)
        found = [one.value for one in kafka.records(topic, at_least=4)]
    assert found == [b"before", b"before", b"of the numbered", b"of the other"]
