"""Fetches that wait for as long as they may, thousands of them, and clients that leave them behind.

Half of them wait on the partitions that the good client uses, half on others; each wants more than
ever comes, or one byte.
"""

from __future__ import annotations

import resource
import socket
import time
import urllib.request
from collections.abc import Iterator

import pytest

from pybroker_kafka.protocol.apis.metadata import MetadataRequest
from tests.abuse.beside import (
    IS_QUIET,
    MAX_MEASUREMENTS,
    P99_MS,
    TABLE,
    WATCHED,
    Bystander,
    Row,
    assert_unharmed,
    bystander,
    for_seconds,
    is_good,
)
from tests.abuse.storms import connections
from tests.support.patience import until
from tests.support.processes import free_port
from tests.support.wire import Topic, WireClient, fetch_request

# Each takes a file of this process, and a file of the broker; fewer beside other stages.
WAITING = min(
    10_000 if IS_QUIET else 2_000, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2 - 500
)
GOOD_PARTITIONS = 4
VERSION = 12
PURGATORY = "kafka_server_delayedoperationpurgatory_purgatorysize"
FOR_EVER_MS = 2**31 - 1
MOST_BYTES = 2**31 - 1
SECONDS = 3.0
SETTLE_SECONDS = 20.0
# What those who wait may cost a good client, and for how long one step of the loop may last.
SLACK_MS = 2.0
MOST_HELD_MS = 10.0 if IS_QUIET else 40.0  # beside other stages, caches and disk are theirs too
# Who is not accepted at once tries again after a second.
BACKLOG = {"socket.listen.backlog.size": "4096"}
PLACES = 600
LEFT_AT_ONCE = 100
LEFT_AFTER_SECONDS = 0.25


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bystander]:
    port = free_port()
    program = ["sh", "-c", f'exec "$@" --metrics-port {port}', "sh", *WATCHED]
    with bystander(tmp_path_factory.mktemp("waiting"), BACKLOG, program=program) as beside:
        beside.metrics_port = port
        with WireClient(beside.bootstrap) as client:
            beside.target = client.create_topic(GOOD_PARTITIONS, name="others")
        yield beside


def is_unharmed(row: Row) -> bool:
    return is_good(row) and is_never_held(row)


def is_never_held(row: Row) -> bool:
    """Where others have the machine, its caches are theirs as well."""
    return row.longest_hold_ms < (P99_MS if row.is_starved else MOST_HELD_MS)


def fetches(bootstrap: str, topics: list[str], min_bytes: int) -> list[bytes]:
    """A fetch of each partition of the topics, which waits at its end."""
    with WireClient(bootstrap) as client:
        return [
            client.frame(
                fetch_request(
                    Topic(name, b""), end_of(client, name, partition), version=VERSION,
                    partition=partition, max_wait_ms=FOR_EVER_MS, min_bytes=min_bytes,
                ),
                VERSION,
            )
            for name in topics
            for partition in range(GOOD_PARTITIONS)
        ]  # fmt: skip


def end_of(client: WireClient, name: str, partition: int) -> int:
    answer = client.call(
        fetch_request(Topic(name, b""), 0, version=VERSION, partition=partition, max_bytes=1),
        VERSION,
    )
    end: int = answer.responses[0].partitions[0].high_watermark
    return end


def until_all_wait(good: Bystander) -> None:
    until(lambda: waiting(good) >= WAITING, seconds=SETTLE_SECONDS)


def waiting(good: Bystander) -> float:
    url = f"http://127.0.0.1:{good.metrics_port}/metrics"
    with urllib.request.urlopen(url, timeout=SETTLE_SECONDS) as answer:
        lines = answer.read().decode().splitlines()
    (line,) = [line for line in lines if line.startswith(PURGATORY) and '"Fetch"' in line]
    return float(line.split()[-1])


def begin(opened: list[socket.socket], frames: list[bytes]) -> None:
    for number, connection in enumerate(opened):
        connection.sendall(frames[number % len(frames)])


