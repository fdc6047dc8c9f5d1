"""Requests while quotas are set: who is held, for how long, and what the answers say."""

from __future__ import annotations

from collections.abc import Generator
from time import perf_counter
from typing import Any

import pytest
import trio

from pybroker_kafka.broker.gauges import register_quota_gauges
from pybroker_kafka.broker.network.connection_quotas import ConnectionQuotas
from pybroker_kafka.broker.network.held_sockets import MAX_HELD, HeldSockets
from pybroker_kafka.broker.network.request import Request, Route
from pybroker_kafka.broker.network.request_handler_pool import MANY_THROTTLED
from pybroker_kafka.broker.network.request_meter import RequestMeter
from pybroker_kafka.broker.network.taken_out import ErrorsOfTaken
from pybroker_kafka.broker.observability.metrics import BrokerMetrics
from pybroker_kafka.broker.observability.request_metrics import RequestMetrics
from pybroker_kafka.broker.quotas.client_quotas import ClientQuotas
from pybroker_kafka.broker.quotas.connection_rates import ConnectionRates
from pybroker_kafka.protocol.api import ApiKey, pages, request_class
from pybroker_kafka.protocol.apis.api_versions import ApiVersionsRequest, ApiVersionsResponse
from pybroker_kafka.protocol.apis.create_topics import CreateTopicsResponse
from pybroker_kafka.protocol.apis.fetch import FetchResponse
from pybroker_kafka.protocol.apis.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseTopic,
)
from pybroker_kafka.protocol.apis.produce import ProduceRequest, ProduceResponse
from pybroker_kafka.protocol.errors import ErrorCode, KafkaError
from tests.support.handlers import CLOSED, AtOnce, RecordingSink
from tests.support.network import answers, api_versions, heartbeat, running_network
from tests.support.patience import fair

ANY_CLIENT = ("", None)

EXEMPT = [key for key, page in pages() if page.is_exempt]


def request_of(
    quotas: ClientQuotas, key: ApiKey, version: int = 0, body: Any = None
) -> tuple[Request, RecordingSink]:
    connection = RecordingSink("PLAINTEXT", 0, key, version)
    route = Route(key, version, lambda _: None, RequestMetrics(key.name, version), AtOnce())
    body = request_class(key)() if body is None else body
    asked = Request(connection, route, 1, "app", body, 1_000_000, perf_counter() - 0.5)
    asked.meter = RequestMeter(quotas)
    return asked, connection


async def test_a_client_over_its_time_is_held_and_others_are_not() -> None:
    quotas = ClientQuotas()
    quotas.apply(("", "test"), {"request_percentage": "0.000001"})
    async with running_network(client_quotas=quotas) as network:
        client, other = await network.connect(), await network.connect()
        answer = await client.ask(api_versions(), 3)
        assert answer.throttle_time_ms == 1_000
        began, fairly = trio.current_time(), fair.now()
        await client.send(heartbeat("g", 9))
        await other.send(heartbeat("g", 8).replace(b"test", b"free"))
        assert await answers(other, 1) == [8]
        assert fair.now() - fairly < 0.5
        assert await answers(client, 1) == [9]
        assert trio.current_time() - began > 0.9
        quotas.apply(("", "test"), {})
        assert (await (await network.connect()).ask(api_versions(), 3)).throttle_time_ms == 0


async def test_closed_connections_are_not_kept_for_as_long_as_they_were_to_be_held() -> None:
    quotas = ClientQuotas()
    quotas.apply(("", "test"), {"request_percentage": "0.000001"})
    async with running_network(client_quotas=quotas) as network:
        throttled = network.server.handlers._throttled
        for _ in range(3 * MANY_THROTTLED):
            client = await network.connect()
            await client.ask(api_versions(), 3)
            for processor in network.server.processors:
                for connection in list(processor.connections.values()):
                    connection.close()
            await client.stream.aclose()
            throttled = network.server.handlers._throttled
            assert len(throttled) <= MANY_THROTTLED + 1


