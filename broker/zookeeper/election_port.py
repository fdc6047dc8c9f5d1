"""The election port: one connection to each other member, for small messages.

Mirrors `QuorumCnxManager`. Of two members the one with the higher number connects: a connection
from a lower one is closed, and made the other way round. Only the newest message to a member
counts, so there is no queue; the last one is sent again on a new connection. A connection is made
when there is a message for it. The election is notified of a connection that ends, and of a member
whose port refuses one: its process is gone.

Limits: the first message and the connection attempt, with its login (`quorum_login`), have
CONNECT_S; a message has its size in front, at most MAX_MESSAGE_BYTES.
"""

import logging
from collections.abc import Callable, Mapping
from typing import NamedTuple

import trio

from ...protocol.errors import ProtocolError
from ...zookeeper.quorum.election_messages import (
    encode_first_message,
    try_first_message,
    try_message,
)
from ...zookeeper.quorum.ensemble_config import Server
from ...zookeeper.quorum.login_config import MemberLogin
from .quorum_port import admitted, logged_in
from .quorum_tls import QuorumTls, accepted, connected

CONNECT_S = 5.0
RECEIVE_BYTES = 16 * 1024

logger = logging.getLogger("pybroker.broker.zookeeper.election_port")


class ElectionEvents(NamedTuple):
    """Each is called with the number of the other member."""

    received: Callable[[int, bytes], None]
    """With its message; may raise ProtocolError."""
    refused: Callable[[int], None]
    disconnected: Callable[[int], None]


class _Peer:
    """What we know of another member, and the task that sends to it."""

    __slots__ = ("is_connecting", "message", "scope", "unsent", "wake")

    def __init__(self) -> None:
        self.message: bytes | None = None
        self.unsent = False
        self.wake = trio.Event()
        self.scope: trio.CancelScope | None = None  # of the connection that there is
        self.is_connecting = False


class ElectionPort:
    __slots__ = ("_events", "_login", "_my_id", "_nursery", "_peers", "_servers", "_tls")

    def __init__(
        self,
        my_id: int,
        servers: Mapping[int, Server],
        events: ElectionEvents,
        tls: QuorumTls | None = None,
        login: MemberLogin | None = None,
    ) -> None:
        self._tls = tls
        self._login = login
        self._my_id = my_id
        self._servers = servers
        self._events = events
        self._peers: dict[int, _Peer] = {}
        self._nursery: trio.Nursery | None = None

    async def serve(self, listener: trio.SocketListener, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        await trio.serve_listeners(self._accepted, [listener], handler_nursery=nursery)

    def send(self, receiver: int, message: bytes) -> None:
        """`message` with its size in front."""
        peer = self._peers.setdefault(receiver, _Peer())
        peer.message = message
        peer.unsent = True
        peer.wake.set()
        if peer.scope is None:
            self._connect(receiver, peer)

    def _connect(self, receiver: int, peer: _Peer) -> None:
        if receiver in self._servers and not peer.is_connecting and self._nursery is not None:
            peer.is_connecting = True
            self._nursery.start_soon(self._dial, receiver, peer)

    async def _dial(self, receiver: int, peer: _Peer) -> None:
        server, own = self._servers[receiver], self._servers[self._my_id]
        plain = stream = None
        try:
            with trio.fail_after(CONNECT_S):
                plain = await trio.open_tcp_stream(server.host, server.election_port)
                made = await connected(plain, server.host, self._tls)
                address = f"{own.host}:{own.election_port}"
                await made.send_all(encode_first_message(self._my_id, address))
                begun = await logged_in(made, self._login)
                stream = made
        except ProtocolError as error:
            logger.warning("the election port of server %d: %s", receiver, error)
            return
        except (OSError, trio.TooSlowError, trio.BrokenResourceError) as error:
            logger.debug("member %d cannot be reached: %s", receiver, error.__cause__ or error)
            if is_refusal(error):
                self._events.refused(receiver)
            return
        finally:
            peer.is_connecting = False
            if stream is None and plain is not None:
                await trio.aclose_forcefully(plain)
        if receiver > self._my_id:
            with trio.move_on_after(CONNECT_S):
                await stream.aclose()  # it connects to us now
            return
        await self._run(receiver, peer, stream, begun)

    async def _accepted(self, plain: trio.SocketStream) -> None:
        stream: trio.abc.Stream = plain
        data = bytearray()
        found = None
        try:
            with trio.fail_after(CONNECT_S):
                stream = await accepted(plain, self._tls)
                while found is None:
                    piece = await stream.receive_some(RECEIVE_BYTES)
                    if not piece:
                        return
                    data += piece
                    first = try_first_message(data)
                    if first is not None:
                        begun = await admitted(stream, self._login, bytes(data[first[2] :]))
                        found = first
        except (ProtocolError, OSError, trio.TooSlowError, trio.BrokenResourceError) as error:
            told = error.__cause__ or error
            logger.warning("closed a connection to the election port: %s", told)
            return
        finally:
            if found is None:
                await trio.aclose_forcefully(stream)
        sender, _, _ = found
        peer = self._peers.setdefault(sender, _Peer())
        if sender < self._my_id and sender in self._servers:
            await trio.aclose_forcefully(stream)
            if peer.scope is not None:
                peer.scope.cancel()
            self._connect(sender, peer)
        elif sender == self._my_id:
            logger.warning("a server with our own number, %d, connects to us", sender)
            await trio.aclose_forcefully(stream)
        else:
            await self._run(sender, peer, stream, begun)

    async def _run(self, number: int, peer: _Peer, stream: trio.abc.Stream, rest: bytes) -> None:
        """Send and receive on the one connection with a member, in place of an older one."""
        if peer.scope is not None:
            peer.scope.cancel()
        peer.unsent = peer.message is not None
        peer.wake.set()
        with trio.CancelScope() as scope:
            peer.scope = scope
            try:
                async with stream, trio.open_nursery() as nursery:
                    nursery.start_soon(self._send_forever, peer, stream, scope)
                    await self._receive_forever(number, stream, rest)
                    nursery.cancel_scope.cancel()
            except* (ProtocolError, OSError, trio.BrokenResourceError) as group:
                logger.debug("the connection with member %d ends: %s", number, group.exceptions)
        if peer.scope is scope:
            peer.scope = None
            self._events.disconnected(number)

    @staticmethod
    async def _send_forever(peer: _Peer, stream: trio.abc.Stream, scope: trio.CancelScope) -> None:
        while peer.scope is scope:
            await peer.wake.wait()
            peer.wake = trio.Event()
            if peer.unsent and peer.message is not None:
                peer.unsent = False
                await stream.send_all(peer.message)

    async def _receive_forever(self, number: int, stream: trio.abc.Stream, rest: bytes) -> None:
        buffer = bytearray(rest)
        while True:
            position = 0
            while (found := try_message(buffer, position)) is not None:
                message, position = found
                self._events.received(number, message)
            del buffer[:position]
            data = await stream.receive_some(RECEIVE_BYTES)
            if not data:
                return
            buffer += data


def is_refusal(error: BaseException) -> bool:
    """Whether each address of a host has refused a connection (`trio.open_tcp_stream`)."""
    cause = error.__cause__
    if isinstance(cause, BaseExceptionGroup):
        return all(isinstance(one, ConnectionRefusedError) for one in cause.exceptions)
    return isinstance(cause or error, ConnectionRefusedError)
