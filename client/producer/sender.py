"""Brings batches to the leaders of their partitions, and answers back.

One round after the other looks at all that waits and sends what may go, without waiting itself; a
task waits for each answer, one opens each connection, one asks for metadata. They wake the next
round.
Invariants: the batches of a partition leave in their order; at most MAX_REQUESTS are on their way
to a broker; whatever happens to a request, each of its batches is settled or waits again.

Mirrors: Sender, NetworkClient.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import trio

from ...protocol.api import ApiKey
from ...protocol.errors import ErrorCode
from ...protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ...protocol.records.compression import Compression
from ...protocol.records.record import NO_SEQUENCE
from ..cluster import Cluster, LeaderlessWait, now_ms
from ..connection import Connection
from ..errors import (
    ClientError,
    DeliveryTimeout,
    LoginError,
    ProducerFenced,
    Refused,
    SettingsError,
    TransactionAborted,
    Unsupported,
)
from ..metadata import Leader, backoff_ms
from ..refusals import NotAllowed
from ..releases import HEADERS_SINCE, ZSTD_SINCE, too_old
from .accumulator import Accumulator
from .batch import Batch, Outcome
from .identities import Identities
from .partition_queue import PartitionQueue, Verdict
from .settings import ProducerSettings
from .transaction import Transaction

MAX_REQUESTS = 5  # to one broker
FIRST_WITH_BATCHES = 3  # of Produce: before it, brokers take message sets
FIRST_WITH_ZSTD = 7
METADATA_PAUSE_SECONDS = 0.1
MAX_PAUSE_MS = 60_000  # of a round that nothing wakes
OVERDUE_MS = 2_000  # an answer: others are asked who leads by now

# After these somebody else leads, or will.
_MOVED = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }
)

Sent: TypeAlias = list[tuple[PartitionQueue, Batch]]


@dataclass(slots=True)
class ProducerMetrics:
    """Since the start; sizes in bytes, `held_bytes` and `waiting_for_room` at the moment."""

    records: int = 0  # acknowledged, or sent with acks=0
    failed_records: int = 0
    batches: int = 0
    requests: int = 0
    sent_bytes: int = 0
    retries: int = 0
    request_ms: int = 0  # the sum of all answered requests
    held_bytes: int = 0
    waiting_for_room: int = 0


class _Link:
    """The way to one broker."""

    def __init__(self) -> None:
        self.connection: Connection | None = None
        self.is_opening = False
        self.failures = 0
        self.retry_at_ms = 0
        self.requests = 0  # on their way
        self.unanswered: dict[int, tuple[int, Sent]] = {}  # since when, and what; by a number


class Sender:
    """`roll` gives a number at random in [0, 1)."""

    def __init__(
        self,
        cluster: Cluster,
        settings: ProducerSettings,
        accumulator: Accumulator,
        identities: Identities,
        transaction: Transaction | None,
        roll: Callable[[], float],
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._accumulator = accumulator
        self._identities = identities
        self._transaction = transaction
        self._roll = roll
        self._links: defaultdict[int, _Link] = defaultdict(_Link)
        self.upkeep_wanted = trio.Event()
        self._awake = trio.Event()
        self._stale = trio.Event()
        self._room = trio.Event()
        self._due_ms = 0  # when a round must come, whatever else wakes one
        self._trouble = ""  # the last one, for whoever gives up
        self._nursery: trio.Nursery | None = None
        self.fatal: Exception | None = None  # nothing can be sent any more
        self.metrics = ProducerMetrics()

    def wake(self) -> None:
        """Something has changed that may let a batch go."""
        self._awake.set()

    def want_metadata(self, topic: str) -> None:
        self._cluster.cache.mark_stale(topic)
        self._stale.set()

    async def run(self) -> None:
        """Until it is cancelled."""
        async with trio.open_nursery() as self._nursery:
            self._nursery.start_soon(self._keep_metadata)
            self._nursery.start_soon(self._watch_for_silence)
            while True:
                self._awake = trio.Event()
                now = now_ms()
                self._due_ms = now + MAX_PAUSE_MS
                self._round(now)
                due = min(self._due_ms, self._accumulator.next_due_ms(now) or self._due_ms)
                with trio.move_on_after((due - now) / 1000):
                    await self._awake.wait()

    async def wait_for_room(self, size: int) -> None:
        """Until so many bytes can be held."""
        self._accumulator.waiting_for_room += 1
        self.wake()
        try:
            while not self._accumulator.has_room(size) and self.fatal is None:
                await self._room.wait()
        finally:
            self._accumulator.waiting_for_room -= 1

    def end(self, error: Exception) -> None:
        """Nothing goes any more: all that waits fails with this, and all that comes."""
        self.fatal = self.fatal or error
        self.drop_waiting(error)
        self._show_room()

    def drop_waiting(self, error: Exception) -> None:
        """What has not left yet fails with this."""
        for queue in self._accumulator.busy:
            for batch in list(queue.batches):
                if not batch.is_in_flight:
                    self._fail(queue, batch, error)

    def give_up_in_flight(self, error: Exception) -> None:
        """Those whose answers nobody will wait for any more."""
        for queue in self._accumulator.busy:
            for batch in list(queue.batches):
                if batch.is_in_flight:
                    queue.unanswered(batch)
                self._fail(queue, batch, error)

    # Rounds

    def _round(self, now: int) -> None:
        accumulator, transaction = self._accumulator, self._transaction
        if self.fatal is not None:
            self.drop_waiting(self.fatal)
        elif self._identities.is_wanted:
            self.upkeep_wanted.set()
        if transaction is not None and transaction.is_lost:
            why = f": {transaction.error}" if transaction.error else ""
            self.drop_waiting(TransactionAborted(f"the transaction is not committed{why}"))
        for queue, batch in accumulator.expired(now):
            self._fail(queue, batch, self._too_late(batch))
        ready: defaultdict[int, Sent] = defaultdict(list)
        for queue in accumulator.busy:
            if transaction is not None and not transaction.may_send(queue.topic, queue.partition):
                continue
            if not self._identities.prepare(queue):
                continue
            chosen = accumulator.ready(queue, now)
            if chosen is None:
                continue
            leader = self._cluster.cache.leader(queue.topic, queue.partition)
            if leader is None:
                self.want_metadata(queue.topic)
            else:
                ready[leader.broker_id].append((queue, chosen))
        for broker_id, found in ready.items():
            self._send_to(broker_id, found, now)

    def _send_to(self, broker_id: int, found: Sent, now: int) -> None:
        link = self._links[broker_id]
        connection = link.connection
        if link.is_opening or link.retry_at_ms > now:
            if not link.is_opening:
                self._due_ms = min(self._due_ms, link.retry_at_ms)
            return
        if connection is None or not connection.is_open or connection.must_wait:
            link.is_opening = True
            self._start(self._open, broker_id, link)
            return
        found = self._sendable(found, connection)
        most = MAX_REQUESTS if self._settings.acks else 1
        while found and link.requests < most:
            share: Sent = []
            size = 0
            while found and (
                not share or size + found[0][1].size <= self._settings.max_request_size
            ):
                size += found[0][1].size
                share.append(found.pop(0))
            if not self._send(link, connection, share, now):
                return

    def _sendable(self, found: Sent, connection: Connection) -> Sent:
        """What this broker can be told; the rest fails."""
        can_be = []
        for queue, batch in found:
            error = self._objection(batch, connection)
            if error is None:
                can_be.append((queue, batch))
            else:
                self._fail(queue, batch, error)
        return can_be

    def _objection(self, batch: Batch, connection: Connection) -> ClientError | None:
        """What an older broker would not understand, if anything."""
        try:
            version = connection.version(ApiKey.PRODUCE)
        except Unsupported as error:
            return error
        if version < FIRST_WITH_ZSTD and self._settings.compression is Compression.ZSTD:
            return too_old("zstd", ZSTD_SINCE)
        if version < FIRST_WITH_BATCHES and batch.has_headers:
            return too_old("headers of records", HEADERS_SINCE)
        return None

    def _send(self, link: _Link, connection: Connection, share: Sent, now: int) -> bool:
        """False if that cannot be."""
        for queue, batch in share:
            self.metrics.retries += batch.attempts > 0
            queue.start(batch, is_numbered=self._identities.is_used)
            self._accumulator.take_turn(queue)
        if not self._settings.acks:
            link.requests += 1
            self._start(self._tell, link, connection, share)
            return True
        try:
            answer = connection.post(
                ApiKey.PRODUCE, lambda version: self._request(share, version), ProduceResponse
            )
        except ClientError as error:
            for queue, batch in share:
                self._unanswered(queue, batch, error, now)
            self.wake()
            return False
        link.requests += 1
        self._start(self._take_answer, link, share, answer, now)
        return True

    def _request(self, share: Sent, version: int) -> ProduceRequest:
        settings = self._settings
        topics: defaultdict[str, list[PartitionProduceData]] = defaultdict(list)
        for queue, batch in share:
            if version >= FIRST_WITH_BATCHES:
                data = batch.build(
                    settings.compression,
                    settings.compression_level,
                    is_transactional=self._transaction is not None,
                )
            else:
                data = batch.build_old(settings.compression, settings.compression_level)
            self.metrics.sent_bytes += len(data)
            topics[queue.topic].append(PartitionProduceData(index=queue.partition, records=data))
        self.metrics.requests += 1
        return ProduceRequest(
            transactional_id=settings.transactional_id,
            acks=settings.acks,
            timeout_ms=settings.request_timeout_ms,
            topic_data=[TopicProduceData(name=n, partition_data=d) for n, d in topics.items()],
        )

    async def _tell(self, link: _Link, connection: Connection, share: Sent) -> None:
        """With acks=0: gone is as good as written."""
        error: ClientError | None = None
        try:
            await connection.tell(ApiKey.PRODUCE, lambda version: self._request(share, version))
        except ClientError as failure:
            error = failure
        link.requests -= 1
        for queue, batch in share:
            queue.returned(batch)
            if error is None:
                self._succeed(queue, batch, Outcome())
            else:
                self._fail(queue, batch, error)
                self.want_metadata(queue.topic)
        self.wake()

    async def _take_answer(
        self,
        link: _Link,
        share: Sent,
        answer: Callable[[float], Awaitable[ProduceResponse]],
        began: int,
    ) -> None:
        oldest = min(batch.created_ms for _, batch in share)
        left = min(
            self._settings.request_timeout_ms, oldest + self._settings.delivery_timeout_ms - began
        )
        link.unanswered[id(share)] = began, share
        try:
            response = await answer(max(left, 1) / 1000)
        except ClientError as error:
            del link.unanswered[id(share)]
            link.requests -= 1
            for queue, batch in share:
                self._unanswered(queue, batch, error, now_ms())
        else:
            del link.unanswered[id(share)]
            link.requests -= 1
            link.failures = 0
            now = now_ms()
            self.metrics.request_ms += now - began
            results = {
                (topic.name, part.index): part
                for topic in response.responses
                for part in topic.partition_responses
            }
            for queue, batch in share:
                result = results.get((queue.topic, queue.partition))
                if result is None:
                    missing = ClientError("an answer leaves out a partition")
                    self._unanswered(queue, batch, missing, now)
                else:
                    self._answered(queue, batch, result, now)
        self.wake()

    # What becomes of a batch

    def _unanswered(
        self, queue: PartitionQueue, batch: Batch, error: ClientError, now: int
    ) -> None:
        queue.unanswered(batch)
        self._trouble = str(error)
        self.want_metadata(queue.topic)
        self._again(queue, batch, now)

    def _answered(
        self, queue: PartitionQueue, batch: Batch, result: PartitionProduceResponse, now: int
    ) -> None:
        queue.returned(batch)
        code = ErrorCode(result.error_code)
        verdict = queue.judge(batch, code, is_transactional=self._transaction is not None)
        if verdict is Verdict.WRITTEN:
            offset = result.base_offset if code is ErrorCode.NONE else -1
            self._succeed(queue, batch, Outcome(offset, result.log_append_time_ms))
        elif verdict is Verdict.SPLIT:
            queue.split(batch)
        elif verdict is Verdict.FAILED:
            self._fail(queue, batch, self._refusal(batch, code, result))
        else:
            self._trouble = result.error_message or code.description
            if code in _MOVED:
                told = result.current_leader
                leader = Leader(told.leader_id, told.leader_epoch)
                if not self._cluster.cache.learn_leader(queue.topic, queue.partition, leader):
                    self.want_metadata(queue.topic)
            self._again(queue, batch, now)

    def _again(self, queue: PartitionQueue, batch: Batch, now: int) -> None:
        if self.fatal is not None:
            self._fail(queue, batch, self.fatal)
        elif now - batch.created_ms >= self._settings.delivery_timeout_ms:
            self._fail(queue, batch, self._too_late(batch))
        else:
            batch.retry_at_ms = now + backoff_ms(batch.attempts, self._roll())

    def _succeed(self, queue: PartitionQueue, batch: Batch, outcome: Outcome) -> None:
        self.metrics.batches += 1
        self.metrics.records += len(batch.records)
        self._settle(queue, batch, outcome)

    def _fail(self, queue: PartitionQueue, batch: Batch, error: Exception) -> None:
        self.metrics.failed_records += len(batch.records)
        if self._transaction is not None:
            is_numbered = batch.sequence != NO_SEQUENCE
            self._transaction.batch_failed(error, is_numbered=is_numbered)
        self._settle(queue, batch, Outcome(error=error))

    def _settle(self, queue: PartitionQueue, batch: Batch, outcome: Outcome) -> None:
        self._accumulator.settle(queue, batch, outcome)
        self._show_room()

    def _show_room(self) -> None:
        self._room.set()
        self._room = trio.Event()

    def _too_late(self, batch: Batch) -> DeliveryTimeout:
        why = f": {self._trouble}" if self._trouble else ""
        return DeliveryTimeout(
            f"{batch.topic}-{batch.partition} does not take the records within "
            f"{self._settings.delivery_timeout_ms} ms{why}"
        )

    def _refusal(
        self, batch: Batch, code: ErrorCode, result: PartitionProduceResponse
    ) -> ClientError:
        if code in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH):
            fenced = ProducerFenced(
                f"another producer has this transactional id: {code.name}", code
            )
            if self._transaction is not None:
                self.fatal = fenced
            return fenced
        refusal = self._cluster.asks("write", batch.topic).refusal(code)
        if refusal is not None:
            return NotAllowed(refusal, code)
        why = result.error_message or code.description
        where = f"{batch.topic}-{batch.partition}"
        return Refused(f"{where} does not take the records: {why} ({code.name})", code)

    # Connections and metadata

    async def _open(self, broker_id: int, link: _Link) -> None:
        try:
            link.connection = await self._cluster.connection(broker_id, "produce")
            if link.connection.must_wait:
                await link.connection.wait_for_turn()
        except (LoginError, SettingsError) as error:
            self.end(error)
        except ClientError as error:
            self._trouble = str(error)
            link.failures += 1
            link.retry_at_ms = now_ms() + backoff_ms(link.failures, self._roll())
            for queue in self._accumulator.busy:
                leader = self._cluster.cache.leader(queue.topic, queue.partition)
                if leader is not None and leader.broker_id == broker_id:
                    self.want_metadata(queue.topic)
        finally:
            link.is_opening = False
            self.wake()

    async def _keep_metadata(self) -> None:
        waits: dict[str, LeaderlessWait] = {}
        while True:
            with trio.move_on_after(MAX_PAUSE_MS / 1000):
                await self._stale.wait()
            self._stale = trio.Event()
            topics = {queue.topic for queue in self._accumulator.busy}
            names = self._cluster.cache.to_ask(sorted(topics), now_ms())
            if names:
                await self._ask_metadata(names, waits)
                self.wake()
                await trio.sleep(METADATA_PAUSE_SECONDS)

    async def _watch_for_silence(self) -> None:
        """Leave a paused broker once others lead: what it was sent goes to them.

        Only numbered batches: who does not number them would write some twice.
        """
        while True:
            await trio.sleep(OVERDUE_MS / 2000)
            latest = now_ms() - OVERDUE_MS
            for broker_id, link in self._links.items():
                late = [share for began, share in link.unanswered.values() if began <= latest]
                for queue in {queue for share in late for queue, _ in share}:
                    leader = self._cluster.cache.leader(queue.topic, queue.partition)
                    if leader is None or leader.broker_id == broker_id:
                        self.want_metadata(queue.topic)
                    elif self._identities.is_used and link.connection is not None:
                        link.connection.close()

    async def _ask_metadata(self, names: Sequence[str], waits: dict[str, LeaderlessWait]) -> None:
        try:
            answer = await self._cluster.metadata(names, create_missing=True)
        except (LoginError, SettingsError) as error:
            self.end(error)
            return
        except ClientError as error:
            self._trouble = str(error)
            self._stale.set()
            return
        for topic in answer.topics:
            name, code = topic.name or "", ErrorCode(topic.error_code)
            refusal = self._cluster.asks("describe", name).refusal(code)
            if refusal is not None:
                self._fail_topic(name, NotAllowed(refusal, code))
                continue
            known = self._cluster.cache.topic(name)
            if known is not None:
                self._accumulator.queues(name, len(known.leaders))
            if code is not ErrorCode.NONE:
                # Of a topic that was there, whatever it is: a broker that has just started and has
                # not heard of the others wants to create it, and finds no brokers to do so.
                self._trouble = f"topic {name!r}: {code.description}"
                self.want_metadata(name)
                continue
            wanted = [
                queue.partition
                for queue in self._accumulator.busy
                if queue.topic == name and self._cluster.cache.leader(name, queue.partition) is None
            ]
            if not wanted:
                waits.pop(name, None)
                continue
            try:
                waits.setdefault(name, LeaderlessWait(self._cluster.tell)).go_on(topic, wanted)
            except ClientError as error:
                for queue in self._accumulator.busy:
                    if queue.topic == name and queue.partition in wanted:
                        self._fail_waiting(queue, error)
            self.want_metadata(name)

    def _fail_topic(self, name: str, error: ClientError) -> None:
        for queue in self._accumulator.busy:
            if queue.topic == name:
                self._fail_waiting(queue, error)

    def _fail_waiting(self, queue: PartitionQueue, error: ClientError) -> None:
        for batch in list(queue.batches):
            if not batch.is_in_flight:
                self._fail(queue, batch, error)

    # Tasks

    def _start(self, task: Callable[..., Awaitable[None]], *arguments: object) -> None:
        assert self._nursery is not None
        self._nursery.start_soon(task, *arguments)
