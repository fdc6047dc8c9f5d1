"""What handlers wait for on behalf of a client that hangs up, or whose connection closes."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from pybroker_kafka.broker.handlers.client_waits import waiting_for
from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.apis.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from pybroker_kafka.replication.waiting import WaitingOperations
from tests.support.handlers import Call
from tests.support.replication import ME, TOPIC, batch
from tests.support.replication_handlers import HandlerBroker, values

FOR_EVER_MS = 2**31 - 1
REPLICAS = (ME, 2)


def fetch(broker: HandlerBroker) -> Call:
    return broker.fetch(12, broker.cluster.partition.log.high_watermark, max_wait_ms=FOR_EVER_MS)


def produce(broker: HandlerBroker) -> Call:
    return broker.produce(9, batch(), acks=-1)


def delete_records(broker: HandlerBroker) -> Call:
    broker.produced(9, batch())
    broker.cluster.follow(2, 1)
    partitions = [DeleteRecordsPartition(partition_index=0, offset=1)]
    topics = [DeleteRecordsTopic(name=TOPIC, partitions=partitions)]
    request = DeleteRecordsRequest(topics=topics, timeout_ms=FOR_EVER_MS)
    return Call(broker.deletions, ApiKey.DELETE_RECORDS, 2, request)


def waiting(operations: WaitingOperations) -> int:
    return len(operations.fetches) + len(operations.produces) + len(operations.deletes)


@pytest.mark.parametrize("ask", [fetch, produce, delete_records])
def test_of_a_closed_connection_nothing_waits(
    broker: HandlerBroker, ask: Callable[[HandlerBroker], Call]
) -> None:
    broker.lead(replicas=REPLICAS)
    call = ask(broker)
    operations = broker.cluster.manager.waiting
    (wait,) = call.known_waits
    assert (call.waits, waiting(operations)) == (True, 1)
    wait.cancel()
    assert waiting(operations) == 0
    assert operations.next_deadline_ms() is None
    end = broker.cluster.partition.log.log_end_offset
    broker.produced(9, batch())
    broker.cluster.follow(2, end + 1)  # what would have completed it
    broker.replica_runtime.apply_effects()
    assert call.answer is None


def test_a_fetch_is_answered_when_its_client_sends_nothing_more(broker: HandlerBroker) -> None:
    broker.lead(replicas=REPLICAS)
    call = fetch(broker)
    (wait,) = call.known_waits
    broker.produced(9, batch(b"behind the high watermark"))
    wait.hurry()
    (topic,) = call.answer.responses
    assert (topic.partitions[0].error_code, topic.partitions[0].records) == (0, b"")
    assert call.known_waits == []
    assert waiting(broker.cluster.manager.waiting) == 0


def test_it_gets_what_there_is(broker: HandlerBroker) -> None:
    broker.lead()
    broker.produced(9, batch(b"some"))
    call = broker.fetch(12, 0, max_wait_ms=FOR_EVER_MS)
    assert call.answer is not None
    request = call.request
    request.body.min_bytes = 1 << 20
    again = Call(broker.fetches, ApiKey.FETCH, 12, request.body)
    (wait,) = again.known_waits
    wait.hurry()
    (topic,) = again.answer.responses
    assert values(topic.partitions[0].records) == [b"some"]


@pytest.mark.parametrize("ask", [produce, delete_records])
def test_others_go_on(broker: HandlerBroker, ask: Callable[[HandlerBroker], Call]) -> None:
    broker.lead(replicas=REPLICAS)
    call = ask(broker)
    (wait,) = call.known_waits
    wait.hurry()
    assert call.waits
    assert waiting(broker.cluster.manager.waiting) == 1


async def test_a_coroutine_does_not_wait_for_a_client_that_is_gone() -> None:
    waits: list[Any] = []
    connection = SimpleNamespace(add_wait=waits.append, remove_wait=waits.remove)
    request: Any = SimpleNamespace(connection=connection)
    went_on = False
    async with trio.open_nursery() as nursery:

        async def handler() -> None:
            nonlocal went_on
            with waiting_for(request):
                await trio.sleep_forever()
            went_on = True

        nursery.start_soon(handler)
        await trio.testing.wait_all_tasks_blocked()
        (wait,) = waits
        wait.hurry()
        await trio.testing.wait_all_tasks_blocked()
        assert not went_on
        wait.cancel()
    assert went_on
    assert waits == []
