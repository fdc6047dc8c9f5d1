"""The quorum port: streams between a leader and its learners.

A `QuorumLink` has one connection: its writer sends what is queued, together, so that a task of ours
never waits for another member. `dial` makes the one to our leader, and tries again as long as its
member wants it, because a leader that was just elected may not listen yet.

Limits: MAX_QUEUED_BYTES to one member, above it the connection is closed.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterator

import trio

from ...protocol.errors import ProtocolError
from ...zookeeper.quorum.ensemble_config import Server
from ...zookeeper.quorum.leader import Piece
from ...zookeeper.quorum.login_config import MemberLogin
from .quorum_tls import QuorumTls, connected

RECEIVE_BYTES = 256 * 1024
SEND_BYTES = 256 * 1024
MAX_QUEUED_BYTES = 256 * 1024 * 1024
RETRY_S = 0.1
CONNECT_S = 5.0

logger = logging.getLogger("pybroker.broker.zookeeper.quorum_port")


class QuorumLink:
    """One connection. As a token, it is the link of a learner that came to us. `begun`: the bytes
    that have been received already."""

    __slots__ = ("_begun", "_queue", "_queued_bytes", "_stream", "_wake", "address", "scope")

    def __init__(self, stream: trio.abc.Stream, address: str, begun: bytes = b"") -> None:
        self._stream = stream
        self._begun = begun
        self.address = address
        self._queue: deque[bytes | Iterator[bytes]] = deque()
        self._queued_bytes = 0
        self._wake = trio.Event()
        self.scope = trio.CancelScope()

    def send(self, piece: Piece) -> None:
        if piece is None:
            self.scope.cancel()
            return
        if isinstance(piece, bytes):
            self._queued_bytes += len(piece)
            if self._queued_bytes > MAX_QUEUED_BYTES:
                logger.warning("closed the connection with %s: it does not read", self.address)
                self.scope.cancel()
                return
        self._queue.append(piece)
        self._wake.set()

    async def run(self, received: Callable[[bytes], None]) -> str:
        """Move bytes until one side ends it; returns the reason. `received` may raise
        ProtocolError."""
        why = ["we ended it"]
        with self.scope:
            try:
                async with self._stream, trio.open_nursery() as nursery:
                    nursery.start_soon(self._send_forever)
                    if self._begun:
                        received(self._begun)
                        self._begun = b""
                    while True:
                        data = await self._stream.receive_some(RECEIVE_BYTES)
                        if not data:
                            why[0] = "the other side closed it"
                            break
                        received(bytes(data))
                    nursery.cancel_scope.cancel()
            except* (ProtocolError, OSError, trio.BrokenResourceError) as group:
                why[0] = "; ".join(str(error) for error in group.exceptions)
        return why[0]

    async def _send_forever(self) -> None:
        while True:
            await self._wake.wait()
            self._wake = trio.Event()
            while self._queue:
                piece = self._queue.popleft()
                if isinstance(piece, bytes):
                    parts = [piece]
                    size = len(piece)
                    while self._queue and size < SEND_BYTES:
                        following = self._queue[0]
                        if not isinstance(following, bytes):
                            break
                        parts.append(following)
                        size += len(following)
                        self._queue.popleft()
                    self._queued_bytes -= size
                    await self._stream.send_all(b"".join(parts))
                else:
                    for chunk in piece:
                        await self._stream.send_all(chunk)


async def logged_in(stream: trio.abc.Stream, login: MemberLogin | None) -> bytes:
    """Log in at another member, if we do; returns what it has sent behind that. Raises
    ProtocolError, or BrokenResourceError."""
    if login is None:
        return b""
    from .quorum_login import log_in

    return await log_in(stream, login)


async def admitted(stream: trio.abc.Stream, login: MemberLogin | None, data: bytes = b"") -> bytes:
    """Let another member log in at us, which has sent `data` so far; returns what it has sent
    behind that. Raises ProtocolError if it must and does not, or BrokenResourceError."""
    if login is None:
        return data
    from .quorum_login import admit

    return await admit(stream, login, data)


async def dial(
    server: Server, wanted: Callable[[], bool], tls: QuorumTls | None, login: MemberLogin | None
) -> QuorumLink | None:
    """Connect to the quorum port of a server; None as soon as it is not `wanted` any more."""
    while wanted():
        plain = None
        try:
            with trio.move_on_after(CONNECT_S):
                plain = await trio.open_tcp_stream(server.host, server.quorum_port)
                stream = await connected(plain, server.host, tls)
                begun = await logged_in(stream, login)
                link = QuorumLink(stream, f"{server.host}:{server.quorum_port}", begun)
                plain = None  # it is the link's
                return link
        except (OSError, trio.BrokenResourceError, ProtocolError) as error:
            told = error.__cause__ or error
            level = logging.WARNING if isinstance(error, ProtocolError) else logging.DEBUG
            logger.log(level, "the quorum port of server %d: %s", server.server_id, told)
        finally:
            if plain is not None:
                await trio.aclose_forcefully(plain)
        await trio.sleep(RETRY_S)
    return None
