"""The audit bites: each broken promise, planted in the books or on disk, is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker_kafka.protocol.records.builder import build_batch
from pybroker_kafka.protocol.records.record import SimpleRecord
from tests.support.audit import (
    consumer_violations,
    differences_of,
    disorder,
    producer_violations,
    vanished,
)
from tests.support.cluster import Cluster
from tests.support.loads import KEYS, ConsumerLoad, ProducerLoad
from tests.support.observer import Observer, Sighting


def producer(*acknowledged: int, idempotent: bool = True) -> ProducerLoad:
    """The books of a producer whose record of number n is at offset n."""
    load = ProducerLoad("p", "topic", 1, idempotent=idempotent)
    load.acknowledged = {number: (0, number) for number in acknowledged}
    return load


class Nobody(Cluster):
    """No node, and nothing to wait for."""

    def __init__(self) -> None:
        self.nodes = {}


def log(*numbers: int) -> dict[tuple[int, int], bytes]:
    return {(0, offset): b"p:%d" % number for offset, number in enumerate(numbers)}


def test_books_that_agree() -> None:
    assert producer_violations(producer(0, 1, 2), log(0, 1, 2)) == []


def test_a_lost_record() -> None:
    lost, moved = producer_violations(producer(0, 1, 2), log(0, 1))
    assert "1 lost: [2]" in lost
    assert "not where acknowledged" in moved


def test_a_record_twice() -> None:
    (twice,) = producer_violations(producer(0, 1), log(0, 1, 1))
    assert "more than once: [1]" in twice
    assert producer_violations(producer(0, 1, idempotent=False), log(0, 1, 1)) == []


def test_a_key_out_of_order() -> None:
    places = [((0, 0), 1), ((0, 1), 1 + KEYS), ((0, 2), 2)]
    assert disorder("p", places) == []
    assert "comes after" in disorder("p", [places[1], places[0]])[0]


def test_a_consumer_that_never_got_anything() -> None:
    """It has committed nothing, so no coordinator is asked."""
    (missed,) = consumer_violations(Nobody(), ConsumerLoad("c", "topic"), log(0, 1), log(0, 1))
    assert "2 records never came" in missed


def reader(*numbers: int) -> ConsumerLoad:
    load = ConsumerLoad("c", "topic")
    load.read = log(*numbers)
    return load


def test_a_consumer_that_read_what_is_gone() -> None:
    (changed,) = consumer_violations(Nobody(), reader(0, 1, 2), log(0, 1), log(0, 1))
    assert "1 read records changed" in changed


def test_records_that_come_after_the_log_has_settled() -> None:
    """They need not have been read, and what had settled stays."""
    for read in (reader(0, 1), reader(0, 1, 2)):
        assert consumer_violations(Nobody(), read, log(0, 1), log(0, 1, 2)) == []
    assert vanished(log(0, 1), log(0, 1, 2)) == []
    (gone,) = vanished(log(0, 1), log(0))
    assert "1 settled records are gone" in gone


@pytest.mark.parametrize("change", [b"other", b"longer value"])
def test_replicas_that_differ(tmp_path: Path, change: bytes) -> None:
    directories = {node: tmp_path / str(node) for node in (1, 2)}
    for node, path in directories.items():
        path.mkdir()
        value = b"value" if node == 1 else change
        batch = build_batch([SimpleRecord(1, None, value)], partition_leader_epoch=3)
        (path / "00000000000000000000.log").write_bytes(batch)
        (path / "leader-epoch-checkpoint").write_text("0\n1\n3 0\n")
    assert "differs between replicas" in differences_of("t-0", directories)[0]


def test_leader_epochs_that_differ(tmp_path: Path) -> None:
    directories = {node: tmp_path / str(node) for node in (1, 2)}
    for node, path in directories.items():
        path.mkdir()
        batch = build_batch([SimpleRecord(1, None, b"value")], partition_leader_epoch=3)
        (path / "00000000000000000000.log").write_bytes(batch)
        # An epoch without records is the leader's own affair.
        own = "4 1\n" if node == 1 else ""
        (path / "leader-epoch-checkpoint").write_text(f"0\n1\n3 0\n{own}")
    assert differences_of("t-0", directories) == []
    (directories[2] / "leader-epoch-checkpoint").write_text("0\n1\n2 0\n")
    assert "leader epochs of t-0 differ" in differences_of("t-0", directories)[0]


class Seen(Observer):
    def __init__(self, *sightings: Sighting) -> None:
        self.sightings = list(sightings)


def test_two_leaders_of_an_epoch() -> None:
    seen = Seen(Sighting(1, 2, 0, 5, 1, 10), Sighting(1, 2, 0, 5, 2, 10))
    assert "two leaders" in seen.violations()[0]
    assert Seen(Sighting(1, 2, 0, 5, 1, 10), Sighting(1, 2, 0, 6, 2, 10)).violations() == []


def test_a_high_watermark_that_goes_back() -> None:
    first = Sighting(1, 2, 0, 5, 1, 10)
    assert "HW back" in Seen(first, Sighting(3, 4, 0, 6, 2, 9)).violations()[0]
    # A zombie of an earlier epoch, or an answer on its way at the same time, proves nothing.
    assert Seen(first, Sighting(3, 4, 0, 4, 2, 9)).violations() == []
    assert Seen(first, Sighting(1.5, 4, 0, 5, 1, 9)).violations() == []
