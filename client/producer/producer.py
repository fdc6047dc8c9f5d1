"""The producer: records in, acknowledged offsets out.

Structured: the sending tasks run in its own nursery, from `async with` to the end of the block. The
end of the block waits until all enqueued records are complete; a cancellation does not:
unacknowledged records then fail with ProducerClosed. Idempotent by default: a record is written
once, despite lost answers and retries.

Mirrors: KafkaProducer. Leaves out metrics reporters.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import replace
from types import TracebackType
from typing import Final, NoReturn, TypeAlias, Unpack

import trio
from mypy_extensions import mypyc_attr

from ...protocol.records.compression import Compression
from ...protocol.records.record import SimpleRecord
from ..cluster import Cluster, now_ms
from ..errors import ClientError, ProducerClosed, SettingsError
from ..running import refuse_plain_with, require_trio
from ..security.connector import Reach
from .accumulator import RECORD_OVERHEAD_BYTES, size_of
from .batch import Fields, ReadyBatch
from .chunk import EACH, STICKY, Chunk, Refusal
from .completion import Completion, ProducerMetrics
from .coordination import Coordination, GroupMetadata, Offsets
from .delivery import Delivery, RecordMetadata
from .interceptors import Headers, Interceptor, Interceptors, OutgoingRecord
from .partitioners import partition_for
from .placement import KnownTopic, Partitioner, Placement
from .prerequisites import MetadataKeeper, Prerequisites
from .sender import Sender
from .settings import Options, ProducerSettings, acks_of, compression_of
from .state import ProducerState
from .transaction import Transaction
from .transactions import Transactions

# The content of a key or a value.
Content: TypeAlias = bytes | bytearray | memoryview

_now = time.time

YIELD_BYTES: Final = 256 * 1024  # bytes that may be enqueued before other tasks run (milliseconds)
RECORD_TURN_BYTES: Final = 40  # counted for each record beside its size


@mypyc_attr(allow_interpreted_subclasses=True)
class Producer:
    """`async with Producer("host:port") as producer: await producer.send("topic", b"value")`

    The first argument names brokers, or is an open `Cluster`, which stays open. Settings are
    those of Java's producer; times in ms, sizes in bytes:

    acks                 "all" (the default), 1 or 0; the last two need idempotence=False
    compression          "none", "gzip", "snappy", "lz4" or "zstd", or a Compression
    compression_level    of gzip, lz4, zstd
    linger_ms            how long a batch waits for more records (5)
    batch_size           the size of a full batch (65536)
    buffer_memory        of records that are not acknowledged; more wait in `enqueue` (32 MiB)
    max_request_size     of a request, and of a record (1 MiB)
    max_block_ms         how long a call may wait for metadata or coordinators (60000)
    request_timeout_ms   for an answer (30000)
    delivery_timeout_ms  from `enqueue` to the acknowledgement (120000)
    max_in_flight        batches of a partition in flight (5)
    idempotence          False: records may be written twice; True is an error at brokers before
                         0.11, which do not support it
    transactional_id     makes transactions possible, see `transaction`
    transaction_timeout_ms  after which the coordinator aborts one (60000)
    partitioner          a function instead of Kafka's rule, see `Partitioner`
    ignore_keys          True: keys do not choose the partition
    adaptive             False: records without a key go to all partitions alike, busy or not
    interceptors         see `Interceptor`
    security             security.protocol, sasl.* and ssl.*, as Kafka's clients have them
    report, network        see `Cluster`

    Raises SettingsError, which is a ClientError.
    """

    def __init__(
        self,
        bootstrap: str | Cluster,
        *,
        acks: str | int = "all",
        compression: str | Compression = Compression.NONE,
        partitioner: Partitioner | None = None,
        ignore_keys: bool = False,
        adaptive: bool = True,
        interceptors: Sequence[Interceptor] = (),
        security: Mapping[str, str] | None = None,
        report: Callable[[str], None] | None = None,
        network: Reach | None = None,
        **settings: Unpack[Options],
    ) -> None:
        try:
            self._settings = ProducerSettings(
                acks=acks_of(acks), compression=compression_of(compression), **settings
            )
        except TypeError as error:
            raise SettingsError(f"no such setting of a producer: {error}") from None
        self._is_mine = isinstance(bootstrap, str)
        self._cluster = (
            Cluster(bootstrap, report, security=security, network=network)
            if isinstance(bootstrap, str)
            else bootstrap
        )
        self._has_partitioner = partitioner is not None
        self._interceptors = (
            Interceptors(interceptors, self._cluster.report) if interceptors else None
        )
        state = ProducerState(self._cluster, self._settings)
        self._state = state
        self._accumulator = state.accumulator
        self._transaction = state.transaction
        self._completion = completion = Completion(state, random.random)
        self._sender = Sender(state, completion, random.random)
        self._keeper = MetadataKeeper(state, completion)
        self._placement = Placement(
            state, partitioner=partitioner, ignore_keys=ignore_keys, is_adaptive=adaptive
        )
        self._transactions: Transactions | None = None
        coordination: Coordination | None = None
        if state.transaction is not None:
            coordination = Coordination(self._cluster, self._settings)
            self._transactions = Transactions(
                state, completion, coordination, state.transaction, self._sender.flush
            )
        self._prerequisites = Prerequisites(state, completion, coordination)
        self._known = self._placement.known
        self._since_turn = 0  # bytes
        self._most_bytes = self._settings.max_request_size  # of a record
        self._nurseries: AbstractAsyncContextManager[trio.Nursery] | None = None
        self._sending = trio.CancelScope(shield=True)
        self._is_open = False

    # The block

    def __enter__(self) -> NoReturn:
        refuse_plain_with("Producer")

    def __exit__(self, *_: object) -> None:
        pass

    async def __aenter__(self) -> Producer:
        require_trio("Producer")
        if self._is_mine:
            await self._cluster.__aenter__()
        try:
            if self._transactions is not None:
                await self._transactions.initialise()
            self._nurseries = trio.open_nursery()
            nursery = await self._nurseries.__aenter__()
        except BaseException as error:
            if self._is_mine:
                await self._cluster.__aexit__(type(error), error, error.__traceback__)
            raise
        nursery.start_soon(self._run)
        self._is_open = True
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is None or isinstance(error, Exception):
                await self._finish(kind is None)
        finally:
            self._is_open = False
            self._sender.end(ProducerClosed("the producer has ended"))
            self._sending.cancel()
            try:
                if self._nurseries is not None:
                    await self._nurseries.__aexit__(None, None, None)
            finally:
                if self._is_mine:
                    await self._cluster.__aexit__(kind, error, trace)

    async def _finish(self, is_well: bool) -> None:
        """Abort an open transaction, and flush; after an error in the block, failures are
        ignored."""
        if self._transactions is not None and self._transactions.is_under_way:
            await self._transactions.abort()
        if is_well:
            await self.flush()
            return
        with suppress(ClientError), trio.move_on_after(self._settings.request_timeout_ms / 1000):
            await self.flush()

    async def _run(self) -> None:
        with self._sending:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._sender.run)
                nursery.start_soon(self._keeper.run)
                nursery.start_soon(self._prerequisites.run)

    # Records

    async def send(
        self,
        topic: str,
        value: Content | None,
        *,
        key: Content | None = None,
        partition: int | None = None,
        headers: Headers = (),
        timestamp_ms: int | None = None,
    ) -> RecordMetadata:
        """Write a record and wait until it is acknowledged.

        Raises as `enqueue`. After a cancellation the record may be written, once at most.
        """
        delivery = await self.enqueue(
            topic, value, key=key, partition=partition, headers=headers, timestamp_ms=timestamp_ms
        )
        return await delivery.wait()

    async def enqueue(
        self,
        topic: str,
        value: Content | None,
        *,
        key: Content | None = None,
        partition: int | None = None,
        headers: Headers = (),
        timestamp_ms: int | None = None,
    ) -> Delivery:
        """Enqueue a record; `await` the returned delivery to get its offset.

        Waits only for room (`buffer_memory`) and for the topic's metadata; a call cancelled there
        has not enqueued it. Records of one partition are written in the order of the calls.
        `timestamp_ms` is now by default. Raises ClientError, and TypeError for arguments of wrong
        types.
        """
        if not (
            (value is None or isinstance(value, bytes))
            and (key is None or isinstance(key, bytes))
            and (partition is None or isinstance(partition, int))
            and (timestamp_ms is None or isinstance(timestamp_ms, int))
            and not headers
        ):
            value, key, headers = checked(value, key, partition, headers, timestamp_ms)
        if self._interceptors:
            topic, value, key, partition, headers, timestamp_ms = self._interceptors.on_send(
                OutgoingRecord(topic, value, key, partition, headers, timestamp_ms)
            )
        size = RECORD_OVERHEAD_BYTES + (len(value) if value else 0)
        if headers or key:
            headers = tuple(headers)
            size = size_of(key, value, headers)
        accumulator = self._accumulator
        if self._since_turn > YIELD_BYTES:
            self._since_turn = 0
            await trio.lowlevel.checkpoint()
        if not self._is_open or size > self._most_bytes or self._completion.fatal:
            self._check_taken(topic, size)
        known = self._known.get(topic)
        if known is None:
            known = await self._placement.learn(topic)
        if accumulator.held_bytes + size > accumulator.most_bytes:
            await self._sender.wait_for_room(size)
            self._check_taken(topic, size)
        record = (int(_now() * 1000) if timestamp_ms is None else timestamp_ms, key, value, headers)
        return self._add(topic, known, partition, record, size)

    def _add(
        self, topic: str, known: KnownTopic, partition: int | None, record: Fields, size: int
    ) -> Delivery:
        """Choose the partition of a record, and put the record into the open batch there."""
        accumulator = self._accumulator
        timestamp_ms, key, value, _ = record
        if partition is None and key is None and not self._has_partitioner:
            sticky = known.sticky
            partition = sticky.current
            if (
                partition < 0
                or (batch := known.queues[partition].open) is None
                or (batch.size + size > accumulator.full_bytes)
            ):
                partition = self._placement.stick(topic, known, size)
            sticky.taken_bytes += size
        else:
            partition = self._placement.choose(topic, known, partition, key, value, size)
        if self._transaction is not None:
            self._take_part(self._transaction, topic, partition)
        queue = known.queues[partition]
        batch = queue.open
        opened_ms = 0
        if batch is None or batch.size + size > accumulator.full_bytes:
            opened_ms = now_ms()
            batch = accumulator.open_batch(queue, opened_ms)
        records = batch.records
        delivery = Delivery(batch, len(records), timestamp_ms)
        records.append(record)
        batch.size += size
        accumulator.held_bytes += size
        self._since_turn += size + RECORD_TURN_BYTES
        if self._interceptors:
            self._interceptors.watch(delivery, batch)
        if opened_ms:
            self._sender.send_full(queue, opened_ms)
        return delivery

    async def send_all(self, topic: str, records: Iterable[SimpleRecord]) -> list[RecordMetadata]:
        """Write records, without lingering, and wait until all are acknowledged.

        Raises ClientError for the first record that fails.
        """
        deliveries = [
            await self.enqueue(
                topic, record.value, key=record.key, headers=record.headers,
                timestamp_ms=record.timestamp,
            )
            for record in records
        ]  # fmt: skip
        with self._sender.without_lingering():
            return [await delivery.wait() for delivery in deliveries]

    async def enqueue_batch(
        self, topic: str, partition: int, data: bytearray, count: int
    ) -> ReadyBatch:
        """Enqueue a whole batch of `count` records in a broker's format; `data` belongs to the
        producer from now on; see `ReadyBatch`. The result is in its `outcome`, or in its parts.

        Waits as `enqueue` does. It may be larger than `max_request_size`: brokers check that.
        Raises ClientError.
        """
        self._check_taken(topic, 0)
        known = self._placement.known.get(topic)
        if known is None or partition >= len(known.queues):
            known = await self._placement.learn(topic, partition + 1)
            if partition >= len(known.queues):
                raise ClientError(f"topic {topic!r} has no partition {partition}")
        if not self._accumulator.has_room(len(data)):
            await self._sender.wait_for_room(len(data))
            self._check_taken(topic, 0)
        if self._transaction is not None:
            self._take_part(self._transaction, topic, partition)
        batch = ReadyBatch(topic, partition, now_ms(), data, count)
        self._accumulator.add_ready(known.queues[partition], batch)
        self._state.wake_sender()
        return batch

    # Records that another thread has collected

    @property
    def settings(self) -> ProducerSettings:
        return self._settings

    @property
    def full_bytes(self) -> int:
        """Bytes of the records in a full batch."""
        return self._accumulator.full_bytes

    def partition_for(self, topic: str, key: bytes | None, partition: int | None, size: int) -> int:
        """The partition of a record in a `Chunk`, or STICKY or EACH. Any thread may call."""
        if self._has_partitioner or self._interceptors or size > self._most_bytes:
            return EACH
        if partition is not None:
            return partition if partition >= 0 else EACH
        if key is None or self._placement.ignores_keys:
            return STICKY
        known = self._known.get(topic)
        return EACH if known is None else partition_for(key, len(known.queues))

    async def enqueue_chunk(self, chunk: Chunk) -> list[Refusal]:
        """Enqueue the records of a chunk, as `enqueue` each of them; returns the errors of those
        that it does not take, which are in the chunk, too. After a cancellation the rest is in
        nothing."""
        if chunk.partition == EACH:
            return await self._enqueue_each(chunk)
        try:
            await self._enqueue_together(chunk)
        except Exception as error:
            refusal = chunk.fail(error, len(chunk.records))
            return [] if refusal is None else [refusal]
        return []

    async def _enqueue_each(self, chunk: Chunk) -> list[Refusal]:
        refused = []
        for place, (timestamp_ms, key, value, headers) in enumerate(chunk.records):
            try:
                delivery = await self.enqueue(
                    chunk.topic, value, key=key, partition=chunk.partitions.get(place),
                    headers=headers, timestamp_ms=timestamp_ms,
                )  # fmt: skip
            except Exception as error:
                refusal = chunk.fail(error, chunk.count + 1)
                assert refusal is not None
                refused.append(refusal)
            else:
                chunk.added(*delivery.current_place)
        return refused

    async def _enqueue_together(self, chunk: Chunk) -> None:
        topic, size = chunk.topic, chunk.size
        accumulator = self._accumulator
        if self._since_turn > YIELD_BYTES:
            self._since_turn = 0
            await trio.lowlevel.checkpoint()
        self._check_taken(topic, 0)
        known = self._known.get(topic)
        if known is None:
            known = await self._placement.learn(topic)
        if not accumulator.has_room(size):
            await self._sender.wait_for_room(size)
        self._check_taken(topic, 0)
        partition = chunk.partition
        if partition >= len(known.queues):
            raise ClientError(f"topic {topic!r} has no partition {partition}")
        # No waiting from here on.
        now = now_ms()
        opened_ms = now - chunk.age_ms
        full_bytes = accumulator.full_bytes
        end = len(chunk.records)
        while chunk.count < end:
            following = chunk.next_size
            if chunk.partition == STICKY:
                partition = self._placement.stick(topic, known, following)
            if self._transaction is not None:
                self._take_part(self._transaction, topic, partition)
            queue = known.queues[partition]
            batch = queue.open
            is_new = batch is None or batch.size + following > full_bytes
            if batch is None or is_new:
                batch = accumulator.open_batch(queue, opened_ms)
            place, size = chunk.fitting(full_bytes - batch.size)
            chunk.add_to(batch, place, size)
            chunk.room = full_bytes - batch.size
            if chunk.partition == STICKY:
                known.sticky.taken_bytes += size
            accumulator.held_bytes += size
            self._since_turn += size
            if is_new:
                self._sender.send_full(queue, now)
                self._sender.look_by(opened_ms + self._settings.linger_ms)

    async def prepare(self, topic: str) -> int:
        """Look up the metadata for sending to a topic; returns its partition count. Raises
        ClientError."""
        self._check_taken(topic, 0)
        known = self._placement.known.get(topic) or await self._placement.learn(topic)
        return len(known.queues)

    async def flush(self) -> None:
        """Send all records enqueued until now, and wait until they are complete.

        Raises the first ClientError of records that fail meanwhile.
        """
        await self._sender.flush()

    @property
    def metrics(self) -> ProducerMetrics:
        """The metrics at this moment."""
        return replace(
            self._completion.metrics,
            held_bytes=self._accumulator.held_bytes,
            waiting_for_room=self._accumulator.waiting_for_room,
        )

    def _take_part(self, transaction: Transaction, topic: str, partition: int) -> None:
        """Add the partition to the open transaction. Raises ClientError if none is open."""
        transaction.check_open("send")
        if transaction.use(topic, partition):
            self._state.prerequisites_wanted.set()

    def _check_taken(self, topic: str, size: int) -> None:
        """Raises ClientError if no record of this size is accepted."""
        if not self._is_open:
            raise ProducerClosed("use a producer inside its `async with`")
        if self._completion.fatal is not None:
            raise self._completion.fatal
        if size > self._settings.max_request_size:
            raise ClientError(
                f"a record of {size} bytes for topic {topic!r} is larger than max_request_size "
                f"({self._settings.max_request_size})"
            )

    # Transactions

    def transaction(self) -> AbstractAsyncContextManager[None]:
        """`async with producer.transaction(): ...`: all records sent in it are written, or none.

        The end of the block commits; an exception in it, a cancellation included, aborts. Raises
        ClientError if the commit is refused: then it is aborted. A commit whose answer is lost is
        retried; only if the retries fail too (`max_block_ms`) is its outcome unknown.
        """
        return self._in_transaction.block()

    def begin_transaction(self) -> None:
        """Begin a transaction. Raises ClientError."""
        self._in_transaction.begin()

    async def commit_transaction(self) -> None:
        """Commit, once all records sent in it are acknowledged. Raises ClientError: then it can be
        aborted, unless the producer was fenced."""
        await self._in_transaction.commit()

    async def abort_transaction(self) -> None:
        """Abort: records sent in it fail with TransactionAborted, or are never visible to
        read_committed consumers. Raises ClientError."""
        await self._in_transaction.abort()

    async def send_offsets(self, offsets: Offsets, group: GroupMetadata | str) -> None:
        """Commit a consumer group's offsets with the transaction: by topic and partition, the next
        offset to read. Raises ClientError."""
        await self._in_transaction.send_offsets(offsets, group)

    @property
    def _in_transaction(self) -> Transactions:
        if self._transactions is None:
            raise ClientError("a producer needs a transactional_id for transactions")
        return self._transactions


def checked(
    value: object, key: object, partition: object, headers: Headers, timestamp_ms: object
) -> tuple[bytes | None, bytes | None, Headers]:
    """The value, the key and the headers as the producer keeps them. Raises TypeError.

    Later a wrong argument would fail its batch, with all the records in it. A `bytearray` or
    `memoryview` is copied, since it may change before it is sent.
    """
    for number, what in ((partition, "partition"), (timestamp_ms, "timestamp")):
        if number is not None and not isinstance(number, int):
            raise TypeError(f"a record's {what} is an int or None, not {type(number).__name__}")
    kept = []
    for name, of_header in headers:
        if not isinstance(name, str):
            raise TypeError(f"a header's name is a str, not {type(name).__name__}")
        kept.append((name, _content(of_header, f"header {name!r}")))
    return _content(value, "value"), _content(key, "key"), tuple(kept)


def _content(given: object, what: str) -> bytes | None:
    if given is None or isinstance(given, bytes):
        return given
    if isinstance(given, (bytearray, memoryview)):
        return bytes(given)
    raise TypeError(
        f"a record's {what} is bytes or None, not {type(given).__name__}: encode it before"
    )
