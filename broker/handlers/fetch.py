"""Fetch v0-18: read record batches, for consumers and for followers.

Versions: v3 a limit for the whole response, v4 isolation levels, v5 log start offsets, v7 sessions
(KIP-227), v9 leader epochs, v11 read replicas (KIP-392), v12 divergence (KIP-595), v13 topic ids,
v15 replica state, v16 the current leader's address (KIP-951), v18 a follower's high watermark, of
which a broker makes no use (KIP-1166). v0-1 get messages of magic 0, v2-3 of
magic 1, converted from the stored batches while they are sent (`down_conversion`), the first batch
of each partition before that, in a worker thread; v4+ get the stored batches, as slices of the
log's files.

A large request is read in turns with others; one that names more partitions than there can be is
refused as a whole, since its session would cost that at each of its fetches.

With an authorizer, unreadable partitions are not read and answered with an error. Each fetch of a
session asks anew, unless nothing has changed since all was allowed.

Mirrors KafkaApis.handleFetchRequest.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

import trio

from ...protocol.acls import CLUSTER_NAME, AclOperation, ResourceType
from ...protocol.api import ApiKey
from ...protocol.apis.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    FetchResponseLeaderIdAndEpoch,
    FetchResponseNodeEndpoint,
    FetchResponsePartitionData,
)
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.records.compression import Compression
from ...replication.fetch_session import Answer, FetchContext, FetchSessions, SessionKey
from ...replication.types import (
    CONSUMER_REPLICA_ID,
    ZERO_TOPIC_ID,
    ClientMetadata,
    FetchEntry,
    FetchParams,
    FetchResults,
    Isolation,
    TopicStats,
)
from ...storage.files import FileSlice
from ..network.down_conversion import DownConversion
from ..network.request import LARGE_FRAME_BYTES, Handler, Request
from ..network.turns import Steps, distinct
from ..observability.request_metrics import Conversions
from ..replicas.applied_replicas import AppliedReplicas
from ..security.access import Access
from .leaders import current_leader
from .quick_fetch_answers import QuickFetchAnswers
from .request_waits import RequestWait

_ANY_CLIENT: Final = ClientMetadata("", "", "")
_NO_ENDPOINTS: Final[list[FetchResponseNodeEndpoint]] = []
_FIRST_VERSION_OF_V2: Final = 4
# Few, since these threads compete with the event loop for the interpreter.
MAX_CONVERTERS: Final = 2
_FIRST_VERSION_WITH_ERROR: Final = 7
LARGE_ANSWER_PARTITIONS: Final = 64
# A client may fetch topics deleted a moment ago; twice: a session's change could name them all.
MAX_UNKNOWN_PARTITIONS: Final = 1000
# The approximate size of a response without records, for quotas: in all, and per partition.
RESPONSE_BYTES: Final = 20
PARTITION_BYTES: Final = 50
_LEADER_ERRORS: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


Entries = dict[SessionKey, FetchEntry]


class FetchHandler:
    __slots__ = (
        "_clock",
        "_converters",
        "_manager",
        "_metadata",
        "_quick",
        "_sessions",
        "_spawn",
        "replicas",
    )

    def __init__(
        self,
        replicas: AppliedReplicas,
        sessions: FetchSessions,
        spawn: Callable[..., None] | None = None,
    ) -> None:
        """`spawn(coroutine_function, request)` runs long work beside others (as Dispatcher does);
        without it the work is done at once."""
        self._spawn = spawn
        self._converters = trio.CapacityLimiter(MAX_CONVERTERS)
        self.replicas = replicas
        self._manager = replicas.manager
        self._metadata = replicas.manager.metadata
        self._sessions = sessions
        self._quick = QuickFetchAnswers()
        self._clock = replicas.clock

    def handlers(self) -> Mapping[ApiKey, Handler]:
        return {ApiKey.FETCH: self.fetch}

    def fetch(self, request: Request) -> None:
        body: FetchRequest = request.body
        if request.frame_bytes > LARGE_FRAME_BYTES and self._spawn is not None:
            self._spawn(self._fetch_in_turns, request)
            return
        entries: Entries = {}
        for _ in self._enter(entries, body, request.api_version):
            pass
        forgotten = _forgotten(body, request.api_version) if body.forgotten_topics_data else ()
        self._fetch(request, entries, forgotten)

    async def _fetch_in_turns(self, request: Request) -> None:
        """Others have their turn while the requested partitions are looked at."""
        body: FetchRequest = request.body
        entries: Entries = {}
        await request.in_turns(self._enter(entries, body, request.api_version))
        forgotten = await request.in_turns(distinct(_forgotten(body, request.api_version)))
        limit = MAX_UNKNOWN_PARTITIONS + 2 * self._metadata.total_partition_count()
        if self._sessions.size_with(body.session_id, len(entries)) > limit:
            if request.api_version >= _FIRST_VERSION_WITH_ERROR:
                request.respond(FetchResponse(error_code=ErrorCode.INVALID_REQUEST))
            else:
                request.close()
            return
        self._fetch(request, entries, forgotten)

    def _fetch(self, request: Request, asked: Entries, forgotten: Iterable[SessionKey]) -> None:
        body: FetchRequest = request.body
        version = request.api_version
        now_ms = self._clock()
        replica_id = _replica_id(request)
        context = self._sessions.begin(
            body.session_id,
            body.session_epoch,
            asked,
            forgotten,
            is_follower=replica_id >= 0,
            uses_topic_ids=version >= 13,
            now_ms=now_ms,
        )
        entries = context.entries
        if not entries:
            self.answer(request, context, [])
            return
        session = context.session
        if version >= 13:
            for entry in entries:
                if entry.topic is None:
                    entry.topic = self._metadata.topic_name(entry.topic_id)
                    if session is not None:
                        session.approved = None
        params = self._params(request, body, version, replica_id)
        access = request.connection.peer.access
        if access is not None:
            approval = (access, access.latest_version, replica_id >= 0)
            if session is None or session.approved != approval:
                allowed = _allowed(access, entries, is_follower=replica_id >= 0)
                if len(allowed) < len(entries):
                    context = _PartOfContext(context, allowed)
                    entries = allowed
                    if not entries:
                        self.answer(request, context, [])
                        return
                elif session is not None:
                    session.approved = approval
        results = self.replicas.fetch(params, entries, now_ms, _FetchWait, (self, request, context))
        if results is not None:
            self.answer(request, context, results)

    def answer(self, request: Request, context: FetchContext, results: FetchResults) -> None:
        version = request.api_version
        if request.is_metered and self._is_withheld(request, context, results):
            return
        error, session_id, answer = context.finish(results)
        if version < 10:
            if (
                version < _FIRST_VERSION_OF_V2
                and self._spawn is not None
                and any(data.records for _, data in answer)
            ):
                self._spawn(partial(self._convert_and_answer, error, session_id, answer), request)
                return
            answer = [(entry, self._for_old_client(request, entry, data)) for entry, data in answer]
        self._respond(request, error, session_id, answer)

    def _is_withheld(self, request: Request, context: FetchContext, results: FetchResults) -> bool:
        """A consumer that is over its quota gets no records, and then has to wait."""
        if _replica_id(request) >= 0:
            request.exempt()
            return False
        size = sum([len(data.records) + PARTITION_BYTES for data in results if data.records])
        if not request.charge_fetch(RESPONSE_BYTES + size):
            return False
        self._respond(request, *context.withheld(), [])
        return True

    async def _convert_and_answer(
        self, error: ErrorCode, session_id: int, answer: Answer, request: Request
    ) -> None:
        """Others have their turn while the first batches are converted."""
        converted: Answer = []
        for entry, data in answer:
            result = await trio.to_thread.run_sync(
                self._for_old_client,
                request,
                entry,
                data,
                limiter=self._converters,
                abandon_on_cancel=True,
            )
            converted.append((entry, result))
        self._respond(request, error, session_id, converted)

    def _respond(self, request: Request, error: ErrorCode, session_id: int, answer: Answer) -> None:
        version = request.api_version
        if len(answer) == 1 and not error and request.is_plain:
            ((entry, data),) = answer
            frame = self._quick.frame(version, request.correlation_id, session_id, entry, data)
            if frame is not None:
                request.respond_encoded(frame)
                return
        endpoints = _NO_ENDPOINTS
        if version >= 16:
            endpoints = self._name_leaders(request, answer)
        response = FetchResponse(
            error_code=error,
            session_id=session_id,
            responses=_by_topic(answer, version),
            node_endpoints=endpoints,
        )
        if len(answer) > LARGE_ANSWER_PARTITIONS:
            request.respond_in_turns(response)
        else:
            request.respond(response)

    def _enter(self, entries: Entries, body: FetchRequest, version: int) -> Steps:
        """Add the requested partitions to `entries`, each once."""
        for topic in body.topics:
            name: str | None
            if version >= 13:
                topic_id = bytes(topic.topic_id)
                name = self._metadata.topic_name(topic_id)
                key: str | bytes = topic_id
            else:
                topic_id = ZERO_TOPIC_ID
                key = name = topic.topic
            for partition in topic.partitions:
                entries[key, partition.partition] = FetchEntry(
                    name,
                    partition.partition,
                    topic_id=topic_id,
                    fetch_offset=partition.fetch_offset,
                    max_bytes=partition.partition_max_bytes,
                    current_leader_epoch=partition.current_leader_epoch,
                    last_fetched_epoch=partition.last_fetched_epoch,
                    log_start_offset=partition.log_start_offset,
                )
                yield
            yield

    def _params(
        self, request: Request, body: FetchRequest, version: int, replica_id: int
    ) -> FetchParams:
        if replica_id != CONSUMER_REPLICA_ID:
            isolation = Isolation.LOG_END
        elif body.isolation_level == Isolation.READ_COMMITTED:
            isolation = Isolation.READ_COMMITTED
        else:
            isolation = Isolation.READ_UNCOMMITTED
        client = None
        if version >= 11 and replica_id == CONSUMER_REPLICA_ID:
            client = _ANY_CLIENT
            if self._manager.reader.replica_selector is not None:
                client = ClientMetadata(
                    body.rack_id, request.client_id or "", request.peer.listener_name
                )
        max_bytes = self._manager.config.fetch_max_bytes
        if version >= 3 and body.max_bytes < max_bytes:
            max_bytes = body.max_bytes
        min_bytes = body.min_bytes
        if request.is_metered and replica_id < 0:
            max_bytes = int(min(max_bytes, request.most_to_fetch()))
            min_bytes = min(min_bytes, max_bytes)
        return FetchParams(
            replica_id,
            body.max_wait_ms,
            min_bytes,
            max_bytes,
            isolation,
            body.replica_state.replica_epoch if version >= 15 else -1,
            version < 3,
            client,
        )

    def _for_old_client(
        self, request: Request, entry: FetchEntry, data: FetchResponsePartitionData
    ) -> FetchResponsePartitionData:
        """Codes and formats that clients do not know before v4 (magic 2), v6 (errors), v10 (zstd).

        As in Kafka, a refusal by the topic's config precedes any other error.
        """
        version = request.api_version
        partition = self._manager.partitions.get((entry.topic or "", entry.partition))
        if partition is not None:
            config = partition.log.config
            if config.target_compression is Compression.ZSTD:
                return _refused(entry, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
            to_magic = _magic_for(version, config.record_version)
            if to_magic is not None:
                if request.body.replica_id < 0 and not config.message_downconversion_enable:
                    return _refused(entry, ErrorCode.UNSUPPORTED_VERSION)
                try:
                    data.records = _converted(
                        entry, data.records, to_magic, partition.stats, request.metrics.conversions
                    )
                except KafkaError as error:
                    return _refused(entry, error.code)
        if version < 6 and data.error_code == ErrorCode.KAFKA_STORAGE_ERROR:
            data.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        return data

    def _name_leaders(self, request: Request, answer: Answer) -> list[FetchResponseNodeEndpoint]:
        endpoints: dict[int, FetchResponseNodeEndpoint] = {}
        for entry, data in answer:
            if data.error_code not in _LEADER_ERRORS or entry.topic is None:
                continue
            leader = current_leader(
                self._manager, (entry.topic, entry.partition), request.peer.listener_name
            )
            if leader is None:
                continue
            data.current_leader = FetchResponseLeaderIdAndEpoch(
                leader_id=leader.leader_id, leader_epoch=leader.leader_epoch
            )
            if leader.host is not None:
                endpoints[leader.leader_id] = FetchResponseNodeEndpoint(
                    node_id=leader.leader_id, host=leader.host, port=leader.port, rack=leader.rack
                )
        return list(endpoints.values())


def _allowed(
    access: Access, entries: Sequence[FetchEntry], *, is_follower: bool
) -> list[FetchEntry]:
    """The entries that the client may read; the reader refuses unknown topic ids."""
    if is_follower:
        operation, kind = AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER
        allowed = access.permits(operation, kind, CLUSTER_NAME, "Fetch")
        return list(entries) if allowed else []
    operation, kind = AclOperation.READ, ResourceType.TOPIC
    return [
        entry
        for entry in entries
        if entry.topic is None or access.permits(operation, kind, entry.topic, "Fetch")
    ]


class _PartOfContext(FetchContext):
    """A context of which only some entries may be read."""

    __slots__ = ("_context",)

    def __init__(self, context: FetchContext, allowed: Sequence[FetchEntry]) -> None:
        super().__init__(allowed)
        self._context = context

    def finish(self, results: FetchResults) -> tuple[ErrorCode, int, Answer]:
        read = {id(entry): data for entry, data in zip(self.entries, results, strict=True)}
        return self._context.finish(
            [
                read.get(id(entry)) or _refused(entry, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                for entry in self._context.entries
            ]
        )

    def withheld(self) -> tuple[ErrorCode, int]:
        return self._context.withheld()


class _FetchWait(RequestWait):
    """The token of a fetch."""

    __slots__ = ("_context", "_handler")

    def __init__(self, handler: FetchHandler, request: Request, context: FetchContext) -> None:
        super().__init__(request, handler.replicas)
        self._handler = handler
        self._context = context

    def answer(self, results: FetchResults) -> None:
        self._handler.answer(self.request, self._context, results)

    def hurry(self) -> None:
        """A fetch may be answered before its time, with less than it wants."""
        if self.operation is not None:
            self.replicas.answer_now(self.operation)


def _replica_id(request: Request) -> int:
    body: FetchRequest = request.body
    return body.replica_id if request.api_version < 15 else body.replica_state.replica_id


def _forgotten(body: FetchRequest, version: int) -> Iterator[SessionKey]:
    for topic in body.forgotten_topics_data:
        name = bytes(topic.topic_id) if version >= 13 else topic.topic
        for partition in topic.partitions:
            yield name, partition


def _magic_for(version: int, stored: int) -> int | None:
    """The format that the batches of a log must be converted to for a fetch, if they must be.

    As in Kafka, the stored format is taken from the log's config.
    """
    if version < 2:
        return 0 if stored > 0 else None
    return 1 if version < _FIRST_VERSION_OF_V2 and stored > 1 else None


def _converted(
    entry: FetchEntry,
    records: object,
    to_magic: int,
    stats: TopicStats,
    conversions: Conversions,
) -> DownConversion | bytes:
    if not isinstance(records, FileSlice) or not records:
        return b""

    def count(sent: DownConversion) -> None:
        if sent.converted_count:
            stats.fetch_message_conversions += sent.converted_count
            conversions.record(sent.seconds, sent.converted_bytes)

    return DownConversion(records, to_magic, entry.fetch_offset, count)


def _refused(entry: FetchEntry, error: ErrorCode) -> FetchResponsePartitionData:
    """Without offsets, as in Kafka; but its null for the records is more than Kafka 0.8's own
    clients can read."""
    return FetchResponsePartitionData(
        partition_index=entry.partition, error_code=error, high_watermark=-1, records=b""
    )


def _by_topic(answer: Answer, version: int) -> list[FetchableTopicResponse]:
    """Group neighbours of the same topic; the order of partitions is the order of the session."""
    responses: list[FetchableTopicResponse] = []
    uses_topic_ids = version >= 13
    last: str | bytes | None = None
    for entry, data in answer:
        key = entry.topic_id if uses_topic_ids else entry.topic
        if key == last:
            responses[-1].partitions.append(data)
        elif uses_topic_ids:
            responses.append(FetchableTopicResponse(topic_id=entry.topic_id, partitions=[data]))
        else:
            responses.append(FetchableTopicResponse(topic=entry.topic or "", partitions=[data]))
        last = key
    return responses
