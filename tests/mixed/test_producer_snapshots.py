"""A directory whose segments have not all a snapshot, as ours has where producer ids are many, and
Apache Kafka: it knows all of them, after a clean stop and after a crash, and so do we after it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.abuse.test_producer_ids import produced_at
from tests.mixed.one_directory import CONFIG, forget_registration, wait_for
from tests.support.apache_kafka import ApacheKafkaProcess, kafka_jars
from tests.support.processes import BrokerProcess, zookeeper_process
from tests.support.wire import Topic, WireClient

pytestmark = pytest.mark.timeout(600)

TOPIC = "snapshots"
IDS = 700  # more than are written when a segment begins
SEGMENT_BYTES = 3_000
SAMPLE = range(0, IDS, 70)


def end_cleanly(broker: BrokerProcess) -> None:
    broker.stop()


def end_by_kill(broker: BrokerProcess) -> None:
    broker.kill()


def offsets(client: WireClient, sequence: int, ids: range) -> dict[int, int]:
    """The offset of a batch of each producer, new or sent again."""
    return {producer: produced_at(client, TOPIC, 1 + producer, sequence) for producer in ids}


@pytest.mark.parametrize("end", [end_cleanly, end_by_kill])
def test_producers_are_known_by_whoever_opens_the_directory(
    tmp_path: Path, end: Callable[[BrokerProcess], None]
) -> None:
    kafka_jars()
    with zookeeper_process(tmp_path) as connect:
        written: dict[int, int] = {}
        for turn, kind in enumerate((BrokerProcess, ApacheKafkaProcess, BrokerProcess)):
            broker = kind(tmp_path / "broker", connect, CONFIG)
            try:
                broker.start()
                with WireClient(broker.bootstrap) as client:
                    if turn == 0:
                        client.create_topic(1, TOPIC, **{"segment.bytes": str(SEGMENT_BYTES)})
                    wait_for(
                        lambda c=client: c.fetch(Topic(TOPIC, b""), version=4).error_code == 0,  # type: ignore[misc]
                        f"leads {TOPIC}",
                    )
                    if turn:
                        assert offsets(client, turn - 1, SAMPLE) == {
                            producer: written[producer] for producer in SAMPLE
                        }
                    written = offsets(client, turn, range(IDS))
                    assert sorted(written.values()) == list(range(turn * IDS, (turn + 1) * IDS))
                if turn == 0:
                    (directory,) = tmp_path.glob(f"broker/**/{TOPIC}-0")
                    bases = {path.stem for path in directory.glob("*.log")}
                    assert bases - {path.stem for path in directory.glob("*.snapshot")} - {"0" * 20}
                end(broker)
            finally:
                broker.kill()
            forget_registration(connect)
