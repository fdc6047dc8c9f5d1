"""`pybroker start`: a local cluster for a laptop or a CI job."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from broker import cluster_state
from broker.cli.options import data_dir_option, parse_overrides, user_errors
from broker.cluster_state import ClusterError, ClusterState

if TYPE_CHECKING:
    from broker.cluster_spec import ClusterSpec


@click.command(
    epilog="""\b
Examples:
  pybroker start
  pybroker start --ephemeral --port 0 --zookeeper-port 0
  pybroker start --config num.partitions=4 --config flush.messages=1
  pybroker start --zookeeper zk1:2181,zk2:2181/kafka --detach
"""
)
@click.option(
    "--brokers",
    default=3,
    show_default=True,
    type=click.IntRange(1, 100),
    metavar="N",
    help="How many brokers, with the ids 1 to N.",
)
@click.option(
    "--port",
    default=9092,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="Port of broker 1; the others follow. 0: any free port.",
)
@click.option(
    "--zookeeper-port",
    default=2181,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="Port of the embedded ZooKeeper. 0: any free port.",
)
@click.option(
    "--zookeeper",
    "zookeeper_connect",
    metavar="HOST:PORT",
    help="Use this ensemble instead of the embedded ZooKeeper.",
)
@data_dir_option
@click.option(
    "--ephemeral", is_flag=True, help="Keep nothing: a temporary directory, removed at the end."
)
@click.option(
    "--config",
    "overrides",
    multiple=True,
    callback=parse_overrides,
    metavar="KEY=VALUE",
    help="Any key of server.properties; may be repeated.",
)
@click.option(
    "--metrics-port",
    type=click.IntRange(1, 65535),
    metavar="PORT",
    help="Serve Prometheus metrics of broker 1 here; the others follow.",
)
@click.option(
    "--detach", is_flag=True, help="Return once the cluster is ready; end it with pybroker stop."
)
@click.option("--verbose", is_flag=True, help="Log at DEBUG.")
@user_errors
def start(
    brokers: int,
    port: int,
    zookeeper_port: int,
    zookeeper_connect: str | None,
    data_dir: Path,
    ephemeral: bool,
    overrides: dict[str, str],
    metrics_port: int | None,
    detach: bool,
    verbose: bool,
) -> None:
    """Start a local cluster, with its own ZooKeeper, and wait until it is ready.

    In the value of --config, {id} is the broker's id: --config broker.rack=rack-{id}.

    Ctrl-C stops it. The data stays in --data-dir for the next start.
    """
    from broker import cluster_spec

    if ephemeral:
        if data_dir != cluster_state.default_data_dir():
            raise ClusterError("--ephemeral keeps nothing; leave out --data-dir")
        data_dir = cluster_spec.ephemeral_directory()
    spec = cluster_spec.ClusterSpec(
        data_dir=data_dir.absolute(),
        broker_count=brokers,
        first_port=port,
        zookeeper_port=zookeeper_port,
        zookeeper_connect=zookeeper_connect,
        ephemeral=ephemeral,
        overrides=overrides,
        first_metrics_port=metrics_port,
        verbose=verbose,
    )
    started = time.monotonic()
    if detach:
        sys.exit(_start_detached(spec, started))
    sys.exit(_supervise(spec, lambda state: _announce(spec, state, time.monotonic() - started)))


def _supervise(spec: ClusterSpec, on_ready: Callable[[ClusterState], None]) -> int:
    from broker.supervisor import Supervisor

    status = Supervisor(spec, lambda line: click.echo(line, err=True)).run(on_ready)
    if not spec.ephemeral:
        click.echo(f"stopped; the data is in {spec.data_dir}", err=True)
    return status


def _start_detached(spec: ClusterSpec, started: float) -> int:
    """Fork the supervisor into a session of its own; wait for its word; print the table."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read_end)
        os.setsid()
        code = 1
        try:
            with open(os.devnull, "r+b") as null:
                for stream in (0, 1, 2):
                    os.dup2(null.fileno(), stream)
            code = _supervise(spec, lambda state: _tell(write_end, {"ready": True}))
        except BaseException as error:
            with contextlib.suppress(OSError):
                _tell(write_end, {"error": str(error)})
        finally:
            os._exit(code)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe:
        line = pipe.readline()
    message = json.loads(line) if line else {"error": "the supervisor died while starting"}
    if "error" in message:
        raise ClusterError(message["error"])
    _announce(spec, cluster_state.load(spec.data_dir), time.monotonic() - started)
    click.echo(f"Stop it with: pybroker stop --data-dir {spec.data_dir}")
    return 0


def _tell(descriptor: int, message: dict[str, object]) -> None:
    os.write(descriptor, json.dumps(message).encode() + b"\n")
    os.close(descriptor)


def _announce(spec: ClusterSpec, state: ClusterState, seconds: float) -> None:
    """The table of nodes, the bootstrap string, and three lines to paste."""
    from rich.console import Console

    from broker.cli.cluster_table import node_table

    console = Console(highlight=False, soft_wrap=True)
    console.print(node_table(state, None))
    defaults = spec.local_defaults().items()
    changed = ", ".join(f"{key}={text}" for key, text in defaults if key not in spec.overrides)
    console.print(f"[dim]set for a local cluster: {changed}[/]")
    console.print(
        f"[bold green]ready[/] after {seconds:.2f} s    "
        f"bootstrap servers: [bold]{state.bootstrap}[/]    data and logs: {state.data_dir}"
    )
    console.print(
        "\n  from kafka import KafkaProducer\n"
        f'  producer = KafkaProducer(bootstrap_servers="{state.bootstrap}")\n'
        '  producer.send("greetings", b"hello").get(timeout=10)\n',
        style="cyan",
    )
