"""`pybroker topics create|list|describe|delete`, over `client/`."""

from __future__ import annotations

import click

from broker.cli.options import bootstrap_option, parse_overrides, run_client, user_errors
from client.cluster import Cluster


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
@user_errors
def create(
    name: str, partitions: int, replication_factor: int, configs: dict[str, str], bootstrap: str
) -> None:
    """Create topic NAME and wait until it can be written."""
    from client import admin

    async def run() -> int:
        async with Cluster(bootstrap) as cluster:
            await admin.create_topic(
                cluster,
                name,
                partitions=partitions,
                replication_factor=replication_factor,
                configs=configs,
            )
            return len((await cluster.topic(name, wait_for_missing=True)).partitions)

    count = run_client(run)
    click.echo(f"created topic {name} with {count} partition{'s' if count != 1 else ''}")


@topics.command("list")
@click.option("--internal", is_flag=True, help="Also the broker's own topics.")
@bootstrap_option
@user_errors
def list_command(internal: bool, bootstrap: str) -> None:
    """Print the names of all topics, one a line."""
    from client import admin

    async def run() -> list[str]:
        async with Cluster(bootstrap) as cluster:
            found = await admin.list_topics(cluster)
            return [topic.name or "" for topic in found if internal or not topic.is_internal]

    for name in run_client(run):
        click.echo(name)


@topics.command()
@click.argument("name")
@bootstrap_option
@user_errors
def describe(name: str, bootstrap: str) -> None:
    """Show the partitions of topic NAME: leader, replicas, ISR, first and next offset."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from client import admin
    from client.consumer import EARLIEST, LATEST, Consumer
    from protocol.uuids import uuid_to_text

    async def run() -> None:
        async with Cluster(bootstrap) as cluster:
            topic = await cluster.topic(name)
            overrides = await admin.topic_overrides(cluster, name)
            consumer = Consumer(cluster, name)
            await consumer.start()
            first, following = await consumer.offsets(EARLIEST), await consumer.offsets(LATEST)
        console = Console(highlight=False)
        settings = ", ".join(f"{key}={value}" for key, value in sorted(overrides.items()))
        console.print(
            f"[bold]{name}[/]  id {uuid_to_text(topic.topic_id)}  "
            f"configs: {settings or 'all at their defaults'}"
        )
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for column in (
            "partition",
            "leader",
            "epoch",
            "replicas",
            "ISR",
            "first",
            "next",
            "records",
        ):
            table.add_column(column, justify="right")
        for part in sorted(topic.partitions, key=lambda part: part.partition_index):
            index = part.partition_index
            table.add_row(
                str(index),
                str(part.leader_id),
                str(part.leader_epoch),
                ",".join(map(str, part.replica_nodes)),
                ",".join(map(str, part.isr_nodes)),
                str(first[index]),
                str(following[index]),
                f"{following[index] - first[index]:,}",
            )
        console.print(table)

    run_client(run)


@topics.command()
@click.argument("name")
@bootstrap_option
@user_errors
def delete(name: str, bootstrap: str) -> None:
    """Delete topic NAME and its data, and wait until it is gone."""
    from client import admin

    async def run() -> None:
        async with Cluster(bootstrap) as cluster:
            await admin.delete_topic(cluster, name)

    run_client(run)
    click.echo(f"deleted topic {name}")
