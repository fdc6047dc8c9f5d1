"""`pybroker topics create|list|describe|delete`, over `client/`."""

from __future__ import annotations

import time

import click

from ...client.cluster import Cluster
from .options import (
    UserError,
    bootstrap_option,
    command_config_option,
    parse_overrides,
    run_client,
    user_errors,
)
from .topic_table import TopicView, show_topic


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def topics() -> None:
    """Create, list, describe and delete topics.

    \b
    pybroker topics create flights --partitions 4 --config retention.ms=86400000
    pybroker topics list
    pybroker topics describe flights
    pybroker topics delete flights
    """


@topics.command()
@click.argument("name")
@click.option("-p", "--partitions", default=-1, type=int, help="Default: num.partitions.")
@click.option(
    "-r",
    "--replication-factor",
    default=-1,
    type=int,
    help="Default: default.replication.factor.",
)
@click.option(
    "--config",
    "configs",
    multiple=True,
    callback=parse_overrides,
    metavar="KEY=VALUE",
    help="A topic config; may be repeated.",
)
@bootstrap_option
@command_config_option
@user_errors
def create(
    name: str,
    partitions: int,
    replication_factor: int,
    configs: dict[str, str],
    bootstrap: str,
    security: dict[str, str],
) -> None:
    """Create topic NAME and wait until it can be written."""
    from ...client import admin

    async def run() -> int:
        async with Cluster(bootstrap, security=security) as cluster:
            await admin.create_topic(
                cluster,
                name,
                partitions=partitions,
                replication_factor=replication_factor,
                configs=configs,
            )
            return len((await cluster.led_topic(name, wait_for_missing=True)).partitions)

    count = run_client(run)
    click.echo(f"created topic {name} with {count} partition{'s' if count != 1 else ''}")


@topics.command("list")
@click.option("--internal", is_flag=True, help="Also the broker's own topics.")
@bootstrap_option
@command_config_option
@user_errors
def list_command(internal: bool, bootstrap: str, security: dict[str, str]) -> None:
    """Print the names of all topics, one a line."""
    from ...client import admin

    async def run() -> list[str]:
        async with Cluster(bootstrap, security=security) as cluster:
            found = await admin.list_topics(cluster)
            return [topic.name or "" for topic in found if internal or not topic.is_internal]

    for name in run_client(run):
        click.echo(name)


@topics.command()
@click.argument("name")
@bootstrap_option
@command_config_option
@user_errors
def describe(name: str, bootstrap: str, security: dict[str, str]) -> None:
    """Show the partitions of topic NAME: leader, replicas, ISR, first and next offset.

    It is marked if its newest records are older than its retention.ms allows.
    """
    from ...client import admin
    from ...client.consumer import EARLIEST, LATEST, NEWEST, Consumer

    async def run() -> TopicView:
        async with Cluster(bootstrap, security=security) as cluster:
            topic = await cluster.topic(name)
            consumer = Consumer(cluster, name)
            await consumer.start(wait_for_leader=False)
            return TopicView(
                topic,
                await admin.topic_configs(cluster, name),
                first=await consumer.offsets(EARLIEST),
                following=await consumer.offsets(LATEST),
                newest_ms={
                    p: place.timestamp for p, place in (await consumer.find(NEWEST)).items()
                },
            )

    show_topic(run_client(run), int(time.time() * 1000))


@topics.command()
@click.argument("name")
@click.option("--force", is_flag=True, help="Also one of the broker's own topics.")
@bootstrap_option
@command_config_option
@user_errors
def delete(name: str, force: bool, bootstrap: str, security: dict[str, str]) -> None:
    """Delete topic NAME and its data, and wait until it is gone."""
    from ...client import admin

    async def run() -> None:
        async with Cluster(bootstrap, security=security) as cluster:
            (found,) = (await cluster.metadata([name])).topics
            if found.is_internal and not force:
                raise UserError(
                    f"{name} is one of the broker's own: what it keeps for all groups or "
                    "transactions would be lost; delete it all the same with --force"
                )
            await admin.delete_topic(cluster, name)

    run_client(run)
    click.echo(f"deleted topic {name}")
