"""Bytes that are no requests: they cost their sender the connection, and nobody else anything."""

from __future__ import annotations

import logging
import struct

import pytest

from pybroker_kafka.broker.network.socket_server import SocketSettings
from pybroker_kafka.protocol.api import API_TABLE, ApiKey
from pybroker_kafka.protocol.apis.api_versions import ApiVersionsRequest, ApiVersionsResponse
from pybroker_kafka.protocol.apis.metadata import MetadataRequest
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.framing import decode_response
from tests.support.network import (
    RunningNetwork,
    api_versions,
    frame_of,
    heartbeat,
    running_network,
)

CLIENT_HELLO = bytes.fromhex("16030100c8010000c40303") + bytes(190)


def header(api_key: int, version: int, correlation_id: int = 7) -> bytes:
    body = struct.pack(">hhih", api_key, version, correlation_id, 1) + b"c"
    return struct.pack(">i", len(body)) + body


GARBAGE = {
    "http": (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "an HTTP request ('GET / HTTP/1.1')"),
    "http post": (b"POST /topics HTTP/1.1\r\n\r\n", "an HTTP request"),
    "tls": (CLIENT_HELLO, "a TLS handshake"),
    "ssh": (b"SSH-2.0-OpenSSH_9.6\r\n", "an SSH greeting"),
    "negative": (struct.pack(">i", -1), "a frame of negative size -1"),
    "oversized": (struct.pack(">i", 1001), "a frame of 1001 bytes, more than"),
    "empty": (struct.pack(">i", 0), "a frame of 0 bytes"),
    "short": (struct.pack(">i", 6) + bytes(6), "a frame of 6 bytes"),
    "unknown api": (header(999, 0), "a request for API 999 (unknown) v0"),
    "kraft api": (header(52, 0), "a request for API 52 (unknown) v0"),
    "not served": (header(ApiKey.PRODUCE, 3), "a request for API 0 (Produce) v3"),
    "old version": (header(ApiKey.HEARTBEAT, 5), "a Heartbeat request v5; served are v0 to v4"),
    "negative version": (header(ApiKey.HEARTBEAT, -1), "a Heartbeat request v65535"),
    "truncated body": (header(ApiKey.HEARTBEAT, 0), "a Heartbeat request v0 that cannot be read"),
    "client id too long": (
        struct.pack(">ihhih", 10, ApiKey.HEARTBEAT, 0, 1, 500),
        "a request whose header is longer than its frame",
    ),
    "client id of negative length": (  # which is none; then there is no body
        struct.pack(">ihhih", 10, ApiKey.HEARTBEAT, 0, 1, -5),
        "a Heartbeat request v0 that cannot be read",
    ),
    "random": (bytes(range(200, 256)), "a frame of negative size"),
}


