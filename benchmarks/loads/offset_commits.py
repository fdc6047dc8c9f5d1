"""Offset commits of consumers with a group each, and of a single group; eight, or 64, under way.

Each commit is of one partition, and acknowledged by itself. What is measured depends on both: a
group each spreads commits over the partitions of the offsets topic, which a broker with threads
serves side by side; one group is one lock and one partition. With more under way a broker with one
loop has more of them a round to share its system calls.
"""

from __future__ import annotations

from benchmarks.frames import (
    commit_frame,
    create_topic,
    delete_topic,
    entry_error_at,
    topic_name,
)
from benchmarks.loads.base import Bench, Figure, Figures, Load
from benchmarks.loads.requests import send_requests
from benchmarks.native import Lines
from tests.support.wire import WireClient


def commit(bench: Bench, connections: int, in_flight: int, group_count: int) -> Figures:
    cluster = bench.cluster
    topic = topic_name("commits")
    create_topic(cluster.bootstrap, topic, 1)
    lines = []
    for number in range(group_count):
        group = f"{topic}-{number}"
        with WireClient(cluster.bootstrap.partition(",")[0]) as client:
            node = client.coordinator(group)
        lines.append(Lines((node.host, node.port), [commit_frame(group, topic, 0)]))
    answered = send_requests(
        bench,
        lines,
        connections=connections,
        in_flight=in_flight,
        error_at=entry_error_at(topic),
    )
    delete_topic(cluster.bootstrap, topic)
    return {
        "commits/s": answered.rate,
        "broker CPU us/commit": answered.broker_us,
        "p99 ms": answered.p99_ms,
    }


def _load(name: str, connections: int, in_flight: int, group_count: int) -> Load:
    return Load(
        name=name,
        family="groups",
        figures=(
            Figure("commits/s", more_is_better=True),
            Figure("broker CPU us/commit"),
            Figure("p99 ms"),
        ),
        run=lambda bench: commit(bench, connections, in_flight, group_count),
    )


LOADS = [
    _load("offset-commits", 8, 1, 8),
    _load("offset-commits-16x4", 16, 4, 16),
    _load("offset-commits-one-group", 8, 1, 1),
    _load("offset-commits-one-group-16x4", 16, 4, 1),
]
