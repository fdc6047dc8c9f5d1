"""Logins between members over streams in memory: who gets in, rolling changes, and bad input."""

from __future__ import annotations

import struct

import pytest
import trio
import trio.testing

from pybroker_kafka.broker.zookeeper.quorum_port import admitted, logged_in
from pybroker_kafka.protocol.errors import ProtocolError
from pybroker_kafka.zookeeper.quorum.auth_packets import MAGIC, AuthStatus, encode_auth
from pybroker_kafka.zookeeper.quorum.login_config import MemberLogin

USERS = {"zk": "their secret"}
FULL = MemberLogin(USERS, ("zk", "their secret"), True)
WRONG = FULL._replace(own=("zk", "guessed"))
LENIENT = FULL._replace(is_required=False)
NOT_YET = MemberLogin(USERS, None, False)


async def outcome(
    server: MemberLogin | None, client: MemberLogin | None, begun: bytes = b""
) -> tuple[str, str]:
    """What becomes of both sides: the bytes behind the login, or the reason that there is none."""
    ours, theirs = trio.testing.memory_stream_pair()
    told = {"server": "", "client": ""}

    async def serve() -> None:
        try:
            rest = await admitted(ours, server, begun)
            while len(rest) < 8:
                rest += await ours.receive_some(8)
            told["server"] = rest.decode()
        except ProtocolError as error:
            told["server"] = f"refused: {error}"
        await ours.aclose()

    async def connect() -> None:
        try:
            await logged_in(theirs, client)
            await theirs.send_all(b"greeting")
        except ProtocolError as error:
            told["client"] = f"refused: {error}"
            await theirs.aclose()

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve)
            nursery.start_soon(connect)
    return told["server"], told["client"]


@pytest.mark.parametrize(
    ("server", "client"),
    [
        (FULL, FULL),
        (LENIENT, FULL),
        (LENIENT, NOT_YET),
        (NOT_YET, FULL),
        (None, None),
        (None, NOT_YET),
    ],
)
async def test_who_gets_in(server: MemberLogin | None, client: MemberLogin | None) -> None:
    assert await outcome(server, client) == ("greeting", "")


async def test_who_does_not() -> None:
    server, client = await outcome(FULL, WRONG)
    assert "wrong password" in server
    assert "refuses our name" in client
    assert "secret" not in server + client
    server, _ = await outcome(FULL, None)
    assert "does not log in" in server


async def test_a_server_that_guesses() -> None:
    """It knows the user, and not the password: the learner stays away."""
    impostor = FULL._replace(users={"zk": "guessed"})
    _, client = await outcome(impostor, FULL)
    assert client.startswith("refused")
    ours, theirs = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ours.send_all, encode_auth(AuthStatus.SUCCESS, b""))
        with pytest.raises(ProtocolError):
            await logged_in(theirs, FULL)


async def test_bytes_that_came_with_the_first_message() -> None:
    start = encode_auth(AuthStatus.IN_PROGRESS, b"")
    ours, theirs = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ours.send_all, b"\0" * 16)
        with pytest.raises(ProtocolError):
            await admitted(theirs, FULL, start + b"\0" * 8)
    assert await admitted(theirs, None, start) == start  # it asks for no login, as Apache's


@pytest.mark.parametrize(
    "said",
    [
        b"\0" * 64,
        struct.pack(">qii", MAGIC, 0, 1_000_000),
        struct.pack(">qii", MAGIC, 0, -2),
        struct.pack(">qii", MAGIC, 7, 0),
        encode_auth(AuthStatus.IN_PROGRESS, b"not empty"),
        encode_auth(AuthStatus.IN_PROGRESS, b"") * 3,
        b"\xff" * 5,
    ],
)
async def test_bad_input(said: bytes) -> None:
    ours, theirs = trio.testing.memory_stream_pair()

    async def speak() -> None:
        await theirs.send_all(said)
        await theirs.send_eof()

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(speak)
            with pytest.raises(ProtocolError):
                await admitted(ours, FULL)
