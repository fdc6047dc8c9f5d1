"""A template says of a commit what the codec says, or nothing."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pybroker.broker.network.commit_request_template import (
    MAX_MISSES,
    MAX_PARTITIONS,
    CommitRequestTemplate,
    RepeatedCommit,
    commit_template_of,
)
from pybroker.broker.network.request import Route
from pybroker.broker.network.turns import Turns
from pybroker.broker.observability.metrics import RequestMetrics
from pybroker.protocol.api import API_TABLE, ApiKey
from pybroker.protocol.codec import decode, decode_from
from pybroker.protocol.errors import ProtocolError
from pybroker.protocol.framing import decode_request_header
from pybroker.protocol.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.support.network import frame_of

SPEC = API_TABLE[ApiKey.OFFSET_COMMIT]
VERSIONS = range(SPEC.min_version, SPEC.max_version + 1)
OFFSET = st.one_of(st.integers(-1, 300), st.integers(-(2**63), 2**63 - 1))
# Topics with the partitions of each, up to more than one byte of names and of counts.
SHAPE = st.lists(st.integers(1, 3), min_size=1, max_size=4)


def route_of(version: int) -> Route:
    metrics = RequestMetrics("OffsetCommit", version)
    return Route(ApiKey.OFFSET_COMMIT, version, lambda _: None, metrics, Turns())


def request(
    *offsets: int, shape: list[int] | None = None, group: str = "g", metadata: str | None = ""
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


def read_by_codec(frame: bytes) -> tuple[str | None, Any]:
    header, offset = decode_request_header(frame[4:])
    return header.client_id, decode(OffsetCommitRequest, header.api_version, frame[4:], offset)


def learn(
    frame: bytes, version: int, previous: Any = None, route: Route | None = None
) -> CommitRequestTemplate | None:
    header, start = decode_request_header(frame[4:])
    body, end = decode_from(OffsetCommitRequest, version, frame[4:], start)
    assert end == len(frame) - 4
    template: CommitRequestTemplate | None = commit_template_of(
        route or route_of(version), frame[4:], start, body, header.client_id, previous
    )
    return template


def read_by_template(template: CommitRequestTemplate, frame: bytes) -> Any:
    """The message, or None; other bytes lie around the frame in the buffer."""
    buffer = bytearray(b"ahead" + frame + b"behind" * 10)
    if not template.matches(buffer, memoryview(buffer), 5, 5 + len(frame)):
        return None
    assert type(template.body) is RepeatedCommit
    assert template.body.topics is template.body.message.topics
    return template.body.message


@settings(max_examples=200)
@given(
    version=st.sampled_from(VERSIONS),
    shape=SHAPE,
    correlation_ids=st.tuples(st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1)),
    client_id=st.sampled_from([None, "", "c", "client-é"]),
    data=st.data(),
)
def test_the_same_commit_with_other_offsets(
    version: int,
    shape: list[int],
    correlation_ids: tuple[int, int],
    client_id: str | None,
    data: st.DataObject,
) -> None:
    count = sum(shape)
    offsets = st.lists(OFFSET, min_size=count, max_size=count)
    first = request(*data.draw(offsets), shape=shape)
    template = learn(frame_of(first, version, correlation_ids[0], client_id), version)
    assert template is not None
    for _ in range(2):
        message = request(*data.draw(offsets), shape=shape)
        frame = frame_of(message, version, correlation_ids[1], client_id)
        expected_client_id, expected = read_by_codec(frame)
        assert read_by_template(template, frame) == expected
        assert template.client_id == expected_client_id
        assert template.was_seen_again


@settings(max_examples=400)
@given(version=st.sampled_from(VERSIONS), offset=OFFSET, data=st.data())
def test_a_changed_byte_or_length_is_read_as_the_codec_reads_it(
    version: int, offset: int, data: st.DataObject
) -> None:
    frame = bytearray(frame_of(request(offset, 7), version, 1))
    template = learn(bytes(frame), version)
    assert template is not None
    for _ in range(data.draw(st.integers(1, 3))):
        frame[data.draw(st.integers(12, len(frame) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.one_of(st.just(len(frame)), st.integers(14, len(frame))))
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
        template = learn(frame_of(request(1), version, 1), version)
        assert template is not None
        for other in (
            request(1, group="h"),
            request(1, group="group"),
            request(1, 2),
            request(1, metadata="x"),
            request(1, metadata=None),
        ):
            assert read_by_template(template, frame_of(other, version, 1)) is None
        assert read_by_template(template, frame_of(request(1), version, 1, "other")) is None


def test_what_has_no_template() -> None:
    for version in VERSIONS:
        assert learn(frame_of(request(), version, 1), version) is None
        many = request(*range(MAX_PARTITIONS + 1))
        assert learn(frame_of(many, version, 1), version) is None


def test_a_frame_that_we_would_write_otherwise_has_none() -> None:
    """A varint that is longer than it need be."""
    frame = frame_of(request(1), 8, 1)
    _, start = decode_request_header(frame[4:])
    body = decode(OffsetCommitRequest, 8, frame[4:], start)
    longer = frame[4 : 4 + start] + b"\x82\x00" + frame[4 + start + 1 :]
    assert decode(OffsetCommitRequest, 8, longer, start) == body
    assert commit_template_of(route_of(8), longer, start, body, "test", None) is None


def test_looking_in_vain_ends() -> None:
    route = route_of(7)
    template = None
    for number in range(MAX_MISSES + 10):
        template = learn(frame_of(request(1, group=f"{number:02}"), 7, 1), 7, template, route)
    assert template is not None
    assert template.body.group_id == f"{MAX_MISSES:02}"
    seen = read_by_template(template, frame_of(request(2, group=f"{MAX_MISSES:02}"), 7, 1))
    assert seen is not None
    again = learn(frame_of(request(1, group="99"), 7, 1), 7, template, route)
    assert again is not None
    assert again.body.group_id == "99"
