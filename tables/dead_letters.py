"""Records that do not fit a table's schema, as dead letters: the unchanged record, with headers of
Kafka Connect that say where it was and why it is here.

They are sent before the commit that has the offsets behind them, so after a crash one may be there
twice, and none is lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ..client.cluster import Cluster
from ..client.consumer.received import ReceivedBatch
from ..client.producer.producer import Producer
from .values import Bad

PREFIX: Final = "__connect.errors."


async def send_dead_letters(
    cluster: Cluster, topic: str, dead: Sequence[tuple[ReceivedBatch, Bad]]
) -> None:
    """Raises ClientError."""
    async with Producer(cluster) as producer:
        deliveries = []
        for batch, bad in dead:
            columns, row = batch.columns, batch.first + bad.row
            told = {
                "topic": batch.topic,
                "partition": str(batch.partition),
                "offset": str(columns.offsets[row]),
                "stage": "VALUE_CONVERTER",
                "exception.message": bad.reason,
            }
            headers = [(PREFIX + name, text.encode()) for name, text in told.items()]
            deliveries.append(
                await producer.enqueue(
                    topic,
                    columns.value(row),
                    key=columns.key(row),
                    headers=[*columns.headers(row), *headers],
                )
            )
        for delivery in deliveries:
            await delivery.wait()