@pytest.mark.parametrize("key", EXEMPT)
def test_brokers_are_not_held_as_such(key: ApiKey) -> None:
    quotas = ClientQuotas()
    quotas.apply(ANY_CLIENT, {"request_percentage": "0.000001"})
    allowed, _ = request_of(quotas, key)
    allowed.fail(ErrorCode.STALE_CONTROLLER_EPOCH)
    assert allowed.throttle_ms == 0
    denied, _ = request_of(quotas, key)
    denied.fail(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    assert denied.throttle_ms == 1_000


@pytest.mark.parametrize("key", [*EXEMPT, ApiKey.FETCH, ApiKey.PRODUCE])
def test_the_time_of_what_is_not_held_is_told(key: ApiKey) -> None:
    """Half a second, over all windows but one; nothing while nobody's time is limited."""
    for limits, share in (
        ({"producer_byte_rate": "5e9"}, 0.0), ({"request_percentage": "1"}, 5.0),
    ):  # fmt: skip
        quotas = ClientQuotas()
        quotas.apply(("", "other"), limits)
        body = ProduceRequest(acks=0) if key is ApiKey.PRODUCE else None
        asked, _ = request_of(quotas, key, 4 if key is ApiKey.FETCH else 0, body)
        if key is ApiKey.FETCH:
            asked.exempt()
        elif key is ApiKey.PRODUCE:
            asked.respond(ProduceResponse())
        else:
            asked.fail(ErrorCode.STALE_CONTROLLER_EPOCH)
        told = quotas.exempt.measure(perf_counter() * 1000)
        assert told == pytest.approx(share, rel=0.1), limits
        metrics = BrokerMetrics()
        register_quota_gauges(metrics, quotas, lambda: perf_counter() * 1000)
        (family,) = (
            one for one in metrics.collect()
            if one.name == "kafka_server_request_exempt_request_time"
        )  # fmt: skip
        assert family.samples[0].value == pytest.approx(share, rel=0.1)


def test_the_longest_wait_counts() -> None:
    quotas = ClientQuotas()
    quotas.apply(ANY_CLIENT, {"request_percentage": "0.000001", "producer_byte_rate": "50000"})
    asked, connection = request_of(quotas, ApiKey.PRODUCE, 3, ProduceRequest(acks=1))
    asked.fail(ErrorCode.INVALID_REQUIRED_ACKS)
    assert asked.throttle_ms == connection.answer.throttle_time_ms == 10_000
    (metered,) = quotas.produce
    assert metered.average_wait_ms(perf_counter() * 1000) == 10_000
    (metered,) = quotas.request
    assert metered.average_wait_ms(perf_counter() * 1000) == 0


def test_nothing_is_answered_to_acks_0_but_its_bytes_count_and_its_time_does_not() -> None:
    quotas = ClientQuotas()
    quotas.apply(ANY_CLIENT, {"request_percentage": "0.000001"})
    asked, _ = request_of(quotas, ApiKey.PRODUCE, 3, ProduceRequest(acks=0))
    asked.respond(None)
    assert asked.throttle_ms == 0
    quotas.apply(ANY_CLIENT, {"producer_byte_rate": "50000"})
    asked, _ = request_of(quotas, ApiKey.PRODUCE, 3, ProduceRequest(acks=0))
    asked.respond(None)
    assert asked.throttle_ms == 10_000


def test_who_may_have_to_wait_has_one_produce_at_a_time() -> None:
    quotas = ClientQuotas()
    quotas.apply(("", "other"), {"producer_byte_rate": "1"})
    free, connection = request_of(quotas, ApiKey.PRODUCE, 3, ProduceRequest(acks=-1))
    let_in: list[Request] = []
    connection.appended = let_in.append  # type: ignore[assignment]
    free.appended()
    assert let_in == [free]
    quotas.apply(("", "app"), {"producer_byte_rate": "1"})
    free.respond(ProduceResponse())
    assert free.throttle_ms == 0, "the next request is under way"
    held, connection = request_of(quotas, ApiKey.PRODUCE, 3, ProduceRequest(acks=-1))
    connection.appended = let_in.append  # type: ignore[assignment]
    held.appended()
    assert let_in == [free]


def test_an_answer_that_others_get_too_is_not_written_to() -> None:
    quotas = ClientQuotas()
    quotas.apply(ANY_CLIENT, {"request_percentage": "0.000001"})
    asked, connection = request_of(quotas, ApiKey.API_VERSIONS, 3, ApiVersionsRequest())
    shared = ApiVersionsResponse()
    asked.respond(shared)
    assert connection.answer.throttle_time_ms == 1_000
    assert shared.throttle_time_ms == 0


async def test_an_address_over_its_rate_is_turned_away_later() -> None:
    rates = ConnectionRates()
    rates.limit_address("127.0.0.1", 0.1)
    async with running_network(quotas=ConnectionQuotas(rates=rates)) as network:
        kept = await network.connect()
        await kept.ask(api_versions(), 3)
        began, fairly = trio.current_time(), fair.now()
        assert await (await network.connect()).is_closed()
        assert trio.current_time() - began > 0.9
        assert fair.now() - fairly < 3
        await kept.ask(api_versions(), 3)
        await network.wait_for_connections(1)


async def test_held_sockets_are_bounded() -> None:
    class Socket:
        closed = False

        def close(self) -> None:
            self.closed = True

    held = HeldSockets()
    sockets: list[Any] = [Socket() for _ in range(MAX_HELD + 5)]
    for sock in sockets:
        held.hold(sock, 60)
    assert len(held) == MAX_HELD
    assert [sock.closed for sock in sockets].count(True) == 5
    with trio.move_on_after(0.01):
        await held.run()
    assert all(sock.closed for sock in sockets)


def test_a_request_whose_answer_is_filtered_is_metered() -> None:
    """A topic that is denied must not take the quota from the rest of a request."""
    quotas = ClientQuotas()
    quotas.apply(ANY_CLIENT, {"consumer_byte_rate": "1000", "controller_mutation_rate": "1"})
    asked, connection = request_of(quotas, ApiKey.FETCH, 12)
    asked.add_filter(ErrorsOfTaken(FetchResponse()))
    assert asked.is_metered
    assert not asked.is_plain
    assert asked.most_to_fetch() == 10_000
    assert asked.charge_fetch(20_000) == 10_000
    asked.respond(FetchResponse())
    assert connection.answer.throttle_time_ms == 10_000
    asked, connection = request_of(quotas, ApiKey.CREATE_TOPICS, 7)
    asked.add_filter(ErrorsOfTaken(None))
    quota = asked.mutation_quota(6)
    assert quota is not None
    quota.take(12)
    counts = asked.counts_mutations()
    assert counts is not None
    counts(9)
    with pytest.raises(KafkaError):
        quota.take(1)
    assert quota.throttle_ms(perf_counter() * 1000) > 9_000
    asked.respond(CreateTopicsResponse())
    assert connection.answer == CLOSED


async def test_time_in_turns_counts_and_time_in_between_does_not() -> None:
    quotas = ClientQuotas()
    quotas.apply(ANY_CLIENT, {"request_percentage": "1000000"})

    def busy(seconds: float) -> Generator[None, None, int]:
        for _ in range(2):
            ends = perf_counter() + seconds / 2
            while perf_counter() < ends:
                pass
            yield
        return 7

    asked, _ = request_of(quotas, ApiKey.API_VERSIONS, 3, ApiVersionsRequest())
    asked.local_done_at = asked.started_at + 0.001
    began, between = perf_counter(), 0.0
    for _ in asked.timed(busy(0.02)):
        left = perf_counter()
        await trio.sleep(0.02)
        between += perf_counter() - left
    for _ in asked.timed(asked.timed(busy(0.02))):
        pass
    asked.respond(ApiVersionsResponse())
    # On a busy machine more than it wanted: others may have had the processor meanwhile.
    at_work_ms = (perf_counter() - began - between) * 1000
    (metered,) = quotas.request
    percent = metered.meter.measure(perf_counter() * 1000) * 10
    assert 40 <= percent * 10 < at_work_ms + 5, "forty milliseconds, once each"

    # What is encoded in turns counts for the next request.
    asked, _ = request_of(quotas, ApiKey.METADATA, 1, MetadataRequest())
    asked.local_done_at = asked.started_at + 0.001
    topics = [MetadataResponseTopic(name="t" * 100, partitions=[]) for _ in range(5_000)]
    asked.respond_in_turns(MetadataResponse(topics=topics))
    grown = metered.meter.measure(perf_counter() * 1000) * 10
    assert grown > percent + 0.2
