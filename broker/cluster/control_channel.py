"""The controller's queue of requests for one broker.

Requests go out in order, one at a time; a failed one is sent again after RESEND_DELAY_MS until it
is answered or the channel is closed, because a broker must not miss a decision of the controller.
The channel to the own broker uses a socket like every other.

Mirrors kafka.controller.RequestSendThread over NetworkClient.
"""

import logging
from collections import deque
from collections.abc import Callable
from typing import TypeAlias

import trio

from ...protocol.schema import Message
from ...replication.metadata_cache import Endpoint
from .broker_connection import BrokerConnection, ChannelError

logger = logging.getLogger("pybroker.broker.cluster.control_channel")

RESEND_DELAY_MS = 100

OnResponse: TypeAlias = Callable[[Message, Message], None]


class ControlChannel:
    """Delivers requests to one broker in order. `run` until cancelled."""

    def __init__(self, connection: BrokerConnection, on_response: OnResponse) -> None:
        self._connection = connection
        self._on_response = on_response
        self._queue: deque[tuple[Message, int]] = deque()
        self._wake = trio.Event()
        self._failures = 0

    def __len__(self) -> int:
        return len(self._queue)

    def enqueue(self, request: Message, api_version: int) -> None:
        self._queue.append((request, api_version))
        self._wake.set()

    def redirect(self, endpoint: Endpoint) -> None:
        """The broker listens elsewhere now; queued requests go there."""
        self._connection.endpoint = endpoint
        self._connection.close()

    async def run(self) -> None:
        try:
            while True:
                while not self._queue:
                    self._wake = trio.Event()
                    await self._wake.wait()
                request, api_version = self._queue[0]
                response = await self._deliver(request, api_version)
                self._queue.popleft()
                self._on_response(request, response)
        finally:
            self._connection.close()

    async def _deliver(self, request: Message, api_version: int) -> Message:
        while True:
            try:
                response = await self._connection.send(request, api_version)
            except ChannelError as error:
                self._failures += 1
                if self._failures == 1:
                    endpoint = self._connection.endpoint
                    logger.warning(
                        "cannot send %s to %s:%d, retrying until that broker is gone: %s",
                        type(request).__name__,
                        endpoint.host,
                        endpoint.port,
                        error,
                    )
                await trio.sleep(RESEND_DELAY_MS / 1000)
            else:
                self._failures = 0
                return response
