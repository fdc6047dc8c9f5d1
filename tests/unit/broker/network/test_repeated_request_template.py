"""A template says of a request what the codec says, or nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pybroker_kafka.broker.network.repeated_request_template import (
    MAX_MISSES,
    MAX_NUMBERS,
    PATIENCE,
    RepeatedRequestTemplate,
    repeated_template_of,
)
from pybroker_kafka.broker.network.request import Route
from pybroker_kafka.broker.network.turns import Turns
from pybroker_kafka.broker.observability.request_metrics import RequestMetrics
from pybroker_kafka.protocol import codec
from pybroker_kafka.protocol.api import API_TABLE, ApiKey, pages, request_class
from pybroker_kafka.protocol.apis.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)
from pybroker_kafka.protocol.apis.fetch import FetchPartition, FetchRequest, FetchTopic
from pybroker_kafka.protocol.apis.heartbeat import HeartbeatRequest
from pybroker_kafka.protocol.apis.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pybroker_kafka.protocol.apis.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from pybroker_kafka.protocol.apis.share_group_heartbeat import ShareGroupHeartbeatRequest
from pybroker_kafka.protocol.apis.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from pybroker_kafka.protocol.codec import decode, decode_from, encode
from pybroker_kafka.protocol.errors import ProtocolError
from pybroker_kafka.protocol.framing import decode_request_header, encode_request
from tests.support.frames import joined
from tests.support.sources import needs_sources

OFFSET = st.one_of(st.integers(-1, 300), st.integers(-(2**63), 2**63 - 1))
EPOCH = st.integers(-1, 2**31 - 1)
# Topics with the partitions of each, up to more than one byte of names and of counts.
SHAPE = st.lists(st.integers(1, 3), min_size=1, max_size=4)


def commit(
    *offsets: int,
    shape: list[int] | None = None,
    group: str = "g",
    metadata: str | None = "",
    version: int = 7,
    epoch: int = 0,
) -> OffsetCommitRequest:
    """Of the partitions of some topics, with these offsets one after the other."""
    left = list(offsets)
    return OffsetCommitRequest(
        group_id=group,
        member_id="m",
        topics=[
            OffsetCommitRequestTopic(
                name=f"topic-{number}",
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=index,
                        committed_offset=left.pop(0),
                        committed_metadata=metadata,
                    )
                    for index in range(count)
                ],
            )
            for number, count in enumerate(shape or [len(offsets)])
        ],
    )


def fetch(
    *offsets: int,
    shape: list[int] | None = None,
    group: str = "g",
    version: int = 4,
    epoch: int = 0,
) -> FetchRequest:
    left = list(offsets)
    topics = [
        FetchTopic(
            topic=f"{group}-{number}",
            topic_id=bytes(15) + bytes([number]),
            partitions=[
                FetchPartition(
                    partition=index, fetch_offset=left.pop(0), partition_max_bytes=1 << 20
                )
                for index in range(count)
            ],
        )
        for number, count in enumerate(shape or [len(offsets)])
    ]
    request = FetchRequest(max_wait_ms=500, min_bytes=1, topics=topics)
    if version >= 7:
        request.session_id, request.session_epoch = 77, epoch
    return request


def heartbeat(
    *offsets: int,
    shape: list[int] | None = None,
    group: str = "g",
    version: int = 0,
    epoch: int = 0,
) -> HeartbeatRequest:
    return HeartbeatRequest(group_id=group, generation_id=epoch, member_id="m")


def consumer_heartbeat(
    *offsets: int,
    shape: list[int] | None = None,
    group: str = "g",
    version: int = 0,
    epoch: int = 0,
) -> ConsumerGroupHeartbeatRequest:
    """With partitions, unless no shape is given."""
    topics = [
        ConsumerGroupHeartbeatRequestTopicPartitions(
            topic_id=bytes(15) + bytes([number]), partitions=list(range(count))
        )
        for number, count in enumerate(shape or [])
    ]
    return ConsumerGroupHeartbeatRequest(
        group_id=group, member_id="m", member_epoch=epoch, topic_partitions=topics or None
    )


def share_heartbeat(
    *offsets: int,
    shape: list[int] | None = None,
    group: str = "g",
    version: int = 0,
    epoch: int = 0,
) -> ShareGroupHeartbeatRequest:
    return ShareGroupHeartbeatRequest(group_id=group, member_id="m", member_epoch=epoch)


def streams_heartbeat(
    *offsets: int,
    shape: list[int] | None = None,
    group: str = "g",
    version: int = 0,
    epoch: int = 0,
) -> StreamsGroupHeartbeatRequest:
    return StreamsGroupHeartbeatRequest(group_id=group, member_id="m", member_epoch=epoch)


def offset_fetch(
    *offsets: int,
    shape: list[int] | None = None,
    group: str = "g",
    version: int = 0,
    epoch: int = 0,
) -> OffsetFetchRequest:
    counts = list(enumerate(shape or [len(offsets)]))
    if version >= 8:
        topics = [
            OffsetFetchRequestTopics(name=f"topic-{n}", partition_indexes=list(range(count)))
            for n, count in counts
        ]
        return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)])
    return OffsetFetchRequest(
        group_id=group,
        topics=[
            OffsetFetchRequestTopic(name=f"topic-{n}", partition_indexes=list(range(count)))
            for n, count in counts
        ],
    )


REQUESTS: dict[ApiKey, Callable[..., Any]] = {
    ApiKey.OFFSET_COMMIT: commit,
    ApiKey.FETCH: fetch,
    ApiKey.HEARTBEAT: heartbeat,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: consumer_heartbeat,
    ApiKey.SHARE_GROUP_HEARTBEAT: share_heartbeat,
    ApiKey.STREAMS_GROUP_HEARTBEAT: streams_heartbeat,
    ApiKey.OFFSET_FETCH: offset_fetch,
}
KINDS = [
    (key, version)
    for key in REQUESTS
    for version in range(API_TABLE[key].min_version, API_TABLE[key].max_version + 1)
]
HEARTBEATS = (
    ApiKey.HEARTBEAT,
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.SHARE_GROUP_HEARTBEAT,
    ApiKey.STREAMS_GROUP_HEARTBEAT,
)
NUMBERED = [(k, version) for k, version in KINDS if k in (ApiKey.OFFSET_COMMIT, ApiKey.FETCH)]


def test_all_that_is_repeated_is_tested() -> None:
    assert REQUESTS.keys() == {key for key, page in pages() if page.is_repeated}


def route_of(key: ApiKey, version: int) -> Route:
    metrics = RequestMetrics(key.name, version)
    return Route(key, version, lambda _: None, metrics, Turns())


def frame_of(
    key: ApiKey, message: Any, version: int, correlation_id: int, client_id: str | None = "test"
) -> bytes:
    return joined(encode_request(key, version, correlation_id, client_id, message))


def read_by_codec(key: ApiKey, frame: bytes) -> tuple[str | None, Any]:
    header, offset = decode_request_header(frame[4:])
    return header.client_id, decode(request_class(key), header.api_version, frame[4:], offset)


def see(route: Route, frame: bytes, previous: Any = None) -> RepeatedRequestTemplate:
    """One frame that the codec has read."""
    header, start = decode_request_header(frame[4:])
    of = request_class(route.api_key)
    body, end = decode_from(of, route.api_version, frame[4:], start)
    assert end == len(frame) - 4
    template: RepeatedRequestTemplate = repeated_template_of(
        route, frame[4:], start, body, header.client_id, previous
    )
    return template


def learn(key: ApiKey, version: int, frame: bytes) -> RepeatedRequestTemplate:
    route = route_of(key, version)
    return see(route, frame, see(route, frame))


def read_by_template(template: RepeatedRequestTemplate, frame: bytes) -> Any:
    """The message, or None; other bytes lie around the frame in the buffer."""
    buffer = bytearray(b"ahead" + frame + b"behind" * 10)
    if not template.matches(buffer, memoryview(buffer), 5, 5 + len(frame)):
        return None
    return template.body


@settings(max_examples=400)
@given(
    kind=st.sampled_from(KINDS),
    shape=SHAPE,
    correlation_ids=st.tuples(st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1)),
    client_id=st.sampled_from([None, "", "c", "client-é"]),
    data=st.data(),
)
def test_the_same_request_with_other_numbers(
    kind: tuple[ApiKey, int],
    shape: list[int],
    correlation_ids: tuple[int, int],
    client_id: str | None,
    data: st.DataObject,
) -> None:
    key, version = kind
    count = sum(shape)
    offsets = st.lists(OFFSET, min_size=count, max_size=count)

    def another() -> Any:
        epoch = data.draw(EPOCH)
        return REQUESTS[key](*data.draw(offsets), shape=shape, version=version, epoch=epoch)

    frame = frame_of(key, another(), version, correlation_ids[0], client_id)
    template = learn(key, version, frame)
    assert template.is_learned
    assert not template.was_seen_again
    for _ in range(2):
        frame = frame_of(key, another(), version, correlation_ids[1], client_id)
        expected_client_id, expected = read_by_codec(key, frame)
        assert read_by_template(template, frame) == expected
        assert template.client_id == expected_client_id
        assert template.was_seen_again


@settings(max_examples=600)
@given(kind=st.sampled_from(KINDS), offset=OFFSET, data=st.data())
def test_a_changed_byte_or_length_is_read_as_the_codec_reads_it(
    kind: tuple[ApiKey, int], offset: int, data: st.DataObject
) -> None:
    key, version = kind
    frame = bytearray(frame_of(key, REQUESTS[key](offset, 7, version=version), version, 1))
    template = learn(key, version, bytes(frame))
    assert template.is_learned
    for _ in range(data.draw(st.integers(1, 3))):
        frame[data.draw(st.integers(12, len(frame) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.one_of(st.just(len(frame)), st.integers(14, len(frame))))
    frame = frame[:cut] + data.draw(st.binary(max_size=4))
    frame[:4] = (len(frame) - 4).to_bytes(4, "big")
    known = read_by_template(template, bytes(frame))
    if known is not None:
        try:
            assert known == read_by_codec(key, bytes(frame))[1]
        except ProtocolError:
            raise AssertionError("the template reads what the codec refuses") from None


@pytest.mark.parametrize(("key", "version"), KINDS)
def test_other_requests_do_not_match(key: ApiKey, version: int) -> None:
    request = REQUESTS[key]
    template = learn(key, version, frame_of(key, request(1, version=version), version, 1))
    others = [request(1, 2, version=version)] if key not in HEARTBEATS else []
    if key is not ApiKey.FETCH or version < 13:
        others += [request(1, group=group, version=version) for group in ("h", "group")]
    if key is ApiKey.OFFSET_COMMIT:
        others += [commit(1, metadata="x"), commit(1, metadata=None)]
    for other in others:
        assert read_by_template(template, frame_of(key, other, version, 1)) is None
    frame = frame_of(key, request(1, version=version), version, 1, "other")
    assert read_by_template(template, frame) is None


@pytest.mark.parametrize(("key", "version"), NUMBERED)
def test_what_has_many_numbers_has_no_template(key: ApiKey, version: int) -> None:
    few = REQUESTS[key](*range(MAX_NUMBERS - 1), version=version)
    assert learn(key, version, frame_of(key, few, version, 1)).is_learned
    many = REQUESTS[key](*range(MAX_NUMBERS + 1), version=version)
    assert not learn(key, version, frame_of(key, many, version, 1)).is_learned


@needs_sources  # it counts calls of the codec, which is compiled with the templates
@pytest.mark.parametrize("version", [8, 9])
def test_a_frame_that_we_would_write_otherwise_has_none(
    version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A varint that is longer than it need be."""
    key = ApiKey.OFFSET_COMMIT
    frame = frame_of(key, commit(1), version, 1)
    _, start = decode_request_header(frame[4:])
    body = decode(OffsetCommitRequest, version, frame[4:], start)
    longer = frame[4 : 4 + start] + b"\x82\x00" + frame[4 + start + 1 :]
    assert decode(OffsetCommitRequest, version, longer, start) == body
    route = route_of(key, version)
    template = None
    looks: list[int] = []

    def encode_and_count(message: Any, version: int) -> bytes:
        looks.append(version)
        return encode(message, version)

    monkeypatch.setattr(codec, "encode", encode_and_count)
    for _ in range(10 * MAX_MISSES):
        template = repeated_template_of(route, longer, start, body, "test", template)
    assert template is not None
    assert not template.is_learned
    assert len(looks) == MAX_MISSES + 1  # and no more for ever