@pytest.mark.parametrize("name", GARBAGE)
async def test_garbage_costs_one_connection_and_one_log_line(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    data, expected = GARBAGE[name]
    async with running_network(SocketSettings(max_frame_bytes=1000)) as network:
        bystander = await network.connect()
        await bystander.ask(api_versions(), 3)
        culprit = await network.connect()
        with caplog.at_level(logging.INFO):
            await culprit.send(data)
            assert await culprit.is_closed()
        lines = [record.getMessage() for record in caplog.records]
        assert len(lines) == 1, lines
        assert expected in lines[0]
        host, port = culprit.stream.socket.getsockname()[:2]
        assert f"{host}:{port}" in lines[0]
        assert len((await bystander.ask(api_versions(), 3)).api_keys) == 4
        assert network.connections == 1


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SASL_PLAINTEXT"])
async def test_a_tls_client_is_told_what_the_listener_speaks(
    protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_network(protocol=protocol) as network:
        culprit = await network.connect()
        with caplog.at_level(logging.INFO):
            await culprit.send(CLIENT_HELLO)
            assert await culprit.is_closed()
        assert f"speaks {protocol} (set security.protocol={protocol} in" in caplog.text


async def test_garbage_again_after_the_route_is_known() -> None:
    """The second request of an API takes the fast path: it checks as much as the first."""
    async with running_network() as network:
        for version in (0, 4):
            good = await network.connect()
            await good.send(heartbeat("g", 1, version))
            assert await good.receive_frame() is not None
            whole = heartbeat("g", 2, version)
            for cut in range(18, len(whole) - 4):
                culprit = await network.connect()
                await culprit.send(struct.pack(">i", cut - 4) + whole[4:cut])
                assert await culprit.is_closed(), cut
            for size in (500, -5):
                culprit = await network.connect()
                await culprit.send(whole[:12] + struct.pack(">h", size) + whole[14:])
                assert await culprit.is_closed()
            await good.send(whole)
            assert await good.receive_frame() is not None


async def test_what_was_answered_before_the_garbage_still_arrives() -> None:
    async with running_network() as network:
        client = await network.connect()
        await client.send(heartbeat("a", 1) + heartbeat("b", 2) + b"GET / HTTP/1.1\r\n\r\n")
        for correlation_id in (1, 2):
            frame = await client.receive_frame()
            assert frame is not None
            assert decode_response(ApiKey.HEARTBEAT, 4, frame)[0] == correlation_id
        assert await client.is_closed()


async def test_exactly_the_largest_size_is_accepted() -> None:
    whole = heartbeat("x" * 400, 1, 0)
    async with running_network(SocketSettings(max_frame_bytes=len(whole) - 4)) as network:
        client = await network.connect()
        await client.send(whole)
        assert await client.receive_frame() is not None
        await client.send(heartbeat("x" * 401, 1, 0))
        assert await client.is_closed()


@pytest.mark.parametrize("client_id", ["ffff", "fffb", "0000", "0003 47e472", "0002 eda0"])
async def test_client_ids_that_kafka_takes(client_id: str) -> None:
    """No client id, one of negative length, an empty one, and what is not UTF-8."""
    for version in (0, 4):
        whole = heartbeat("g", 7, version)
        frame = whole[4:12] + bytes.fromhex(client_id) + whole[18:]
        async with running_network() as network:
            client = await network.connect()
            for _ in range(2):  # the second one takes the fast path
                await client.send(struct.pack(">i", len(frame)) + frame)
                answer = await client.receive_frame()
                assert answer is not None
                assert decode_response(ApiKey.HEARTBEAT, version, answer)[0] == 7


async def test_trailing_bytes_and_null_client_id_are_fine() -> None:
    async with running_network() as network:
        client = await network.connect()
        body = frame_of(MetadataRequest(topics=[]), 1, 5, client_id=None)[4:] + b"trailing"
        for _ in range(2):
            await client.send(struct.pack(">i", len(body)) + body)
            frame = await client.receive_frame()
            assert frame is not None
            assert decode_response(ApiKey.METADATA, 1, frame)[0] == 5


@pytest.mark.parametrize("version", [5, 42, 32767])
async def test_api_versions_of_any_version_is_answered_in_version_0(version: int) -> None:
    async with running_network() as network:
        client = await network.connect()
        for _ in range(2):
            await client.send(header(ApiKey.API_VERSIONS, version))
            frame = await client.receive_frame()
            assert frame is not None
            correlation_id, response = decode_response(ApiKey.API_VERSIONS, 0, frame)
            assert correlation_id == 7
            assert isinstance(response, ApiVersionsResponse)
            assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
            spec = API_TABLE[ApiKey.API_VERSIONS]
            (served,) = response.api_keys
            assert (served.api_key, served.min_version, served.max_version) == (
                ApiKey.API_VERSIONS,
                spec.min_version,
                spec.max_version,
            )
        assert (await client.ask(api_versions(), 4)).error_code == ErrorCode.NONE


@pytest.mark.parametrize(("name", "version"), [("", "1"), ("a b", "1"), ("ok", ""), ("-x", "1")])
async def test_api_versions_checks_the_client_software(name: str, version: str) -> None:
    async with running_network() as network:
        client = await network.connect()
        request = ApiVersionsRequest(client_software_name=name, client_software_version=version)
        assert (await client.ask(request, 3)).error_code == ErrorCode.INVALID_REQUEST


async def test_end_of_stream_in_a_frame_is_silent(caplog: pytest.LogCaptureFixture) -> None:
    async with running_network() as network:
        client = await network.connect()
        await client.send(heartbeat("g", 1)[:9])
        await client.stream.aclose()
        await all_gone(network)
        assert not caplog.records


async def all_gone(network: RunningNetwork) -> None:
    await network.wait_for_connections(0)
