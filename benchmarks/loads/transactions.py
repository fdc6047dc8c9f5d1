"""Transactions a second: one record to each of five partitions, and a commit.

The producers are librdkafka's, each with its own transactional id and one transaction after the
other, as a client that may not begin the next one before the last is over.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from statistics import median

from confluent_kafka import KafkaException, Producer

from benchmarks.frames import RECORD_BYTES, create_topic, delete_topic, topic_name
from benchmarks.loads.base import Bench, BrokerCpu, Figure, Figures, Load
from benchmarks.native import LoadError

PARTITIONS = 5
PRODUCERS = (1, 8)
LIMIT_SECONDS = 30.0


def _transact(producer: Producer, topic: str, until: float) -> list[float]:
    """Until then; returns how many seconds each transaction took."""
    value = b"x" * RECORD_BYTES
    took = []
    began = time.monotonic()
    while began < until:
        producer.begin_transaction()
        for partition in range(PARTITIONS):
            producer.produce(topic, value, partition=partition)
        producer.commit_transaction(LIMIT_SECONDS)
        ended = time.monotonic()
        took.append(ended - began)
        began = ended
    return took


def transact(bench: Bench, count: int) -> Figures:
    cluster = bench.cluster
    topic = topic_name("transactions")
    create_topic(cluster.bootstrap, topic, PARTITIONS)
    producers = [
        Producer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "transactional.id": f"{topic}-{number}",
                "linger.ms": 0,
            }
        )
        for number in range(count)
    ]
    try:
        with ThreadPoolExecutor(count) as threads:
            list(threads.map(lambda one: one.init_transactions(LIMIT_SECONDS), producers))

            def run(seconds: float) -> list[float]:
                until = time.monotonic() + seconds
                each = threads.map(lambda one: _transact(one, topic, until), producers)
                return [took for part in each for took in part]

            run(bench.pace.warm_up)
            cpu = BrokerCpu(cluster)
            began = time.monotonic()
            took = run(bench.pace.seconds)
            seconds, spent = time.monotonic() - began, cpu.spent()
    except KafkaException as error:
        raise LoadError(f"a transaction fails: {error}") from None
    finally:
        for producer in producers:
            with suppress(KafkaException):
                producer.flush(0)
    delete_topic(cluster.bootstrap, topic)
    return {
        "transactions/s": len(took) / seconds,
        "median ms": median(took) * 1e3,
        "broker CPU us/transaction": spent / len(took) * 1e6,
    }


def _load(count: int) -> Load:
    return Load(
        name=f"transactions-{count}",
        family="transactions",
        figures=(
            Figure("transactions/s", more_is_better=True),
            Figure("median ms"),
            Figure("broker CPU us/transaction"),
        ),
        run=lambda bench: transact(bench, count),
    )


LOADS = [_load(count) for count in PRODUCERS]
