"""Quotas are altered, described and obeyed as Apache Kafka does: random requests to one of each.

Each broker has a ZooKeeper of its own and gets the same requests one after the other; the answers,
the descriptions and all znodes must be equal. Texts of errors are compared where Kafka writes them
for clients, not where they are those of Java.
"""

from __future__ import annotations

import json
import os
import random
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from kazoo.client import KazooClient

from pybroker_kafka.protocol.apis.create_topics import CreatableTopic, CreateTopicsRequest
from pybroker_kafka.protocol.apis.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
)
from pybroker_kafka.protocol.errors import ErrorCode
from tests.support.apache_kafka import ApacheKafkaProcess, kafka_jars
from tests.support.patience import until
from tests.support.processes import BrokerProcess, zookeeper_process
from tests.support.wire import WireClient, batch, fetch_request, produce_request
from tests.wire.test_client_quotas import ANY, DEFAULT, EXACT, HEARTBEAT, Entity, alter, alter_all

pytestmark = pytest.mark.timeout(300)

REQUESTS = int(os.environ.get("QUOTA_REQUESTS", "80"))
SEED = int(os.environ.get("QUOTA_SEED", "20260"))
NAMES = ("alice", "bob *", "ü/~", "<default>", "a+b", None)
ODD_NAMES = ("", "CN=x, O=y")
ADDRESSES = ("192.0.2.1", "127.0.0.1", "::1", "1.2", "no.invalid", None)
KINDS = ("user", "client-id", "ip")
KEYS = (
    "producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate",
)  # fmt: skip
ODD_KEYS = ("connection_creation_rate", "SCRAM-SHA-256", "no_such_rate", "")
VALUES = (
    0.0, 1.0, 2.0, 1024.0, 12.5, 0.0001, 1e7, 1.5e10, 2000.0000001, 2000.01, -1.0, -2.5, 1e300,
    float("inf"), float("-inf"), float("nan"), 2.0**31, 2.0**53, 2.0**63,
)  # fmt: skip
# Where the text is Java's own.
UNCOMPARED = (ErrorCode.UNKNOWN_SERVER_ERROR,)


class Side(NamedTuple):
    broker: BrokerProcess
    wire: WireClient
    zookeeper: KazooClient


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Side]]:
    kafka_jars()
    place = tmp_path_factory.mktemp("quotas")
    with zookeeper_process(place / "1") as first, zookeeper_process(place / "2") as second:
        brokers = [
            BrokerProcess(place / "ours", first), ApacheKafkaProcess(place / "kafka", second),
        ]  # fmt: skip
        clients = [KazooClient(first), KazooClient(second)]
        try:
            for broker in brokers:
                broker.launch()
            for broker in brokers:
                broker.wait_until_ready()
            for client in clients:
                client.start(30)
            yield [
                Side(broker, WireClient(broker.bootstrap), client)
                for broker, client in zip(brokers, clients, strict=True)
            ]
        finally:
            for client in clients:
                client.stop()
            for broker in brokers:
                broker.kill()


def equally(sides: list[Side], ask: Callable[[Side], Any], about: object) -> Any:
    ours, theirs = [ask(side) for side in sides]
    assert ours == theirs, f"{about}\nours:   {ours}\ntheirs: {theirs}"
    return theirs


def some_entity(chance: random.Random) -> Entity:
    entity: Entity = {}
    for kind in chance.choices(
        [("user",), ("client-id",), ("user", "client-id"), ("ip",), ("group",), (), KINDS],
        [5, 5, 8, 4, 0.3, 0.3, 0.5],
    )[0]:
        names = ADDRESSES if kind == "ip" else NAMES
        entity[kind] = chance.choice(ODD_NAMES if chance.random() < 0.04 else names)
    return entity


def some_values(chance: random.Random, entity: Entity) -> dict[str, float | None]:
    values: dict[str, float | None] = {}
    for _ in range(chance.choice((1, 1, 1, 2, 3, 0))):
        keys = ("connection_creation_rate",) if "ip" in entity else KEYS
        key = chance.choice(ODD_KEYS if chance.random() < 0.1 else keys)
        values[key] = None if chance.random() < 0.45 else chance.choice(VALUES)
    return values


def outcomes(answers: list[Any]) -> list[tuple[Any, ...]]:
    return sorted(
        (
            sorted((named.entity_type, str(named.entity_name)) for named in answer.entity),
            answer.error_code,
            None if answer.error_code in UNCOMPARED else answer.error_message,
        )
        for answer in answers
    )


