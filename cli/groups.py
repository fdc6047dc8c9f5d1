"""`pybroker groups list|describe|reset|delete|delete-offsets|remove-members`.

Mirrors: kafka-consumer-groups.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .completion import complete_groups, complete_topics
from .group_resets import LikeGroup, Reset, ResetPlan, parse_reset
from .options import UserError, echo
from .places import find_places, place_text
from .target import Row, Target, cluster_options, end_with_errors

if TYPE_CHECKING:
    from ..client.admin.group_offsets import CommittedOffset
    from ..client.admin.groups import GroupDescription, ListedGroup
    from ..client.admin.records import OffsetFound
    from ..client.admin.results import Results
    from ..client.cluster import Cluster
    from ..protocol.topics import TopicPartition

MEMBERLESS = ("Empty", "Dead", "")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def groups() -> None:
    """Consumer groups: list, describe, reset their offsets, delete them.

    \b
    pybroker groups list
    pybroker groups describe dashboards
    pybroker groups reset dashboards --topic flights --to earliest --dry-run
    pybroker groups reset dashboards --topic flights:0 --to 42
    pybroker groups delete dashboards
    """


@groups.command("list")
@click.option(
    "--state", "states", multiple=True, help="Only groups in this state, for example Empty."
)
@cluster_options
def list_command(target: Target, states: tuple[str, ...]) -> None:
    """Show all groups, with their states and coordinators."""
    from ..client.admin.groups import Groups

    async def work(cluster: Cluster) -> Results[int, tuple[ListedGroup, ...]]:
        return await Groups(cluster).list(states)

    found = target.ask(work)
    listed = sorted(
        (group for some in found.values.values() for group in some), key=lambda one: one.group_id
    )
    rows: list[Row] = [
        {
            "group": one.group_id,
            "state": one.state,
            "protocol": one.protocol_type,
            "coordinator": one.coordinator,
        }
        for one in listed
    ]
    target.show_found(rows, found.errors, "there are no groups")


@groups.command()
@click.argument("names", nargs=-1, metavar="GROUP...", shell_complete=complete_groups)
@click.option("--all", "everything", is_flag=True, help="Describe all groups.")
@click.option("--members", is_flag=True, help="Show the members and their assigned partitions.")
@cluster_options
def describe(target: Target, names: tuple[str, ...], everything: bool, members: bool) -> None:
    """Show the committed offsets, the lag and the members of groups.

    The lag is the number of offsets between the committed offset and the end of the partition.
    """
    from ..client.admin.groups import Groups

    if everything == bool(names):
        raise UserError("name the groups, or give --all; see: pybroker groups list")

    async def work(cluster: Cluster) -> tuple[list[Row], dict[str, str]]:
        groups_ = Groups(cluster)
        wanted = list(names)
        if everything:
            listed = (await groups_.list()).all()
            wanted = sorted(one.group_id for some in listed.values() for one in some)
        described = (await groups_.describe(wanted)).all()
        rows: list[Row] = []
        for name in wanted:
            group = described[name]
            committed = await _committed(cluster, name)
            if not group.is_there and not committed:
                raise UserError(f"there is no group {name!r}; see: pybroker groups list")
            rows += _member_rows(group) if members else await _lag_rows(cluster, group, committed)
        return rows, {name: described[name].state for name in wanted}

    rows, states = target.ask(work)
    if not target.as_json:
        for name, state in states.items():
            echo(f"{name}: {state or 'unknown state'}")
    nothing = "no members" if members else "no offsets"
    target.show(rows, nothing)


async def _committed(
    cluster: Cluster, group: str, places: list[TopicPartition] | None = None
) -> dict[TopicPartition, CommittedOffset]:
    from ..client.admin.group_offsets import GroupOffsets

    return (await GroupOffsets(cluster).list(group, places)).all()


async def _ends(
    cluster: Cluster, wanted: dict[TopicPartition, int]
) -> Results[TopicPartition, OffsetFound]:
    """The end offsets; those of partitions without a leader are unknown, and missing."""
    from ..client.admin.records import Records

    return await Records(cluster).offsets(wanted, wait=False)


async def _lag_rows(
    cluster: Cluster, group: GroupDescription, committed: dict[TopicPartition, CommittedOffset]
) -> list[Row]:
    from ..client.admin.records import LATEST, all_at

    owners = {place: member for member in group.members for place in member.assignment}
    places = sorted(committed.keys() | owners.keys())
    ends = (await _ends(cluster, all_at(places, LATEST))).values
    rows: list[Row] = []
    for place in places:
        offset = committed[place].offset if place in committed else None
        end = ends[place].offset if place in ends else None
        owner = owners.get(place)
        rows.append(
            {
                "group": group.group_id,
                "partition": place_text(place),
                "offset": offset,
                "end": end,
                "lag": None if end is None or offset is None else end - offset,
                "client": owner.client_id if owner else None,
                "host": owner.host if owner else None,
            }
        )
    return rows


def _member_rows(group: GroupDescription) -> list[Row]:
    return [
        {
            "group": group.group_id,
            "member": one.member_id,
            "instance": one.instance_id,
            "client": one.client_id,
            "host": one.host,
            "partitions": [place_text(place) for place in one.assignment],
        }
        for one in group.members
    ]


@groups.command(
    epilog="""\b
