"""States of connections, and of what they share, that must not exist: each is found.

What is a connection's own closes it; what all share ends the broker.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from time import perf_counter
from types import SimpleNamespace
from typing import Any

import pytest

from pybroker_kafka.broker.network.connection import Connection
from pybroker_kafka.broker.network.connection_quotas import ConnectionQuotas, MemoryPool
from pybroker_kafka.broker.network.dispatcher import Dispatcher
from pybroker_kafka.broker.network.mute_state import READING, MuteEvent, next_state
from pybroker_kafka.broker.network.produce_pipeline import MAX_WAITING, Pipeline
from pybroker_kafka.broker.network.receive_buffer import ReceiveMemory
from pybroker_kafka.broker.network.request import Request, Route
from pybroker_kafka.broker.network.send_queue import SendQueue
from pybroker_kafka.broker.observability.request_metrics import RequestMetrics
from pybroker_kafka.broker.replicas.applied_replicas import AppliedReplicas, _park
from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.apis.produce import ProduceRequest, ProduceResponse
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.invariants import BrokenConnection, BrokenInvariant
from pybroker_kafka.replication.purgatory import Operation
from pybroker_kafka.replication.types import Completion
from tests.support.handlers import AtOnce, RecordingSink

Stranger: Any = object


@pytest.fixture
def queue() -> Iterator[SendQueue]:
    """To a client that takes what its socket holds, and no more."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours, theirs:
        yield SendQueue(ours)


def test_bytes_that_are_counted_too_often(queue: SendQueue) -> None:
    queue.add([b"abc"])
    queue.size += 1
    with pytest.raises(BrokenConnection, match="1 bytes are counted"):
        queue.flush()


def test_bytes_that_are_counted_wrong_while_some_are_left(queue: SendQueue) -> None:
    queue.add([bytes(10_000_000)])
    assert not queue.flush()
    queue.size -= 1
    with pytest.raises(BrokenConnection, match="are left"):
        queue.flush()


def test_answers_in_the_order_of_the_requests() -> None:
    pipeline = Pipeline()
    requests: list[Any] = [Stranger() for _ in range(3)]
    first, second, third = requests
    for request in requests:
        pipeline.add(request)
    assert pipeline.answer(second, None) == []
    stranger: Any = Stranger()
    for request in (second, stranger):
        with pytest.raises(BrokenConnection, match="answered twice, or was never accepted"):
            pipeline.answer(request, None)
    assert [one for one, _ in pipeline.answer(first, None)] == [first, second]
    assert [one for one, _ in pipeline.answer(third, None)] == [third]


def request() -> Request:
    sink = RecordingSink("PLAINTEXT", 0, ApiKey.PRODUCE, 9)
    metrics = RequestMetrics("Produce", 9)
    route = Route(ApiKey.PRODUCE, 9, lambda _: None, metrics, AtOnce())
    return Request(sink, route, 1, "app", ProduceRequest(), 100, perf_counter())


@pytest.mark.parametrize(
    "answer",
    [
        lambda request: request.respond(ProduceResponse()),
        lambda request: request.respond_in_turns(ProduceResponse()),
        lambda request: request.respond_encoded(bytes(10)),
        lambda request: request.fail(ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
    ids=["message", "in turns", "bytes", "error"],
)
def test_a_request_that_is_answered_twice(answer: Callable[[Request], None]) -> None:
    answered = request()
    answered.respond(ProduceResponse())
    first = answered.responded_at
    with pytest.raises(BrokenConnection, match=r"Produce v9 #1 of app .* was answered twice"):
        answer(answered)
    assert answered.responded_at == first
    closed = request()
    closed.close()
    with pytest.raises(BrokenConnection, match="was answered twice"):
        answer(closed)


def test_so_many_requests_wait() -> None:
    pipeline, request = Pipeline(), Stranger()
    for _ in range(MAX_WAITING + 1):
        pipeline.add(request)
    with pytest.raises(BrokenConnection, match="wait for replicas"):
        pipeline.add(request)


def test_a_state_that_does_not_follow() -> None:
    with pytest.raises(BrokenConnection, match="RESPONSE_SENT is illegal in READING"):
        next_state(READING, MuteEvent.RESPONSE_SENT)


def test_a_buffer_that_is_used_backwards() -> None:
    connection: Any = object.__new__(Connection)
    connection.start, connection.end = 10, 9
    with pytest.raises(BrokenConnection, match="from 10 to 9"):
        connection.frame_ready()


def receive_memory() -> None:
    ReceiveMemory(100).give(1)


def request_memory() -> None:
    MemoryPool(100).release(1)


def connections_of_an_address() -> None:
    quotas = ConnectionQuotas()
    quotas.opened("PLAINTEXT", "host")
    quotas.closed("PLAINTEXT", "another")


def connections_in_all() -> None:
    quotas = ConnectionQuotas()
    for _ in range(2):
        quotas.opened("PLAINTEXT", "host")
    quotas.total += 1
    quotas.closed("PLAINTEXT", "host")


@pytest.mark.parametrize(
    "broken",
    [receive_memory, request_memory, connections_of_an_address, connections_in_all],
)
def test_what_connections_share_is_counted(broken: Callable[[], None]) -> None:
    with pytest.raises(BrokenInvariant):
        broken()


def test_whoever_waits_for_replicas_is_known_before_the_answer() -> None:
    replicas: Any = SimpleNamespace(_effects=[], _completed=[1])
    replicas.manager = SimpleNamespace(take_completed=lambda: [Completion(None, "results")])
    with pytest.raises(BrokenInvariant, match="before it has a waiter, there is results"):
        AppliedReplicas.apply_effects(replicas)
    waiter: Any = "second"
    with pytest.raises(BrokenInvariant, match="'first' waits already, beside 'second'"):
        _park(Operation("first"), waiter)


def test_what_is_shared_is_not_contained() -> None:
    """Neither to the request nor to the connection that met it."""
    error = BrokenInvariant("the log is wrong")
    request: Any = Stranger()
    connection: Any = object.__new__(Connection)
    dispatcher: Any = object.__new__(Dispatcher)
    replicas: Any = None
    for contain in (
        lambda: connection.fail(error),
        lambda: dispatcher.handler_failed(request, error),
        lambda: AppliedReplicas.answer_failed(replicas, request, error),
    ):
        with pytest.raises(BrokenInvariant, match="the log is wrong"):
            contain()
