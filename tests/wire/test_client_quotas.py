"""DescribeClientQuotas and AlterClientQuotas in every version, and what quotas do to clients."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import pytest

from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.apis.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    OpData,
)
from pybroker_kafka.protocol.apis.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from pybroker_kafka.protocol.apis.create_topics import CreatableTopic, CreateTopicsRequest
from pybroker_kafka.protocol.apis.delete_topics import DeleteTopicsRequest
from pybroker_kafka.protocol.apis.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
)
from pybroker_kafka.protocol.apis.heartbeat import HeartbeatRequest
from pybroker_kafka.protocol.apis.metadata import MetadataRequest, MetadataRequestTopic
from pybroker_kafka.protocol.errors import ErrorCode
from tests.support.patience import fair, until
from tests.support.processes import BrokerProcess, running_broker
from tests.support.wire import WireClient, batch, covers, fetch_request, produce_request, unique

EXACT, DEFAULT, ANY = 0, 1, 2
Entity = dict[str, str | None]
HEARTBEAT = HeartbeatRequest(group_id="g")


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


@contextlib.contextmanager
def limited(kafka: WireClient, client: str, **values: float) -> Iterator[None]:
    """While a client id has these quotas."""
    entity: Entity = {"client-id": client}
    alter(kafka, entity, dict(values))
    try:
        yield
    finally:
        alter(kafka, entity, dict.fromkeys(values))


def wait_until_limited(kafka: WireClient, client: str) -> None:
    """Until quotas that were set before this are obeyed too."""
    probe = client + "-probe"
    with limited(kafka, probe, request_percentage=1e-6), kafka.another(probe) as other:
        until(lambda: other.call(HEARTBEAT).throttle_time_ms)


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

        throttle_ms = until(produced)
        answered_at = time.monotonic()
        held.call(HEARTBEAT)
        assert time.monotonic() - answered_at >= throttle_ms / 1000 - 0.05
        assert throttle_ms > 500
    alter(kafka, {"client-id": "held"}, {"producer_byte_rate": None})


def test_acks_0_is_held_without_an_answer(kafka: WireClient) -> None:
    topic = kafka.create_topic()
    with limited(kafka, "mute", producer_byte_rate=20_000.0), kafka.another("mute") as mute:
        wait_until_limited(kafka, "mute")
        for _ in range(8):
            mute.produce(topic.name, batch(b"x" * 30_000), acks=0)
        began, fairly = time.monotonic(), fair.now()
        mute.call(HEARTBEAT)
        assert time.monotonic() - began > 1.5
        assert fair.now() - fairly < 4


def opened_session(answer: Any) -> Any:
    """Not an answer that is withheld: that opens no session."""
    assert (answer.session_id != 0) == (answer.responses != []), answer
    return answer if answer.session_id else None


def test_a_consumer_over_its_rate_gets_nothing_and_its_session_stays(kafka: WireClient) -> None:
    topic = kafka.create_topic()
    for _ in range(3):
        kafka.append(topic.name, b"x" * 30_000)
    with limited(kafka, "reader", consumer_byte_rate=50_000.0), kafka.another("reader") as reader:
        wait_until_limited(kafka, "reader")
        first = fetch_request(topic, 0, version=12, session=(0, 0))
        opened = until(lambda: opened_session(reader.call(first, 12)))
        session_id = opened.session_id
        offset = epoch = 0
        began = 0.0
        read = len(opened.responses[0].partitions[0].records)

        def throttled() -> Any:
            nonlocal offset, epoch, read, began
            epoch += 1
            request = fetch_request(topic, offset % 3, version=12, session=(session_id, epoch))
            began = time.monotonic()
            answer = reader.call(request, 12)
            assert (answer.error_code, answer.session_id) == (0, session_id)
            if answer.throttle_time_ms:
                return answer
            offset += 1
            read += len(answer.responses[0].partitions[0].records)
            return None

        answer = until(throttled)
        assert answer.responses == []
        assert 0 < answer.throttle_time_ms < 3_000
        assert read >= 400_000
        throttle_ms = answer.throttle_time_ms
        epoch += 1
        request = fetch_request(topic, 0, version=12, session=(session_id, epoch))
        answer = reader.call(request, 12)
        assert (answer.error_code, answer.session_id) == (0, session_id)
        assert time.monotonic() - began > throttle_ms / 1000 - 0.005


def test_a_fetch_is_cut_to_what_the_windows_let_through(kafka: WireClient) -> None:
    topic = kafka.create_topic()
    for _ in range(6):
        kafka.append(topic.name, b"x" * 20_000)
    with limited(kafka, "cut", consumer_byte_rate=5_000.0), kafka.another("cut") as cut:
        wait_until_limited(kafka, "cut")
        assert len(kafka.fetch(topic).records) > 120_000
        # What a response has beside records may be too much at first.
        request = fetch_request(topic, version=12)
        answers = until(lambda: cut.call(request, 12).responses)
        assert 20_000 < len(answers[0].partitions[0].records) <= 50_000


@pytest.mark.parametrize(
    ("key", "strict_since"),
    [(ApiKey.CREATE_TOPICS, 6), (ApiKey.CREATE_PARTITIONS, 3), (ApiKey.DELETE_TOPICS, 5)],
)
def test_changes_of_topics(kafka: WireClient, key: ApiKey, strict_since: int) -> None:
    """One may go into debt; the next is refused, or from older clients done and waited for."""
    client = unique("admin")
    topics = [kafka.create_topic(partitions=20).name for _ in range(3)]

    def change(admin: WireClient, number: int, version: int) -> tuple[int, int]:
        name = topics[number]
        request: Any
        if key is ApiKey.CREATE_TOPICS:
            topic = CreatableTopic(name=f"{name}-more", num_partitions=20, replication_factor=1)
            request = CreateTopicsRequest(topics=[topic], timeout_ms=15_000)
        elif key is ApiKey.CREATE_PARTITIONS:
            grown = CreatePartitionsTopic(name=name, count=40, assignments=None)
            request = CreatePartitionsRequest(topics=[grown], timeout_ms=15_000)
        else:
            request = DeleteTopicsRequest(topic_names=[name], timeout_ms=15_000)
        answer = admin.call(request, version)
        (result,) = getattr(
            answer,
            {ApiKey.CREATE_TOPICS: "topics", ApiKey.CREATE_PARTITIONS: "results"}.get(
                key, "responses"
            ),
        )
        return result.error_code, answer.throttle_time_ms

    with limited(kafka, client, controller_mutation_rate=1.0), kafka.another(client) as admin:
        wait_until_limited(kafka, client)
        assert change(admin, 0, strict_since) == (0, 0), "20 of 11"
        code, throttle_ms = change(admin, 1, strict_since)
        assert code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert 2_000 < throttle_ms <= 9_000
    with limited(kafka, client + "-old", controller_mutation_rate=1.0):
        wait_until_limited(kafka, client)
        with kafka.another(client + "-old") as admin:
            code, throttle_ms = change(admin, 1, strict_since - 1)
            assert code == 0
            assert 2_000 < throttle_ms <= 9_000
        with kafka.another(client + "-old") as admin:
            code, throttle_ms = change(admin, 2, strict_since - 1)
            assert code == 0
            assert throttle_ms > 15_000


def test_what_was_altered_counts_for_what_is_asked_next(kafka: WireClient) -> None:
    """A user's debt is gone with its quota: the next topics are made at once, as by Kafka."""
    user: Entity = {"user": "ANONYMOUS"}

    def created(partitions: int) -> int:
        topic = CreatableTopic(name=unique("next"), num_partitions=partitions, replication_factor=1)
        with kafka.another() as admin:
            answer = admin.call(CreateTopicsRequest(topics=[topic], timeout_ms=15_000), 7)
        return int(answer.topics[0].error_code)

    def is_held() -> bool:
        with kafka.another() as other:
            return bool(other.call(HEARTBEAT, 4).throttle_time_ms)

    alter(kafka, user, {"controller_mutation_rate": 2.0})
    codes = [created(17), created(17), created(1)]
    alter(kafka, user, {"controller_mutation_rate": None})
    assert codes == [0, 0, ErrorCode.THROTTLING_QUOTA_EXCEEDED]
    assert [created(8), created(8)] == [0, 0]
    for _ in range(20):
        with kafka.another("another") as admin:  # which is held, too, after its answer
            alter(admin, user, {"request_percentage": 1e-9})
        assert is_held()
        with kafka.another("another") as admin:
            alter(admin, user, {"request_percentage": None})
        assert not is_held()


