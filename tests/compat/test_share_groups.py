"""The share consumer and the admin client of Kafka 4.3.1: a queue from its first record to its end.

Each record is accepted once, though every fifth is released first; then tools look at the group's
offsets, move them, and delete the group.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from tests.support.maven import compiled, maven_jars
from tests.support.share_broker import share_broker
from tests.support.short_lived_java import JVM_OPTIONS

SOURCE = Path(__file__).resolve().parents[1] / "support" / "java" / "ShareGroupTour.java"
JARS = {"org.apache.kafka:kafka-clients": "4.3.1"}
EXPECTED = """\
accepted 20 deliveries 24
again [0, 5, 10, 15]
state Empty 0
listed [workers:Share]
lags {queue-0=0, queue-1=0}
altered {queue-0=6, queue-1=0}
deleted {}
left []
"""


async def test_a_queue_from_its_first_record_to_its_end(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    classes = await trio.to_thread.run_sync(
        lambda: compiled(SOURCE, maven_jars("kafka-clients-4.3.1", JARS))
    )
    async with share_broker(monkeypatch, tmp_path) as kafka:
        command = ["java", *JVM_OPTIONS, "-cp", classes, SOURCE.stem, f"127.0.0.1:{kafka.port}"]
        with trio.fail_after(120):
            done = await trio.run_process(
                command, capture_stdout=True, capture_stderr=True, check=False
            )
    assert done.returncode == 0, done.stderr.decode()[-4000:]
    assert done.stdout.decode() == EXPECTED
