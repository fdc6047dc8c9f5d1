"""The data for the pages about groups, and resets of their offsets."""

from __future__ import annotations

import contextlib
from typing import Any, Final

import trio

from ..client.admin.group_offsets import CommittedOffset
from ..client.admin.groups import GroupMember
from ..client.admin.records import EARLIEST, LATEST
from ..client.errors import ClientError
from ..protocol.topics import TopicPartition
from .asked import Wrong, number, text
from .collector import Collector

LIST_SECONDS: Final = 2.0
DETAILS_SECONDS: Final = 1.0
LAGS_SECONDS: Final = 5.0
GROUPS_MAX: Final = 500
LAGGING_MAX: Final = 200
ASKED_AT_ONCE: Final = 8


async def group_list(collector: Collector) -> list[dict[str, Any]]:
    """A row a group. Raises ClientError."""

    async def ask() -> list[dict[str, Any]]:
        found = await collector.admin.groups.list()
        rows = [
            {
                "group": one.group_id,
                "state": one.state,
                "kind": one.protocol_type,
                "coordinator": one.coordinator,
            }
            for groups in found.values.values()
            for one in groups
        ]
        return sorted(rows, key=lambda row: str(row["group"]))[:GROUPS_MAX]

    rows: list[dict[str, Any]] = await collector.shared.get("groups", LIST_SECONDS, ask)
    return rows


async def group_details(collector: Collector, name: str) -> dict[str, Any]:
    """Its members, with committed offset and lag for each partition. Raises ClientError."""

    async def ask() -> dict[str, Any]:
        one = (await collector.admin.groups.describe([name]))[name]
        owners = {place: member for member in one.members for place in member.assignment}
        committed = (await collector.admin.group_offsets.list(name)).values
        places = sorted({*committed, *owners})
        ends = await _ends(collector, places, LATEST)
        return {
            "group": name,
            "state": one.state,
            "assignor": one.assignor,
            "members": [
                {
                    "id": member.member_id,
                    "instance": member.instance_id,
                    "client": member.client_id,
                    "host": member.host,
                    "partitions": [f"{topic}-{index}" for topic, index in member.assignment],
                }
                for member in one.members
            ],
            "partitions": [
                _place_row(place, committed.get(place), ends.get(place), owners.get(place))
                for place in places
            ],
        }

    found: dict[str, Any] = await collector.shared.get(f"group {name}", DETAILS_SECONDS, ask)
    return found


async def topic_lags(collector: Collector, topic: str) -> list[dict[str, Any]]:
    """A row a group that has committed offsets of the topic: its lag by partition, largest first.

    At most LAGGING_MAX groups are asked; groups that do not answer are left out.
    Raises ClientError.
    """

    async def ask() -> dict[str, tuple[str, dict[TopicPartition, int]]]:
        states = {str(row["group"]): str(row["state"]) for row in await group_list(collector)}
        found: dict[str, tuple[str, dict[TopicPartition, int]]] = {}
        limit = trio.CapacityLimiter(ASKED_AT_ONCE)

        async def ask_one(name: str) -> None:
            with contextlib.suppress(ClientError):
                async with limit:
                    committed = (await collector.admin.group_offsets.list(name)).values
                found[name] = (states[name], {p: one.offset for p, one in committed.items()})

        async with trio.open_nursery() as nursery:
            for name in list(states)[:LAGGING_MAX]:
                nursery.start_soon(ask_one, name)
        return found

    committed = await collector.shared.get("committed", LAGS_SECONDS, ask)
    places = [(topic, index) for index in range(len(await collector.partitions(topic)))]
    ends = await collector.shared.get(
        f"ends {topic}", DETAILS_SECONDS, lambda: _ends(collector, places, LATEST)
    )
    rows = []
    for group, (state, offsets) in committed.items():
        lags = {p[1]: max(ends[p] - offsets[p], 0) for p in places if p in offsets and p in ends}
        if lags:
            row = {"group": group, "state": state, "lag": sum(lags.values()), "lags": lags}
            rows.append(row)
    return sorted(rows, key=lambda row: (-row["lag"], row["group"]))


def _place_row(
    place: TopicPartition,
    committed: CommittedOffset | None,
    end: int | None,
    owner: GroupMember | None,
) -> dict[str, Any]:
    offset = None if committed is None else committed.offset
    return {
        "topic": place[0],
        "partition": place[1],
        "committed": offset,
        "end": end,
        "lag": None if offset is None or end is None else max(end - offset, 0),
        "member": None if owner is None else owner.client_id,
    }


async def _ends(
    collector: Collector, places: list[TopicPartition], at: int
) -> dict[TopicPartition, int]:
    there = [p for p in places if p[1] < len(collector.view.topics.get(p[0], ()))]
    found = await collector.admin.records.offsets(dict.fromkeys(there, at), wait=False)
    return {place: one.offset for place, one in found.values.items()}


async def order_group(collector: Collector, asked: dict[str, Any]) -> dict[str, Any]:
    """`{"do": reset | delete, "group": ...}`. Raises Wrong, ClientError.

    A reset has `topic` (none: all with offsets of the group), `to`: earliest, latest, offset or
    time with `at`; it is only shown unless `execute` is true.
    """
    name, what = text(asked, "group"), text(asked, "do")
    if what == "delete":
        (await collector.admin.groups.delete([name])).all()
        return {"done": f"deleted group {name}"}
    if what != "reset":
        raise Wrong(f"{what!r} is no command for a group")
    before = (await collector.admin.group_offsets.list(name)).values
    topic = text(asked, "topic", "")
    places = [place for place in before if not topic or place[0] == topic]
    if topic:
        places = [(topic, index) for index in range(len(await collector.partitions(topic)))]
    after = await _reset(collector, asked, places)
    rows = [
        {
            "topic": place[0],
            "partition": place[1],
            "before": before[place].offset if place in before else None,
            "after": offset,
        }
        for place, offset in sorted(after.items())
    ]
    if asked.get("execute") is not True:
        return {"plan": rows}
    changes = {place: CommittedOffset(offset) for place, offset in after.items()}
    (await collector.admin.group_offsets.alter(name, changes)).all()
    return {"plan": rows, "done": f"group {name} continues at these {len(rows)} offsets"}


async def _reset(
    collector: Collector, asked: dict[str, Any], places: list[TopicPartition]
) -> dict[TopicPartition, int]:
    """The new offsets, within the logs."""
    to = text(asked, "to")
    begins = await _ends(collector, places, EARLIEST)
    ends = await _ends(collector, places, LATEST)
    if to == "earliest":
        return begins
    if to == "latest":
        return ends
    if to == "offset":
        at = number(asked, "at")
        return {place: min(max(at, begins.get(place, 0)), ends[place]) for place in ends}
    if to == "time":
        found = await _ends(collector, places, number(asked, "at"))
        return {place: offset if offset >= 0 else ends[place] for place, offset in found.items()}
    raise Wrong("name the new position of the group: earliest, latest, offset or time")
