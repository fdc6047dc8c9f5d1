"""The values of a partition as kafka-python's consumer reads them from its beginning."""

from __future__ import annotations

from contextlib import closing
from typing import Any

from kafka import KafkaConsumer, TopicPartition

from tests.support.patience import Limit


def read_values(topic: str, count: int, **settings: Any) -> list[bytes]:
    """At least the first `count` of partition 0; `settings` are those of the consumer."""
    consumer = KafkaConsumer(**settings, group_id=None)
    found: list[bytes] = []
    with closing(consumer):
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        limit = Limit(120)
        while len(found) < count:
            assert not limit.is_over, f"{len(found)} records"
            for records in consumer.poll(timeout_ms=1000).values():
                found += [record.value for record in records]
    return found
