"""`pybroker broker server.properties` and `pybroker zookeeper`: one server in the foreground."""

from __future__ import annotations

from pathlib import Path

import click

from broker.cli.options import parse_overrides, user_errors


@click.command(
    epilog="""Environment variables KAFKA_LOG_DIRS, KAFKA_ZOOKEEPER_CONNECT ... override the file.

\b
Examples:
  pybroker broker server.properties
  pybroker broker server.properties --override broker.id=2 --metrics-port 7071
  KAFKA_ZOOKEEPER_CONNECT=zk1:2181 KAFKA_LOG_DIRS=/var/lib/kafka pybroker broker
"""
)
@click.argument("properties", required=False, type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--override",
    "overrides",
    multiple=True,
    callback=parse_overrides,
    metavar="KEY=VALUE",
    help="As kafka-server-start's; may be repeated.",
)
@click.option(
    "--metrics-port",
    type=click.IntRange(1, 65535),
    metavar="PORT",
    help="Serve Prometheus metrics here.",
)
@click.option("--verbose", is_flag=True, help="Log at DEBUG.")
@user_errors
def broker(
    properties: Path | None, overrides: dict[str, str], metrics_port: int | None, verbose: bool
) -> None:
    """Run one broker from a server.properties file, until Ctrl-C or SIGTERM."""
    from broker import node_process

    node_process.run_foreground_broker(properties, overrides, metrics_port, verbose=verbose)


@click.command(
    epilog="""\b
Examples:
  pybroker zookeeper
  pybroker zookeeper --port 2181 --data-dir /var/lib/zookeeper
"""
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=2181, show_default=True, type=click.IntRange(0, 65535))
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where the transaction log and snapshots go; without it nothing is kept.",
)
@click.option("--verbose", is_flag=True, help="Log at DEBUG.")
@user_errors
def zookeeper(host: str, port: int, data_dir: Path | None, verbose: bool) -> None:
    """Run the embedded ZooKeeper alone, until Ctrl-C or SIGTERM."""
    from broker import node_process

    node_process.run_foreground_zookeeper(data_dir, host, port, verbose=verbose)