Where to, with --to:
  earliest, latest     the first record, the end of the partition
  42                   this offset, or the nearest that exists
  +10, -10             so many offsets after or before the committed one
  @1700000000000       the first record at or after this time (ms since 1970)
  @2026-11-23T04:00    the same, as local time
  -1h30m, -PT1H30M     the first record of the last 1 h 30 min, as @-1h30m
  current              the committed offset, for example to --export it
"""
)
@click.argument("name", metavar="GROUP", shell_complete=complete_groups)
@click.option(
    "--topic",
    "places",
    multiple=True,
    metavar="TOPIC[:PARTITIONS]",
    help="Partitions to reset; may be repeated.",
    shell_complete=complete_topics,
)
@click.option(
    "--all-topics", is_flag=True, help="Reset all partitions that have a committed offset."
)
@click.option("--to", "where", metavar="WHERE", help="New position; see below.")
@click.option(
    "--from-file",
    "file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Read offsets from a file with lines TOPIC,PARTITION,OFFSET.",
)
@click.option(
    "--to-group",
    "other",
    metavar="GROUP",
    help="Copy the committed offsets of this group.",
    shell_complete=complete_groups,
)
@click.option("--dry-run", is_flag=True, help="Only show the new offsets.")
@click.option(
    "--export",
    is_flag=True,
    help="Print the new offsets as lines for --from-file, without a change.",
)
@cluster_options
def reset(
    target: Target,
    name: str,
    places: tuple[str, ...],
    all_topics: bool,
    where: str | None,
    file: Path | None,
    other: str | None,
    dry_run: bool,
    export: bool,
) -> None:
    """Change the committed offsets of GROUP; the group must have no members."""
    wish = parse_reset(where, file, other)
    if isinstance(wish, Reset) and bool(places) == all_topics:
        raise UserError(
            "name the partitions, with --topic TOPIC or TOPIC:0,1; or give --all-topics"
        )

    async def work(cluster: Cluster) -> ResetPlan:
        if not (dry_run or export):
            await _check_memberless(cluster, name)
        before = await _committed(cluster, name)
        plan = wish
        if isinstance(plan, LikeGroup):
            plan = await _offsets_of(cluster, plan.name, places)
        if isinstance(plan, dict):
            await find_places(cluster, [f"{topic}:{number}" for topic, number in plan])
            wanted = sorted(plan)
        else:
            wanted = sorted(before) if all_topics else await find_places(cluster, places)
        new = await _new_offsets(cluster, plan, wanted, before)
        if not (dry_run or export) and new:
            await _commit(cluster, name, new)
        return ResetPlan(before, new)

    done = target.ask(work)
    if export:
        for (topic, number), offset in sorted(done.after.items()):
            echo(f"{topic},{number},{offset}")
        return
    rows: list[Row] = [
        {
            "group": name,
            "partition": place_text(place),
            "was": done.before[place].offset if place in done.before else None,
            "offset": offset,
            "done": not dry_run,
        }
        for place, offset in sorted(done.after.items())
    ]
    target.show(rows, "the group has no offsets")


async def _offsets_of(
    cluster: Cluster, group: str, places: Sequence[str]
) -> dict[TopicPartition, int]:
    """The committed offsets of another group, only of `places` if given. Raises UserError."""
    found = {place: one.offset for place, one in (await _committed(cluster, group)).items()}
    if places:
        wanted = set(await find_places(cluster, places))
        found = {place: offset for place, offset in found.items() if place in wanted}
    if not found:
        raise UserError(f"group {group!r} has no offsets there")
    return found


async def _check_memberless(cluster: Cluster, name: str) -> None:
    from ..client.admin.groups import Groups

    group = (await Groups(cluster).describe([name]))[name]
    if group.state not in MEMBERLESS:
        count = len(group.members)
        raise UserError(
            f"group {name!r} is in use ({group.state}, {count} member{'s' if count != 1 else ''}): "
            "stop its consumers first, or look with --dry-run"
        )


async def _new_offsets(
    cluster: Cluster,
    plan: Reset | dict[TopicPartition, int],
    places: list[TopicPartition],
    before: dict[TopicPartition, CommittedOffset],
) -> dict[TopicPartition, int]:
    """The new offsets, within the logs. Raises ClientError if a partition cannot be asked."""
    from ..client.admin.records import EARLIEST, LATEST, Records, all_at

    records = Records(cluster)
    first = (await records.offsets(all_at(places, EARLIEST))).all()
    end = (await records.offsets(all_at(places, LATEST))).all()
    at: dict[TopicPartition, int] = {}
    if not isinstance(plan, dict):
        timestamp = plan.timestamp(int(time.time() * 1000))
        if timestamp is not None:
            found = (await records.offsets(all_at(places, timestamp))).all()
            at = {place: one.offset for place, one in found.items()}
    new = {}
    for place in places:
        low, high = first[place].offset, end[place].offset
        now = before[place].offset if place in before else None
        if isinstance(plan, dict):
            wanted: int | None = plan[place]
        else:
            wanted = plan.offset(low, high, now, at.get(place))
        if wanted is not None:
            new[place] = min(max(wanted, low), high)
    return new


async def _commit(cluster: Cluster, name: str, new: dict[TopicPartition, int]) -> None:
    from ..client.admin.group_offsets import CommittedOffset, GroupOffsets

    offsets = {place: CommittedOffset(offset) for place, offset in new.items()}
    (await GroupOffsets(cluster).alter(name, offsets)).all()


@groups.command()
@click.argument(
    "names", nargs=-1, required=True, metavar="GROUP...", shell_complete=complete_groups
)
@cluster_options
def delete(target: Target, names: tuple[str, ...]) -> None:
    """Delete groups without members, and their offsets."""
    from ..client.admin.groups import Groups

    found = target.ask(lambda cluster: Groups(cluster).delete(names))
    target.show([{"group": name, "deleted": True} for name in found.values])
    end_with_errors(found.errors)


@groups.command("delete-offsets")
@click.argument("name", metavar="GROUP", shell_complete=complete_groups)
@click.option(
    "--topic",
    "places",
    multiple=True,
    required=True,
    metavar="TOPIC[:PARTITIONS]",
    help="Partitions to delete the offsets of; may be repeated.",
    shell_complete=complete_topics,
)
@cluster_options
def delete_offsets(target: Target, name: str, places: tuple[str, ...]) -> None:
    """Delete the committed offsets of GROUP for topics that no member subscribes to."""
    from ..client.admin.group_offsets import GroupOffsets

    async def work(cluster: Cluster) -> Results[TopicPartition, None]:
        wanted = await find_places(cluster, places)
        return await GroupOffsets(cluster).delete(name, wanted)

    found = target.ask(work)
    target.show(
        [
            {"group": name, "partition": place_text(place), "deleted": True}
            for place in sorted(found.values)
        ]
    )
    end_with_errors(found.errors)


@groups.command("remove-members")
@click.argument("name", metavar="GROUP", shell_complete=complete_groups)
@click.option(
    "--member",
    "ids",
    multiple=True,
    metavar="ID",
    help="Member or instance id to remove; may be repeated. Default: all members.",
)
@click.option("--reason", default="", metavar="TEXT", help="Reason for the coordinator to log.")
@cluster_options
def remove_members(target: Target, name: str, ids: tuple[str, ...], reason: str) -> None:
    """Remove members from GROUP by member or instance id; running clients rejoin."""
    from ..client.admin.groups import Groups

    async def work(cluster: Cluster) -> Results[str, None]:
        groups_ = Groups(cluster)
        there = (await groups_.describe([name]))[name].members
        chosen = {
            one.member_id: one.instance_id
            for one in there
            if not ids or one.member_id in ids or one.instance_id in ids
        }
        if not chosen:
            raise UserError(f"group {name!r} has no such members; see: pybroker groups describe")
        return await groups_.remove_members(name, chosen, reason)

    found = target.ask(work)
    target.show([{"group": name, "member": one, "removed": True} for one in found.values])
    end_with_errors(found.errors)
