"""What the members of groups ask again and again: heartbeats, and where their group stands.

Eight groups with a connection each and one request under way, as `offset-commits` has it. A
heartbeat is of the only member of a stable group; an OffsetFetch asks for one partition of which
the group has committed an offset.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing

from benchmarks.frames import (
    Address,
    commit_frame,
    create_topic,
    delete_topic,
    entry_error_at,
    fetched_offset_error_at,
    heartbeat_error_at,
    heartbeat_frame,
    offset_fetch_frame,
    topic_name,
)
from benchmarks.loads.base import Bench, Figures, Load
from benchmarks.loads.groups import Group
from benchmarks.loads.requests import FIGURES, figures_of, send_requests
from benchmarks.native import Lines, run_load
from tests.support.wire import WireClient

GROUPS = 8
COMMIT_SECONDS = 0.2


def _coordinator(bench: Bench, group: str) -> Address:
    with WireClient(bench.cluster.bootstrap.partition(",")[0]) as client:
        node = client.coordinator(group)
    return node.host, node.port


def heartbeats(bench: Bench) -> Figures:
    with ExitStack() as stack:
        lines = []
        for _ in range(GROUPS):
            group = stack.enter_context(closing(Group(bench)))
            member = group.connect()
            member.join()
            group.settle()
            frame = heartbeat_frame(group.name, member.id.decode(), member.generation)
            lines.append(Lines(group.address, [frame]))
        answered = send_requests(
            bench, lines, connections=GROUPS, in_flight=1, error_at=heartbeat_error_at()
        )
    return figures_of(answered)


def offset_fetches(bench: Bench) -> Figures:
    topic = topic_name("stands")
    create_topic(bench.cluster.bootstrap, topic, 1)
    commits, fetches = [], []
    for number in range(GROUPS):
        group = f"{topic}-{number}"
        address = _coordinator(bench, group)
        commits.append(Lines(address, [commit_frame(group, topic, 0)]))
        fetches.append(Lines(address, [offset_fetch_frame(group, topic, 0)]))
    run_load(
        commits, connections=GROUPS, in_flight=1, warm_up=0, seconds=COMMIT_SECONDS,
        error_at=entry_error_at(topic), pids=[],
    )  # fmt: skip
    answered = send_requests(
        bench, fetches, connections=GROUPS, in_flight=1, error_at=fetched_offset_error_at(topic)
    )
    delete_topic(bench.cluster.bootstrap, topic)
    return figures_of(answered)


def _load(name: str, run: Callable[[Bench], Figures]) -> Load:
    return Load(name=name, family="groups", figures=FIGURES, run=run)


LOADS = [_load("heartbeats", heartbeats), _load("offset-fetches", offset_fetches)]
