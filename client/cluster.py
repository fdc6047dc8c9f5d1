"""A cluster as a client sees it: bootstrap, metadata, and a connection to each broker in use.

Metadata is asked for when it is needed and kept until a request shows that it is stale: callers
then call `refresh` and try again, with `retrying` to bound that.
Mirrors: Metadata and ClusterConnectionStates of the Java client.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from types import TracebackType
from typing import TypeVar

import trio

from client.connection import ClientError, Connection
from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from protocol.schema import Message

RETRY_BACKOFF_SECONDS = 0.1
RETRY_TIMEOUT_SECONDS = 30.0

R = TypeVar("R", bound=Message)


async def retrying() -> AsyncIterator[float]:
    """Attempts with a pause between, for RETRY_TIMEOUT_SECONDS; yields the seconds left."""
    deadline = trio.current_time() + RETRY_TIMEOUT_SECONDS
    while (remaining := deadline - trio.current_time()) > 0:
        yield remaining
        await trio.sleep(RETRY_BACKOFF_SECONDS)


class Cluster:
    """`async with Cluster("host:port,host:port") as cluster: ...`"""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = [parse_address(text) for text in bootstrap.split(",") if text.strip()]
        if not self._bootstrap:
            raise ClientError("name at least one broker as HOST:PORT")
        self._connections: dict[int, Connection] = {}
        self._any: Connection | None = None
        self._addresses: dict[int, tuple[str, int]] = {}
        self.controller_id = -1

    async def __aenter__(self) -> Cluster:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for connection in [*self._connections.values(), *([self._any] if self._any else [])]:
            await connection.aclose()

    async def any_connection(self) -> Connection:
        """A connection to the first bootstrap address that answers. Raises ClientError."""
        if self._any is not None and self._any.is_open:
            return self._any
        failure: ClientError | None = None
        for host, port in [*self._bootstrap, *self._addresses.values()]:
            try:
                self._any = await Connection.open(host, port)
                return self._any
            except ClientError as error:
                failure = failure or error
        assert failure is not None
        raise failure

    async def connection(self, broker_id: int) -> Connection:
        """A connection to one broker that the last metadata named. Raises ClientError."""
        existing = self._connections.get(broker_id)
        if existing is not None and existing.is_open:
            return existing
        address = self._addresses.get(broker_id)
        if address is None:
            raise ClientError(f"broker {broker_id} is not alive")
        connection = self._connections[broker_id] = await Connection.open(*address)
        return connection

    async def metadata(
        self, topics: Sequence[str] | None, *, create_missing: bool = False
    ) -> MetadataResponse:
        """Brokers and the named topics (None: all). Raises ClientError."""
        names = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=names, allow_auto_topic_creation=create_missing)
        connection = await self.any_connection()
        answer = await connection.request(ApiKey.METADATA, request, MetadataResponse)
        self._addresses = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
        self.controller_id = answer.controller_id
        return answer

    async def topic(
        self, name: str, *, create_missing: bool = False, wait_for_missing: bool = False
    ) -> MetadataResponseTopic:
        """A topic all of whose partitions have leaders, waiting for them. Raises ClientError.

        `wait_for_missing` suits a topic that was just created: the broker that is asked may not
        have heard of it yet.
        """
        code = ErrorCode.LEADER_NOT_AVAILABLE
        async for _ in retrying():
            found = (await self.metadata([name], create_missing=create_missing)).topics[0]
            code = ErrorCode(found.error_code)
            if code == ErrorCode.NONE:
                partitions = [ErrorCode(part.error_code) for part in found.partitions]
                code = next((code for code in partitions if code), ErrorCode.NONE)
                if code == ErrorCode.NONE:
                    return found
            is_missing = code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if is_missing and not create_missing and not wait_for_missing:
                raise ClientError(
                    f"there is no topic {name!r}; create it with: pybroker topics create {name}"
                )
            if not code.retriable:
                raise ClientError(f"topic {name!r}: {code.description}")
        raise ClientError(f"topic {name!r} is not ready: {code.description}")

    async def ask_controller(self, key: ApiKey, message: Message, answer_class: type[R]) -> R:
        """Send to the controller, as administration must be. Raises ClientError."""
        async for _ in retrying():
            await self.metadata([])
            if self.controller_id >= 0:
                connection = await self.connection(self.controller_id)
                return await connection.request(key, message, answer_class)
        raise ClientError("the cluster has no controller")


def parse_address(text: str) -> tuple[str, int]:
    """`host:port` or `[v6]:port`. Raises ClientError."""
    host, separator, port = text.strip().rpartition(":")
    if not separator or not port.isdigit() or not 0 < int(port) < 65536:
        raise ClientError(f"{text.strip()!r} is not HOST:PORT")
    return host.strip("[]"), int(port)
