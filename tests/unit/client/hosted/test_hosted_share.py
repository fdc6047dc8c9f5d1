"""Records of a call whose caller has not received them are handed out again."""

from __future__ import annotations

from typing import Any

import trio

from pybroker_kafka.client.cluster import now_ms
from pybroker_kafka.client.hosted.hosted_share import HostedShareConsumer
from pybroker_kafka.client.share.records import SharedRecord
from pybroker_kafka.client.share.state import Held

PLACE = (bytes(16), 0)


def consumer_with(count: int) -> HostedShareConsumer:
    """As if it were open, and had fetched."""
    consumer = HostedShareConsumer("localhost:1", group_id="g")
    opened: Any = consumer
    opened._nursery = object()
    consumer._state.buffer.extend(
        Held(SharedRecord("t", 0, offset, -1, None, b""), PLACE, 1, 0, now_ms() + 60_000)
        for offset in range(count)
    )
    return consumer


def test_records_that_were_not_received_come_again_and_are_not_accepted() -> None:
    async def main() -> None:
        consumer = consumer_with(5)
        number, lost = await consumer.take(2, None)
        assert [record.offset for record in lost] == [0, 1]
        number, found = await consumer.take(3, None)
        assert [record.offset for record in found] == [0, 1, 2]
        assert not consumer._state.session(1)._results
        consumer.received = number
        _, rest = await consumer.take(3, None)
        assert [record.offset for record in rest] == [3, 4]
        assert list(consumer._state.session(1)._results[PLACE]) == [0, 1, 2]

    trio.run(main)