@pytest.mark.nightly
def test_those_who_leave_at_once_hold_nobody(good: Bystander) -> None:
    """The answers to all of them, and their connections' ends, take turns with others."""
    frames = fetches(good.bootstrap, ["good"], MOST_BYTES)

    def leave() -> None:
        with connections(good.broker.port, LEFT_AT_ONCE) as opened:
            begin(opened, frames)
            time.sleep(LEFT_AFTER_SECONDS)
        time.sleep(LEFT_AFTER_SECONDS)

    name = f"{LEFT_AT_ONCE} fetches that wait are left at once"
    row = good.measure(name, for_seconds(SECONDS, leave), is_unharmed)
    assert is_unharmed(row), row


def test_those_who_lack_much_cost_the_others_nothing(good: Bystander) -> None:
    without = good.measure("nobody waits", lambda: time.sleep(SECONDS), is_good)
    frames = fetches(good.bootstrap, ["good", "others"], MOST_BYTES)

    def is_as_good(row: Row) -> bool:
        """Within SLACK_MS; where others have the machine, at least no step is long. A few late
        answers of other causes are a percentile of 300, so it is looked at on a quiet machine."""
        before, after = without.window, row.window
        is_as_quick = after.acknowledged_p50_ms < before.acknowledged_p50_ms + SLACK_MS
        if IS_QUIET:
            is_as_quick &= (
                after.acknowledged_p99_ms < before.acknowledged_p99_ms + SLACK_MS
                and after.consumed_p99_ms < before.consumed_p99_ms + SLACK_MS
            )
        return is_unharmed(row) and (is_as_quick or row.is_starved or without.is_starved)

    with connections(good.broker.port, WAITING) as opened:
        begin(opened, frames)
        until_all_wait(good)
        row = good.measure(
            f"{WAITING} fetches wait for much", lambda: time.sleep(SECONDS), is_as_good
        )
    assert is_as_good(row), row


@pytest.mark.nightly
def test_all_of_them_are_due_at_once(good: Bystander) -> None:
    """One append to each partition answers thousands."""

    def append() -> None:
        with WireClient(good.bootstrap) as client:
            for partition in range(GOOD_PARTITIONS):
                client.append("others", b"what all wait for", partition=partition)
        time.sleep(SECONDS)

    with connections(good.broker.port, WAITING) as opened:
        for _ in range(MAX_MEASUREMENTS):
            begin(opened, fetches(good.bootstrap, ["others"], 1))
            until_all_wait(good)
            row = good.beside(f"{WAITING} fetches are due at once", append)
            assert waiting(good) < WAITING, "they were not due"
            if is_unharmed(row):
                break
    TABLE.append(row)
    assert is_unharmed(row), row


def test_those_who_leave_hold_no_place(tmp_path_factory: pytest.TempPathFactory) -> None:
    config = {**BACKLOG, "max.connections": str(PLACES)}
    with bystander(tmp_path_factory.mktemp("places"), config) as good:
        frames = fetches(good.bootstrap, ["good"], MOST_BYTES)

        def leave() -> None:
            with connections(good.broker.port, LEFT_AT_ONCE) as opened:
                begin(opened, frames)
                time.sleep(0.05)

        name = f"{LEFT_AT_ONCE} fetches at a time are left waiting, of {PLACES} places"
        assert_unharmed(good, name, for_seconds(SECONDS, leave))
        until(
            lambda: has_room(good, PLACES - 50), "places are held by nobody", seconds=SETTLE_SECONDS
        )


def has_room(good: Bystander, count: int) -> bool:
    """Whether so many clients are answered, at the same time."""
    opened: list[WireClient] = []
    try:
        for _ in range(count):
            client = WireClient(good.bootstrap)
            opened.append(client)
            with client.timeout(2.0):
                client.call(MetadataRequest(topics=[]), 9)
    except OSError:
        return False
    finally:
        for client in opened:
            client.close()
    return True
