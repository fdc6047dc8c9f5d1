"""kafka-python moves partitions between log directories while it writes to them and reads them."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path

from kafka import KafkaConsumer, KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.errors import LogDirNotFoundError, NoError

from tests.support.processes import running_broker

WAIT_SECONDS = 120.0
TOPIC, PARTITIONS = "moved-about", 3
ROUNDS = 3


def places(admin: KafkaAdminClient) -> dict[int, list[tuple[str, bool]]]:
    """Of each partition: its directories, and whether it is only on its way there."""
    found: dict[int, list[tuple[str, bool]]] = {index: [] for index in range(PARTITIONS)}
    wanted = {TOPIC: list(range(PARTITIONS))}
    (broker,) = admin.describe_log_dirs(topic_partitions=wanted)
    for directory in broker["log_dirs"]:
        for topic in directory["topics"]:
            for partition in topic["partitions"]:
                place = directory["log_dir"], partition["is_future_key"]
                found[partition["partition_index"]].append(place)
    return found


def test_partitions_move_under_load(tmp_path: Path) -> None:
    paths = [str(tmp_path / name) for name in ("one", "two", "three")]
    config = {"log.dirs": ",".join(paths), "log.segment.bytes": "100000"}
    with (
        running_broker(tmp_path, config) as broker,
        closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap)) as admin,
        closing(KafkaProducer(bootstrap_servers=broker.bootstrap, acks="all")) as producer,
    ):
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])
        refused = admin.alter_replica_log_dirs({(TOPIC, 0, 1): "/nowhere"})
        assert set(refused.values()) == {LogDirNotFoundError}
        sent = 0
        for number in range(ROUNDS):
            target = {index: paths[(index + number) % len(paths)] for index in range(PARTITIONS)}
            answers = admin.alter_replica_log_dirs(
                {(TOPIC, index, 1): path for index, path in target.items()}
            )
            assert set(answers.values()) == {NoError}
            wanted = {index: [(path, False)] for index, path in target.items()}
            deadline = time.monotonic() + WAIT_SECONDS
            while (seen := places(admin)) != wanted:
                assert time.monotonic() < deadline, seen
                for _ in range(50):
                    producer.send(TOPIC, b"%d " % sent * 100, partition=sent % PARTITIONS)
                    sent += 1
            producer.flush(WAIT_SECONDS)
            for index in range(PARTITIONS):
                producer.send(TOPIC, b"%d " % sent * 100, partition=index).get(WAIT_SECONDS)
                sent += 1
        consumer = KafkaConsumer(
            TOPIC,
            bootstrap_servers=broker.bootstrap,
            auto_offset_reset="earliest",
            group_id=None,
            consumer_timeout_ms=int(WAIT_SECONDS * 1000),
        )
        with closing(consumer):
            read = {record.value for _, record in zip(range(sent), consumer, strict=False)}
        assert read == {b"%d " % number * 100 for number in range(sent)}
