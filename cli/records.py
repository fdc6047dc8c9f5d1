"""`pybroker records delete`: the oldest records of partitions.

Mirrors: kafka-delete-records and kafka-get-offsets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ..client.admin.rows import place_text
from .completion import optional_places, places_argument
from .group_resets import parse_time
from .options import UserError
from .places import find_places
from .target import Row, Target, cluster_options

if TYPE_CHECKING:
    from ..client.admin.admin import Admin
    from ..client.admin.records import OffsetFound
    from ..client.admin.results import Results
    from ..protocol.topics import TopicPartition


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def records() -> None:
    """Records in their partitions: where they are, and deleting the oldest.

    \b
    pybroker records offsets flights
    pybroker records offsets flights --at @2026-11-23T04:00
    pybroker records delete flights:0 --before 100
    pybroker records delete flights --all
    """


@records.command()
@places_argument
@click.option(
    "--before",
    type=click.IntRange(0),
    metavar="OFFSET",
    help="Delete the records below this offset.",
)
@click.option(
    "--before-time",
    metavar="@TIME",
    help="Delete the records before the first one at or after this time.",
)
@click.option("--all", "everything", is_flag=True, help="Delete all present records.")
@click.option("--dry-run", is_flag=True, help="Only show the first offset that would remain.")
@cluster_options
def delete(
    target: Target,
    places: tuple[str, ...],
    before: int | None,
    before_time: str | None,
    everything: bool,
    dry_run: bool,
) -> None:
    """Delete the oldest records of partitions, permanently and for all consumers."""
    from ..client.admin.records import HIGH_WATERMARK, LATEST, all_at
    from ..client.admin.results import Results

    if (before is not None) + (before_time is not None) + everything != 1:
        raise UserError("say up to where: --before OFFSET, --before-time @TIME, or --all")

    async def work(admin: Admin) -> Results[TopicPartition, int]:
        wanted = await find_places(admin, places)
        api = admin.records
        offsets = dict.fromkeys(wanted, HIGH_WATERMARK if before is None else before)
        if before_time is not None:
            time_ms = parse_time(before_time.removeprefix("@"))
            found = (await api.offsets(all_at(wanted, time_ms))).all()
            offsets = {place: one.offset for place, one in found.items()}
        if dry_run:
            ends = (await api.offsets(all_at(wanted, LATEST))).all()
            return Results(
                {p: ends[p].offset if o == HIGH_WATERMARK else o for p, o in offsets.items()}
            )
        return await api.delete_before(offsets)

    found = target.ask(work)
    rows: list[Row] = [
        {"partition": place_text(place), "first_left": offset, "done": not dry_run}
        for place, offset in sorted(found.values.items())
    ]
    target.show_found(rows, found.errors)


@records.command()
@optional_places
@click.option(
    "--at", "time", metavar="@TIME", help="Also show the first offset at or after this time."
)
@click.option(
    "--read-committed",
    is_flag=True,
    help="Show the last stable offset (before open transactions) as the end.",
)
@cluster_options
def offsets(
    target: Target, places: tuple[str, ...], time: str | None, read_committed: bool
) -> None:
    """Show the first offset, the end offset and the newest timestamp of partitions."""
    from ..client.admin.records import EARLIEST, LATEST, NEWEST, all_at

    async def work(admin: Admin) -> dict[str, Results[TopicPartition, OffsetFound]]:
        wanted = await find_places(admin, places)
        api = admin.records
        found = {
            "first": await api.offsets(all_at(wanted, EARLIEST), wait=False),
            "end": await api.offsets(
                all_at(wanted, LATEST), read_committed=read_committed, wait=False
            ),
            "newest": await api.offsets(all_at(wanted, NEWEST), wait=False),
        }
        if time is not None:
            at_ms = parse_time(time.removeprefix("@"))
            found["at"] = await api.offsets(all_at(wanted, at_ms), wait=False)
        return found

    found = target.ask(work)
    rows: list[Row] = []
    for place in sorted(found["first"].values.keys() & found["end"].values.keys()):
        first, end = found["first"].values[place].offset, found["end"].values[place].offset
        newest = found["newest"].values.get(place)
        row: dict[str, object] = {
            "partition": place_text(place),
            "first": first,
            "end": end,
            "records": end - first,
            "newest_ms": newest.timestamp_ms if newest and newest.timestamp_ms >= 0 else None,
        }
        if "at" in found:
            at = found["at"].values.get(place)
            row["at"] = at.offset if at and at.offset >= 0 else None
        rows.append(row)
    target.show_found(rows, found["end"].errors, "there are no partitions")
