"""Thousands of fetches that wait: an append looks at those that are due, and some are answered at
a time, as are produces."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import trio

from pybroker_kafka.broker.replicas.replica_runtime import ReplicaRuntime
from pybroker_kafka.replication.delayed_operations import DelayedFetch
from pybroker_kafka.replication.types import (
    FetchEntry,
    FetchParams,
    Isolation,
    MoreToAnswer,
    Parked,
    ReplicatedAppend,
)
from pybroker_kafka.replication.waiting import MAX_ANSWERS_AT_ONCE, MAX_RESULTS_AT_ONCE
from pybroker_kafka.storage.log import Log
from tests.support.replication import KEY, ME, TOPIC, ReplicaCluster, batch
from tests.support.sources import needs_sources

MANY = 500
FAR = 2**31 - 1


class Counts:
    def __init__(self) -> None:
        self.looks = 0
        self.reads = 0


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Counts:
    """How often a waiting fetch is looked at, and a log is read."""
    counted = Counts()
    look, read = DelayedFetch.is_complete, Log.read

    def counted_look(operation: DelayedFetch, *arguments: object) -> bool:
        counted.looks += 1
        return look(operation, *arguments)  # type: ignore[arg-type]

    def counted_read(log: Log, *arguments: object, **options: object) -> object:
        counted.reads += 1
        return read(log, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(DelayedFetch, "is_complete", counted_look)
    monkeypatch.setattr(Log, "read", counted_read)
    return counted


def fetch_of_both(cluster: ReplicaCluster, token: object, min_bytes: int) -> None:
    entries = [FetchEntry(TOPIC, index, fetch_offset=0, max_bytes=FAR) for index in (0, 1)]
    params = FetchParams(-1, 60_000, min_bytes, FAR, Isolation.READ_UNCOMMITTED)
    assert isinstance(cluster.manager.fetches.fetch(token, params, entries, cluster.now_ms), Parked)


@needs_sources
def test_an_append_looks_at_nobody_who_lacks_much(cluster: ReplicaCluster, counts: Counts) -> None:
    cluster.role()
    for number in range(MANY):
        assert isinstance(cluster.fetch(number, 0, min_bytes=FAR, max_wait_ms=60_000), Parked)
    counts.reads = 0
    for _ in range(20):
        cluster.produce("p")
    assert (counts.looks, counts.reads) == (0, 0)
    assert cluster.completed() == []


@needs_sources
def test_it_looks_at_those_alone_whose_bytes_have_come(
    cluster: ReplicaCluster, counts: Counts
) -> None:
    cluster.role()
    size = len(batch())
    for number in range(1, MANY + 1):
        cluster.fetch(number, 0, min_bytes=number * size, max_wait_ms=60_000)
    for number in range(1, 21):
        cluster.produce("p")
        assert [one.token for one in cluster.completed()] == [number]
    assert counts.looks == 20


@needs_sources
def test_nobody_who_lacks_much_of_several_partitions(
    cluster: ReplicaCluster, counts: Counts
) -> None:
    cluster.role()
    cluster.role(partition=1)
    for number in range(MANY):
        fetch_of_both(cluster, number, FAR)
    for _ in range(20):
        cluster.produce("p")
    assert counts.looks == 0


def test_bytes_of_several_partitions_are_added_up(cluster: ReplicaCluster) -> None:
    cluster.role()
    cluster.role(partition=1)
    big = batch(bytes(1000))
    fetch_of_both(cluster, "f", 20 * len(big))
    for number in range(20):
        assert cluster.completed() == []
        key = (TOPIC, int(number % 3 == 0))
        cluster.manager.appends.append(
            "p", {key: batch(bytes(1000))}, ReplicatedAppend(1, 0, cluster.now_ms)
        )
    (completion,) = cluster.completed()
    assert sum(len(data.records) for data in completion.result) == 20 * len(big)


def answers(cluster: ReplicaCluster) -> Iterator[list[object]]:
    """The tokens that are answered in each turn."""
    yield [one.token for one in cluster.completed()]
    is_more = cluster.manager.take_effects() == [MoreToAnswer()]
    while is_more:
        is_more = cluster.manager.waiting.answer_more(cluster.now_ms)
        yield [one.token for one in cluster.completed()]


def test_produces_that_one_high_watermark_settles_are_answered_some_at_a_time(
    cluster: ReplicaCluster,
) -> None:
    """Their results are known at once: what happens to the partition meanwhile changes nothing."""
    cluster.role(isr=(ME, 2), replicas=(ME, 2))
    for number in range(MANY):
        assert isinstance(cluster.produce(number, acks=-1), Parked)
    cluster.manager.take_effects()
    cluster.follow(2, MANY)
    tokens = [one.token for one in cluster.completed()]
    assert len(tokens) == MAX_RESULTS_AT_ONCE
    assert MoreToAnswer() in cluster.manager.take_effects()
    assert len(cluster.manager.waiting.produces) == 0
    cluster.role(2, replicas=(ME, 2), leader_epoch=9)
    is_more = True
    while is_more:
        is_more = cluster.manager.waiting.answer_more(cluster.now_ms)
        turn = cluster.completed()
        assert len(turn) <= MAX_RESULTS_AT_ONCE
        assert {one.result[KEY].error_code for one in turn} <= {0}
        tokens += [one.token for one in turn]
    assert tokens == list(range(MANY))


def test_all_that_are_due_are_answered_some_at_a_time(cluster: ReplicaCluster) -> None:
    cluster.role()
    for number in range(MANY):
        cluster.fetch(number, 0)
    cluster.produce("p")
    turns = list(answers(cluster))
    assert max(map(len, turns)) == MAX_ANSWERS_AT_ONCE
    assert [token for turn in turns for token in turn] == list(range(MANY))
    assert len(cluster.manager.waiting.fetches) == 0


def test_all_whose_time_is_over_are_answered_some_at_a_time(cluster: ReplicaCluster) -> None:
    cluster.role()
    for number in range(MANY):
        cluster.fetch(number, 0)
    cluster.now_ms += 500
    cluster.manager.waiting.tick(cluster.now_ms)
    turns = list(answers(cluster))
    assert max(map(len, turns)) == MAX_ANSWERS_AT_ONCE
    assert [token for turn in turns for token in turn] == list(range(MANY))
    assert cluster.manager.waiting.next_deadline_ms() is None


def test_after_a_new_leader_all_are_answered_some_at_a_time(cluster: ReplicaCluster) -> None:
    cluster.role(replicas=(ME, 2))
    for number in range(MANY):
        cluster.fetch(number, 0, min_bytes=1 + number % 2 * FAR)
    cluster.role(leader=2, replicas=(ME, 2), leader_epoch=1)
    turns = list(answers(cluster))
    assert max(map(len, turns)) == MAX_ANSWERS_AT_ONCE
    assert {token for turn in turns for token in turn} == set(range(MANY))


def test_those_of_another_partition_need_not_wait_for_them(cluster: ReplicaCluster) -> None:
    cluster.role()
    cluster.role(partition=1)
    for number in range(MANY):
        cluster.fetch(number, 0)
    params = FetchParams(-1, 500, 1, FAR, Isolation.READ_UNCOMMITTED)
    entry = FetchEntry(TOPIC, 1, fetch_offset=0, max_bytes=FAR)
    cluster.manager.fetches.fetch("other", params, [entry], cluster.now_ms)
    cluster.produce("p")
    assert len(cluster.completed()) == MAX_ANSWERS_AT_ONCE
    cluster.manager.appends.append(
        "p", {(TOPIC, 1): batch()}, ReplicatedAppend(1, 0, cluster.now_ms)
    )
    assert [one.token for one in cluster.completed()] == ["other"]


def test_the_runtime_answers_them_all(cluster: ReplicaCluster) -> None:
    cluster.role()
    runtime = ReplicaRuntime(cluster.manager, lambda: cluster.now_ms)
    told: list[int] = []
    all_are_told = trio.Event()

    class Waiter:
        def __init__(self, number: int) -> None:
            self.number = number

        def complete(self, results: object) -> None:
            told.append(self.number)
            if len(told) == MANY:
                all_are_told.set()

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            await nursery.start(runtime.run)
            params = FetchParams(-1, 60_000, 1, FAR, Isolation.READ_UNCOMMITTED)
            for number in range(MANY):
                entry = FetchEntry(TOPIC, 0, fetch_offset=0, max_bytes=FAR)
                runtime.fetch(params, [entry], cluster.now_ms, Waiter, (number,))
            with runtime.applying as manager:
                manager.appends.append("p", {KEY: batch()}, ReplicatedAppend(1, 0, cluster.now_ms))
            assert len(told) == MAX_ANSWERS_AT_ONCE
            with trio.fail_after(20):
                await all_are_told.wait()
            nursery.cancel_scope.cancel()

    trio.run(main)
    assert told == list(range(MANY))
