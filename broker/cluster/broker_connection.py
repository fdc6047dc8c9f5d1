"""A connection from broker to broker, with one request in flight; any trouble closes it.

Leaves out TLS and SASL, for which `connect` is the place.
"""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import trio

from ...client.exchanges import STREAM_ERRORS, Exchanges
from ...protocol.errors import ProtocolError
from ...protocol.schema import Message
from ...replication.metadata_cache import Endpoint

REQUEST_TIMEOUT_MS = 30_000

Connect: TypeAlias = Callable[[Endpoint], Awaitable[trio.abc.Stream]]


class ChannelError(Exception):
    """The request got no answer: its effect is not known."""


async def connect_plaintext(endpoint: Endpoint) -> trio.abc.Stream:
    """A TCP connection without delay for small requests."""
    stream = await trio.open_tcp_stream(endpoint.host, endpoint.port)
    stream.setsockopt(trio.socket.IPPROTO_TCP, trio.socket.TCP_NODELAY, 1)
    return stream


class BrokerConnection:
    """A lazily opened connection; `send` is for one task at a time."""

    def __init__(
        self,
        endpoint: Endpoint,
        client_id: str,
        *,
        connect: Connect = connect_plaintext,
        timeout_ms: int = REQUEST_TIMEOUT_MS,
        reuse_buffer: bool = False,
    ) -> None:
        """With `reuse_buffer` a response's bytes are good until the next request only."""
        self.endpoint = endpoint
        self.timeout_ms = timeout_ms
        self._connect = connect
        self._stream: trio.abc.Stream | None = None  # nothing is on its way in it
        self._exchanges = Exchanges(client_id, reuse_buffer=reuse_buffer)

    async def send(self, message: Message, api_version: int) -> Message:
        """The response; ChannelError if the connection fails or nothing comes in time."""
        with trio.move_on_after(self.timeout_ms / 1000):
            return await self.request(message, api_version)
        raise ChannelError(f"no answer within {self.timeout_ms} ms")

    async def request(self, message: Message, api_version: int) -> Message:
        """As `send`, for a caller with a time limit of its own."""
        answered = False
        try:
            if self._stream is None:
                self._stream = await self._connect(self.endpoint)
            response = await self._exchanges.ask(self._stream, message, api_version)
            answered = True
            return response
        except STREAM_ERRORS as error:
            raise ChannelError(f"connection failed: {error}") from error
        except ProtocolError as error:
            raise ChannelError(f"cannot read the answer: {error}") from error
        finally:
            if not answered:
                self.close()

    def close(self) -> None:
        """Drop the connection; the next request opens another."""
        stream, self._stream = self._stream, None
        if isinstance(stream, trio.SocketStream):
            stream.socket.close()
        elif stream is not None:
            # Streams of other kinds (tests, TLS) can only be closed by awaiting.
            trio.lowlevel.spawn_system_task(trio.aclose_forcefully, stream)
