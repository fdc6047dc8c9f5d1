"""Commands that want several brokers, at three of ours and at three of Apache Kafka.

Moves out of a file with a throttle and a bar, what is wrong with partitions while a broker is dead,
and rates. About 45 s, half of it the starts of Apache Kafka and the sessions of dead brokers.
"""

from __future__ import annotations

import contextlib
import json
import os
import pty
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.apache_kafka import ApacheKafkaProcess, kafka_jars
from tests.support.commands import Commands
from tests.support.patience import until
from tests.support.processes import PYBROKER, ROOT, BrokerProcess, zookeeper_process

WAIT_SECONDS = 120.0
CONFIG = {
    "zookeeper.session.timeout.ms": "6000",
    "auto.leader.rebalance.enable": "false",
    "replica.lag.time.max.ms": "10000",
}
RECORDS, SIZE = 400, 1000
THROTTLE = 150_000  # bytes a second: the move takes some seconds


class Place(NamedTuple):
    commands: Commands
    brokers: list[BrokerProcess]


@pytest.fixture(scope="module", params=["ours", "theirs"])
def place(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Place]:
    kind = BrokerProcess
    if request.param == "theirs":
        kafka_jars()  # or it is skipped
        kind = ApacheKafkaProcess
    directory = tmp_path_factory.mktemp(request.param)
    with ExitStack() as stack:
        connect = stack.enter_context(zookeeper_process(directory / "zookeeper"))
        brokers = []
        for number in (1, 2, 3):
            broker = kind(directory / f"broker-{number}", connect, CONFIG, number)
            stack.callback(broker.kill)
            broker.launch()
            brokers.append(broker)
        for broker in brokers:
            broker.wait_until_ready()
        commands = Commands(",".join(broker.bootstrap for broker in brokers))
        until(lambda: len(commands.json("cluster", "info")["brokers"]) == 3)
        yield Place(commands, brokers)


@contextlib.contextmanager
def at_a_terminal(*words: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A command whose standard error output is a terminal, and the other end of that."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    process = subprocess.Popen(
        [*PYBROKER, *words], cwd=ROOT, env=environment, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=theirs,
    )  # fmt: skip
    os.close(theirs)
    try:
        yield process, ours
    finally:
        process.kill()
        process.communicate()
        os.close(ours)


def rest_of(terminal: int) -> str:
    """All that is printed until it ends."""
    parts = []
    with contextlib.suppress(OSError):  # the other end is closed
        while part := os.read(terminal, 65536):
            parts.append(part)
    return b"".join(parts).decode()


def test_moves_out_of_a_file(place: Place, tmp_path: Path) -> None:
    """With Kafka's own format, a throttle while it lasts, and a bar on a terminal."""
    run, topic = place.commands, f"m-{uuid.uuid4().hex[:8]}"
    run.text("topics", "create", topic, "--replicas", "1,2/1,2")
    sent = ("--records", str(RECORDS), "--size", str(SIZE), "--batch-size", "4096")
    run.text("perf", "produce", topic, *sent)
    file = tmp_path / "moves.json"
    moves = [
        {"topic": topic, "partition": n, "replicas": [1, 3], "log_dirs": ["any", "any"]}
        for n in (0, 1)
    ]
    file.write_text(json.dumps({"version": 1, "partitions": moves}))
    words = ("partitions", "reassign", "--file", str(file))
    plan = run.json(*words, "--dry-run")
    assert plan == [{"partition": f"{topic}-{n}", "from": [1, 2], "to": [1, 3]} for n in (0, 1)]
    bootstrap = ("--bootstrap-server", run.bootstrap)
    with at_a_terminal(*words, "--throttle", str(THROTTLE), *bootstrap) as (moving, terminal):
        key = "follower.replication.throttled.rate"

        def rates() -> list[str]:
            configs = run.json("configs", "describe", "--broker", "3")
            return [one["value"] for one in configs if one["key"] == key]

        assert until(rates) == [str(THROTTLE)]
        under_way = run.json("partitions", "moves")
        assert {one["partition"] for one in under_way} <= {f"{topic}-0", f"{topic}-1"}
        assert all(one["adding"] == [3] and one["removing"] == [2] for one in under_way)
        said = rest_of(terminal)
        assert moving.wait(WAIT_SECONDS) == 0
    assert "partitions moved  [" in said
    assert "100%" in said
    assert said.endswith("2 partitions have moved\r\n")
    (described,) = run.json("topics", "describe", topic)
    assert [part["replicas"] for part in described["partitions"]] == [[1, 3], [1, 3]]
    assert run.json("configs", "describe", "--topic", topic) == []
    assert until(lambda: not rates())
    assert run.json(*words) == []  # everything is where it should be


def test_what_is_wrong_while_a_broker_is_dead(place: Place) -> None:
    run, name = place.commands, f"w-{uuid.uuid4().hex[:8]}"
    run.text("topics", "create", f"{name}-two", "--replicas", "1,3/2,1")
    run.text("topics", "create", f"{name}-one", "--replicas", "3/1")
    strict = ("--config", "min.insync.replicas=2")
    run.text("topics", "create", f"{name}-strict", "--replicas", "2,3/1,2", *strict)
    kinds = ("one", "strict", "two")
    filters = ("--under-replicated", "--leaderless", "--below-min-isr")

    def wrong(*words: str) -> list[str]:
        rows = run.json("topics", "describe", *(f"{name}-{one}" for one in kinds), *words)
        return [row["partition"] for row in rows]

    assert [wrong(one) for one in filters] == [[], [], []]
    place.brokers[2].kill()
    under = [f"{name}-one-0", f"{name}-strict-0", f"{name}-two-0"]
    # The last one in sync stays in the ISR.
    until(lambda: wrong("--leaderless") == under[:1])
    until(lambda: set(wrong("--under-replicated")) >= set(under[1:]))
    assert set(wrong("--under-replicated")) <= set(under)
    assert f"{name}-strict-0" in wrong("--below-min-isr")
    assert f"{name}-two-0" not in wrong("--below-min-isr")
    assert f"{name}-one-0" in run.text("topics", "describe", "--leaderless")
    place.brokers[2].start()
    until(lambda: wrong("--under-replicated") == [])
    assert [wrong(one) for one in filters] == [[], [], []]


def test_rates(place: Place) -> None:
    run, topic = place.commands, f"r-{uuid.uuid4().hex[:8]}"
    run.text("topics", "create", topic, "--replicas", "1,2/2,3")
    words = (topic, "--records", "100000", "--size", "500", "--rate", "300")
    command = [*PYBROKER, "perf", "produce", *words, "--bootstrap-server", run.bootstrap]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL) as writing:
        try:
            until(lambda: sum(p["next"] for p in partitions(run, topic)) > 0)
            found = partitions(run, topic, "--rates")
            assert 30 < sum(one["records_per_second"] for one in found) < 3000
            assert 15_000 < sum(one["bytes_per_second"] for one in found) < 1_500_000
        finally:
            writing.kill()
    text = run.text("topics", "describe", topic, "--rates")
    assert "rec/s" in text
    assert "bytes/s" in text


def partitions(run: Commands, topic: str, *words: str) -> list[dict[str, Any]]:
    (described,) = run.json("topics", "describe", topic, *words)
    found: list[dict[str, Any]] = described["partitions"]
    return found
