"""Which client pushes which metrics, how often, and the error codes of one that does otherwise."""

from __future__ import annotations

from typing import Any

import pytest

from pybroker_kafka.broker.observability import client_subscriptions
from pybroker_kafka.broker.observability.client_subscriptions import (
    DEFAULT_INTERVAL_MS,
    EXPIRY_MS,
    Assigned,
    ClientFacts,
    ClientInstances,
    subscription_id,
    subscription_of,
)
from pybroker_kafka.protocol.errors import ErrorCode, KafkaError
from pybroker_kafka.protocol.uuids import ZERO_UUID

JAVA = ClientFacts("app", "apache-kafka-java", "4.3.1", "10.0.0.7", "40000")
LIBRDKAFKA = ClientFacts("other", "librdkafka", "2.11.0", "10.0.0.8", "40001")
THROTTLED = ErrorCode.THROTTLING_QUOTA_EXCEEDED
EVERY_SECOND = {"metrics": "org.apache.kafka.producer.,b", "interval.ms": "1000"}


class World:
    """Clients of one broker, and their clock."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.forgotten: list[bytes] = []
        self._ids = 0
        self.instances = ClientInstances(1_000, self._new_id, self.forgotten.append)

    def _new_id(self) -> bytes:
        self._ids += 1
        return self._ids.to_bytes(16, "big") if self._ids > 1 else bytes(range(16))

    def ask(self, one: bytes = ZERO_UUID, facts: ClientFacts = JAVA, connection: int = 1) -> Any:
        return self.instances.ask(one, facts, connection, self.now_ms)

    def asked(self, facts: ClientFacts = JAVA) -> Assigned:
        answer = self.ask(facts=facts)
        assert isinstance(answer, Assigned)
        return answer

    def push(
        self, one: Assigned, *, compression: int = 0, size: int = 10, is_last: bool = False
    ) -> ErrorCode:
        return self.instances.push(
            one.instance_id,
            JAVA,
            1,
            self.now_ms,
            subscription_id=one.subscription_id,
            compression=compression,
            size=size,
            is_last=is_last,
        )


@pytest.fixture
def world() -> World:
    made = World()
    made.instances.changed("all", EVERY_SECOND)
    return made


def test_without_subscriptions_nothing_is_pushed() -> None:
    one = World().asked()
    assert (one.metrics, one.interval_ms) == ((), DEFAULT_INTERVAL_MS)
    assert one.instance_id == bytes(range(16))


def test_subscriptions_add_up(world: World) -> None:
    world.instances.changed("java", {"metrics": "c", "match": "client_software_name=.*-java"})
    match = "client_id=ap.,client_source_address=10[.].*"
    world.instances.changed("fast", {"interval.ms": "100", "match": match})
    one, other = world.asked(), world.asked(LIBRDKAFKA)
    assert (one.metrics, one.interval_ms) == (("b", "c", "org.apache.kafka.producer."), 100)
    assert (other.metrics, other.interval_ms) == (("b", "org.apache.kafka.producer."), 1000)
    world.instances.changed("everything", {"metrics": "*"})
    assert world.asked().metrics == ("*",)
    assert world.instances.names() == ["all", "java", "fast", "everything"]


def test_an_id_is_the_same_everywhere_and_changes_with_the_subscription(world: World) -> None:
    one = world.asked()
    elsewhere = World()
    elsewhere.instances.changed("other name", EVERY_SECOND)
    assert elsewhere.ask(one.instance_id) == one
    elsewhere.instances.changed("other name", {**EVERY_SECOND, "interval.ms": "1001"})
    changed = elsewhere.ask(one.instance_id)  # at once, though its interval is not over
    assert changed.subscription_id != one.subscription_id


def test_the_form_of_an_id() -> None:
    # The CRC-32C of "[a, b]1000" and java.util's hash of the two halves.
    found = subscription_id(("a", "b"), 1000, bytes(7) + b"\x01" + bytes(7) + b"\x03")
    assert found ^ 2 == subscription_id(("a", "b"), 1000, ZERO_UUID)
    assert -(1 << 31) <= found < 1 << 31


def test_a_client_keeps_to_its_interval(world: World) -> None:
    one = world.asked()
    assert world.ask(one.instance_id) == THROTTLED
    assert world.push(one) == ErrorCode.NONE  # after its question, at once
    assert world.push(one) == THROTTLED
    world.now_ms += 999
    assert world.push(one) == THROTTLED
    world.now_ms += 1
    assert world.push(one) == ErrorCode.NONE
    assert world.ask(one.instance_id) == THROTTLED
    world.now_ms += 1_000
    assert world.ask(one.instance_id) == one
    assert dict(world.instances.throttles()) == {one.instance_id: 4}


def test_the_last_push_comes_at_any_time(world: World) -> None:
    one = world.asked()
    assert world.push(one) == ErrorCode.NONE
    assert world.push(one, is_last=True) == ErrorCode.NONE
    world.now_ms += 1_000
    assert world.push(one) == ErrorCode.INVALID_REQUEST


def test_an_old_subscription_asks_anew(world: World) -> None:
    one = world.asked()
    world.instances.changed("more", {"metrics": "more"})
    assert world.push(one) == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    assert world.instances.unknown_subscriptions == 1
    again = world.ask(one.instance_id)
    assert again.subscription_id != one.subscription_id
    assert world.push(again) == THROTTLED
    world.now_ms += 1_000
    assert world.push(again) == ErrorCode.NONE


def test_what_is_pushed_is_checked(world: World) -> None:
    one = world.asked()
    for compression in (-1, 5):
        assert world.push(one, compression=compression) == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        assert world.ask(one.instance_id) == one
        world.now_ms += 1_000
    assert world.push(one, size=1_001) == ErrorCode.TELEMETRY_TOO_LARGE
    for reserved in (ZERO_UUID, bytes(15) + b"\1"):
        assert world.push(one._replace(instance_id=reserved)) == ErrorCode.INVALID_REQUEST


def test_clients_are_forgotten(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = world.asked(), world.asked()
    world.instances.disconnected(2, one.instance_id)
    assert world.forgotten == []
    world.instances.disconnected(1, one.instance_id)
    assert world.forgotten == [one.instance_id]
    world.now_ms += EXPIRY_MS
    world.instances.expire(world.now_ms)
    assert world.forgotten == [one.instance_id, other.instance_id]
    assert len(world.instances) == 0
    monkeypatch.setattr(client_subscriptions, "MAX_INSTANCES", 2)
    many = [world.asked() for _ in range(4)]
    assert world.forgotten[2:] == [many[0].instance_id, many[1].instance_id]


def test_an_expired_client_is_a_new_one(world: World) -> None:
    one = world.asked()
    assert world.push(one, is_last=True) == ErrorCode.NONE
    world.now_ms += EXPIRY_MS
    assert world.push(one) == ErrorCode.NONE
    assert world.forgotten == [one.instance_id]


def test_a_subscription_is_removed_by_an_empty_config(world: World) -> None:
    world.instances.changed("all", {})
    world.instances.changed("never there", {})
    assert world.asked().metrics == ()


@pytest.mark.parametrize(
    ("name", "config", "code"),
    [
        ("", {}, ErrorCode.INVALID_REQUEST),
        ("s", {"interval": "1000"}, ErrorCode.INVALID_REQUEST),
        ("s", {"interval.ms": "99"}, ErrorCode.INVALID_REQUEST),
        ("s", {"interval.ms": "3600001"}, ErrorCode.INVALID_REQUEST),
        ("s", {"interval.ms": "soon"}, ErrorCode.INVALID_CONFIG),
        ("s", {"metrics": "a,b,a"}, ErrorCode.INVALID_CONFIG),
        ("s", {"match": "client_id"}, ErrorCode.INVALID_CONFIG),
        ("s", {"match": "client_id=a=b"}, ErrorCode.INVALID_CONFIG),
        ("s", {"match": "colour=red"}, ErrorCode.INVALID_CONFIG),
        ("s", {"match": "client_id=("}, ErrorCode.INVALID_CONFIG),
    ],
)
def test_no_subscription(name: str, config: dict[str, str], code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as raised:
        subscription_of(name, config)
    assert raised.value.code == code