def described(side: Side, components: list[ComponentData], *, strict: bool) -> Any:
    request = DescribeClientQuotasRequest(components=components, strict=strict)
    answer = side.wire.call(request, 1)
    if answer.error_code:
        text = None if answer.error_code in UNCOMPARED else answer.error_message
        return answer.error_code, text, answer.entries
    return sorted(
        (
            sorted((named.entity_type, str(named.entity_name)) for named in entry.entity),
            sorted((value.key, str(value.value)) for value in entry.values),
        )
        for entry in answer.entries
    )


def some_components(chance: random.Random) -> list[ComponentData]:
    wanted = []
    for kind in chance.choices(
        [("user",), ("client-id",), ("user", "client-id"), ("ip",), ("ip", "user"), (),
         ("user",) * 2, ("",), ("group",)],
        [5, 5, 8, 4, 0.4, 2, 0.3, 0.2, 0.2],
    )[0]:  # fmt: skip
        match_type = chance.choice((EXACT, EXACT, DEFAULT, ANY))
        names = ADDRESSES if kind == "ip" else NAMES
        match = chance.choice([name for name in names if name]) if match_type == EXACT else None
        wanted.append(ComponentData(entity_type=kind, match_type=match_type, match=match))
    return wanted


def written(side: Side) -> dict[str, Any]:
    """All quota znodes with what they say, and the last change notification."""
    found: dict[str, Any] = {}

    def look(path: str) -> None:
        data = side.zookeeper.get(path)[0]
        found[path] = json.loads(data) if data else None
        for name in side.zookeeper.get_children(path):
            look(f"{path}/{name}")

    for kind in ("clients", "users", "ips"):
        look(f"/config/{kind}")
    changes = sorted(side.zookeeper.get_children("/config/changes"))
    if changes:
        found["change"] = json.loads(side.zookeeper.get(f"/config/changes/{changes[-1]}")[0])
        found["changes"] = len(changes)
    return found


def test_random_alterations_and_descriptions(sides: list[Side]) -> None:
    chance = random.Random(SEED)
    refused = 0
    for number in range(REQUESTS):
        changes = []
        for _ in range(chance.choice((1, 1, 1, 3))):
            entity = some_entity(chance)
            changes.append((entity, some_values(chance, entity)))
        validate_only = chance.random() < 0.1
        answers = equally(
            sides,
            lambda side, c=changes, v=validate_only: outcomes(  # type: ignore[misc]
                alter_all(side.wire, *c, validate_only=v)
            ),
            (number, changes, validate_only),
        )
        refused += sum(1 for _, code, _ in answers if code)
        if number % 3 == 0:
            equally(sides, written, (number, changes))
        components, strict = some_components(chance), chance.random() < 0.5
        equally(
            sides,
            lambda side, c=components, s=strict: described(side, c, strict=s),  # type: ignore[misc]
            (number, components, strict),
        )
    assert 0 < refused < REQUESTS
    for side in sides:
        remove_all(side)
    equally(sides, lambda side: described(side, [], strict=False), "nothing is left")


def remove_all(side: Side) -> None:
    """More specific quotas than those that the other tests set would count instead of them."""
    answer = side.wire.call(DescribeClientQuotasRequest(components=[], strict=False), 1)
    for entry in answer.entries:
        entity: Entity = {named.entity_type: named.entity_name for named in entry.entity}
        keys = {value.key: None for value in entry.values}
        assert alter(side.wire, entity, dict(keys)).error_code == 0


def wait_until_limited(side: Side, client: str) -> None:
    """Until quotas that were set before this are obeyed: changes are heard of in their order."""
    alter(side.wire, {"client-id": client}, {"request_percentage": 1e-6})
    with side.wire.another(client) as probe:
        until(lambda: probe.call(HEARTBEAT, 4).throttle_time_ms)


def throttles(
    sides: list[Side], client: str, values: dict[str, float | None],
    ask: Callable[[WireClient, int], Any], count: int,
) -> list[list[Any]]:  # fmt: skip
    """What each of `count` requests is answered, on new connections: none is muted."""
    found = []
    for side in sides:
        alter(side.wire, {"client-id": client}, values)
        wait_until_limited(side, f"{client}-probe")
        answers = []
        for number in range(count):
            with side.wire.another(client) as asking:
                answers.append(ask(asking, number))
        found.append(answers)
    return found


