"""Headers: which version stands before which message, and what a broken one does."""

from __future__ import annotations

import pytest

from pybroker_kafka.protocol.api import API_TABLE, request_class, response_class
from pybroker_kafka.protocol.apis.api_versions import ApiVersion, ApiVersionsResponse
from pybroker_kafka.protocol.apis.controlled_shutdown import ControlledShutdownRequest
from pybroker_kafka.protocol.apis.fetch import (
    FetchableTopicResponse,
    FetchResponse,
    FetchResponsePartitionData,
)
from pybroker_kafka.protocol.apis.metadata import MetadataRequest, MetadataResponse
from pybroker_kafka.protocol.errors import ProtocolError
from pybroker_kafka.protocol.framing import (
    RequestHeader,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
)
from tests.support.frames import decode_request, joined


def test_request_header_v1_before_a_rigid_version() -> None:
    frame = joined(encode_request(3, 8, 5, "me", MetadataRequest(topics=None)))
    assert frame.hex(" ") == (
        "00 00 00 13"  # size
        " 00 03 00 08 00 00 00 05 00 02 6d 65"  # key, version, correlation id, client id
        " ff ff ff ff 01 00 00"  # null topics, auto creation, authorized operations
    )


def test_request_header_v2_before_a_flexible_version() -> None:
    frame = joined(encode_request(3, 9, 5, "me", MetadataRequest(topics=None)))
    assert frame.hex(" ") == (
        "00 00 00 12"
        " 00 03 00 09 00 00 00 05 00 02 6d 65 00"  # the client id is not compact; no tags
        " 00 01 00 00 00"  # null topics, three flags, no tags
    )


@pytest.mark.parametrize("client_id", [None, "", "ein-Gerät", "x" * 32767])
@pytest.mark.parametrize("version", [8, 9])
def test_client_ids(client_id: str | None, version: int) -> None:
    parts = encode_request(3, version, -1, client_id, MetadataRequest(topics=None))
    frame = joined(parts)[4:]
    for buffer in (frame, bytearray(frame), memoryview(frame)):
        header, position = decode_request_header(buffer)
        assert header == RequestHeader(3, version, -1, client_id)
        assert decode_request(buffer) == (header, MetadataRequest(topics=None))
        assert position == len(frame) - (7 if version == 8 else 5)


def test_a_client_id_that_is_no_utf_8() -> None:
    """Latin-1, for instance: Kafka replaces what it cannot read, and goes on."""
    frame = bytes.fromhex("0003 0008 00000001 0003 47e472")
    assert decode_request_header(frame)[0].client_id == "G\ufffdr"


@pytest.mark.parametrize("length", ["ffff", "fffe", "8000"])
def test_a_client_id_with_a_negative_length_is_none(length: str) -> None:
    """Kafka takes every one of them, though it writes -1 only."""
    frame = bytes.fromhex("0003 0008 00000001" + length)
    assert decode_request_header(frame) == (RequestHeader(3, 8, 1, None), 10)


def test_controlled_shutdown_v0_has_no_client_id() -> None:
    frame = joined(encode_request(7, 0, 9, "ignored", ControlledShutdownRequest(broker_id=3)))
    assert frame.hex(" ") == "00 00 00 0c 00 07 00 00 00 00 00 09 00 00 00 03"
    header, body = decode_request(frame[4:])
    assert header == RequestHeader(7, 0, 9, None)
    assert body == ControlledShutdownRequest(broker_id=3)
    assert decode_request_header(frame[4:12]) == (RequestHeader(7, 0, 9, None), 8)


