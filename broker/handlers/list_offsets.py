"""ListOffsets v0-11.

v0 lists segment offsets, v1+ one offset; special timestamps need v1 (earliest), v7
(max timestamp, KIP-734), v8 (earliest local), v9 (latest tiered), v11 (earliest pending upload,
KIP-1023); v4 brought leader epochs, v5 OFFSET_NOT_AVAILABLE instead of LEADER_NOT_AVAILABLE
(KIP-207), v10 a timeout for tiered storage. Batches in which the first record at or after a time is
to be found are searched in a worker thread: a large one takes seconds. Those of the remote tier, if
there is one, come first (`remote`).

Mirrors KafkaApis.handleListOffsetRequest. Leaves out authorization.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping

import trio

from ...protocol.api import ApiKey
from ...protocol.apis.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.topics import TopicPartition
from ...replication.offsets import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    MAX_TIMESTAMP,
    OffsetAnswer,
    OffsetQuery,
    Searched,
)
from ...replication.replica_manager import ReplicaManager
from ...replication.types import CONSUMER_REPLICA_ID, DEBUG_REPLICA_ID, Isolation
from ...storage.log_lookup import TimestampOffset, search
from ..network.request import Handler, Request
from ..replicas.applied_replicas import AppliedReplicas

_FIRST_VERSION_OF = {
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL_TIMESTAMP: 8,
    LATEST_TIERED_TIMESTAMP: 9,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP: 11,
}
_SMALLEST_TIMESTAMP = EARLIEST_PENDING_UPLOAD_TIMESTAMP
# Few, since these threads compete with the event loop for the interpreter.
MAX_SEARCHERS = 2

SearchRemote = Callable[[TopicPartition, int, int], Awaitable[TimestampOffset | None]]
Searches = dict[TopicPartition, Searched | ErrorCode]


class ListOffsetsHandler:
    __slots__ = ("_remote", "_replicas", "_searchers", "_spawn")

    def __init__(
        self,
        replicas: AppliedReplicas,
        spawn: Callable[..., None] | None = None,
        remote: SearchRemote | None = None,
    ) -> None:
        """`spawn(coroutine_function, request)` runs long work beside others (as Dispatcher does);
        without it the work is done at once. `remote` finds offsets by time in the remote tier."""
        self._remote = remote
        self._replicas = replicas
        self._spawn = spawn
        self._searchers = trio.CapacityLimiter(MAX_SEARCHERS)

    def handlers(self) -> Mapping[ApiKey, Handler]:
        return {
            ApiKey.LIST_OFFSETS: self.list_offsets,
        }

    def list_offsets(self, request: Request) -> None:
        body: ListOffsetsRequest = request.body
        if (
            self._spawn is not None
            and request.api_version > 0
            and any(_is_by_time(entry) for topic in body.topics for entry in topic.partitions)
        ):
            self._spawn(self._search_and_list, request)
        else:
            self._list(request, {})

    async def _search_and_list(self, request: Request) -> None:
        """Others have their turn while batches are searched."""
        body: ListOffsetsRequest = request.body
        searches: Searches = {}
        for topic in body.topics:
            for entry in topic.partitions:
                key = (topic.name, entry.partition_index)
                if _is_by_time(entry) and key not in searches:
                    outcome = await self._search(key, _query(body, entry))
                    if outcome is not None:
                        searches[key] = outcome
        self._list(request, searches)

    async def _search(self, key: TopicPartition, query: OffsetQuery) -> Searched | ErrorCode | None:
        to_search = self._replicas.manager.offsets.batches_to_search(key, query)
        if to_search is None:
            return None
        name, batches = to_search
        try:
            if self._remote is not None and query.timestamp >= 0:
                log = self._replicas.manager.partitions[key].log
                if log.has_remote_tier:
                    early = await self._remote(key, query.timestamp, log.log_start_offset)
                    if early is not None:
                        return Searched(early)
            for batch in batches:
                found = await trio.to_thread.run_sync(
                    search, (batch,), name, limiter=self._searchers, abandon_on_cancel=True
                )
                if found is not None:
                    return Searched(found)
        except KafkaError as error:
            return None if error.code is ErrorCode.KAFKA_STORAGE_ERROR else error.code
        except OSError:
            return None  # closed meanwhile, or its disk failed: list_offset finds it
        return Searched(None)

    def _list(self, request: Request, searches: Searches) -> None:
        body: ListOffsetsRequest = request.body
        version = request.api_version
        counts = Counter(
            (topic.name, partition.partition_index)
            for topic in body.topics
            for partition in topic.partitions
        )
        topics = []
        with self._replicas.applying as manager:
            for topic in body.topics:
                partitions = []
                for partition in topic.partitions:
                    key = (topic.name, partition.partition_index)
                    if version == 0:
                        partitions.append(self._list_legacy(manager, body, key, partition))
                    elif counts[key] > 1:
                        partitions.append(_no_offset(key, ErrorCode.INVALID_REQUEST))
                    else:
                        searched = searches.get(key)
                        partitions.append(
                            self._list_one(manager, body, key, partition, version, searched)
                        )
                topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=partitions))
            request.respond(ListOffsetsResponse(topics=topics))

    def _list_one(
        self,
        manager: ReplicaManager,
        body: ListOffsetsRequest,
        key: TopicPartition,
        partition: ListOffsetsPartition,
        version: int,
        searched: Searched | ErrorCode | None,
    ) -> ListOffsetsPartitionResponse:
        timestamp = partition.timestamp
        if timestamp < _SMALLEST_TIMESTAMP or version < _FIRST_VERSION_OF.get(timestamp, 1):
            return _no_offset(key, ErrorCode.UNSUPPORTED_VERSION)
        if isinstance(searched, ErrorCode):
            found = OffsetAnswer(searched)
        else:
            found = manager.offsets.list_offset(key, _query(body, partition), searched)
        error = found.error_code
        if error is ErrorCode.OFFSET_NOT_AVAILABLE and version < 5:
            error = ErrorCode.LEADER_NOT_AVAILABLE
        return ListOffsetsPartitionResponse(
            partition_index=key[1],
            error_code=error,
            timestamp=found.timestamp,
            offset=found.offset,
            leader_epoch=found.leader_epoch if version >= 4 else -1,
        )

    def _list_legacy(
        self,
        manager: ReplicaManager,
        body: ListOffsetsRequest,
        key: TopicPartition,
        partition: ListOffsetsPartition,
    ) -> ListOffsetsPartitionResponse:
        error, found = manager.offsets.legacy_offsets(
            key,
            partition.timestamp,
            partition.max_num_offsets,
            self._replicas.clock(),
            is_consumer=body.replica_id == CONSUMER_REPLICA_ID,
            only_leader=body.replica_id != DEBUG_REPLICA_ID,
        )
        return ListOffsetsPartitionResponse(
            partition_index=key[1], error_code=error, old_style_offsets=found
        )


def _is_by_time(partition: ListOffsetsPartition) -> bool:
    return partition.timestamp >= 0 or partition.timestamp == MAX_TIMESTAMP


def _query(body: ListOffsetsRequest, partition: ListOffsetsPartition) -> OffsetQuery:
    if body.replica_id != CONSUMER_REPLICA_ID:
        isolation = Isolation.LOG_END
    elif body.isolation_level == Isolation.READ_COMMITTED:
        isolation = Isolation.READ_COMMITTED
    else:
        isolation = Isolation.READ_UNCOMMITTED
    return OffsetQuery(
        partition.timestamp,
        isolation,
        partition.current_leader_epoch,
        body.replica_id != DEBUG_REPLICA_ID,
    )


def _no_offset(key: TopicPartition, error: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=key[1], error_code=error)