def test_bytes_are_waited_for_as_long(sides: list[Side]) -> None:
    for side in sides:
        side.wire.create_topic(name="bytes")

    def produced(asking: WireClient, _number: int) -> int:
        answer = asking.call(produce_request("bytes", batch(b"x" * 50_000)))
        assert answer.responses[0].partition_responses[0].error_code == 0
        return int(answer.throttle_time_ms)

    values: dict[str, float | None] = {"producer_byte_rate": 10_000.0}
    ours, theirs = throttles(sides, "bytes", values, produced, 8)
    assert ours[0] == theirs[0] == 0
    for mine, other in zip(ours[1:], theirs[1:], strict=True):
        assert mine == pytest.approx(other, rel=0.03, abs=500), (ours, theirs)


def test_what_is_read_is_withheld_as_soon(sides: list[Side]) -> None:
    topics = {side: side.wire.create_topic(name="read") for side in sides}
    for side in sides:
        for _ in range(4):
            side.wire.append("read", b"x" * 30_000)
    topic = dict(zip((side.broker.bootstrap for side in sides), topics.values(), strict=True))

    def fetched(asking: WireClient, number: int) -> tuple[int, int]:
        request = fetch_request(
            topic[asking.bootstrap], number % 2, version=12, session=(0, 0),
            partition_max_bytes=40_000,
        )  # fmt: skip
        answer = asking.call(request, 12)
        sizes = [len(p.records) for one in answer.responses for p in one.partitions]
        return sum(sizes), int(answer.throttle_time_ms)

    values: dict[str, float | None] = {"consumer_byte_rate": 10_000.0}
    ours, theirs = throttles(sides, "read", values, fetched, 6)
    for (size, throttle_ms), (other, their_ms) in zip(ours, theirs, strict=True):
        assert size == other, (ours, theirs)
        assert throttle_ms == pytest.approx(their_ms, rel=0.05, abs=500), (ours, theirs)
    assert ours[-1][0] == 0


@pytest.mark.parametrize(("version", "rate"), [(7, 0.5), (5, 0.5), (7, 0.2)])
def test_changes_of_topics_are_refused_as_soon(
    sides: list[Side], version: int, rate: float
) -> None:
    client = f"admin-{version}-{rate}"

    def changed(asking: WireClient, number: int) -> tuple[list[int], int]:
        names = [f"{client}-{number}-{part}" for part in range(3)]
        topics = [
            CreatableTopic(name=name, num_partitions=4, replication_factor=1) for name in names
        ]
        request = CreateTopicsRequest(topics=topics, timeout_ms=15_000)
        answer = asking.call(request, version)
        codes = {topic.name: topic.error_code for topic in answer.topics}
        return [codes[name] for name in names], int(answer.throttle_time_ms)

    ours, theirs = throttles(sides, client, {"controller_mutation_rate": rate}, changed, 3)
    for (codes, throttle_ms), (their_codes, their_ms) in zip(ours, theirs, strict=True):
        assert sorted(codes) == sorted(their_codes), (ours, theirs)
        assert throttle_ms == pytest.approx(their_ms, abs=4_000), (ours, theirs)
    assert ours[-1][1] > 0


def test_time_is_waited_for_a_window_at_most(sides: list[Side]) -> None:
    def asked(asking: WireClient, _number: int) -> int:
        return int(asking.call(HEARTBEAT, 4).throttle_time_ms)

    ours, theirs = throttles(sides, "time", {"request_percentage": 1e-9}, asked, 4)
    assert ours == theirs == [1_000] * 4


def test_as_many_connections_of_an_address_are_let_in(sides: list[Side]) -> None:
    """Ten windows' worth at once; the others are closed, but not at once."""
    entity: Entity = {"ip": "127.0.0.1"}
    for side in sides:
        alter(side.wire, entity, {"connection_creation_rate": 2.0})
    time.sleep(1.5)  # a probe would be a connection too
    opened = []
    for side in sides:
        host, _, port = side.broker.bootstrap.rpartition(":")
        opened.append([socket.create_connection((host, int(port)), 10) for _ in range(40)])
    at_once = [sum(map(is_closed, sockets)) for sockets in opened]
    time.sleep(2.5)
    later = [sum(map(is_closed, sockets)) for sockets in opened]
    for sockets in opened:
        for one in sockets:
            one.close()
    for side in sides:
        alter(side.wire, entity, {"connection_creation_rate": None})
    assert max(at_once) <= 2, at_once
    assert later[0] == pytest.approx(later[1], abs=3)
    assert 18 <= later[0] <= 25, later


def is_closed(sock: socket.socket) -> bool:
    sock.setblocking(False)
    try:
        return sock.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True
