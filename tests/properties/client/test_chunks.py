"""A chunk and its batches have the same records at the same places as a list of them."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from pybroker_kafka.client.errors import ClientError
from pybroker_kafka.client.producer.accumulator import size_of
from pybroker_kafka.client.producer.batch import Batch, Fields, Outcome
from pybroker_kafka.client.producer.chunk import STICKY, Chunk, Watcher

SIZES = st.lists(st.integers(0, 40), min_size=1, max_size=30)


@dataclass(eq=False)
class Waiter:
    chunk: Chunk
    place: int
    told: list[Watcher] = field(default_factory=list)

    @property
    def is_done(self) -> bool:
        return self.chunk.is_done(self.place)


def chunk_of(sizes: list[int], told: list[Watcher]) -> Chunk:
    chunk = Chunk("orders", STICKY, told.extend)
    for number, size in enumerate(sizes):
        key = b"k" if number % 3 == 0 else None
        record: Fields = (number, key, bytes(size), (("h", b""),) if number % 5 == 0 else ())
        chunk.records.append(record)
        chunk.size += size_of(record[1], record[2], record[3])
    return chunk


@given(sizes=SIZES, room=st.integers(1, 400), data=st.data())
def test_each_record_is_found_in_its_batch(
    sizes: list[int], room: int, data: st.DataObject
) -> None:
    told: list[Watcher] = []
    chunk = chunk_of(sizes, told)
    records = list(chunk.records)
    waiters = [Waiter(chunk, place) for place in range(len(records))]
    early = data.draw(st.sets(st.sampled_from(range(len(records)))))
    for place in early:
        chunk.watch(waiters[place])
    batches: list[Batch] = []
    while chunk.count < len(records):
        if data.draw(st.booleans()) and data.draw(st.booleans()):
            assert chunk.fail(ClientError("no"), chunk.count + 1) is not None
            continue
        if not batches or data.draw(st.booleans()):
            batches.append(Batch("orders", 0, 0))
        batch = batches[-1]
        if data.draw(st.booleans()):
            base = len(batch.records)
            batch.records.append(records[chunk.count])
            chunk.added(batch, base)
            continue
        end, size = chunk.fitting(room)
        taken = records[chunk.count : end]
        assert size == sum(size_of(key, value, headers) for _, key, value, headers in taken)
        assert size <= room or len(taken) == 1
        if end < len(records):
            _, key, value, headers = records[end]
            assert size + size_of(key, value, headers) > room
        chunk.add_to(batch, end, size)
    for place in set(range(len(records))) - early:
        chunk.watch(waiters[place])
    for number, batch in enumerate(batches):
        parts = [batch]
        if len(batch.records) > 1 and data.draw(st.booleans()):
            parts = batch.split()
        for part in parts:
            part.complete(Outcome(base_offset=1000 * number))
    for place, record in enumerate(records):
        found, there, refusal = chunk.find(place)
        if found is None:
            assert refusal is not None
        else:
            holder, there = found.holder(there)
            assert holder.records[there] is record
    assert set(told) == set(waiters)


def test_a_refusal_is_known_once_each_of_its_records_was_asked() -> None:
    chunk = chunk_of([1, 2, 3], [])
    refusal = chunk.fail(ClientError("no"), 2)
    assert refusal is not None
    assert chunk.fail(ClientError("no"), 2) is None
    refusal.know(0)
    refusal.know(0)
    assert not refusal.is_known
    refusal.know(1)
    assert refusal.is_known
    assert not chunk.is_done(2)
    assert chunk.find(2) == (None, 0, None)
