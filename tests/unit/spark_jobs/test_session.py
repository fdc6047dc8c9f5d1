"""What Spark's start shares with others that start at the same time."""

from __future__ import annotations

from pathlib import Path
from threading import Event, Thread

import pytest

from pybroker_kafka.spark_jobs.session import (
    SparkUnavailableError,
    alone,
    kafka_session,
    link_pyspark,
)
from pybroker_kafka.spark_jobs.source import register


def test_one_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "not there yet" / "lock"
    is_in, ends = Event(), Event()
    order = []

    def first() -> None:
        with alone(path):
            is_in.set()
            assert ends.wait(10)
            order.append("first")

    def second() -> None:
        with alone(path):
            order.append("second")

    threads = [Thread(target=first), Thread(target=second)]
    threads[0].start()
    assert is_in.wait(10)
    threads[1].start()
    threads[1].join(0.1)
    assert not order
    ends.set()
    for thread in threads:
        thread.join(10)
    assert order == ["first", "second"]


def test_nobody_waits_for_ever(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with alone(path), alone(path, limit_seconds=0.0):
        pass
    with alone(path, limit_seconds=0.0):  # and it is free again
        pass


def test_a_spark_of_ones_own_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    link_pyspark(tmp_path)
    assert not list(tmp_path.iterdir())


def test_an_older_spark_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    pyspark = pytest.importorskip("pyspark")
    monkeypatch.setattr(pyspark, "__version__", "3.5.9")
    monkeypatch.setenv("JAVA_HOME", "/")
    with pytest.raises(ImportError, match=r"needs Spark 4\.0 or later, and this is Spark 3\.5\.9"):
        register(None)  # type: ignore[arg-type]
    with pytest.raises(SparkUnavailableError, match=r"pyspark>=4\.0,<5"):
        kafka_session("old")
