"""A connection from broker to broker, with one request in flight; any trouble closes it.

`Connect` opens it: in plain text, or over TLS and with a login (`connect_by`). A session that ends
is left for a new connection before that.
"""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import trio

from ...client.errors import ClientError
from ...client.exchanges import STREAM_ERRORS, Exchanges
from ...client.security.connector import OPEN, Connector, Link
from ...protocol.errors import ProtocolError
from ...protocol.schema import Message
from ...replication.metadata_cache import Endpoint

REQUEST_TIMEOUT_MS = 30_000

Connect: TypeAlias = Callable[[Endpoint], Awaitable[Link]]


class ChannelError(Exception):
    """The request got no answer: its effect is not known."""


def connect_by(connector: Connector, client_id: str) -> Connect:
    """Connect through `connector`; a login uses `client_id`."""

    async def connect(endpoint: Endpoint) -> Link:
        return await connector.open(endpoint.host, endpoint.port, client_id)

    return connect


connect_plaintext = connect_by(OPEN, "")


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
        """With `reuse_buffer` a response's bytes are valid until the next request only."""
        self.endpoint = endpoint
        self.timeout_ms = timeout_ms
        self._connect = connect
        self._link: Link | None = None  # nothing is on its way in it
        self._exchanges = Exchanges(client_id, reuse_buffer=reuse_buffer)

    async def send(self, message: Message, api_version: int) -> Message:
        """The response; ChannelError if the connection fails or nothing comes in time."""
        with trio.move_on_after(self.timeout_ms / 1000):
            return await self.request(message, api_version)
        raise ChannelError(f"no answer within {self.timeout_ms} ms")

    async def request(self, message: Message, api_version: int) -> Message:
        """Like `send`, for a caller with a time limit of its own."""
        answered = False
        try:
            if self._link is not None and trio.current_time() >= self._link.good_until:
                self.close()
            if self._link is None:
                self._link = await self._connect(self.endpoint)
            response = await self._link.ask(self._exchanges, message, api_version)
            answered = True
            return response
        except (*STREAM_ERRORS, ClientError) as error:
            raise ChannelError(f"connection failed: {error}") from error
        except ProtocolError as error:
            raise ChannelError(f"cannot read the answer: {error}") from error
        finally:
            if not answered:
                self.close()

    def close(self) -> None:
        """Drop the connection; the next request opens another."""
        link, self._link = self._link, None
        if link is not None:
            link.close()