def test_tags_of_a_header_are_skipped() -> None:
    start = bytes.fromhex("0003 000c 00000001 ffff")
    tags = b"\x02\x00\x01a\x05\x02bc"
    assert decode_request_header(start + tags + b"rest")[1] == len(start + tags)
    assert decode_request_header(start + b"\0")[1] == len(start) + 1
    twice_and_back = b"\x03\x05\x00\x05\x00\x03\x00"  # Kafka looks at no tag's number
    assert decode_request_header(start + twice_and_back)[1] == len(start + twice_and_back)
    for bad in (b"", b"\x01", b"\x02\x05\x00\x05", b"\x01\x00\x09x", b"\x80" * 9):
        with pytest.raises(ProtocolError):
            decode_request_header(start + bad)


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"GET / HT",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        bytes.fromhex("16030100a5010000a10303"),  # the start of a TLS hello
        bytes.fromhex("0003 0008 00000001"),  # ends where the client id should begin
        bytes.fromhex("0003 0008 00000001 0005 6162"),
        bytes.fromhex("0034 0000 00000001 ffff"),  # Vote, which a broker does not serve
        bytes.fromhex("ffff 0000 00000001 ffff"),
    ],
)
def test_no_header(frame: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_request_header(frame)


@pytest.mark.parametrize("version", [5, 17, 32767])
def test_the_header_of_an_unknown_version_of_api_versions_can_be_read(version: int) -> None:
    start = b"\0\x12" + version.to_bytes(2, "big") + bytes.fromhex("0000002a 0002 6d65 00")
    header, _ = decode_request_header(start + b"whatever a newer client sends")
    assert header == RequestHeader(18, version, 42, "me")
    with pytest.raises(ProtocolError, match=f"no version {version}"):
        decode_request(start)


@pytest.mark.parametrize("version", range(5))
def test_responses_of_api_versions_have_header_v0(version: int) -> None:
    response = ApiVersionsResponse(
        api_keys=[ApiVersion(api_key=18, min_version=0, max_version=4)], finalized_features_epoch=-1
    )
    frame = joined(encode_response(18, version, 77, response))
    assert frame[:8] == (len(frame) - 4).to_bytes(4, "big") + (77).to_bytes(4, "big")
    assert frame[8:10] == b"\0\0"  # the error code follows at once
    assert decode_response(18, version, frame[4:]) == (77, response)


def test_response_headers() -> None:
    rigid = joined(encode_response(3, 8, 77, MetadataResponse()))
    flexible = joined(encode_response(3, 9, 77, MetadataResponse()))
    assert rigid[4:12].hex() == "0000004d" + "00000000"  # then the throttle time
    assert flexible[4:13].hex() == "0000004d" + "00" + "00000000"
    assert decode_response(3, 8, rigid[4:]) == (77, MetadataResponse())
    assert decode_response(3, 9, flexible[4:]) == (77, MetadataResponse())
    with pytest.raises(ProtocolError):
        decode_response(3, 8, b"\0\0\0")


def test_every_api_frames_its_messages() -> None:
    for key, spec in API_TABLE.items():
        for version in range(spec.min_version, spec.max_version + 1):
            request, response = request_class(key)(), response_class(key)()
            frame = joined(encode_request(key, version, 1, None, request))
            assert decode_request(frame[4:])[1] == request
            frame = joined(encode_response(key, version, 1, response))
            assert decode_response(key, version, frame[4:]) == (1, response)


def test_an_unknown_version_is_refused_in_the_body_only() -> None:
    frame = bytes.fromhex("0003 0063 00000001 ffff 00") + b"body"
    assert decode_request_header(frame)[0].api_version == 99
    with pytest.raises(ProtocolError, match="no version 99"):
        decode_request(frame)
    with pytest.raises(ProtocolError):
        decode_request(b"\0\x12" + b"\xff\xff" + bytes(20))


class _FileRecords:
    """Stands for a slice of a file: it has a length, and is no buffer."""

    def __len__(self) -> int:
        return 1_000_000


def test_large_records_are_parts_of_their_own() -> None:
    sliced, small, large = _FileRecords(), b"s" * 100, memoryview(b"l" * 5000)
    response = FetchResponse(
        responses=[
            FetchableTopicResponse(
                topic="t",
                partitions=[
                    FetchResponsePartitionData(partition_index=index, records=records)
                    for index, records in enumerate((sliced, small, large, None))
                ],
            )
        ]
    )
    for version in (4, 12):
        parts = encode_response(1, version, 1, response)
        assert [type(part) for part in parts] == [bytes, _FileRecords, bytes, memoryview, bytes]
        assert parts[1] is sliced
        assert parts[3] is large
        size = int.from_bytes(joined(parts[:1])[:4], "big")
        assert size == sum(len(part) for part in parts) - 4