def test_who_connects_too_often_is_turned_away(kafka: WireClient) -> None:
    alter(kafka, {"ip": "localhost"}, {"connection_creation_rate": 1.0})
    try:

        def is_turned_away() -> bool:
            with contextlib.suppress(OSError), kafka.another() as other:
                other.call(HEARTBEAT)
                return False
            return True

        until(is_turned_away)
    finally:
        alter(kafka, {"ip": "localhost"}, {"connection_creation_rate": None})
    until(lambda: not is_turned_away())


def test_topics_that_are_created_by_asking_for_them_count(kafka: WireClient) -> None:
    client = unique("asker")
    with limited(kafka, client, controller_mutation_rate=0.1), kafka.another(client) as asker:
        wait_until_limited(kafka, client)
        names = [unique("asked") for _ in range(12)]
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in names],
            allow_auto_topic_creation=True,
        )
        until(
            lambda: all(topic.error_code == 0 for topic in asker.call(request, 9).topics),
            seconds=30,
        )
        topic = CreatableTopic(name=unique("refused"), num_partitions=1, replication_factor=1)
        answer = asker.call(CreateTopicsRequest(topics=[topic], timeout_ms=15_000), 7)
        assert answer.topics[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert 60_000 < answer.throttle_time_ms < 110_000, "a debt of eleven"
