"""DescribeClientQuotas and AlterClientQuotas in every version, and what quotas do to clients."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from pybroker.protocol.api import ApiKey
from pybroker.protocol.errors import ErrorCode
from pybroker.protocol.messages.groups import HeartbeatRequest
from pybroker.protocol.messages.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    ComponentData,
    DescribeClientQuotasRequest,
    OpData,
)
from tests.support.processes import BrokerProcess, running_broker
from tests.support.wire import WireClient, batch, covers, produce_request, unique

EXACT, DEFAULT, ANY = 0, 1, 2
Entity = dict[str, str | None]


@pytest.fixture(scope="module")
def wire_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with running_broker(tmp_path_factory.mktemp("wire")) as broker:
        yield broker


def alter_all(
    kafka: WireClient, *changes: tuple[Entity, dict[str, float | None]], version: int = 1,
    validate_only: bool = False,
) -> list[Any]:  # fmt: skip
    entries = [
        AlterClientQuotasRequestEntryData(
            entity=[
                AlterClientQuotasRequestEntityData(entity_type=kind, entity_name=name)
                for kind, name in entity.items()
            ],
            ops=[
                OpData(key=key, value=value or 0.0, remove=value is None)
                for key, value in values.items()
            ],
        )
        for entity, values in changes
    ]
    request = AlterClientQuotasRequest(entries=entries, validate_only=validate_only)
    answers: list[Any] = kafka.call(request, version).entries
    return answers


def alter(kafka: WireClient, entity: Entity, values: dict[str, float | None], **how: Any) -> Any:
    (answer,) = alter_all(kafka, (entity, values), **how)
    assert {named.entity_type: named.entity_name for named in answer.entity} == entity
    return answer


def describe(
    kafka: WireClient, *wanted: tuple[str, int, str | None], strict: bool = False, version: int = 1
) -> dict[tuple[tuple[str, str | None], ...], dict[str, float]]:
    components = [ComponentData(entity_type=k, match_type=t, match=m) for k, t, m in wanted]
    answer = kafka.call(DescribeClientQuotasRequest(components=components, strict=strict), version)
    assert answer.error_code == 0, answer
    return {
        tuple(sorted((e.entity_type, e.entity_name) for e in entry.entity)): {
            value.key: value.value for value in entry.values
        }
        for entry in answer.entries
    }


def wait_until_obeyed(ask: Any, seconds: float = 5.0) -> Any:
    """Quotas hold a moment after they are set."""
    ends = time.monotonic() + seconds
    while not (found := ask()):
        assert time.monotonic() < ends
        time.sleep(0.02)
    return found


@covers(ApiKey.DESCRIBE_CLIENT_QUOTAS, ApiKey.ALTER_CLIENT_QUOTAS)
def test_every_version(kafka: WireClient) -> None:
    for version in kafka.versions(ApiKey.ALTER_CLIENT_QUOTAS):
        user, client = unique("user"), unique("app *")
        both: Entity = {"user": user, "client-id": client}
        assert alter(kafka, both, {"producer_byte_rate": 2000.0}, version=version).error_code == 0
        alter(kafka, {"user": user}, {"request_percentage": 12.5}, version=version)
        found = describe(
            kafka, ("user", EXACT, user), ("client-id", EXACT, client), version=version
        )
        assert found == {(("client-id", client), ("user", user)): {"producer_byte_rate": 2000.0}}
        assert describe(kafka, ("user", EXACT, user), strict=True, version=version) == {
            (("user", user),): {"request_percentage": 12.5}
        }
        assert len(describe(kafka, ("user", EXACT, user), version=version)) == 2
        alter(kafka, both, {"producer_byte_rate": None}, version=version)
        alter(kafka, {"user": user}, {"request_percentage": None}, version=version)
        assert describe(kafka, ("user", EXACT, user), version=version) == {}


def test_defaults_and_addresses(kafka: WireClient) -> None:
    alter_all(
        kafka,
        ({"ip": "192.0.2.1"}, {"connection_creation_rate": 5.0}),
        ({"ip": None}, {"connection_creation_rate": 1000.0}),
        ({"client-id": None}, {"controller_mutation_rate": 1e7}),
    )
    assert describe(kafka, ("ip", ANY, None)) == {
        (("ip", "192.0.2.1"),): {"connection_creation_rate": 5.0},
        (("ip", None),): {"connection_creation_rate": 1000.0},
    }
    assert describe(kafka, ("ip", DEFAULT, None)) == {
        (("ip", None),): {"connection_creation_rate": 1000.0}
    }
    assert describe(kafka, ("client-id", DEFAULT, None), strict=True) == {
        (("client-id", None),): {"controller_mutation_rate": 1e7}
    }
    assert len(describe(kafka)) == 3
    assert describe(kafka, strict=True) == {}
    rates: list[tuple[Entity, str]] = [
        ({"ip": "192.0.2.1"}, "connection_creation_rate"),
        ({"ip": None}, "connection_creation_rate"),
        ({"client-id": None}, "controller_mutation_rate"),
    ]
    for entity, key in rates:
        alter(kafka, entity, {key: None})
    assert describe(kafka) == {}


@pytest.mark.parametrize(
    ("entity", "values", "error"),
    [
        ({}, {"producer_byte_rate": 1.0}, ErrorCode.INVALID_REQUEST),
        ({"user": ""}, {"producer_byte_rate": 1.0}, ErrorCode.INVALID_REQUEST),
        ({"group": "g"}, {"producer_byte_rate": 1.0}, ErrorCode.INVALID_REQUEST),
        ({"user": "u", "ip": "::1"}, {"producer_byte_rate": 1.0}, ErrorCode.INVALID_REQUEST),
        ({"user": "u"}, {"no_such_rate": 1.0}, ErrorCode.INVALID_REQUEST),
        ({"user": "u"}, {"producer_byte_rate": 2000.5}, ErrorCode.INVALID_REQUEST),
        ({"user": "u"}, {"connection_creation_rate": 1.0}, ErrorCode.INVALID_REQUEST),
        ({"client-id": "c"}, {"SCRAM-SHA-256": 1.0}, ErrorCode.INVALID_REQUEST),
        ({"user": "u"}, {"SCRAM-SHA-256": 1.0}, ErrorCode.UNKNOWN_SERVER_ERROR),
        ({"ip": "no host"}, {"connection_creation_rate": 1.0}, ErrorCode.INVALID_REQUEST),
        ({"ip": "192.0.2.1"}, {"connection_creation_rate": -1.0}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_is_refused(
    kafka: WireClient, entity: Entity, values: dict[str, float | None], error: ErrorCode
) -> None:
    answer = alter(kafka, entity, values)
    assert answer.error_code == error, answer
    assert answer.error_message
    assert describe(kafka) == {}


def test_nothing_is_written_to_validate(kafka: WireClient) -> None:
    answer = alter(kafka, {"user": "u"}, {"producer_byte_rate": 1.0}, validate_only=True)
    assert answer.error_code == 0
    assert describe(kafka) == {}


@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        ([("user", ANY, None), ("user", ANY, None)], ErrorCode.INVALID_REQUEST),
        ([("user", ANY, None), ("ip", ANY, None)], ErrorCode.INVALID_REQUEST),
        ([("", ANY, None)], ErrorCode.INVALID_REQUEST),
        ([("group", ANY, None)], ErrorCode.UNSUPPORTED_VERSION),
        ([("user", 3, None)], ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_what_cannot_be_described(
    kafka: WireClient, wanted: list[tuple[str, int, str | None]], error: ErrorCode
) -> None:
    components = [ComponentData(entity_type=k, match_type=t, match=m) for k, t, m in wanted]
    answer = kafka.call(DescribeClientQuotasRequest(components=components), 1)
    assert (answer.error_code, answer.entries) == (error, None)


def test_a_producer_is_held_after_its_answer(kafka: WireClient) -> None:
    """Nine windows' worth of bytes pass; what is more is waited for."""
    topic = kafka.create_topic()
    alter(kafka, {"client-id": "held"}, {"producer_byte_rate": 10_000.0})
    with kafka.another("held") as held:

        def produced() -> int:
            request = produce_request(topic.name, batch(b"x" * 30_000))
            return int(held.call(request).throttle_time_ms)

        throttle_ms = wait_until_obeyed(produced)
        answered_at = time.monotonic()
        held.call(HeartbeatRequest(group_id="g"), 4)
        assert time.monotonic() - answered_at >= throttle_ms / 1000 - 0.05
        assert throttle_ms > 500
    alter(kafka, {"client-id": "held"}, {"producer_byte_rate": None})
