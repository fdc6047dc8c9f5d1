"""Produce v0-11: append record batches to the partitions that this broker leads.

Checks in Kafka's order: transactional batches need a transactional id; then per partition the
checks of the log and the partition; acks outside -1, 0, 1 refuse every partition. acks=0 has no
answer, a failure closes the connection. v10+ names the current leader and its address when the
client asked the wrong broker (KIP-951); v8+ names the records that are to blame (KIP-467).

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
from ...replication.types import ACKS_ALL, ProduceResult, ProduceResults
from ...storage.validation import (
    QUICK_BYTES,
    PreValidatedBatch,
    needs_record_scan,
    pre_validate,
    pre_validate_quickly,
)
from ..network.request import Handler, Request
from ..replicas.settled_replicas import SettledReplicas
from .leaders import current_leader
from .quick_answers import QuickAnswers
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
        "_quick",
        "_spawn",
        "_transactions",
        "replicas",
    )

    def __init__(
        self,
        replicas: SettledReplicas,
        transactions: TransactionalProduce | None = None,
        spawn: Callable[..., None] | None = None,
    ) -> None:
        """Without `transactions` nothing is verified. `spawn(coroutine_function, request)` does
        long work beside others (as Dispatcher does); without it that is done in one go."""
        self.replicas = replicas
        self._appends = replicas.manager.appends
        self._internal_topics = replicas.hosted.config.internal_topics
        self._spawn = spawn
        self._examiners = trio.CapacityLimiter(MAX_EXAMINERS)
        self._transactions = transactions
        self._clock = replicas.clock
        self._quick = QuickAnswers()

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
        partition = topic.partition_data[0]
        records: Any = partition.records
        replicas = self.replicas
        if (
            records is None
            or len(records) <= LOW_ATTRIBUTES_POSITION
            or (attributes := records[LOW_ATTRIBUTES_POSITION]) & _TRANSACTIONAL
            or topic.name in self._internal_topics
        ):
            return False
        key = (topic.name, partition.index)
        if (
            attributes & _CODEC
            or len(records) > QUICK_BYTES
            or request.api_version < _FIRST_VERSION_OF_V2
        ) and self._needs_record_scan(key, records):
            records = self._examine_quickly(key, records, request)
            if records is None:
                return False
        acks = body.acks
        now_ms = self._clock()
        appends = self._appends
        converted_before = appends.converted_bytes
        result = replicas.append_one(
            key,
            records,
            acks,
            body.timeout_ms,
            now_ms,
            request.api_version,
            self._waits,
            (request,),
        )
        if appends.converted_bytes != converted_before:
            seconds = perf_counter() - request.started_at
            request.metrics.conversions.record(seconds, appends.converted_bytes - converted_before)
        if result is None:
            return True
        if result.error_code or not request.is_plain:
            self.answer(request, {key: result})
        else:
            request.respond_encoded(
                self._quick.frame(request.api_version, request.correlation_id, key, result)
            )
        return True

    def _produce_any(self, request: Request, body: ProduceRequest) -> None:
        entries: dict[TopicPartition, Any] = {}
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
                entries[name, partition.index] = records
        acks = body.acks
        if transactional and body.transactional_id is None:
            self._refuse(request, entries, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
            return
        if acks not in _VALID_ACKS:
            self._refuse(request, entries, ErrorCode.INVALID_REQUIRED_ACKS)
            return
        if transactional and self._transactions is not None:
            self._transactions.produce(request, entries, self._append)
        else:
            self._append(request, entries, None, {})

    def _append(
        self, request: Request, entries: dict[TopicPartition, Any], guards: Guards,
        refused: ProduceResults,
    ) -> None:  # fmt: skip
        """Append when the long work is done; `refused` holds the answers already known."""
        if self._spawn is not None:
            long = [
                key for key, records in entries.items() if self._needs_record_scan(key, records)
            ]
            if len(long) == 1 and (
                examined := self._examine_quickly(long[0], entries[long[0]], request)
            ):
                entries[long[0]] = examined
            elif long:
                # In the connection's buffer they would not outlive this call for sure.
                copies = {key: bytearray(records) for key, records in entries.items()}
                self._spawn(partial(self._examine, copies, long, guards, refused), request)
                return
        self._append_now(request, entries, guards, refused)

    def _needs_record_scan(self, key: TopicPartition, records: Any) -> bool:
        if self._spawn is None:
            return False
        partition = self.replicas.hosted.partitions.get(key)
        if partition is None or not partition.is_leader:
            return False
        log = partition.log
        return needs_record_scan(records, log.config, log.validate_fully)

    def _examine_quickly(
        self, key: TopicPartition, records: Any, request: Request
    ) -> PreValidatedBatch | None:
        """Look at all records of a small compressed batch here and now; None if it takes longer."""
        log = self.replicas.hosted.partitions[key].log
        return pre_validate_quickly(
            records,
            log.config,
            log.wall.stamp_ms(self._clock()),
            request.api_version,
            log.name,
            log.validate_fully,
        )

    async def _examine(
        self, entries: dict[TopicPartition, Any], keys: Iterable[TopicPartition], guards: Guards,
        refused: ProduceResults, request: Request,
    ) -> None:  # fmt: skip
        seconds = 0.0
        for key in keys:
            partition = self.replicas.hosted.partitions.get(key)
            if partition is None:
                continue
            log = partition.log
            entries[key], took = await trio.to_thread.run_sync(
                _pre_validate_timed,
                entries[key],
                log.config,
                log.wall.stamp_ms(self._clock()),
                request.api_version,
                log.name,
                log.validate_fully,
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
        acks = body.acks
        now_ms = self._clock()
        appends = self.replicas.manager.appends
        converted_before = appends.converted_bytes
        results = self.replicas.append(
            acks,
            body.timeout_ms,
            entries,
            now_ms,
            self._waits,
            (request, refused),
            request_version=request.api_version,
            internal_topics_allowed=request.client_id == ADMIN_CLIENT_ID,
            guards=guards,
        )
        if appends.converted_bytes != converted_before:
            seconds = examined_seconds
            if seconds is None:
                seconds = perf_counter() - request.started_at
            request.metrics.conversions.record(seconds, appends.converted_bytes - converted_before)
        if results is not None:
            self.answer(request, {**results, **refused} if refused else results)

    def _waits(self, request: Request, refused: ProduceResults | None = None) -> _ProduceWait:
        """With acks=all the next request of the connection may come: the records are in the log."""
        if request.body.acks == ACKS_ALL:
            request.appended()
        return _ProduceWait(self, request, refused)

    def answer(self, request: Request, results: ProduceResults) -> None:
        body: ProduceRequest = request.body
        if body.acks == 0:
            self._answer_nothing(request, results)
            return
        if len(results) == 1 and request.is_plain and _asks_for_one(body):
            ((key, result),) = results.items()
            if not result.error_code:
                request.respond_encoded(
                    self._quick.frame(request.api_version, request.correlation_id, key, result)
                )
                return
        failed = False
        responses = []
        for topic in body.topic_data:
            name = topic.name
            partitions = []
            for partition in topic.partition_data:
                index = partition.index
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
            responses.append(TopicProduceResponse(name=name, partition_responses=partitions))
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


def _pre_validate_timed(*arguments: Any) -> tuple[PreValidatedBatch, float]:
    started_at = perf_counter()
    return pre_validate(*arguments), perf_counter() - started_at


def _asks_for_one(body: ProduceRequest) -> bool:
    """Not the same partition twice, which is answered twice."""
    topics = body.topic_data
    return len(topics) == 1 and len(topics[0].partition_data) == 1


class _ProduceWait(RequestWait):
    """The token of a produce: answers when the append is complete."""

    __slots__ = ("_handler", "_refused")

    def __init__(
        self, handler: ProduceHandler, request: Request, refused: ProduceResults | None = None
    ) -> None:
        super().__init__(request, handler.replicas)
        self._handler = handler
        self._refused = refused

    def answer(self, results: ProduceResults) -> None:
        if self._refused:
            results = {**results, **self._refused}
        self._handler.answer(self.request, results)


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
