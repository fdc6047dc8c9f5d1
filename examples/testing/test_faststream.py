"""A FastStream application, against a real broker instead of its TestKafkaBroker."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pybroker_kafka.testing import KafkaCluster

faststream_kafka: Any = pytest.importorskip("faststream.kafka")


def test_an_application(kafka: KafkaCluster) -> None:
    orders, bills = kafka.topic("orders"), kafka.topic("bills")
    broker = faststream_kafka.KafkaBroker(kafka.bootstrap)

    async def bill(order: str) -> str:
        return f"bill for {order}"

    # What @broker.subscriber and @broker.publisher do above a function of a module.
    broker.subscriber(orders, auto_offset_reset="earliest")(broker.publisher(bills)(bill))

    async def run() -> list[bytes | None]:
        async with broker:
            await broker.start()
            await broker.publish("a book", topic=orders)
            records = await asyncio.to_thread(kafka.records, bills, at_least=1)
            return [record.value for record in records]

    assert asyncio.run(run()) == [b"bill for a book"]
