"""`pybroker partitions elect|reassign|moves|move-log-dir`: leaders and replicas.

Mirrors: kafka-leader-election and kafka-reassign-partitions, whose JSON files are read too. A
throttle is put on the brokers and topics for the time of a move, and removed at its end, as theirs
is; if the wait is broken off, `partitions moves --watch` removes it.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click
import trio

from ..client.admin.rows import place_text
from .completion import complete_brokers, complete_topics, places_argument
from .options import UserError
from .places import find_places, find_topics, parse_place
from .reassigning import (
    MovePlan,
    follow,
    remove_throttle,
    spread,
    throttle,
)
from .target import Row, Target, cluster_options, end_with_errors

if TYPE_CHECKING:
    from ..client.admin.admin import Admin
    from ..protocol.topics import TopicPartition


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def partitions() -> None:
    """Leaders and replicas: elect, reassign, move between log directories.

    \b
    pybroker partitions elect --all
    pybroker partitions elect flights:0 --unclean
    pybroker partitions reassign flights:0=2,3 flights:1=3,1 --throttle 10000000
    pybroker partitions reassign flights --to-brokers 1,2,3 --dry-run
    pybroker partitions moves --watch
    pybroker partitions move-log-dir flights:0 --broker 1 --to /data/disk2
    """


@partitions.command()
@click.argument("places", nargs=-1, metavar="TOPIC[:PARTITIONS]...", shell_complete=complete_topics)
@click.option("--all", "everything", is_flag=True, help="Elect for all partitions of all topics.")
@click.option(
    "--unclean",
    is_flag=True,
    help="Let an out-of-sync replica lead if no in-sync replica is alive; records may be lost.",
)
@cluster_options
def elect(target: Target, places: tuple[str, ...], everything: bool, unclean: bool) -> None:
    """Make the preferred (first) replica of each partition its leader, if it is in sync.

    With --all, only partitions with a new leader are shown.
    """
    from ..client.admin.partitions import ElectionKind
    from ..client.admin.results import Results

    if everything == bool(places):
        raise UserError("name the partitions, as TOPIC or TOPIC:0,1; or give --all")
    kind = ElectionKind.UNCLEAN if unclean else ElectionKind.PREFERRED

    async def work(admin: Admin) -> Results[TopicPartition, bool]:
        wanted = await find_places(admin, places)
        return await admin.partitions.elect(kind, wanted)

    found = target.ask(work)
    rows: list[Row] = [
        {"partition": place_text(place), "elected": was_needed}
        for place, was_needed in sorted(found.values.items())
        if was_needed or not everything or target.as_json
    ]
    none = "a leader" if unclean else "its preferred leader"
    target.show_found(rows, found.errors, f"every partition has {none} already")


@partitions.command(
    epilog="""\b
Examples:
  pybroker partitions reassign flights:0=2,3        replicas, the leader first
  pybroker partitions reassign flights --to-brokers 1,2,3
  pybroker partitions reassign --file moves.json    a file as for Kafka's tool
  pybroker partitions reassign flights --cancel
