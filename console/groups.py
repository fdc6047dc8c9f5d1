"""The data for the pages about groups, and resets of their offsets."""

from __future__ import annotations

import contextlib
from typing import Any, Final

import trio

from ..client.admin.group_offsets import CommittedOffset
from ..client.admin.records import LATEST, OffsetFound, all_at
from ..client.admin.resets import Reset, new_offsets
from ..client.admin.rows import group_rows, lag_rows, member_rows
from ..client.errors import ClientError
from ..protocol.topics import TopicPartition
from .asked import Wrong, number, text
from .collector import Collector, now_ms

LIST_SECONDS: Final = 2.0
DETAILS_SECONDS: Final = 1.0
LAGS_SECONDS: Final = 5.0
GROUPS_MAX: Final = 500
LAGGING_MAX: Final = 200
ASKED_AT_ONCE: Final = 8


async def group_list(collector: Collector) -> list[dict[str, Any]]:
    """A row a group. Raises ClientError."""

    async def ask() -> list[dict[str, Any]]:
        return group_rows(await collector.admin.groups.list())[:GROUPS_MAX]

    return await collector.shared.get("groups", LIST_SECONDS, ask)


async def group_details(collector: Collector, name: str) -> dict[str, Any]:
    """Its members, with committed offset and lag for each partition. Raises ClientError."""

    async def ask() -> dict[str, Any]:
        one = (await collector.admin.groups.describe([name]))[name]
        committed = (await collector.admin.group_offsets.list(name)).values
        assigned = {place for member in one.members for place in member.assignment}
        ends = await _ends(collector, sorted(committed.keys() | assigned))
        return {
            "group": name,
            "state": one.state,
            "assignor": one.assignor,
            "epoch": one.epoch,
            "target_epoch": one.target_epoch,
            "type": "consumer" if one.is_consumer_group else "",
            "members": member_rows(one),
            "partitions": [
                {**row, "topic": place[0], "partition": place[1]}
                for place, row in lag_rows(one, committed, ends)
            ],
        }

    return await collector.shared.get(f"group {name}", DETAILS_SECONDS, ask)


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
        f"ends {topic}", DETAILS_SECONDS, lambda: _ends(collector, places)
    )
    rows = []
    for group, (state, offsets) in committed.items():
        lags = {
            p[1]: max(ends[p].offset - offsets[p], 0) for p in places if p in offsets and p in ends
        }
        if lags:
            row = {"group": group, "state": state, "lag": sum(lags.values()), "lags": lags}
            rows.append(row)
    return sorted(rows, key=lambda row: (-row["lag"], row["group"]))


async def _ends(
    collector: Collector, places: list[TopicPartition]
) -> dict[TopicPartition, OffsetFound]:
    """The ends of the partitions that are there and have a leader."""
    there = [p for p in places if p[1] < len(collector.view.topics.get(p[0], ()))]
    return (await collector.admin.records.offsets(all_at(there, LATEST), wait=False)).values


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
    after = await new_offsets(
        collector.admin.records, _target(asked), places, before, now_ms=now_ms(), wait=False
    )
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


def _target(asked: dict[str, Any]) -> Reset:
    """Raises Wrong."""
    to = text(asked, "to")
    if to in ("earliest", "latest"):
        return Reset(word=to)
    if to == "offset":
        return Reset(absolute=number(asked, "at"))
    if to == "time":
        return Reset(at_ms=number(asked, "at"))
    raise Wrong("name the new position of the group: earliest, latest, offset or time")
