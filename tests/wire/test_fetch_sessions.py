"""Incremental fetch sessions (KIP-227) in every version that has them."""

from __future__ import annotations

from typing import Any

from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.apis.fetch import ForgottenTopic
from pybroker_kafka.protocol.errors import ErrorCode
from tests.support.wire import Topic, WireClient, fetch_request, records_of

CREATE = (0, 0)
NO_SESSION = (0, -1)
CLOSE = -1


def exchange(
    kafka: WireClient,
    version: int,
    session: tuple[int, int],
    topics: list[Topic] | None = None,
    offset: int = 0,
    **options: Any,
) -> Any:
    request = fetch_request(topics or [], offset, version=version, session=session, **options)
    return kafka.call(request, version)


def values(response: Any) -> list[list[bytes | None]]:
    return [
        [record.value for record in records_of(part)]
        for answered in response.responses
        for part in answered.partitions
    ]


def assert_lost(response: Any, error: ErrorCode) -> None:
    assert (response.error_code, response.session_id, response.responses) == (error, 0, [])


def forget(*topics: Topic) -> list[ForgottenTopic]:
    return [ForgottenTopic(topic=t.name, topic_id=t.id, partitions=[0]) for t in topics]


def test_only_what_is_new_comes_back(kafka: WireClient) -> None:
    for version in kafka.versions(ApiKey.FETCH, first=7):
        quiet, busy = kafka.create_topic(), kafka.create_topic()
        kafka.append(quiet.name, b"only")
        first = exchange(kafka, version, CREATE, [quiet, busy])
        assert first.error_code == 0
        assert first.session_id > 0
        assert values(first) == [[b"only"], []]
        session = first.session_id
        # The position of `quiet` moves past its record; nothing is new then.
        moved = exchange(kafka, version, (session, 1), [quiet], offset=1)
        assert (moved.error_code, moved.session_id, moved.responses) == (0, session, [])
        kafka.append(busy.name, b"new")
        third = exchange(kafka, version, (session, 2))
        assert (third.error_code, third.session_id) == (0, session)
        (answered,) = third.responses
        assert answered.topic_id == (busy.id if version >= 13 else bytes(16))
        assert answered.topic == (busy.name if version < 13 else "")
        assert values(third) == [[b"new"]]
        # Not read past: it comes again.
        assert values(exchange(kafka, version, (session, 3))) == [[b"new"]]


def test_forgotten_and_added_partitions(kafka: WireClient) -> None:
    for version in kafka.versions(ApiKey.FETCH, first=7):
        one, two = kafka.create_topic(), kafka.create_topic()
        for topic in (one, two):
            kafka.append(topic.name, topic.name.encode())
        session = exchange(kafka, version, CREATE, [one]).session_id
        added = exchange(kafka, version, (session, 1), [two])
        assert sorted(values(added)) == sorted([[one.name.encode()], [two.name.encode()]])
        left = exchange(kafka, version, (session, 2), forgotten=forget(one))
        assert values(left) == [[two.name.encode()]]
        # An empty session is closed.
        empty = exchange(kafka, version, (session, 3), forgotten=forget(two))
        assert (empty.error_code, empty.session_id, empty.responses) == (0, 0, [])
        gone = exchange(kafka, version, (session, 4))
        assert_lost(gone, ErrorCode.FETCH_SESSION_ID_NOT_FOUND)


def test_epochs_must_follow_each_other(kafka: WireClient) -> None:
    topic = kafka.create_topic()
    for version in kafka.versions(ApiKey.FETCH, first=7):
        session = exchange(kafka, version, CREATE, [topic]).session_id
        for epoch in (2, 7):
            early = exchange(kafka, version, (session, epoch))
            assert_lost(early, ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        assert exchange(kafka, version, (session, 1)).session_id == session
        again = exchange(kafka, version, (session, 1))
        assert_lost(again, ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        unknown = exchange(kafka, version, (session ^ 1, 1))
        assert_lost(unknown, ErrorCode.FETCH_SESSION_ID_NOT_FOUND)


def test_a_session_is_closed_and_replaced_on_request(kafka: WireClient) -> None:
    topic = kafka.create_topic()
    kafka.append(topic.name, b"value")
    for version in kafka.versions(ApiKey.FETCH, first=7):
        first = exchange(kafka, version, CREATE, [topic]).session_id
        second = exchange(kafka, version, (first, 0), [topic])
        assert second.session_id not in (0, first)
        assert values(second) == [[b"value"]]
        replaced = exchange(kafka, version, (first, 1))
        assert_lost(replaced, ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        closed = exchange(kafka, version, (second.session_id, CLOSE), [topic])
        assert (closed.error_code, closed.session_id) == (0, 0)
        assert values(closed) == [[b"value"]]
        gone = exchange(kafka, version, (second.session_id, 1))
        assert_lost(gone, ErrorCode.FETCH_SESSION_ID_NOT_FOUND)


def test_without_a_session_everything_is_answered(kafka: WireClient) -> None:
    topic = kafka.create_topic()
    for version in kafka.versions(ApiKey.FETCH, first=7):
        for _ in range(2):
            answer = exchange(kafka, version, NO_SESSION, [topic])
            assert (answer.error_code, answer.session_id, values(answer)) == (0, 0, [[]])


def test_an_error_is_repeated_until_it_is_gone(kafka: WireClient) -> None:
    good = kafka.create_topic()
    for version in kafka.versions(ApiKey.FETCH, first=7):
        empty = kafka.create_topic()
        session = exchange(kafka, version, CREATE, [good, empty], offset=0).session_id
        for epoch in (1, 2):
            out = exchange(
                kafka, version, (session, epoch), [empty] if epoch == 1 else [], offset=9
            )
            errors = [a.partitions[0].error_code for a in out.responses]
            assert errors == [ErrorCode.OFFSET_OUT_OF_RANGE]
        # Back in range: its high watermark is news once more.
        back = exchange(kafka, version, (session, 3), [empty], offset=0)
        assert [a.partitions[0].error_code for a in back.responses] == [0]
        assert exchange(kafka, version, (session, 4)).responses == []


def test_names_and_ids_do_not_mix(kafka: WireClient) -> None:
    topic = kafka.create_topic()
    for before, after in ((12, 13), (13, 12)):
        session = exchange(kafka, before, CREATE, [topic]).session_id
        mixed = exchange(kafka, after, (session, 1), [topic])
        assert_lost(mixed, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
