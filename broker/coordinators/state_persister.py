"""Keeps states of share partitions with the share coordinators, which may be on other brokers.

Job: each partition of a request goes to the broker that leads its partition of
`__share_group_state`; what waits for the same broker meanwhile goes out as one request, for each
group and kind. Errors of coordinators that are on the move, and failed connections, are tried again
with growing pauses, about as long in all as Kafka does, and sooner at first. The own coordinator is
called at once and without a request; Kafka makes no difference.

Invariants: one request of a kind is under way to a broker; a share partition is in it once.

Mirrors org.apache.kafka.server.share.persister.DefaultStatePersister and PersisterStateManager.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import trio

from ...coordinator.group.placement import partition_for_key
from ...coordinator.share.answers import DELETE, INITIALIZE, READ, SUMMARY, WRITE, Answer, Kind
from ...coordinator.share.state import Key
from ...protocol.errors import ErrorCode
from ...protocol.topics import SHARE_STATE_TOPIC
from ...replication.metadata_cache import MetadataCache
from ..cluster.broker_connection import (
    REQUEST_TIMEOUT_MS,
    BrokerConnection,
    ChannelError,
    Connect,
    connect_plaintext,
)
from .persister import Persister
from .share_runtime import ShareRuntime

if TYPE_CHECKING:
    from ...protocol.apis.delete_share_group_state import (
        DeleteShareGroupStateRequest,
        DeleteShareGroupStateResponse,
    )
    from ...protocol.apis.initialize_share_group_state import (
        InitializeShareGroupStateRequest,
        InitializeShareGroupStateResponse,
    )
    from ...protocol.apis.read_share_group_state import (
        ReadShareGroupStateRequest,
        ReadShareGroupStateResponse,
    )
    from ...protocol.apis.read_share_group_state_summary import (
        ReadShareGroupStateSummaryRequest,
        ReadShareGroupStateSummaryResponse,
    )
    from ...protocol.apis.write_share_group_state import (
        WriteShareGroupStateRequest,
        WriteShareGroupStateResponse,
    )

logger = logging.getLogger("pybroker.broker.share")

MAX_ATTEMPTS: Final = 9
FIRST_PAUSE_MS: Final = 100
MAX_PAUSE_MS: Final = 30_000
_JITTER: Final = 0.2
_MS: Final = 1000
_VERSIONS: Final = {INITIALIZE: 0, READ: 0, WRITE: 1, DELETE: 0, SUMMARY: 1}
_RETRIED: Final = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT,
    }
)  # fmt: skip


class _Item:
    """One share partition of a request."""

    __slots__ = ("asked", "done", "key", "result")

    def __init__(self, key: Key, asked: Any) -> None:
        self.key = key
        self.asked = asked
        self.result: Any = None
        self.done = trio.Event()

    def finish(self, result: Any) -> None:
        self.result = result
        self.done.set()


class StatePersister(Persister):
    """`run` until cancelled."""

    def __init__(
        self,
        cache: MetadataCache,
        listener: str,
        client_id: str,
        here: ShareRuntime,
        auto_create_topic: Callable[[str], None],
        *,
        connect: Connect = connect_plaintext,
        timeout_ms: int = REQUEST_TIMEOUT_MS,
    ) -> None:
        self._cache = cache
        self._listener = listener
        self._client_id = client_id
        self._here = here
        self._auto_create_topic = auto_create_topic
        self._connect = connect
        self._timeout_ms = timeout_ms
        self._channels: dict[tuple[int, Kind], _Channel] = {}
        self._nursery: trio.Nursery | None = None
        machine = here.machine
        self._calls: dict[Kind, Callable[[Any, Any, int], None]] = {
            INITIALIZE: machine.initialize,
            READ: machine.read,
            WRITE: here.write,
            DELETE: machine.delete,
            SUMMARY: machine.read_summary,
        }

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            task_status.started()
            await trio.sleep_forever()

    # The interface

    async def initialize_state(
        self, request: InitializeShareGroupStateRequest
    ) -> InitializeShareGroupStateResponse:
        response: InitializeShareGroupStateResponse = await self._ask(INITIALIZE, request)
        return response

    async def read_state(self, request: ReadShareGroupStateRequest) -> ReadShareGroupStateResponse:
        response: ReadShareGroupStateResponse = await self._ask(READ, request)
        return response

    async def write_state(
        self, request: WriteShareGroupStateRequest
    ) -> WriteShareGroupStateResponse:
        response: WriteShareGroupStateResponse = await self._ask(WRITE, request)
        return response

    async def delete_state(
        self, request: DeleteShareGroupStateRequest
    ) -> DeleteShareGroupStateResponse:
        response: DeleteShareGroupStateResponse = await self._ask(DELETE, request)
        return response

    async def read_summary(
        self, request: ReadShareGroupStateSummaryRequest
    ) -> ReadShareGroupStateSummaryResponse:
        response: ReadShareGroupStateSummaryResponse = await self._ask(SUMMARY, request)
        return response

    # Asking

    async def _ask(self, kind: Kind, request: Any) -> Any:
        items = [
            _Item(Key(request.group_id, topic.topic_id, asked.partition), asked)
            for topic in request.topics
            for asked in topic.partitions
        ]
        waiting = items
        for attempt in range(MAX_ATTEMPTS):
            if attempt:
                pause_ms = min(FIRST_PAUSE_MS * 2 ** (attempt - 1), MAX_PAUSE_MS)
                await trio.sleep(pause_ms / _MS * random.uniform(1 - _JITTER, 1 + _JITTER))
            await self._ask_once(kind, waiting)
            waiting = [item for item in waiting if item.result.error_code in _RETRIED]
            if not waiting:
                break
        for item in waiting:
            logger.error("%s%s", kind.failed, item.result.error_message)
        answer = Answer(None, kind)
        for item in items:
            answer.set(item.key, item.result)
        return answer.response()

    async def _ask_once(self, kind: Kind, items: Sequence[_Item]) -> None:
        by_broker: dict[int, list[_Item]] = {}
        for item in items:
            item.done = trio.Event()
            broker_id = self._coordinator_of(item.key)
            if broker_id is None or self._nursery is None:
                error = ErrorCode.COORDINATOR_NOT_AVAILABLE
                item.finish(kind.result(item.key.partition, error))
            else:
                by_broker.setdefault(broker_id, []).append(item)
        for broker_id, some in by_broker.items():
            if broker_id == self._cache.broker_id:
                request = _request(kind, some)
                self._calls[kind](_Call(kind, some), request, self._here.now_ms)
                self._here.perform()
            else:
                self._channel(broker_id, kind).add(some)
        for item in items:
            await item.done.wait()

    def _coordinator_of(self, key: Key) -> int | None:
        count = self._cache.partition_count(SHARE_STATE_TOPIC)
        if not count:
            self._auto_create_topic(SHARE_STATE_TOPIC)
            return None
        partition = partition_for_key(key.text, count)
        state = self._cache.partition_state(SHARE_STATE_TOPIC, partition)
        if state is None or not self._cache.is_alive(state.leader):
            return None
        return state.leader

    def _channel(self, broker_id: int, kind: Kind) -> _Channel:
        channel = self._channels.get((broker_id, kind))
        if channel is None:
            assert self._nursery is not None
            channel = self._channels[broker_id, kind] = _Channel(self, broker_id, kind)
            self._nursery.start_soon(channel.run)
        return channel

    def connection(
        self, broker_id: int, before: BrokerConnection | None
    ) -> BrokerConnection | None:
        """To the broker where it is now; None if it has no endpoint."""
        endpoint = self._cache.broker_endpoint(broker_id, self._listener)
        if before is not None and before.endpoint == endpoint:
            return before
        if before is not None:
            before.close()
        if endpoint is None:
            return None
        return BrokerConnection(
            endpoint, self._client_id, connect=self._connect, timeout_ms=self._timeout_ms
        )


class _Call:
    """The token of a call of the own coordinator."""

    __slots__ = ("_items", "_kind")

    def __init__(self, kind: Kind, items: Sequence[_Item]) -> None:
        self._kind = kind
        self._items = items

    def respond(self, response: Any) -> None:
        _finish(self._kind, self._items, response)

    def close(self) -> None:
        """There was an unexpected error."""
        _fail(self._kind, self._items, ErrorCode.UNKNOWN_SERVER_ERROR)


class _Channel:
    """The requests of one kind to one broker."""

    def __init__(self, persister: StatePersister, broker_id: int, kind: Kind) -> None:
        self._persister = persister
        self._broker_id = broker_id
        self._kind = kind
        self._waiting: list[_Item] = []
        self._wake = trio.Event()
        self._connection: BrokerConnection | None = None

    def add(self, items: Iterable[_Item]) -> None:
        self._waiting += items
        self._wake.set()

    async def run(self) -> None:
        try:
            while True:
                while not self._waiting:
                    self._wake = trio.Event()
                    await self._wake.wait()
                await self._exchange(self._take())
        finally:
            if self._connection is not None:
                self._connection.close()

    def _take(self) -> list[_Item]:
        """All that may go out in one request."""
        taken: dict[Key, _Item] = {}
        rest = []
        group_id = self._waiting[0].key.group_id
        for item in self._waiting:
            if item.key.group_id == group_id and item.key not in taken:
                taken[item.key] = item
            else:
                rest.append(item)
        self._waiting = rest
        return list(taken.values())

    async def _exchange(self, items: list[_Item]) -> None:
        kind = self._kind
        connection = self._connection = self._persister.connection(
            self._broker_id, self._connection
        )
        if connection is None:
            _fail(kind, items, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return
        try:
            response = await connection.send(_request(kind, items), _VERSIONS[kind])
        except ChannelError as error:
            logger.info("The share coordinator %d does not answer: %s", self._broker_id, error)
            _fail(kind, items, ErrorCode.NETWORK_EXCEPTION)
            return
        _finish(kind, items, response)


def _request(kind: Kind, items: Sequence[_Item]) -> Any:
    topics: dict[bytes, list[Any]] = {}
    for item in items:
        topics.setdefault(item.key.topic_id, []).append(item.asked)
    return kind.request(
        group_id=items[0].key.group_id,
        topics=[
            kind.asked(topic_id=topic_id, partitions=asked) for topic_id, asked in topics.items()
        ],
    )


def _finish(kind: Kind, items: Iterable[_Item], response: Any) -> None:
    results = {
        (topic.topic_id, result.partition): result
        for topic in response.results
        for result in topic.partitions
    }
    for item in items:
        result = results.get((item.key.topic_id, item.key.partition))
        if result is None:
            error = ErrorCode.UNKNOWN_SERVER_ERROR
            result = kind.result(item.key.partition, error, kind.failed + item.key.text)
        item.finish(result)


def _fail(kind: Kind, items: Iterable[_Item], error: ErrorCode) -> None:
    for item in items:
        item.finish(kind.result(item.key.partition, error))
