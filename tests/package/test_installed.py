"""The installed wheel at work in a folder full of decoys, with PYTHONPATH=. as many people have it.

A module of ours that were imported by a general name (`storage`, `client.cluster`) would be the
decoy there, in the command or in one of the processes that it starts.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.package.conftest import Installation
from tests.package.fresh import FIVE_LINES

pytestmark = pytest.mark.timeout(1200)

WAIT_SECONDS = 120
KEYS, ROUNDS = 200, 8
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.bytes": "16384",  # a round is a batch, and fills it
    "min.cleanable.dirty.ratio": "0.01",
}
FLIGHTS = 3000
CLIENT = """
import sys
import trio
from pybroker_kafka import Cluster, Consumer, Producer, create_topic, list_topics

async def main(bootstrap):
    async with Cluster(bootstrap) as cluster:
        await create_topic(cluster, "greetings", partitions=1)
        async with Producer(cluster) as producer:
            await producer.send("greetings", b"hello", timestamp_ms=1_700_000_000_000)
        names = [topic.name for topic in await list_topics(cluster)]
    async with Consumer(bootstrap, group_id="g", auto_offset_reset="earliest") as consumer:
        await consumer.subscribe("greetings")
        async for received in consumer:
            print(received.partition, received.value.decode(), "greetings" in names)
            break

trio.run(main, sys.argv[1])
"""


class Cluster(NamedTuple):
    bootstrap: str
    data: Path


@pytest.fixture(scope="module")
def cluster(installed: Installation, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One broker, started by the command."""
    data = tmp_path_factory.mktemp("data")
    directory = ["--data-dir", str(data)]
    ports = ["--port", "0", "--zookeeper-port", "0", "--brokers", "1"]
    configs = ["--config", "log.cleaner.backoff.ms=100"]
    installed.run("pybroker", "start", "--detach", *ports, *configs, *directory)
    try:
        status = json.loads(installed.run("pybroker", "status", "--json", *directory))
        yield Cluster(status["bootstrap"], data)
    finally:
        installed.run("pybroker", "stop", *directory)


def test_both_ways_to_call_it(installed: Installation) -> None:
    told = installed.run("pybroker", "--version")
    assert told == installed.run("python", "-m", "pybroker_kafka", "--version")
    assert told.startswith("pybroker, version ")
    assert "Usage: pybroker " in installed.run("python", "-m", "pybroker_kafka", "--help")


def test_the_course_comes_along(installed: Installation) -> None:
    assert "9  transactions" in installed.run("pybroker", "learn", "--data-dir", "nothing-here")


def test_its_client(installed: Installation, cluster: Cluster) -> None:
    assert installed.run("python", "-c", CLIENT, cluster.bootstrap) == "0 hello True\n"


@pytest.mark.nightly
def test_compaction_and_a_look_into_the_log(installed: Installation, cluster: Cluster) -> None:
    """The cleaner works in a process of its own, which must find pybroker and not the decoys."""
    server = ("--bootstrap-server", cluster.bootstrap)
    configs = [word for item in COMPACTED.items() for word in ("--config", "=".join(item))]
    installed.run("pybroker", "topics", "create", "users", "-p", "1", *configs, *server)
    produce = ("pybroker", "produce", "users", "--key-separator", ":", *server)
    for number in range(ROUNDS):
        lines = "".join(f"user-{key}:{number}-{'x' * 60}\n" for key in range(KEYS))
        installed.run(*produce, given=lines)
    consume = ("pybroker", "consume", "users", "--from-beginning", "--timeout-ms", "2000")
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        found = installed.run(*consume, "--format", "%k %v", *server).splitlines()
        if (
            KEYS <= len(found) <= 2 * KEYS
        ):  # the last round is in the active segment, which is not cleaned
            break
        assert time.monotonic() < deadline, f"not compacted within {WAIT_SECONDS} s"
    newest = dict(line.split(" ", 1) for line in found)
    assert newest == {f"user-{key}": f"{ROUNDS - 1}-{'x' * 60}" for key in range(KEYS)}
    segments = sorted(str(path) for path in cluster.data.glob("broker-1/users-0/*.log"))
    told = installed.run("pybroker", "log", "dump", "--print-data-log", *segments)
    assert told.count(f" key: user-7 payload: {ROUNDS - 1}-") == 1


@pytest.mark.nightly
def test_the_demo_with_spark(installed: Installation) -> None:
    pytest.importorskip("pyspark")
    words = ("-m", "pybroker_kafka.spark_jobs.demo", "--flights", str(FLIGHTS))
    told = installed.run("python", *words)
    assert f"Spark counted {FLIGHTS:,} flights" in told
    assert list((installed.folder / "demo-output").glob("*.png"))


def test_the_pytest_plugin_comes_along(installed: Installation) -> None:
    """The five lines of docs/TESTING.md; `tests.package.fresh` does it without our libraries."""
    (installed.folder / "test_five_lines.py").write_text(FIVE_LINES)
    told = installed.run(
        "python", "-P", "-m", "pytest", "-q", "-c", os.devnull, "-p", "no:cacheprovider",
        "test_five_lines.py",
    )  # fmt: skip
    assert "1 passed" in told