"""
)
@click.argument(
    "places", nargs=-1, metavar="[TOPIC[:PARTITIONS][=BROKERS]]...", shell_complete=complete_topics
)
@click.option("--to-brokers", metavar="IDS", help="Spread the replicas over these brokers.")
@click.option(
    "--file",
    "file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="JSON file of moves, as for Kafka's tool.",
)
@click.option(
    "--throttle",
    "rate",
    type=click.IntRange(1),
    metavar="BYTES",
    help="Limit the moves to this many bytes per second.",
)
@click.option("--cancel", is_flag=True, help="Cancel the moves of these partitions.")
@click.option("--no-wait", is_flag=True, help="Do not wait until the moves are complete.")
@click.option("--dry-run", is_flag=True, help="Only show the planned moves.")
@cluster_options
def reassign(
    target: Target,
    places: tuple[str, ...],
    to_brokers: str | None,
    file: Path | None,
    rate: int | None,
    cancel: bool,
    no_wait: bool,
    dry_run: bool,
) -> None:
    """Move partitions to other brokers and show the progress.

    Ctrl-C stops the command, not the moves; pybroker partitions moves shows them.
    """
    if not places and file is None:
        raise UserError("name what to move, as TOPIC:0=1,2; or give --file")
    if rate and no_wait:
        raise UserError("a throttle is taken off at the end of the wait; leave out --no-wait")

    async def work(admin: Admin) -> None:
        if cancel:
            await _cancel(admin, target, places)
            return
        plan = await _plan(admin, places, to_brokers, file)
        target.show(plan.rows(), "every partition is where it should be")
        if dry_run or not plan.targets:
            return

        if rate:
            await throttle(admin, plan, rate)
        begun = await admin.partitions.reassign(plan.targets)
        end_with_errors(begun.errors)
        if not no_wait:
            await follow(admin, plan, is_quiet=target.as_json)
            await remove_throttle(admin, plan.topics())

    target.ask(work)


async def _cancel(admin: Admin, target: Target, texts: tuple[str, ...]) -> None:
    places = await find_places(admin, texts)
    under_way = await admin.partitions.reassignments(places)
    if under_way:
        (await admin.partitions.reassign(dict.fromkeys(under_way))).all()
    await remove_throttle(admin, {topic for topic, _ in places})
    rows: list[Row] = [{"partition": place_text(one), "cancelled": True} for one in under_way]
    target.show(rows, "no partition of these is being reassigned")


async def _plan(
    admin: Admin, texts: tuple[str, ...], to_brokers: str | None, file: Path | None
) -> MovePlan:
    """Raises UserError."""
    wanted: dict[TopicPartition, list[int]] = _read_file(file) if file else {}
    spread_over = None if to_brokers is None else _ids(to_brokers, to_brokers)
    for text in texts:
        where, separator, ids = text.partition("=")
        if separator:
            topic, numbers = parse_place(where)
            if numbers is None:
                raise UserError(f"{text!r} names no partition; write {topic}:0={ids}")
            wanted.update(dict.fromkeys(((topic, n) for n in numbers), _ids(ids, text)))
        elif spread_over is None:
            raise UserError(f"say where {text} goes: {text}:0=1,2, or give --to-brokers 1,2,3")
    loose = [text for text in texts if "=" not in text]
    names = sorted({topic for topic, _ in wanted} | {parse_place(text)[0] for text in loose})
    topics = await find_topics(admin, names)
    now = {
        (topic.name or "", part.partition_index): list(part.replica_nodes)
        for topic in topics
        for part in topic.partitions
    }
    if loose and spread_over is not None:
        places = await find_places(admin, loose)
        wanted.update(spread({place: now[place] for place in places}, spread_over))
    for place in wanted:
        if place not in now:
            raise UserError(f"there is no partition {place_text(place)}")
    alive = {broker.node_id for broker in (await admin.client.metadata([])).brokers}
    absent = sorted({one for ids in wanted.values() for one in ids} - alive)
    if absent:
        raise UserError(
            f"there is no broker {absent[0]}; there are: {', '.join(map(str, sorted(alive)))}"
        )
    return MovePlan(now, {place: ids for place, ids in wanted.items() if ids != now[place]})


def _ids(text: str, whole: str) -> list[int]:
    """Raises UserError."""
    parts = text.split(",")
    if not all(part.strip().isdecimal() for part in parts):
        raise UserError(f"{whole!r}: {text!r} is not a list of broker ids, as 1,2,3")
    ids = [int(part) for part in parts]
    if len(set(ids)) < len(ids):
        raise UserError(f"{whole!r} names a broker twice")
    return ids


def _read_file(file: Path) -> dict[TopicPartition, list[int]]:
    """Raises UserError."""
    try:
        return {
            (str(one["topic"]), int(one["partition"])): [int(n) for n in one["replicas"]]
            for one in json.loads(file.read_text("utf-8"))["partitions"]
        }
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f'{file} is not a reassignment, as {{"partitions": [{{"topic": "flights", '
            f'"partition": 0, "replicas": [1, 2]}}]}}: {error!r}'
        ) from None


@partitions.command()
@click.option(
    "--watch", is_flag=True, help="Wait until all moves are complete, then remove their throttles."
)
@cluster_options
def moves(target: Target, watch: bool) -> None:
    """Show the partitions that are being moved to other brokers."""

    async def work(admin: Admin) -> None:
        under_way = await admin.partitions.reassignments()
        rows: list[Row] = [
            {
                "partition": place_text(place),
                "replicas": list(one.replicas),
                "adding": list(one.adding),
                "removing": list(one.removing),
            }
            for place, one in sorted(under_way.items())
        ]
        target.show(rows, "no partition is moving")
        if watch:
            ends = {
                place: [n for n in one.replicas if n not in one.removing]
                for place, one in under_way.items()
            }
            starts = {
                place: [n for n in one.replicas if n not in one.adding]
                for place, one in under_way.items()
            }
            plan = MovePlan(starts, ends)
            await follow(admin, plan, is_quiet=target.as_json)
            await remove_throttle(admin, plan.topics())

    target.ask(work)


@partitions.command("move-log-dir")
@places_argument
@click.option(
    "--broker",
    type=int,
    required=True,
    metavar="ID",
    help="Broker of the replicas.",
    shell_complete=complete_brokers,
)
@click.option(
    "--to",
    "path",
    required=True,
    metavar="DIRECTORY",
    help="Target directory, one of the broker's log.dirs.",
)
@click.option("--no-wait", is_flag=True, help="Do not wait until the moves are complete.")
@cluster_options
def move_log_dir(
    target: Target, places: tuple[str, ...], broker: int, path: str, no_wait: bool
) -> None:
    """Move replicas of a broker to another log directory of that broker."""
    from ..client.admin.results import Results

    async def work(admin: Admin) -> Results[tuple[int, TopicPartition], None]:
        wanted = await find_places(admin, places)
        dirs = admin.log_dirs
        there = [one.path for one in (await dirs.describe([broker]))[broker]]
        if path not in there:
            raise UserError(
                f"{path} is no log directory of broker {broker}; it has: {', '.join(there)}"
            )
        begun = await dirs.move({(broker, place): path for place in wanted})
        moving = {place for _, place in begun.values}
        while moving and not no_wait:
            found = (await dirs.describe([broker], wanted))[broker]
            arrived = {
                place
                for one in found
                for place, is_future in one.replicas
                if one.path == path and not is_future
            }
            moving -= arrived
            if moving:
                await trio.sleep(0.2)
        return begun

    began = time.monotonic()
    found = target.ask(work)
    rows: list[Row] = [
        {"partition": place_text(place), "broker": broker, "to": path} for _, place in found.values
    ]
    target.show(rows)
    if not target.as_json and not no_wait and rows:
        click.echo(f"moved in {time.monotonic() - began:.1f} s", err=True)
    end_with_errors(found.errors)
