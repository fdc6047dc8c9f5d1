"""Where records go is where Java's producer sends them: its own classes are the twin."""

from __future__ import annotations

import random

import pytest

from pybroker_kafka.client.producer.partitioners import next_partition, partition_for
from tests.support.apache_kafka import java_answers

pytestmark = pytest.mark.nightly

CHOICES = 3_000


def joined(numbers: list[int]) -> str:
    return ",".join(map(str, numbers)) or "-"


def test_every_choice_is_javas() -> None:
    draw = random.Random(1)
    lines: list[str] = []
    ours: list[int] = []
    for _ in range(CHOICES):
        key, count = draw.randbytes(draw.randrange(40)), draw.randrange(1, 100)
        lines.append(f"key {count} {key.hex()}")
        ours.append(partition_for(key, count))
    for _ in range(CHOICES):
        count, drawn = draw.randrange(1, 12), draw.getrandbits(31)
        available = sorted(draw.sample(range(count), draw.randrange(count + 1)))
        most = draw.choice([0, 1, 5, 300])
        sizes = [draw.randrange(most + 1) for _ in available] if draw.random() < 0.8 else []
        lines.append(f"draw {count} {drawn} {joined(available)} {joined(sizes)}")
        ours.append(next_partition(drawn, count, available, sizes))
    main = "org.apache.kafka.clients.producer.internals.PartitionChoices"
    answers = java_answers(main, lines, source="PartitionChoices.java")
    javas = [int(line) for line in answers.split()]
    wrong = [
        (line, mine, java)
        for line, mine, java in zip(lines, ours, javas, strict=True)
        if mine != java
    ]
    assert wrong == []
