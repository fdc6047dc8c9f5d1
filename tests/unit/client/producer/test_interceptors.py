"""Interceptors: what becomes of a record is told to each, whatever one of them does."""

from __future__ import annotations

from pybroker_kafka.client.producer.batch import Batch, Outcome
from pybroker_kafka.client.producer.delivery import Delivery, RecordMetadata
from pybroker_kafka.client.producer.interceptors import Interceptors, OutgoingRecord


class Clumsy:
    def on_send(self, record: OutgoingRecord) -> OutgoingRecord:
        return record._replace(topic="elsewhere")

    def on_acknowledgement(self, _told: RecordMetadata | None, _error: Exception | None) -> None:
        raise ValueError("dropped it")


class Careful:
    def __init__(self) -> None:
        self.told: list[RecordMetadata | None] = []

    def on_send(self, record: OutgoingRecord) -> OutgoingRecord:
        return record._replace(topic=record.topic.upper())

    def on_acknowledgement(self, told: RecordMetadata | None, _error: Exception | None) -> None:
        self.told.append(told)


def test_one_that_fails_harms_nobody() -> None:
    lines: list[str] = []
    careful = Careful()
    interceptors = Interceptors([Clumsy(), careful], lines.append)
    assert interceptors.on_send(OutgoingRecord("t", b"v")).topic == "ELSEWHERE"
    batch = Batch("t", 0, created_ms=1)
    batch.records.append((5, None, b"v", ()))
    interceptors.watch(Delivery(batch, 0, 5), batch)
    batch.complete(Outcome(base_offset=7))
    assert lines == ["an interceptor failed: ValueError('dropped it')"]
    assert careful.told == [RecordMetadata("t", 0, 7, 5)]
