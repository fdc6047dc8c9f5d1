"""The same random series of transactional requests to Apache Kafka 3.9.1 and to pybroker: the same
answers.

Each seed is one series, over all versions of the APIs. Producer ids are compared by the order in
which they were given; times are not compared. A transaction that ends is waited for, so that the
answers do not depend on how fast its markers are written.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.apis.add_partitions_to_txn import AddPartitionsToTxnRequest
from pybroker_kafka.protocol.apis.list_transactions import ListTransactionsRequest
from pybroker_kafka.protocol.apis.metadata import MetadataRequest
from pybroker_kafka.protocol.errors import ErrorCode
from tests.support.apache_kafka import ApacheKafkaProcess
from tests.support.processes import BrokerProcess, zookeeper_process
from tests.support.wire import TRANSACTION, WireClient
from tests.wire.transaction_steps import (
    Producer,
    add,
    add_offsets,
    again,
    describe,
    end,
    errors_of,
    init,
    start,
    transaction,
    wait_for_state,
)

pytestmark = pytest.mark.nightly

SEEDS = 6
STEPS = 120
NAMES = ("first", "second", "third")
TOPIC = "series"
PARTITIONS = ((TOPIC, 0), (TOPIC, 1), (TOPIC, 2))
ODD_PARTITIONS = ((TOPIC, 9), ("missing", 0), ("__consumer_offsets", 0), ("__transaction_state", 1))
SETTLED = ("Empty", "Ongoing", "CompleteCommit", "CompleteAbort")
CONFIG = {"transaction.state.log.num.partitions": "3", "offsets.topic.num.partitions": "4"}
WEIGHTS = {"init": 4, "add": 8, "add_offsets": 2, "end": 6, "batch": 3, "show": 2}


class Series:
    """One series against one broker; `transcript` is what it answered."""

    def __init__(self, kafka: WireClient, seed: int) -> None:
        self._kafka = kafka
        self._random = random.Random(seed)
        self._names = [f"{name}-{seed}" for name in NAMES]
        self._producers: list[Producer] = []
        self._ids: dict[int, int] = {}
        self.transcript: list[tuple[Any, ...]] = []
        for name in self._names:
            kafka.coordinator(name, TRANSACTION)
        kafka.coordinator("group")

    def run(self) -> None:
        for _ in range(STEPS):
            (step,) = self._random.choices(list(WEIGHTS), list(WEIGHTS.values()))
            getattr(self, "_" + step)()
            for name in self._names:
                if describe(self._kafka, name).error_code == 0:
                    wait_for_state(self._kafka, name, *SETTLED)

    def _note(self, what: str, *details: Any) -> None:
        self.transcript.append((what, *details))

    def _number(self, producer_id: int) -> int:
        """A producer id by the order in which it was given."""
        return producer_id if producer_id < 0 else self._ids.setdefault(producer_id, len(self._ids))

    def _version(self, key: ApiKey, first: int = 0, last: int = 1000) -> int:
        return self._random.choice(self._kafka.versions(key, first, last))

    def _producer(self) -> Producer:
        """Mostly one that was given, and mostly the latest."""
        choice = self._random
        if not self._producers or choice.random() < 0.05:
            odd = choice.choice([("", 1, 0), ("nobody", 1, 0), (self._names[0], 10**9, 0)])
            return Producer(*odd)
        producer = choice.choice(self._producers[-choice.choice([1, 1, 2, 3, 10]) :])
        return producer._replace(epoch=producer.epoch + choice.choice([0] * 8 + [1, -1]))

    def _partitions(self) -> list[tuple[str, int]]:
        choice = self._random
        chosen = choice.sample(PARTITIONS, choice.randint(0, 3))
        if choice.random() < 0.15:
            chosen += choice.sample(ODD_PARTITIONS, choice.randint(1, 2))
        return chosen

    def _init(self) -> None:
        choice = self._random
        version = self._version(ApiKey.INIT_PRODUCER_ID)
        timeout_ms = choice.choice([60_000] * 8 + [0, -5, 900_000, 900_001])
        name, expected = choice.choice([*self._names] * 5 + [""]), (-1, -1)
        if version >= 3 and self._producers and choice.random() < 0.6:
            producer = self._producer()
            name, expected = producer.name, (producer.id, producer.epoch)
        if version >= 3 and choice.random() < 0.05:
            expected = choice.choice([(5, -1), (-1, 5)])
        answer = init(self._kafka, name, version, timeout_ms=timeout_ms, producer=expected)
        number = self._number(answer.producer_id)
        self._note("init", version, name, timeout_ms, answer.error_code, number,
                   answer.producer_epoch)  # fmt: skip
        if answer.error_code == 0:
            self._producers.append(Producer(name, answer.producer_id, answer.producer_epoch))

    def _add(self) -> None:
        producer, partitions = self._producer(), self._partitions()
        version = self._version(ApiKey.ADD_PARTITIONS_TO_TXN)
        errors = add(self._kafka, producer, *partitions, version=version)
        self._note("add", version, producer.name, producer.epoch, sorted(errors.items()))

    def _batch(self) -> None:
        """Several transactions in one request of a broker, some only to be verified."""
        version = self._version(ApiKey.ADD_PARTITIONS_TO_TXN, first=4)
        producers = {p.name: p for p in (self._producer() for _ in range(2))}
        verify_only = [self._random.random() < 0.6 for _ in producers]
        parts = [
            transaction(producer, self._partitions(), verify_only=only)
            for producer, only in zip(producers.values(), verify_only, strict=True)
        ]
        answer = self._kafka.call(AddPartitionsToTxnRequest(transactions=parts), version)
        results = sorted(
            (result.transactional_id, sorted(errors_of(result.topic_results).items()))
            for result in answer.results_by_transaction
        )
        self._note("batch", version, verify_only, answer.error_code, results)

    def _add_offsets(self) -> None:
        producer, version = self._producer(), self._version(ApiKey.ADD_OFFSETS_TO_TXN)
        self._note(
            "add_offsets", version, producer.name, producer.epoch,
            add_offsets(self._kafka, producer, "group", version),
        )  # fmt: skip

    def _end(self) -> None:
        producer, version = self._producer(), self._version(ApiKey.END_TXN)
        committed = self._random.random() < 0.6
        error = end(self._kafka, producer, committed=committed, version=version)
        self._note("end", version, producer.name, producer.epoch, committed, error)

    def _show(self) -> None:
        for name in [*self._names, "nobody", ""]:
            view = describe(self._kafka, name)
            topics = sorted((t.topic, sorted(t.partitions)) for t in view.topics)
            self._note(
                "describe", name, view.error_code, view.transaction_state, topics,
                view.transaction_timeout_ms, self._number(view.producer_id), view.producer_epoch,
                view.transaction_start_time_ms > 0,
            )  # fmt: skip
        version = self._version(ApiKey.LIST_TRANSACTIONS)
        labels = self._random.sample([*SETTLED, "Odd"], self._random.randint(0, 3))
        request = ListTransactionsRequest(state_filters=labels)
        if version >= 1:
            request.duration_filter = self._random.choice([-1, 0, 10**9])
        answer = self._kafka.call(request, version)
        listed = sorted(
            (state.transactional_id, self._number(state.producer_id), state.transaction_state)
            for state in answer.transaction_states
            if state.transactional_id in self._names
        )
        unknown = sorted(answer.unknown_state_filters)
        self._note("list", version, sorted(labels), answer.error_code, unknown, listed)


def has_no_brokers(answer: Any) -> int:
    return ErrorCode.NONE if answer.brokers else ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[BrokerProcess]]:
    """pybroker and Apache Kafka, each with its ZooKeeper, and the topic of the series."""
    directory: Path = tmp_path_factory.mktemp("series")
    with (
        zookeeper_process(directory / "ours") as ours,
        zookeeper_process(directory / "theirs") as theirs,
    ):
        processes = [
            BrokerProcess(directory / "pybroker", ours, CONFIG),
            ApacheKafkaProcess(directory / "kafka", theirs, CONFIG),
        ]
        try:
            for process in processes:
                process.start()
                with WireClient(process.bootstrap) as kafka:
                    # Apache Kafka answers before its controller has told it who is there.
                    again(lambda: kafka.call(MetadataRequest(topics=[])), has_no_brokers)
                    kafka.create_topic(partitions=len(PARTITIONS), name=TOPIC)
                    start(kafka)  # from here on there are producer ids at once
            yield processes
        finally:
            for process in processes:
                process.kill()


@pytest.mark.parametrize("seed", range(SEEDS))
def test_the_same_answers(brokers: list[BrokerProcess], seed: int) -> None:
    transcripts = []
    for broker in brokers:
        with WireClient(broker.bootstrap) as kafka:
            series = Series(kafka, seed)
            series.run()
            transcripts.append(series.transcript)
    for number, (ours, theirs) in enumerate(zip(*transcripts, strict=True)):
        assert ours == theirs, f"answer {number} of seed {seed}"
    answered = {entry[-1] for entry in transcripts[0] if entry[0] == "end"}
    assert answered - {ErrorCode.NONE}  # not only what is right
