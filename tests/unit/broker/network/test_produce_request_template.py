"""A template says of a frame what the codec says, or nothing."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pybroker_kafka.broker.network.produce_request_template import (
    MAX_FRAME_BYTES,
    MAX_MISSES,
    ProduceRequestTemplate,
    template_of,
)
from pybroker_kafka.broker.network.request import Route
from pybroker_kafka.broker.network.turns import Turns
from pybroker_kafka.broker.observability.request_metrics import RequestMetrics
from pybroker_kafka.protocol.api import API_TABLE, ApiKey
from pybroker_kafka.protocol.apis.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from pybroker_kafka.protocol.codec import decode
from pybroker_kafka.protocol.errors import ProtocolError
from pybroker_kafka.protocol.framing import decode_request_header
from tests.support.network import frame_of

SPEC = API_TABLE[ApiKey.PRODUCE]
VERSIONS = range(SPEC.min_version, SPEC.max_version + 1)


def route_of(version: int) -> Route:
    return Route(
        ApiKey.PRODUCE, version, lambda _: None, RequestMetrics("Produce", version), Turns()
    )


def request(
    records: bytes | None, topic: str = "t", index: int = 0, acks: int = 1, copies: int = 1
) -> ProduceRequest:
    data = [PartitionProduceData(index=index, records=records) for _ in range(copies)]
    return ProduceRequest(
        acks=acks,
        timeout_ms=500,
        topic_data=[
            TopicProduceData(
                name=topic, topic_id=topic.encode().ljust(16, b"-"), partition_data=data
            )
        ],
    )


def read_by_codec(frame: bytes) -> tuple[str | None, Any]:
    header, offset = decode_request_header(frame[4:])
    return header.client_id, decode(ProduceRequest, header.api_version, frame[4:], offset)


def learn(
    frame: bytes,
    version: int,
    previous: ProduceRequestTemplate | None = None,
    route: Route | None = None,
) -> ProduceRequestTemplate | None:
    client_id, body = read_by_codec(frame)
    view = memoryview(frame)[4:]
    made = template_of(route or route_of(version), view, body, client_id, previous)
    assert made is None or isinstance(made, ProduceRequestTemplate)
    return made


def read_by_template(template: ProduceRequestTemplate, frame: bytes, ahead: bytes = b"") -> Any:
    """The message, or None; other bytes lie around the frame in the buffer."""
    buffer = bytearray(ahead + frame + b"behind" * 10)
    begin, end = len(ahead), len(ahead) + len(frame)
    if not template.matches(buffer, memoryview(buffer), begin, end):
        return None
    return template.body


RECORDS = st.one_of(
    st.binary(max_size=300),
    st.integers(0, 40_000).map(lambda size: b"r" * size),
    st.sampled_from([b"x" * size for size in (126, 127, 128, 16_382, 16_383, 16_384)]),
)


@settings(max_examples=300)
@given(
    version=st.sampled_from(VERSIONS),
    first=RECORDS,
    second=RECORDS,
    correlation_ids=st.tuples(st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1)),
    client_id=st.sampled_from([None, "", "c", "client-é"]),
    index=st.sampled_from([0, 1, -1, 2**31 - 1, -(2**31)]),
)
def test_the_next_request_with_other_records_for_another_partition(
    version: int,
    first: bytes,
    second: bytes,
    correlation_ids: tuple[int, int],
    client_id: str | None,
    index: int,
) -> None:
    template = learn(frame_of(request(first), version, correlation_ids[0], client_id), version)
    assert template is not None
    frame = frame_of(request(second, index=index), version, correlation_ids[1], client_id)
    known = read_by_template(template, frame, ahead=b"ahead")
    expected_client_id, expected = read_by_codec(frame)
    assert known == expected
    assert template.client_id == expected_client_id
    assert template.was_seen_again


@settings(max_examples=500)
@given(
    version=st.sampled_from(VERSIONS),
    records=st.binary(max_size=200),
    data=st.data(),
)
def test_a_changed_byte_or_length_is_read_as_the_codec_reads_it(
    version: int, records: bytes, data: st.DataObject
) -> None:
    frame = bytearray(frame_of(request(records), version, 1))
    template = learn(bytes(frame), version)
    assert template is not None
    for _ in range(data.draw(st.integers(1, 3))):
        frame[data.draw(st.integers(12, len(frame) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(14, len(frame)))
    frame = frame[:cut] + data.draw(st.binary(max_size=4))
    frame[:4] = (len(frame) - 4).to_bytes(4, "big")
    known = read_by_template(template, bytes(frame))
    if known is not None:
        try:
            assert known == read_by_codec(bytes(frame))[1]
        except ProtocolError:
            raise AssertionError("the template reads what the codec refuses") from None


def test_other_requests_do_not_match() -> None:
    for version in VERSIONS:
        template = learn(frame_of(request(b"abc"), version, 1), version)
        assert template is not None
        for other in (
            request(b"abc", topic="u"),
            request(b"abc", topic="topic"),
            request(b"abc", acks=-1),
            request(b"abc", copies=2),
            request(None),
        ):
            assert read_by_template(template, frame_of(other, version, 1)) is None
        assert read_by_template(template, frame_of(request(b"abc"), version, 1, "other")) is None


def test_what_has_no_shape() -> None:
    for version in VERSIONS:
        assert learn(frame_of(request(None), version, 1), version) is None
        assert learn(frame_of(request(b"a", copies=2), version, 1), version) is None
        large = request(b"a" * MAX_FRAME_BYTES)
        assert learn(frame_of(large, version, 1), version) is None


def test_looking_in_vain_ends() -> None:
    route = route_of(9)
    template = None
    for number in range(MAX_MISSES + 10):
        template = learn(frame_of(request(b"a", topic=f"{number:02}"), 9, 1), 9, template, route)
    assert template is not None
    assert template.body.topic_data[0].name == f"{MAX_MISSES:02}"
    seen = read_by_template(template, frame_of(request(b"b", topic=f"{MAX_MISSES:02}"), 9, 1))
    assert seen is not None
    again = learn(frame_of(request(b"a", topic="99"), 9, 1), 9, template, route)
    assert again is not None
    assert again.body.topic_data[0].name == "99"


def test_a_message_that_was_given_away_stays_as_it_is() -> None:
    for version in VERSIONS:
        template = learn(frame_of(request(b"first", index=1), version, 1), version)
        assert template is not None
        second = frame_of(request(b"second", index=2), version, 2)
        first = read_by_template(template, second)
        template.give_away()
        frame = frame_of(request(b"third", index=3), version, 3)
        assert read_by_template(template, frame) == read_by_codec(frame)[1]
        assert first == read_by_codec(second)[1]
