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
from .quorum_tls import QuorumTls, connected

RECEIVE_BYTES = 256 * 1024
SEND_BYTES = 256 * 1024
MAX_QUEUED_BYTES = 256 * 1024 * 1024
RETRY_S = 0.1
CONNECT_S = 5.0

logger = logging.getLogger("pybroker.broker.zookeeper.quorum_port")


class QuorumLink:
    """One connection. As a token, it is the link of a learner that came to us."""

    __slots__ = ("_queue", "_queued_bytes", "_stream", "_wake", "address", "scope")

    def __init__(self, stream: trio.abc.Stream, address: str) -> None:
        self._stream = stream
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


async def dial(
    server: Server, wanted: Callable[[], bool], tls: QuorumTls | None
) -> QuorumLink | None:
    """Connect to the quorum port of a server; None as soon as it is not `wanted` any more."""
    while wanted():
        try:
            with trio.move_on_after(CONNECT_S):
                stream = await trio.open_tcp_stream(server.host, server.quorum_port)
                address = f"{server.host}:{server.quorum_port}"
                return QuorumLink(await connected(stream, server.host, tls), address)
        except (OSError, trio.BrokenResourceError) as error:
            told = error.__cause__ or error
            logger.debug("the quorum port of server %d: %s", server.server_id, told)
        await trio.sleep(RETRY_S)
    return None
