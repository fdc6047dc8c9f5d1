"""Requests from this broker to the active controller, wherever it is.

Job: find the controller in the metadata cache, send over one connection, one request in flight,
and try again with the next controller when there is none, when it does not answer, or when the
broker asked is not the controller any more.

Mirrors kafka.server.NodeToControllerChannelManager. Leaves out the envelope for forwarded client
requests: in ZooKeeper mode clients go to the controller themselves.
"""

import logging
from collections.abc import Callable

import trio

from ...protocol.errors import ErrorCode
from ...protocol.schema import Message
from ...replication.metadata_cache import Endpoint, MetadataCache
from .broker_connection import (
    REQUEST_TIMEOUT_MS,
    BrokerConnection,
    ChannelError,
    Connect,
    connect_plaintext,
)

logger = logging.getLogger("pybroker.broker.cluster.controller_client")

RETRY_DELAY_MS = 50
# The second one to ControlledShutdown.
_NO_CONTROLLER = (ErrorCode.NOT_CONTROLLER, ErrorCode.STALE_CONTROLLER_EPOCH)


class ControllerUnavailable(Exception):
    """No controller answered in time."""


class ControllerClient:
    def __init__(
        self,
        broker_id: int,
        metadata: MetadataCache,
        listener: str,
        *,
        connect: Connect = connect_plaintext,
        request_timeout_ms: int = REQUEST_TIMEOUT_MS,
    ) -> None:
        self._client_id = str(broker_id)
        self._metadata = metadata
        self._listener = listener
        self._connect = connect
        self._request_timeout_ms = request_timeout_ms
        self._connection: BrokerConnection | None = None
        self._lock = trio.Lock()

    def controller_endpoint(self) -> Endpoint | None:
        return self._metadata.broker_endpoint(self._metadata.controller_id, self._listener)

    async def request(
        self,
        message: Message | Callable[[], Message],
        api_version: int,
        *,
        timeout_ms: int = REQUEST_TIMEOUT_MS,
    ) -> Message:
        """The controller's answer; an answer from a broker that is no controller causes a retry.

        A callable makes the message anew for each try (the broker epoch may have changed).
        """
        with trio.move_on_after(timeout_ms / 1000):
            while True:
                async with self._lock:
                    response = await self._try(message, api_version)
                if response is not None:
                    return response
                await trio.sleep(RETRY_DELAY_MS / 1000)
        raise ControllerUnavailable(f"no controller answered within {timeout_ms} ms")

    async def _try(
        self, message: Message | Callable[[], Message], api_version: int
    ) -> Message | None:
        endpoint = self.controller_endpoint()
        if endpoint is None:
            return None
        connection = self._connection
        if connection is None or connection.endpoint != endpoint:
            self.close()
            connection = self._connection = BrokerConnection(
                endpoint,
                self._client_id,
                connect=self._connect,
                timeout_ms=self._request_timeout_ms,
            )
        built = message if isinstance(message, Message) else message()
        try:
            response = await connection.send(built, api_version)
        except ChannelError as error:
            logger.info("%s to the controller: %s", type(built).__name__, error)
            return None
        if getattr(response, "error_code", ErrorCode.NONE) in _NO_CONTROLLER:
            return None
        return response

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
