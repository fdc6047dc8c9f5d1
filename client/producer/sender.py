"""Sends batches to the leaders of their partitions, and handles the answers.

Each round checks all waiting batches and sends those that may go, without waiting itself. A full
batch skips the round if no batch precedes it (`send_full`), and answers are handled where they are
read (`_take_answer`): neither costs a switch of tasks. A task opens each connection. Other events
that may release a batch wake the next round.
Invariants: the batches of a partition are sent in their order; at most MAX_REQUESTS are in flight
to a broker; however a request ends, each of its batches is completed or waits again.

Mirrors: Sender, NetworkClient.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import NamedTuple, TypeAlias

import trio

from ...protocol.api import ApiKey
from ...protocol.apis.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ...protocol.records.compression import Compression
from ..cluster import now_ms
from ..connection import Connection
from ..errors import ClientError, LoginError, SettingsError, TransactionAborted, Unsupported
from ..metadata import backoff_ms
from ..releases import HEADERS_SINCE, ZSTD_SINCE, too_old
from .batch import Batch, Outcome
from .completion import Completion
from .delivery import outcomes_of
from .partition_queue import PartitionQueue
from .state import ProducerState
from .transaction import Transaction

MAX_REQUESTS = 5  # to one broker
FIRST_WITH_BATCHES = 3  # of Produce: before it, brokers take message sets
FIRST_WITH_ZSTD = 7
FIRST_THAT_ADDS = 12  # partitions to a transaction, where the cluster has version 2
MAX_PAUSE_MS = 60_000  # of a round that nothing wakes
ROOM_SHARE = 8  # this part of the memory must be free before calls that wait for room continue
OVERDUE_MS = 2_000  # without an answer: then metadata is fetched from other brokers

Sent: TypeAlias = list[tuple[PartitionQueue, Batch]]


class _Request(NamedTuple):
    """A request in flight; times in ms."""

    began_ms: int
    deadline_ms: int
    share: Sent


class _Link:
    """The connection and the requests to one broker."""

    def __init__(self) -> None:
        self.connection: Connection | None = None
        self.is_opening = False
        self.failures = 0
        self.retry_at_ms = 0
        self.requests = 0  # in flight
        self.has_more = False  # more batches were ready than could be sent
        self.unanswered: dict[int, _Request] = {}  # requests that await an answer, by number


class Sender:
    """`roll` returns a random number in [0, 1)."""

    def __init__(
        self, state: ProducerState, completion: Completion, roll: Callable[[], float]
    ) -> None:
        self._state = state
        self._cluster = state.cluster
        self._settings = state.settings
        self._accumulator = state.accumulator
        self._identities = state.identities
        self._transaction = state.transaction
        self._completion = completion
        self._roll = roll
        self._links: defaultdict[int, _Link] = defaultdict(_Link)
        self.wake = state.wake_sender
        self._due_ms = 0  # the latest time of the next round
        self._sleeps_until_ms = 0
        self._number = 0  # of the last request
        self._nursery: trio.Nursery | None = None

    async def run(self) -> None:
        """Send batches until cancelled."""
        state = self._state
        async with trio.open_nursery() as self._nursery:
            self._nursery.start_soon(self._watch_for_silence)
            while True:
                state.round_wanted = trio.Event()
                now = now_ms()
                self._due_ms = now + MAX_PAUSE_MS
                self._round(now)
                due = min(self._due_ms, self._accumulator.next_due_ms(now) or self._due_ms)
                self._sleeps_until_ms = due
                with trio.move_on_after((due - now) / 1000):
                    await state.round_wanted.wait()

    async def wait_for_room(self, size: int) -> None:
        """Wait until this many bytes and a reserve are free: calls should not wait for each
        batch. Raises ClientError after `max_block_ms`.
        """
        completion, accumulator = self._completion, self._accumulator
        size += self._settings.buffer_memory // ROOM_SHARE
        accumulator.waiting_for_room += 1
        self.wake()
        try:
            with trio.move_on_after(self._settings.max_block_ms / 1000):
                while not accumulator.has_room(size) and completion.fatal is None:
                    await completion.room.wait()
                return
        finally:
            accumulator.waiting_for_room -= 1
        raise ClientError(
            f"no room for a record after {self._settings.max_block_ms} ms: "
            f"{accumulator.held_bytes} bytes are not acknowledged (buffer_memory)"
        )

    async def flush(self) -> None:
        """Send all records enqueued until now, and wait until they are complete.

        Raises the first ClientError of records that fail meanwhile.
        """
        failure: Exception | None = None
        with self.without_lingering():
            for batch in self._accumulator.incomplete():
                for outcome in await outcomes_of(batch):
                    failure = failure or outcome.error
        await trio.lowlevel.checkpoint()
        if failure is not None:
            raise failure

    @contextmanager
    def without_lingering(self) -> Iterator[None]:
        self._accumulator.flushes += 1
        self.wake()
        try:
            yield
        finally:
            self._accumulator.flushes -= 1

    def end(self, error: Exception) -> None:
        """Fail all batches with this error, answered or not, and all later records."""
        self._completion.end(error)
        for link in self._links.values():
            link.unanswered.clear()
        self._completion.give_up_in_flight(error)

    def send_full(self, queue: PartitionQueue, now: int) -> None:
        """A queue has begun another batch: send the full one, if no batch precedes it."""
        transaction = self._transaction
        leader = self._cluster.cache.leader(queue.topic, queue.partition)
        if (
            leader is None
            or self._completion.fatal is not None
            or (transaction is not None and not transaction.may_send(queue.topic, queue.partition))
            or not self._identities.prepare(queue)
        ):
            self.wake()
            return
        chosen = self._accumulator.ready(queue, now)
        if chosen is queue.open:
            chosen = None  # it is to get more than its first record
        if chosen is not None:
            self._send_to(leader.broker_id, [(queue, chosen)], now)
        if min(self._due_ms, now + self._settings.linger_ms) < self._sleeps_until_ms:
            self.wake()

    def look_by(self, at_ms: int) -> None:
        """The next round is at this time at the latest."""
        if at_ms < self._sleeps_until_ms:
            self.wake()

    # Rounds

    def _round(self, now: int) -> None:
        accumulator, transaction = self._accumulator, self._transaction
        if self._completion.fatal is not None:
            self._completion.drop_waiting(self._completion.fatal)
        elif self._identities.is_wanted:
            self._state.prerequisites_wanted.set()
        if transaction is not None and transaction.is_lost:
            why = f": {transaction.error}" if transaction.error else ""
            self._completion.drop_waiting(
                TransactionAborted(f"the transaction is not committed{why}")
            )
        for link in self._links.values():
            self._look_at_deadlines(link, now)
        for queue, batch in accumulator.expired(now):
            self._completion.fail(queue, batch, self._completion.too_late(batch))
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
                self._completion.want_metadata(queue.topic)
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
        link.has_more |= bool(found)

    def _sendable(self, found: Sent, connection: Connection) -> Sent:
        """The batches that this broker supports; the others fail."""
        can_be = []
        transaction = self._transaction
        if transaction is not None and transaction.is_version_2:
            found = self._in_transaction(found, connection, transaction)
        for queue, batch in found:
            error = self._objection(batch, connection)
            if error is None:
                can_be.append((queue, batch))
            else:
                self._completion.fail(queue, batch, error)
        return can_be

    def _in_transaction(
        self, found: Sent, connection: Connection, transaction: Transaction
    ) -> Sent:
        """The batches whose partitions the broker adds to the transaction, or that are in it."""
        with suppress(Unsupported):
            if connection.version(ApiKey.PRODUCE, self._newest) >= FIRST_THAT_ADDS:
                transaction.has_sent = True
                return found
        known = []
        for queue, batch in found:
            place = (queue.topic, queue.partition)
            if place in transaction.added:
                known.append((queue, batch))
            elif transaction.must_add(*place):
                self._state.prerequisites_wanted.set()
        return known

    @property
    def _newest(self) -> int | None:
        """The newest version of Produce; None: that of Kafka 3.9."""
        transaction = self._transaction
        return FIRST_THAT_ADDS if transaction is not None and transaction.is_version_2 else None

    def _objection(self, batch: Batch, connection: Connection) -> ClientError | None:
        """The error if the broker is too old for the batch."""
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
        """Send a request with these batches; False if it failed."""
        for queue, batch in share:
            self._completion.metrics.retries += batch.attempts > 0
            queue.start(batch, is_numbered=self._identities.is_used)
            self._accumulator.take_turn(queue)
        if not self._settings.acks:
            link.requests += 1
            self._start(self._send_without_answer, link, connection, share)
            return True
        oldest = min([batch.created_ms for _, batch in share])
        deadline = min(
            now + self._settings.request_timeout_ms, oldest + self._settings.delivery_timeout_ms
        )
        self._number = number = self._number + 1
        link.requests += 1
        link.unanswered[number] = _Request(now, deadline, share)
        self._due_ms = min(self._due_ms, deadline)
        try:
            connection.post(
                ApiKey.PRODUCE,
                partial(self._request, share),
                ProduceResponse,
                partial(self._take_answer, link, number),
                newest=self._newest,
            )
        except ClientError as error:
            self._take_answer(link, number, error)
            return False
        return True

    def _look_at_deadlines(self, link: _Link, now: int) -> None:
        deadline = min((one.deadline_ms for one in link.unanswered.values()), default=None)
        if deadline is None or link.connection is None:
            return
        if deadline <= now:
            link.connection.give_up()
        else:
            self._due_ms = min(self._due_ms, deadline)

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
            self._completion.metrics.sent_bytes += len(data)
            topics[queue.topic].append(PartitionProduceData(index=queue.partition, records=data))
        self._completion.metrics.requests += 1
        return ProduceRequest(
            transactional_id=settings.transactional_id,
            acks=settings.acks,
            timeout_ms=settings.request_timeout_ms,
            topic_data=[TopicProduceData(name=n, partition_data=d) for n, d in topics.items()],
        )

    async def _send_without_answer(self, link: _Link, connection: Connection, share: Sent) -> None:
        """Send with acks=0: sent batches count as written."""
        error: ClientError | None = None
        try:
            await connection.send_without_answer(
                ApiKey.PRODUCE, lambda version: self._request(share, version)
            )
        except ClientError as failure:
            error = failure
        link.requests -= 1
        for queue, batch in share:
            queue.returned(batch)
            if error is None:
                self._completion.succeed(queue, batch, Outcome())
            else:
                self._completion.fail(queue, batch, error)
                self._completion.want_metadata(queue.topic)
        self.wake()

    def _take_answer(
        self, link: _Link, number: int, response: ProduceResponse | ClientError
    ) -> None:
        request = link.unanswered.pop(number, None)
        if request is None:
            return  # the producer has ended
        link.requests -= 1
        now = now_ms()
        if isinstance(response, ClientError):
            for queue, batch in request.share:
                self._completion.unanswered(queue, batch, response, now)
            self.wake()
            return
        link.failures = 0
        self._completion.metrics.request_ms += now - request.began_ms
        results = {
            (topic.name, part.index): part
            for topic in response.responses
            for part in topic.partition_responses
        }
        has_more, link.has_more = link.has_more, False
        for queue, batch in request.share:
            result = results.get((queue.topic, queue.partition))
            if result is None:
                missing = ClientError("an answer leaves out a partition")
                self._completion.unanswered(queue, batch, missing, now)
                has_more = True
            elif not self._completion.answered(queue, batch, result, now):
                has_more = True
        if has_more or len(request.share) > 1:
            self.wake()
        else:
            self.send_full(request.share[0][0], now)

    # Connections and metadata

    async def _open(self, broker_id: int, link: _Link) -> None:
        try:
            link.connection = await self._cluster.connection(broker_id, "produce")
            if link.connection.must_wait:
                await link.connection.wait_for_turn()
        except (LoginError, SettingsError) as error:
            self._completion.end(error)
        except ClientError as error:
            self._completion.trouble = str(error)
            link.failures += 1
            link.retry_at_ms = now_ms() + backoff_ms(link.failures, self._roll())
            for queue in self._accumulator.busy:
                leader = self._cluster.cache.leader(queue.topic, queue.partition)
                if leader is not None and leader.broker_id == broker_id:
                    self._completion.want_metadata(queue.topic)
        finally:
            link.is_opening = False
            self.wake()

    async def _watch_for_silence(self) -> None:
        """Leave a paused broker once others lead: its batches go to the new leaders.

        Only numbered batches: others might be written twice.
        """
        while True:
            await trio.sleep(OVERDUE_MS / 2000)
            latest = now_ms() - OVERDUE_MS
            for broker_id, link in self._links.items():
                late = [one.share for one in link.unanswered.values() if one.began_ms <= latest]
                for queue in dict.fromkeys(queue for share in late for queue, _ in share):
                    leader = self._cluster.cache.leader(queue.topic, queue.partition)
                    if leader is None or leader.broker_id == broker_id:
                        self._completion.want_metadata(queue.topic)
                    elif self._identities.is_used and link.connection is not None:
                        link.connection.close()

    # Tasks

    def _start(self, task: Callable[..., Awaitable[None]], *arguments: object) -> None:
        assert self._nursery is not None
        self._nursery.start_soon(task, *arguments)