def test_two_of_a_size_in_a_row_make_one() -> None:
    route = route_of(ApiKey.FETCH, 4)
    frames = [frame_of(ApiKey.FETCH, fetch(*range(n + 1)), 4, 1) for n in range(2)]
    template = None
    for number in range(10):
        template = see(route, frames[number % 2], template)
        assert not template.is_learned
    assert see(route, frames[1], template).is_learned


def test_one_stays_while_it_is_of_use_and_goes_when_others_come() -> None:
    route = route_of(ApiKey.FETCH, 4)
    frames = [frame_of(ApiKey.FETCH, fetch(*range(n + 1)), 4, 1) for n in range(2)]
    template = see(route, frames[0], see(route, frames[0]))
    for _ in range(3):
        for _ in range(PATIENCE):
            assert see(route, frames[1], template) is template
        assert read_by_template(template, frames[0]) is not None
    for _ in range(PATIENCE):
        assert see(route, frames[1], template) is template
    another = see(route, frames[1], template)
    assert another is not template
    another = see(route, frames[1], another)
    assert read_by_template(another, frames[1]) is not None


def test_looking_in_vain_ends() -> None:
    route = route_of(ApiKey.OFFSET_COMMIT, 7)
    frames = [
        frame_of(ApiKey.OFFSET_COMMIT, commit(1, group=f"{number:04}"), 7, 1)
        for number in range(4 * MAX_MISSES * PATIENCE)
    ]
    made: list[RepeatedRequestTemplate] = []
    template = None
    for frame in frames:
        template = see(route, frame, template)
        if not made or made[-1] is not template:
            made.append(template)
    assert template is not None
    assert [one.misses for one in made] == list(range(MAX_MISSES + 2))
    assert see(route, frames[0], template) is template
