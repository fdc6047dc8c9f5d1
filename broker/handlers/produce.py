"""Produce v0-13: append record batches to the partitions that this broker leads.

Checks in Kafka's order: transactional batches need a transactional id; then per partition the
checks of the log and the partition; acks outside -1, 0, 1 refuse every partition. acks=0 has no
answer, a failure closes the connection. v10+ names the current leader and its address when the
client asked the wrong broker (KIP-951); v8+ names the records that are to blame (KIP-467). In v13+
topics have ids, whose names `network.topic_names` has looked up: a partition here of another id, of
a topic deleted and made again, is UNKNOWN_TOPIC_ID.

Transactional batches go through transactional_produce.py first. Batches whose records all have to
be looked at, and may be many, are validated in a worker thread before they are appended: on the
event loop that would delay all other clients for seconds (1 MB may hold a million records).

Mirrors KafkaApis.handleProduceRequest, without its questions to the authorizer, which
`authorization` asks before.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from time import perf_counter
from typing import Any, Final

import trio
from mypy_extensions import mypyc_attr

from ...protocol.api import ApiKey
from ...protocol.apis.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    ProduceResponseLeaderIdAndEpoch,
    ProduceResponseNodeEndpoint,
    TopicProduceResponse,
)
from ...protocol.errors import ErrorCode
from ...protocol.records.layout import LOW_ATTRIBUTES_POSITION, MAGIC_POSITION
from ...protocol.topics import TopicPartition
from ...protocol.uuids import ZERO_UUID
from ...replication.partition import Partition
from ...replication.types import ACKS_ALL, ProduceResult, ProduceResults, ReplicatedAppend
from ...storage.append_info import Append, AppendRules
from ...storage.validation import (
    QUICK_BYTES,
    PreValidatedBatch,
    needs_record_scan,
    pre_validate,
    pre_validate_quickly,
)
from ..network.request import Handler, Request
from ..replicas.applied_replicas import AppliedReplicas
from .leaders import current_leader
from .quick_answers import quick_answer
from .request_waits import RequestWait
from .transactional_produce import Guards, TransactionalProduce

logger: Final = logging.getLogger("pybroker.broker.handlers.produce")

ADMIN_CLIENT_ID: Final = "__admin_client"
_VALID_ACKS: Final = (-1, 0, 1)
_ANSWERED_ACKS: Final = (-1, 1)
_TRANSACTIONAL: Final = 0x10
_CODEC: Final = 0x07
# Few, since these threads compete with the event loop for the interpreter.
MAX_EXAMINERS: Final = 2
_FIRST_VERSION_OF_V2: Final = 3
_FIRST_VERSION_WITH_LEADER: Final = 10
_FIRST_VERSION_WITH_TOPIC_IDS: Final = 13
_NO_RECORDS: Final = b""

# Shared defaults: replaced in a response, never written to.
_NO_ERRORS: Final[list[BatchIndexAndErrorMessage]] = []
_NO_LEADER: Final = ProduceResponseLeaderIdAndEpoch()
_NO_ENDPOINTS: Final[list[ProduceResponseNodeEndpoint]] = []


@mypyc_attr(allow_interpreted_subclasses=True)
class ProduceHandler:
    __slots__ = (
        "_appends",
        "_clock",
        "_examiners",
        "_internal_topics",
        "_partitions",
        "_spawn",
        "_transactions",
        "replicas",
    )

    def __init__(
        self,
        replicas: AppliedReplicas,
        transactions: TransactionalProduce | None = None,
        spawn: Callable[..., None] | None = None,
    ) -> None:
        """Without `transactions` nothing is verified. `spawn(coroutine_function, request)` does
        long work beside others (as Dispatcher does); without it that is done in one go."""
        self.replicas = replicas
        self._appends = replicas.manager.appends
        self._partitions = replicas.hosted.partitions
        self._internal_topics = replicas.hosted.config.internal_topics
        self._spawn = spawn
        self._examiners = trio.CapacityLimiter(MAX_EXAMINERS)
        self._transactions = transactions
        self._clock = replicas.clock

    def handlers(self) -> Mapping[ApiKey, Handler]:
        return {ApiKey.PRODUCE: self.produce}

    def produce(self, request: Request) -> None:
        body: ProduceRequest = request.body
        topics = body.topic_data
        if len(topics) == 1 and body.acks in _ANSWERED_ACKS and self._produce_plain(request, body):
            return
        self._produce_any(request, body)

    def _produce_plain(self, request: Request, body: ProduceRequest) -> bool:
        """The usual request: one partition, nothing transactional. False if it is not that."""
        topic = body.topic_data[0]
        if len(topic.partition_data) != 1:
            return False
        data = topic.partition_data[0]
        records: Any = data.records
        if (
            records is None
            or len(records) <= LOW_ATTRIBUTES_POSITION
            or (attributes := records[LOW_ATTRIBUTES_POSITION]) & _TRANSACTIONAL
            or topic.name in self._internal_topics
        ):
            return False
        version = request.api_version
        key = (topic.name, data.index)
        partition = self._partitions.get(key)
        if version >= _FIRST_VERSION_WITH_TOPIC_IDS and _is_of_another(partition, topic.topic_id):
            return False
        append = ReplicatedAppend(body.acks, body.timeout_ms, self._clock(), version)
        if (
            attributes & _CODEC or len(records) > QUICK_BYTES or version < _FIRST_VERSION_OF_V2
        ) and self._needs_record_scan(partition, records):
            assert partition is not None
            records = pre_validate_quickly(records, partition.log.rules, append)
            if records is None:
                return False
        appends = self._appends
        converted_before = appends.converted_bytes
        result = self.replicas.append_one(
            key, partition, records, append, self._waits, (request, partition)
        )
        if appends.converted_bytes != converted_before:
            seconds = perf_counter() - request.started_at
            request.metrics.conversions.record(seconds, appends.converted_bytes - converted_before)
        if result is None:
            return True
        if partition is None or result.error_code or not request.is_plain:
            self.answer(request, {key: result})
        else:
            request.respond_encoded(
                quick_answer(version, request.correlation_id, partition, result)
            )
        return True

    def _produce_any(self, request: Request, body: ProduceRequest) -> None:
        entries: dict[TopicPartition, Any] = {}
        others: ProduceResults = {}
        has_ids = request.api_version >= _FIRST_VERSION_WITH_TOPIC_IDS
        transactional = False
        for topic in body.topic_data:
            name = topic.name
            for partition in topic.partition_data:
                records: Any = partition.records
                if records is None:
                    records = _NO_RECORDS
                elif (
                    len(records) > LOW_ATTRIBUTES_POSITION
                    and records[LOW_ATTRIBUTES_POSITION] & _TRANSACTIONAL
                    and records[MAGIC_POSITION] == 2
                ):
                    # By the attributes of a v2 batch; a malformed batch fails later.
                    transactional = True
                key = (name, partition.index)
                entries[key] = records
                if has_ids and _is_of_another(self._partitions.get(key), topic.topic_id):
                    others[key] = ProduceResult(ErrorCode.UNKNOWN_TOPIC_ID)
        acks = body.acks
        if transactional and body.transactional_id is None:
            self._refuse(request, entries, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
            return
        if acks not in _VALID_ACKS:
            self._refuse(request, entries, ErrorCode.INVALID_REQUIRED_ACKS)
            return
        append = self._append
        if others:
            entries = {key: records for key, records in entries.items() if key not in others}
            append = partial(self._append_beside, others)
        if transactional and self._transactions is not None:
            self._transactions.produce(request, entries, append)
        else:
            append(request, entries, None, {})

    def _append_beside(
        self, others: ProduceResults, request: Request, entries: dict[TopicPartition, Any],
        guards: Guards, refused: ProduceResults,
    ) -> None:  # fmt: skip
        """`_append` for a request with partitions that have an answer already."""
        self._append(request, entries, guards, {**refused, **others})

    def _append(
        self, request: Request, entries: dict[TopicPartition, Any], guards: Guards,
        refused: ProduceResults,
    ) -> None:  # fmt: skip
        """Append when the long work is done; `refused` holds the answers already known."""
        if self._spawn is not None:
            partitions = self._partitions
            long = [
                key
                for key, records in entries.items()
                if self._needs_record_scan(partitions.get(key), records)
            ]
            examined = None
            if len(long) == 1:
                key = long[0]
                append = Append(self._clock(), request.api_version)
                examined = pre_validate_quickly(entries[key], partitions[key].log.rules, append)
            if examined is not None:
                entries[key] = examined
            elif long:
                # In the connection's buffer they would not outlive this call for sure.
                copies = {key: bytearray(records) for key, records in entries.items()}
                self._spawn(partial(self._examine, copies, long, guards, refused), request)
                return
        self._append_now(request, entries, guards, refused)

    def _needs_record_scan(self, partition: Partition | None, records: Any) -> bool:
        return (
            self._spawn is not None
            and partition is not None
            and partition.is_leader
            and needs_record_scan(records, partition.log.rules)
        )

    async def _examine(
        self, entries: dict[TopicPartition, Any], keys: Iterable[TopicPartition], guards: Guards,
        refused: ProduceResults, request: Request,
    ) -> None:  # fmt: skip
        seconds = 0.0
        for key in keys:
            partition = self._partitions.get(key)
            if partition is None:
                continue
            entries[key], took = await trio.to_thread.run_sync(
                _pre_validate_timed,
                entries[key],
                partition.log.rules,
                Append(self._clock(), request.api_version),
                limiter=self._examiners,
                abandon_on_cancel=True,
            )
            seconds += took
        self._append_now(request, entries, guards, refused, seconds)

    def _append_now(
        self, request: Request, entries: dict[TopicPartition, Any], guards: Guards,
        refused: ProduceResults, examined_seconds: float | None = None,
    ) -> None:  # fmt: skip
        body: ProduceRequest = request.body
        append = ReplicatedAppend(
            body.acks,
            body.timeout_ms,
            self._clock(),
            request.api_version,
            guards=guards,
            internal_topics_allowed=request.client_id == ADMIN_CLIENT_ID,
        )
        appends = self._appends
        converted_before = appends.converted_bytes
        results = self.replicas.append(entries, append, self._waits, (request, None, refused))
        if appends.converted_bytes != converted_before:
            seconds = examined_seconds
            if seconds is None:
                seconds = perf_counter() - request.started_at
            request.metrics.conversions.record(seconds, appends.converted_bytes - converted_before)
        if results is not None:
            self.answer(request, {**results, **refused} if refused else results)

    def _waits(
        self,
        request: Request,
        partition: Partition | None,
        refused: ProduceResults | None = None,
    ) -> _ProduceWait:
        """With acks=all the next request of the connection may come: the records are in the log."""
        if request.body.acks == ACKS_ALL:
            request.appended()
        return _ProduceWait(self, request, partition, refused)

    def answer(
        self, request: Request, results: ProduceResults, partition: Partition | None = None
    ) -> None:
        """Answer; `partition` is that of a request for one partition, if the caller has it."""
        body: ProduceRequest = request.body
        if body.acks == 0:
            self._answer_nothing(request, results)
            return
        if len(results) == 1 and request.is_plain and _asks_for_one(body):
            ((key, result),) = results.items()
            if partition is None:
                partition = self._partitions.get(key)
            if (
                partition is not None
                and not result.error_code
                and not _is_of_another(partition, body.topic_data[0].topic_id)
            ):
                request.respond_encoded(
                    quick_answer(request.api_version, request.correlation_id, partition, result)
                )
                return
        failed = False
        responses = []
        for topic in body.topic_data:
            name = topic.name
            partitions = []
            for data in topic.partition_data:
                index = data.index
                result = results[name, index]
                if result.error_code:
                    failed = True
                    partitions.append(_failed(index, result))
                else:
                    partitions.append(
                        PartitionProduceResponse(
                            index=index,
                            error_code=0,
                            base_offset=result.base_offset,
                            log_append_time_ms=result.log_append_time_ms,
                            log_start_offset=result.log_start_offset,
                            record_errors=_NO_ERRORS,
                            error_message=None,
                            current_leader=_NO_LEADER,
                        )
                    )
            responses.append(
                TopicProduceResponse(
                    name=name, topic_id=topic.topic_id, partition_responses=partitions
                )
            )
        response = ProduceResponse(responses=responses, node_endpoints=_NO_ENDPOINTS)
        if failed and request.api_version >= _FIRST_VERSION_WITH_LEADER:
            self._name_leaders(request, response)
        request.respond(response)

    def _answer_nothing(self, request: Request, results: ProduceResults) -> None:
        for (topic, index), result in results.items():
            if result.error_code:
                logger.info(
                    "Closing %s: a produce with acks=0 to %s-%d failed with %s",
                    request.peer, topic, index, result.error_code.name,
                )  # fmt: skip
                request.close()
                return
        request.respond(None)

    def _refuse(
        self, request: Request, entries: Mapping[TopicPartition, Any], error: ErrorCode
    ) -> None:
        self.answer(request, {key: ProduceResult(error) for key in entries})

    def _name_leaders(self, request: Request, response: ProduceResponse) -> None:
        endpoints: dict[int, ProduceResponseNodeEndpoint] = {}
        listener = request.peer.listener_name
        for topic in response.responses:
            for partition in topic.partition_responses:
                if partition.error_code != ErrorCode.NOT_LEADER_OR_FOLLOWER:
                    continue
                leader = current_leader(
                    self.replicas.manager, (topic.name, partition.index), listener
                )
                if leader is None:
                    continue
                partition.current_leader = ProduceResponseLeaderIdAndEpoch(
                    leader_id=leader.leader_id, leader_epoch=leader.leader_epoch
                )
                if leader.host is not None:
                    endpoints[leader.leader_id] = ProduceResponseNodeEndpoint(
                        node_id=leader.leader_id,
                        host=leader.host,
                        port=leader.port,
                        rack=leader.rack,
                    )
        response.node_endpoints = list(endpoints.values())


def _pre_validate_timed(
    records: Any, rules: AppendRules, append: Append
) -> tuple[PreValidatedBatch, float]:
    started_at = perf_counter()
    return pre_validate(records, rules, append), perf_counter() - started_at


def _asks_for_one(body: ProduceRequest) -> bool:
    """Not the same partition twice, which is answered twice."""
    topics = body.topic_data
    return len(topics) == 1 and len(topics[0].partition_data) == 1


class _ProduceWait(RequestWait):
    """The token of a produce: answers when the append is complete."""

    __slots__ = ("_handler", "_partition", "_refused")

    def __init__(
        self,
        handler: ProduceHandler,
        request: Request,
        partition: Partition | None,
        refused: ProduceResults | None,
    ) -> None:
        super().__init__(request, handler.replicas)
        self._handler = handler
        self._partition = partition  # of a request for one partition
        self._refused = refused

    def answer(self, results: ProduceResults) -> None:
        if self._refused:
            results = {**results, **self._refused}
        self._handler.answer(self.request, results, self._partition)


def _is_of_another(partition: Partition | None, topic_id: bytes) -> bool:
    """Whether it is a partition of another topic, of the same name; an id of zero is none."""
    return partition is not None and partition.topic_id != topic_id and topic_id != ZERO_UUID


def _failed(index: int, result: ProduceResult) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=index,
        error_code=result.error_code,
        base_offset=result.base_offset,
        log_append_time_ms=result.log_append_time_ms,
        log_start_offset=result.log_start_offset,
        record_errors=[
            BatchIndexAndErrorMessage(batch_index=position, batch_index_error_message=message)
            for position, message in result.record_errors
        ],
        error_message=result.error_message,
        current_leader=_NO_LEADER,
    )
