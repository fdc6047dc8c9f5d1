"""Logins of members at each other by SASL's DIGEST-MD5, before anything else that they say. Members
without them do not load it.

Mirrors `SaslQuorumAuthLearner` and `SaslQuorumAuthServer`. On the quorum port a learner logs in
first, on the election port behind the message with its number. A member that requires no login
takes one that does not begin with it, or fails; so logins come to an ensemble member by member.

Limits: both sides are called within the time for a connection; see `auth_packets` for sizes.

Leaves out Kerberos, and beyond it a login also at observers, which Apache ZooKeeper does not log in
at.
"""

from __future__ import annotations

import logging
import os

import trio

from ...protocol.sasl.digest_md5 import NONCE_BYTES, DigestClient, DigestServer
from ...protocol.sasl.errors import SaslError
from ...zookeeper.quorum.auth_packets import (
    SERVER_NAME,
    SERVICE,
    AuthPacket,
    AuthStatus,
    begins_login,
    encode_auth,
    try_auth,
)
from ...zookeeper.quorum.login_config import MemberLogin

RECEIVE_BYTES = 4096

logger = logging.getLogger("pybroker.broker.zookeeper.quorum_login")


class _Packets:
    """The packets of one connection; `data` has the bytes behind them."""

    __slots__ = ("_stream", "data")

    def __init__(self, stream: trio.abc.Stream, data: bytes) -> None:
        self._stream = stream
        self.data = bytearray(data)

    async def begins_login(self) -> bool:
        while (begins := begins_login(self.data)) is None:
            if not await self._receive():
                return False
        return begins

    async def next(self) -> AuthPacket:
        """Raises ProtocolError."""
        while (found := try_auth(self.data)) is None:
            if not await self._receive():
                raise SaslError("the connection ends during the login")
        packet, end = found
        del self.data[:end]
        return packet

    async def send(self, status: AuthStatus, token: bytes) -> None:
        await self._stream.send_all(encode_auth(status, token))

    async def _receive(self) -> bool:
        data = await self._stream.receive_some(RECEIVE_BYTES)
        self.data += data
        return bool(data)


async def log_in(stream: trio.abc.Stream, login: MemberLogin) -> bytes:
    """Log in at another member, if we do; returns what it has sent behind that. Raises
    ProtocolError, or BrokenResourceError."""
    if login.own is None:
        return b""
    packets = _Packets(stream, b"")
    client = DigestClient(SERVICE, SERVER_NAME, *login.own, os.urandom(NONCE_BYTES))
    await packets.send(AuthStatus.IN_PROGRESS, b"")
    while not client.is_complete:
        status, token = await packets.next()
        if status is AuthStatus.ERROR:
            raise SaslError("the other member refuses our name and password")
        answer = client.respond(token)
        if (answer is None) != (status is AuthStatus.SUCCESS):
            raise SaslError("the other member ends the login too early, or too late")
        if answer is not None:
            await packets.send(AuthStatus.IN_PROGRESS, answer)
    return bytes(packets.data)


async def admit(stream: trio.abc.Stream, login: MemberLogin, data: bytes = b"") -> bytes:
    """Let another member log in at us, which has sent `data` so far; returns what it has sent
    behind that. Raises ProtocolError if it must and does not, or BrokenResourceError."""
    packets = _Packets(stream, data)
    try:
        if await packets.begins_login():
            await _serve_login(packets, login)
        elif login.is_required:
            raise SaslError("it does not log in (quorum.auth.serverRequireSasl)")
    except SaslError as error:
        if login.is_required:
            raise
        logger.warning("a member is not who it says, and is let in nevertheless: %s", error)
    return bytes(packets.data)


async def _serve_login(packets: _Packets, login: MemberLogin) -> None:
    server = DigestServer(SERVICE, SERVER_NAME, login.users, os.urandom(NONCE_BYTES))
    while not server.is_complete:
        _, token = await packets.next()
        try:
            answer = server.respond(token)
        except SaslError:
            await packets.send(AuthStatus.ERROR, b"")
            raise
        status = AuthStatus.SUCCESS if server.is_complete else AuthStatus.IN_PROGRESS
        await packets.send(status, answer)
