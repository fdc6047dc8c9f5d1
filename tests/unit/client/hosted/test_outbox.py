"""The order in which records from other threads are handed over, and their chunks."""

from __future__ import annotations

import threading
from typing import Any, cast

import pytest
import trio

from pybroker_kafka.client.errors import ClientError, ProducerClosed
from pybroker_kafka.client.hosted.outbox import MOST_NAP_MS, HostedDelivery, Outbox
from pybroker_kafka.client.hosted.trio_thread import TrioThread
from pybroker_kafka.client.producer import Producer
from pybroker_kafka.client.producer.accumulator import BATCH_OVERHEAD_BYTES
from pybroker_kafka.client.producer.chunk import EACH, STICKY, Chunk, Refusal

FULL_BYTES = 1000


class Sink(Producer):
    """A producer that notes the records of each chunk; topics named "no" are unknown."""

    def __init__(self, linger_ms: int = 0, buffer_memory: int = 1 << 20) -> None:
        super().__init__(
            "127.0.0.1:1",
            batch_size=FULL_BYTES + BATCH_OVERHEAD_BYTES,
            buffer_memory=buffer_memory,
            max_request_size=5000,
            linger_ms=linger_ms,
        )
        self.chunks: list[tuple[str, int, list[bytes | None]]] = []

    def partition_for(self, topic: str, key: bytes | None, partition: int | None, size: int) -> int:
        if size > 5000:
            return EACH
        if partition is not None:
            return partition
        return STICKY if key is None else key[0] % 3

    async def enqueue_chunk(self, chunk: Chunk) -> list[Refusal]:
        await trio.lowlevel.checkpoint()
        self.chunks.append(
            (chunk.topic, chunk.partition, [value for _, _, value, _ in chunk.records])
        )
        refusal = chunk.fail(ClientError(chunk.topic), len(chunk.records))
        return [refusal] if refusal is not None and chunk.topic == "no" else []


class Thread:
    """The trio thread, as the outbox sees it: calls wait until the test makes them."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def run_soon(self, function: Any) -> bool:
        self.calls.append(function)
        return True

    def work(self) -> None:
        while self.calls:
            self.calls.pop(0)()


def outbox_for(sink: Sink, thread: Thread | None = None) -> Outbox:
    return Outbox(cast(TrioThread, thread or Thread()), sink, lambda done: None)


def put(outbox: Outbox, value: bytes, *, topic: str = "t", key: bytes | None = None,
        partition: int | None = None) -> HostedDelivery:  # fmt: skip
    chunk, place, _ = outbox.put(topic, value, key, partition, (), 0)
    return HostedDelivery(chunk, place, 0)


async def handed_over(outbox: Outbox, sink: Sink) -> list[tuple[str, int, list[bytes | None]]]:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(outbox.run)
        await outbox.until_empty()
        nursery.cancel_scope.cancel()
    return sink.chunks


def test_records_are_collected_by_topic_and_partition() -> None:
    sink = Sink()
    outbox = outbox_for(sink)
    for number in range(4):
        put(outbox, b"%d" % number, topic="ab"[number % 2])
    put(outbox, b"4", partition=7)
    put(outbox, b"5", key=b"\x01")
    put(outbox, b"6", partition=7)
    assert trio.run(handed_over, outbox, sink) == [
        ("a", STICKY, [b"0", b"2"]),
        ("b", STICKY, [b"1", b"3"]),
        ("t", 7, [b"4", b"6"]),
        ("t", 1, [b"5"]),
    ]


def test_records_with_a_partition_and_without_one_keep_their_order() -> None:
    """They may get into one partition."""
    sink = Sink()
    outbox = outbox_for(sink)
    for number, partition in enumerate([None, 0, 1, 0, None, None, 0]):
        put(outbox, b"%d" % number, partition=partition)
    put(outbox, bytes(6000))
    put(outbox, b"8", partition=0)
    assert [values for _, _, values in trio.run(handed_over, outbox, sink)] == [
        *([b"0"], [b"1", b"3"], [b"2"], [b"4", b"5"], [b"6"], [bytes(6000)], [b"8"])
    ]


def test_a_full_chunk_is_followed_by_another() -> None:
    sink = Sink(buffer_memory=2000)
    outbox = outbox_for(sink)
    for _ in range(5):
        assert not outbox.is_full
        put(outbox, bytes(400))
    assert outbox.is_full
    assert [len(values) for _, _, values in trio.run(handed_over, outbox, sink)] == [2, 2, 1]
    assert not outbox.is_full


def test_the_thread_is_woken_once_for_many_records() -> None:
    sink, thread = Sink(linger_ms=60_000), Thread()
    outbox = outbox_for(sink, thread)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(outbox.run)
            await trio.testing.wait_all_tasks_blocked()
            for _ in range(20):
                put(outbox, b"")
            assert len(thread.calls) == 1
            thread.work()
            await trio.testing.wait_all_tasks_blocked()
            assert len(sink.chunks) == 1
            put(outbox, b"")  # within the nap, without being woken
            assert not thread.calls
            await trio.sleep(MOST_NAP_MS / 1000)
            await trio.testing.wait_all_tasks_blocked()
            assert len(sink.chunks) == 2
            nursery.cancel_scope.cancel()

    # The nap is over in this clock alone, however busy the machine is.
    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def test_a_refused_record_is_told_unless_it_was_seen() -> None:
    sink = Sink()
    outbox = outbox_for(sink)
    first, second = put(outbox, b"0", topic="no"), put(outbox, b"1", topic="no")
    trio.run(handed_over, outbox, sink)
    with pytest.raises(ClientError, match="no"):
        first.result()
    error = outbox.take_failure()
    assert isinstance(error, ClientError)
    assert outbox.take_failure() is None
    assert second.is_done


def test_what_is_left_at_the_end_fails() -> None:
    outbox = outbox_for(Sink())

    async def main() -> HostedDelivery:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(outbox.run)
            nursery.cancel_scope.cancel()
            return put(outbox, b"")

    delivery = trio.run(main)
    with pytest.raises(ProducerClosed):
        delivery.result()
    with pytest.raises(ProducerClosed):
        put(outbox, b"")


def test_a_handler_that_puts_within_a_put_mixes_nothing_up() -> None:
    outbox = outbox_for(Sink())
    inner: list[HostedDelivery] = []
    is_interrupted = threading.Event()

    class Interrupted(list[Any]):
        def append(self, record: Any) -> None:
            if not is_interrupted.is_set():
                is_interrupted.set()
                inner.append(put(outbox, b"inner"))
            super().append(record)

    put(outbox, b"first").chunk.records = records = Interrupted()
    outer = put(outbox, b"outer")
    assert records[outer.place][2] == b"outer"
    assert [records[each.place][2] for each in inner] in ([b"inner"], [])  # none if compiled


def test_many_threads_put() -> None:
    sink = Sink()
    outbox = outbox_for(sink)

    def work(name: bytes) -> None:
        for number in range(2000):
            put(outbox, b"%s-%d" % (name, number))

    threads = [threading.Thread(target=work, args=(name,)) for name in (b"a", b"b", b"c")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    values = [value for _, _, chunk in trio.run(handed_over, outbox, sink) for value in chunk]
    for name in (b"a", b"b", b"c"):
        mine = [value for value in values if value is not None and value.startswith(name)]
        assert mine == [b"%s-%d" % (name, number) for number in range(2000)]
