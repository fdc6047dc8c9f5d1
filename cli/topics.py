"""`pybroker topics create|list|describe|alter|add-partitions|delete`, over `client/`.

Mirrors: kafka-topics.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click
import trio

from ..client.admin.rows import config_row, place_text
from ..local.tier_costs import Prices, by_partition
from .completion import complete_topics
from .options import UserError, echo, parse_overrides
from .places import find_topics, partitions_of
from .target import Row, Target, cluster_options
from .tier_store import metadata_of
from .topic_table import Problem, TopicView, is_problem, show_topic, topic_json

if TYPE_CHECKING:
    from ..client.admin.admin import Admin
    from ..client.admin.records import OffsetFound
    from ..protocol.apis.metadata import MetadataResponseTopic
    from ..protocol.topics import TopicPartition

RATE_SECONDS = 2.0  # between two looks at the ends


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def topics() -> None:
    """Create, list, describe, alter and delete topics.

    \b
    pybroker topics create flights --partitions 4 --config retention.ms=86400000
    pybroker topics list
    pybroker topics describe flights
    pybroker topics describe --under-replicated
    pybroker topics alter flights --set retention.ms=3600000
    pybroker topics add-partitions flights --total 8
    pybroker topics delete flights
    """


@topics.command()
@click.argument("name")
@click.option(
    "-p",
    "--partitions",
    default=-1,
    type=int,
    help="Number of partitions. Default: the brokers' num.partitions.",
)
@click.option(
    "-r",
    "--replication-factor",
    default=-1,
    type=int,
    help="Replicas of each partition. Default: the brokers' default.replication.factor.",
)
@click.option(
    "--replicas",
    "assigned",
    metavar="IDS[/IDS]...",
    help="Brokers of each partition, the preferred leader first: 1,2/2,3 assigns two partitions.",
)
@click.option(
    "--config",
    "configs",
    multiple=True,
    callback=parse_overrides,
    metavar="KEY=VALUE",
    help="A topic config; may be repeated.",
)
@click.option(
    "--tiered",
    is_flag=True,
    help="Keep old segments in the brokers' remote tier: remote.storage.enable=true.",
)
@click.option("--if-not-exists", is_flag=True, help="Succeed if the topic exists already.")
@click.option("--dry-run", is_flag=True, help="Only check whether the topic could be created.")
@cluster_options
def create(
    target: Target,
    name: str,
    partitions: int,
    replication_factor: int,
    assigned: str | None,
    configs: dict[str, str],
    tiered: bool,
    if_not_exists: bool,
    dry_run: bool,
) -> None:
    """Create topic NAME and wait until it accepts records."""
    from ..client.admin.topics import NewTopic
    from ..client.errors import Refused
    from ..protocol.errors import ErrorCode

    if assigned is not None and (partitions, replication_factor) != (-1, -1):
        raise UserError("--replicas says how many partitions and replicas; leave out the numbers")
    if tiered:
        configs = {**configs, "remote.storage.enable": "true"}
    topic = NewTopic(name, partitions, replication_factor, _assignments(assigned), configs)

    async def work(admin: Admin) -> int | None:
        try:
            (await admin.topics.create([topic], validate_only=dry_run)).all()
        except Refused as error:
            if if_not_exists and error.code == ErrorCode.TOPIC_ALREADY_EXISTS:
                return None
            raise
        if dry_run:
            return 0
        return len((await admin.client.led_topic(name, wait_for_missing=True)).partitions)

    count = target.ask(work)
    made = {"topic": name, "created": bool(count), "partitions": count or None}
    if count is None:
        target.report(f"there is a topic {name} already", made)
    elif dry_run:
        target.report(f"topic {name} could be created", made)
    else:
        plural = "s" if count != 1 else ""
        target.report(f"created topic {name} with {count} partition{plural}", made)


def _assignments(text: str | None) -> dict[int, list[int]]:
    """Raises UserError."""
    if text is None:
        return {}
    try:
        return {
            index: [int(one) for one in ids.split(",")] for index, ids in enumerate(text.split("/"))
        }
    except ValueError:
        raise UserError(
            f"--replicas {text!r} is not a list of broker ids a partition, as 1,2/2,3"
        ) from None


@topics.command("list")
@click.option(
    "--internal", is_flag=True, help="Include internal topics such as __consumer_offsets."
)
@cluster_options
def list_command(target: Target, internal: bool) -> None:
    """Print the names of all topics, one per line."""
    listed = target.ask(lambda admin: admin.topics.list())
    found = [topic for topic in listed if internal or not topic.is_internal]
    if target.as_json:
        target.show(
            [
                {
                    "topic": topic.name,
                    "partitions": len(topic.partitions),
                    "replicas": max((len(p.replica_nodes) for p in topic.partitions), default=0),
                    "internal": topic.is_internal,
                }
                for topic in found
            ]
        )
        return
    for topic in found:
        echo(topic.name or "")


@topics.command()
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=complete_topics)
@click.option(
    "--under-replicated", is_flag=True, help="Only partitions with a replica that is out of sync."
)
@click.option("--leaderless", is_flag=True, help="Only partitions without a leader.")
@click.option(
    "--below-min-isr",
    is_flag=True,
    help="Only partitions with fewer in-sync replicas than min.insync.replicas, which reject "
    "acks=all.",
)
@click.option(
    "--rates",
    is_flag=True,
    help=f"Also show records and bytes per second, measured over {RATE_SECONDS:.0f} s.",
)
@click.option(
    "--configs",
    "with_configs",
    is_flag=True,
    help="Also show all configs and the source of each value.",
)
@click.option(
    "--gb-price",
    type=click.FloatRange(min=0),
    default=Prices().gb_month,
    show_default=True,
    metavar="DOLLARS",
    help="For a GB in the remote tier and month. The default is that of S3 Standard in us-east-1.",
)
@click.option(
    "--writes-price",
    type=click.FloatRange(min=0),
    default=Prices().thousand_writes,
    show_default=True,
    metavar="DOLLARS",
    help="For 1000 writes into the remote tier.",
)
@cluster_options
def describe(
    target: Target,
    names: tuple[str, ...],
    under_replicated: bool,
    leaderless: bool,
    below_min_isr: bool,
    rates: bool,
    with_configs: bool,
    gb_price: float,
    writes_price: float,
) -> None:
    """Show the partitions of topics: leader, replicas, ISR, first and next offset, bytes.

    Of a tiered topic it also shows what is in the remote tier, what is under way there, and what it
    costs. A warning marks topics whose newest records are older than retention.ms. The options
    --under-replicated, --leaderless and --below-min-isr show the partitions that match any of them;
    without a NAME, of all topics.
    """
    problems = {
        Problem.UNDER_REPLICATED: under_replicated,
        Problem.LEADERLESS: leaderless,
        Problem.BELOW_MIN_ISR: below_min_isr,
    }
    wanted = [problem for problem, is_asked in problems.items() if is_asked]
    if wanted:
        _describe_problems(target, names, wanted)
        return
    if not names:
        raise UserError("name the topics; see: pybroker topics list")

    async def work(admin: Admin) -> list[TopicView]:
        return [await look_at(admin, one, rates) for one in await find_topics(admin, names)]

    views = _with_tier(target, target.ask(work))
    prices = Prices(gb_price, writes_price)
    if target.as_json:
        target.show([topic_json(view, prices) for view in views])
        return
    for view in views:
        show_topic(view, int(time.time() * 1000), prices)
        if with_configs:
            target.show([config_row(entry) for entry in view.configs])


def _with_tier(target: Target, views: list[TopicView]) -> list[TopicView]:
    """With what the tier has of those that are tiered."""
    tiered = [view.topic.name or "" for view in views if view.is_tiered]
    if not tiered:
        return views
    segments = metadata_of(target, tiered)
    return [
        view._replace(tier=by_partition(segments, view.topic.topic_id)) if view.is_tiered else view
        for view in views
    ]


async def look_at(admin: Admin, topic: MetadataResponseTopic, rates: bool) -> TopicView:
    """All facts of a topic, except those that the leaders of its partitions do not answer."""
    from ..client.admin.config_types import ConfigResource, ResourceKind
    from ..client.admin.records import EARLIEST, EARLIEST_LOCAL, LATEST, NEWEST, all_at
    from ..client.errors import Unsupported

    name = topic.name or ""
    places = partitions_of([topic])
    resource = ConfigResource(ResourceKind.TOPIC, name)
    records = admin.records
    ends = (await records.offsets(all_at(places, LATEST), wait=False)).values
    sizes = await _sizes(admin, places)
    speeds: dict[int, float] = {}
    byte_speeds: dict[int, float] = {}
    if rates:
        before, sizes_before, began = ends, sizes, trio.current_time()
        await trio.sleep(RATE_SECONDS)
        ends = (await records.offsets(all_at(places, LATEST), wait=False)).values
        sizes = await _sizes(admin, places)
        elapsed = trio.current_time() - began
        both = ends.keys() & before.keys()
        speeds = {p[1]: (ends[p].offset - before[p].offset) / elapsed for p in both}
        # A size that retention has reduced meanwhile counts as no writing.
        byte_speeds = {
            n: max(sizes[n] - sizes_before[n], 0) / elapsed for n in sizes.keys() & sizes_before
        }
    newest = (await records.offsets(all_at(places, NEWEST), wait=False)).values
    try:
        configs = (await admin.configs.describe([resource]))[resource]
    except Unsupported:
        configs = ()
    view = TopicView(
        topic,
        configs,
        first=_numbers((await records.offsets(all_at(places, EARLIEST), wait=False)).values),
        following=_numbers(ends),
        newest_ms={place[1]: found.timestamp_ms for place, found in newest.items()},
        sizes=sizes,
        rates=speeds,
        byte_rates=byte_speeds,
    )
    if not view.is_tiered:
        return view
    local = (await records.offsets(all_at(places, EARLIEST_LOCAL), wait=False)).values
    return view._replace(local_first=_numbers(local))


async def _sizes(admin: Admin, places: list[TopicPartition]) -> dict[int, int]:
    """Bytes of the largest replica of each partition of a topic."""
    sizes = await admin.log_dirs.sizes(partitions=places)
    return {place[1]: max(of.values()) for place, of in sizes.items()}


def _numbers(found: dict[TopicPartition, OffsetFound]) -> dict[int, int]:
    return {place[1]: one.offset for place, one in found.items()}


def _describe_problems(target: Target, names: Sequence[str], wanted: list[Problem]) -> None:
    from ..client.admin.config_types import ConfigResource, ResourceKind

    async def work(admin: Admin) -> list[Row]:
        found = await find_topics(admin, names or None)
        least: dict[str, int] = {}
        if Problem.BELOW_MIN_ISR in wanted and found:
            resources = [ConfigResource(ResourceKind.TOPIC, topic.name or "") for topic in found]
            described = await admin.configs.describe(resources, names=["min.insync.replicas"])
            least = {one.name: int(some[0].value or 1) for one, some in described.values.items()}
        return [
            {
                "partition": place_text((topic.name or "", part.partition_index)),
                "leader": part.leader_id if part.leader_id >= 0 else None,
                "replicas": list(part.replica_nodes),
                "isr": list(part.isr_nodes),
                "offline": list(part.offline_replicas),
            }
            for topic in found
            for part in sorted(topic.partitions, key=lambda part: part.partition_index)
            if any(is_problem(one, part, least.get(topic.name or "", 1)) for one in wanted)
        ]

    target.show(target.ask(work), "no such partition")


@topics.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=complete_topics)
@click.option(
    "--set", "set_", multiple=True, metavar="KEY=VALUE", help="Set a config; may be repeated."
)
@click.option(
    "--delete",
    "deleted",
    multiple=True,
    metavar="KEY",
    help="Reset a config to its default; may be repeated.",
)
@click.option("--dry-run", is_flag=True, help="Only check whether the brokers would accept it.")
@cluster_options
def alter(
    target: Target,
    names: tuple[str, ...],
    set_: tuple[str, ...],
    deleted: tuple[str, ...],
    dry_run: bool,
) -> None:
    """Set or delete configs of topics; other configs keep their values."""
    from ..client.admin.config_types import ConfigResource, ResourceKind
    from .configs import alter_resources, alterations_of

    resources = [ConfigResource(ResourceKind.TOPIC, name) for name in names]
    alter_resources(target, resources, alterations_of(set_, deleted), dry_run=dry_run)


@topics.command("add-partitions")
@click.argument("name", shell_complete=complete_topics)
@click.option(
    "--total", type=click.IntRange(1), required=True, help="The new number of partitions."
)
@click.option("--dry-run", is_flag=True, help="Only check whether the cluster would do it.")
@cluster_options
def add_partitions(target: Target, name: str, total: int, dry_run: bool) -> None:
    """Add partitions to topic NAME; most keys then map to other partitions."""
    found = target.ask(
        lambda admin: admin.topics.add_partitions({name: total}, validate_only=dry_run)
    )
    target.show_found(
        [{"topic": one, "partitions": total, "done": not dry_run} for one in found.values],
        found.errors,
    )


@topics.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=complete_topics)
@click.option(
    "--force", is_flag=True, help="Delete even an internal topic such as __consumer_offsets."
)
@cluster_options
def delete(target: Target, names: tuple[str, ...], force: bool) -> None:
    """Delete topics and their data, and wait until they are gone."""
    from ..client.admin.topics import delete_topic

    async def work(admin: Admin) -> None:
        for found in (await admin.client.metadata(names)).topics:
            if found.is_internal and not force:
                raise UserError(
                    f"{found.name} is one of the broker's own: what it keeps for all groups or "
                    "transactions would be lost; delete it all the same with --force"
                )
        for name in names:
            await delete_topic(admin.client, name)

    target.ask(work)
    if target.as_json:
        target.show([{"topic": name, "deleted": True} for name in names])
        return
    for name in names:
        echo(f"deleted topic {name}")
