"""`pybroker groups list|describe|configs|reset|delete|delete-offsets|remove-members`.

Mirrors: kafka-consumer-groups.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..client.admin.rows import group_rows, lag_rows, member_rows, place_text, share_rows
from .completion import complete_groups, complete_topics
from .configs import alter_resources, alterations_of, config_row, is_own
from .group_resets import LikeGroup, ResetPlan, parse_reset
from .options import UserError, echo
from .places import find_places
from .target import Row, Target, cluster_options

if TYPE_CHECKING:
    from ..client.admin.admin import Admin
    from ..client.admin.config_types import ConfigEntry, ConfigResource
    from ..client.admin.group_offsets import CommittedOffset
    from ..client.admin.groups import GroupDescription
    from ..client.admin.results import Results
    from ..protocol.topics import TopicPartition

MEMBERLESS = ("Empty", "Dead", "")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def groups() -> None:
    """Consumer groups: list, describe, reset their offsets, delete them.

    \b
    pybroker groups list
    pybroker groups describe dashboards
    pybroker groups configs dashboards --set consumer.session.timeout.ms=60000
    pybroker groups reset dashboards --topic flights --to earliest --dry-run
    pybroker groups reset dashboards --topic flights:0 --to 42
    pybroker groups delete dashboards
    """


@groups.command("list")
@click.option(
    "--state", "states", multiple=True, help="Only groups in this state, for example Empty."
)
@click.option(
    "--type",
    "types",
    multiple=True,
    help="Only groups of this type: classic, consumer, share or streams.",
)
@cluster_options
def list_command(target: Target, states: tuple[str, ...], types: tuple[str, ...]) -> None:
    """Show all groups, with their types, states and coordinators."""
    found = target.ask(lambda admin: admin.groups.list(states, types))
    target.show_found(group_rows(found), found.errors, "there are no groups")


@groups.command()
@click.argument("names", nargs=-1, metavar="GROUP...", shell_complete=complete_groups)
@click.option("--all", "everything", is_flag=True, help="Describe all groups.")
@click.option("--members", is_flag=True, help="Show the members and their assigned partitions.")
@cluster_options
def describe(target: Target, names: tuple[str, ...], everything: bool, members: bool) -> None:
    """Show the committed offsets, the lag and the members of groups.

    The lag is the number of offsets between the committed offset and the end of the partition. Of a
    share group: the offset before which all is done, and the number of records that are not.
    """

    if everything == bool(names):
        raise UserError("name the groups, or give --all; see: pybroker groups list")

    async def work(admin: Admin) -> tuple[list[Row], dict[str, str]]:
        groups_ = admin.groups
        wanted = list(names)
        if everything:
            listed = (await groups_.list()).all()
            wanted = sorted(one.group_id for some in listed.values() for one in some)
        described = (await groups_.describe(wanted)).all()
        rows: list[Row] = []
        for name in wanted:
            group = described[name]
            if group.is_share_group:
                rows += member_rows(group) if members else await _share_rows(admin, name)
                continue
            committed = await _committed(admin, name)
            if not group.is_there and not committed:
                raise UserError(f"there is no group {name!r}; see: pybroker groups list")
            rows += member_rows(group) if members else await _lag_rows(admin, group, committed)
        return rows, {name: _state_of(described[name]) for name in wanted}

    rows, states = target.ask(work)
    if not target.as_json:
        for name, state in states.items():
            echo(f"{name}: {state or 'unknown state'}")
    nothing = "no members" if members else "no offsets"
    target.show(rows, nothing)


@groups.command()
@click.argument("names", nargs=-1, metavar="GROUP...", shell_complete=complete_groups)
@click.option("--set", "set_", multiple=True, metavar="KEY=VALUE", help="Set a config.")
@click.option("--delete", "deleted", multiple=True, metavar="KEY", help="Reset it to its default.")
@click.option("--all", "everything", is_flag=True, help="Include configs with default values.")
@click.option("--dry-run", is_flag=True, help="Only check whether the brokers would accept it.")
@cluster_options
def configs(
    target: Target,
    names: tuple[str, ...],
    set_: tuple[str, ...],
    deleted: tuple[str, ...],
    everything: bool,
    dry_run: bool,
) -> None:
    """Show the configs of groups, or change them, whether the groups exist or not.

    Without a name: those of each group that has some. They are for groups of the consumer protocol,
    share groups and streams groups.
    """
    from ..client.admin.config_types import ConfigResource, ResourceKind

    if not set_ and not deleted:
        found = target.ask(lambda admin: _configs_of(admin, names))
        rows = [
            config_row(resource, entry)
            for resource, entries in found.values.items()
            for entry in entries
            if everything or is_own(resource, entry)
        ]
        target.show_found(rows, found.errors, "nothing is set; see the defaults with --all")
        return
    if not names:
        raise UserError("name the groups whose configs to change")
    resources = [ConfigResource(ResourceKind.GROUP, name) for name in names]
    alter_resources(target, resources, alterations_of(set_, deleted), dry_run=dry_run)


async def _configs_of(
    admin: Admin, names: Sequence[str]
) -> Results[ConfigResource, tuple[ConfigEntry, ...]]:
    from ..client.admin.config_types import ConfigResource, ResourceKind

    kind = ResourceKind.GROUP
    wanted = [ConfigResource(kind, name) for name in names] or await admin.configs.list(kind)
    return await admin.configs.describe(wanted, synonyms=True)


def _state_of(group: GroupDescription) -> str:
    """The state, and for a group that has epochs how far it is: a classic group has none."""
    if group.epoch < 0:
        return group.state
    behind = "" if group.target_epoch == group.epoch else f", target of epoch {group.target_epoch}"
    return f"{group.state} in epoch {group.epoch}{behind}"


async def _committed(
    admin: Admin, group: str, places: list[TopicPartition] | None = None
) -> dict[TopicPartition, CommittedOffset]:

    return (await admin.group_offsets.list(group, places)).all()


async def _share_rows(admin: Admin, group: str) -> list[Row]:
    return [*share_rows(group, (await admin.share_groups.offsets(group)).all())]


async def _lag_rows(
    admin: Admin, group: GroupDescription, committed: dict[TopicPartition, CommittedOffset]
) -> list[Row]:
    from ..client.admin.records import LATEST, all_at

    assigned = {place for member in group.members for place in member.assignment}
    places = sorted(committed.keys() | assigned)
    ends = await admin.records.offsets(all_at(places, LATEST), wait=False)
    return [row for _, row in lag_rows(group, committed, ends.values)]


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
    from ..client.admin.resets import Reset, new_offsets

    if isinstance(wish, Reset) and bool(places) == all_topics:
        raise UserError(
            "name the partitions, with --topic TOPIC or TOPIC:0,1; or give --all-topics"
        )

    async def work(admin: Admin) -> ResetPlan:
        if not (dry_run or export):
            await _check_memberless(admin, name)
        before = await _committed(admin, name)
        plan = wish
        if isinstance(plan, LikeGroup):
            plan = await _offsets_of(admin, plan.name, places)
        if isinstance(plan, dict):
            await find_places(admin, [f"{topic}:{number}" for topic, number in plan])
            wanted = sorted(plan)
        else:
            wanted = sorted(before) if all_topics else await find_places(admin, places)
        new = await new_offsets(admin.records, plan, wanted, before, now_ms=int(time.time() * 1000))
        if not (dry_run or export) and new:
            await _commit(admin, name, new)
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


async def _offsets_of(admin: Admin, group: str, places: Sequence[str]) -> dict[TopicPartition, int]:
    """The committed offsets of another group, only of `places` if given. Raises UserError."""
    found = {place: one.offset for place, one in (await _committed(admin, group)).items()}
    if places:
        wanted = set(await find_places(admin, places))
        found = {place: offset for place, offset in found.items() if place in wanted}
    if not found:
        raise UserError(f"group {group!r} has no offsets there")
    return found


async def _check_memberless(admin: Admin, name: str) -> None:
    group = (await admin.groups.describe([name]))[name]
    if group.state not in MEMBERLESS:
        count = len(group.members)
        raise UserError(
            f"group {name!r} is in use ({group.state}, {count} member{'s' if count != 1 else ''}): "
            "stop its consumers first, or look with --dry-run"
        )


async def _commit(admin: Admin, name: str, new: dict[TopicPartition, int]) -> None:
    from ..client.admin.group_offsets import CommittedOffset

    offsets = {place: CommittedOffset(offset) for place, offset in new.items()}
    (await admin.group_offsets.alter(name, offsets)).all()


@groups.command()
@click.argument(
    "names", nargs=-1, required=True, metavar="GROUP...", shell_complete=complete_groups
)
@cluster_options
def delete(target: Target, names: tuple[str, ...]) -> None:
    """Delete groups without members, and their offsets."""
    found = target.ask(lambda admin: admin.groups.delete(names))
    target.show_found([{"group": name, "deleted": True} for name in found.values], found.errors)


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

    async def work(admin: Admin) -> Results[TopicPartition, None]:
        wanted = await find_places(admin, places)
        return await admin.group_offsets.delete(name, wanted)

    found = target.ask(work)
    target.show_found(
        [
            {"group": name, "partition": place_text(place), "deleted": True}
            for place in sorted(found.values)
        ],
        found.errors,
    )


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

    async def work(admin: Admin) -> Results[str, None]:
        groups_ = admin.groups
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
    target.show_found(
        [{"group": name, "member": one, "removed": True} for one in found.values], found.errors
    )
