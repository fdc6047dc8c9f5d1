"""`pybroker start`, `status` and `stop`: a local cluster for a laptop or a CI job."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from broker import cluster_state
from broker.cli.options import data_dir_option, parse_overrides, user_errors
from broker.cluster_state import ClusterError, ClusterState

if TYPE_CHECKING:
    from broker.supervisor import ClusterSpec

STOP_WAIT_SECONDS = 45.0
POLL_SECONDS = 0.05


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
    default=1,
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

    Ctrl-C stops it. The data stays in --data-dir for the next start.
    """
    from broker import supervisor

    if ephemeral:
        if data_dir != cluster_state.default_data_dir():
            raise ClusterError("--ephemeral keeps nothing; leave out --data-dir")
        data_dir = supervisor.ephemeral_directory()
    spec = supervisor.ClusterSpec(
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
    sys.exit(_supervise(spec, lambda state: _announce(state, time.monotonic() - started)))


def _supervise(spec: ClusterSpec, on_ready) -> int:  # type: ignore[no-untyped-def]
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
    _announce(cluster_state.load(spec.data_dir), time.monotonic() - started)
    click.echo(f"Stop it with: pybroker stop --data-dir {spec.data_dir}")
    return 0


def _tell(descriptor: int, message: dict[str, object]) -> None:
    os.write(descriptor, json.dumps(message).encode() + b"\n")
    os.close(descriptor)


def _announce(state: ClusterState, seconds: float) -> None:
    """The table of nodes, the bootstrap string, and three lines to paste."""
    from rich.console import Console

    console = Console(highlight=False)
    console.print(_node_table(state, with_memory=False))
    console.print(
        f"[bold green]ready[/] after {seconds:.2f} s    "
        f"bootstrap servers: [bold]{state.bootstrap}[/]    data: {state.data_dir}"
    )
    console.print(
        "\n  from kafka import KafkaProducer\n"
        f'  producer = KafkaProducer(bootstrap_servers="{state.bootstrap}")\n'
        '  producer.send("greetings", b"hello").get(timeout=10)\n',
        style="cyan",
    )


def _node_table(state: ClusterState, *, with_memory: bool):  # type: ignore[no-untyped-def]
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("node", "address", "pid", *(["memory"] if with_memory else []), "log"):
        table.add_column(column, justify="right" if column in ("pid", "memory") else "left")
    for node in state.nodes:
        cells = [node.name, f"{node.host}:{node.port}", str(node.pid)]
        if with_memory:
            resident = resident_bytes(node.pid)
            cells.append("[red]dead[/]" if resident is None else f"{resident / 2**20:.0f} MB")
        table.add_row(*cells, node.log_file)
    if not any(node.kind == "zookeeper" for node in state.nodes):
        extra = [""] if with_memory else []
        table.add_row("zookeeper", state.zookeeper_connect, "", *extra, "(not ours)")
    return table


def resident_bytes(pid: int) -> int | None:
    """Resident memory of a process, None when it is gone (Linux: /proc; elsewhere: ps)."""
    try:
        with open(f"/proc/{pid}/statm") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return None


@click.command()
@data_dir_option
@click.option("--json", "as_json", is_flag=True, help="For programs: one JSON object.")
@user_errors
def status(data_dir: Path, as_json: bool) -> None:
    """Show the nodes of the cluster that runs on --data-dir. Exit status 2 if none does."""
    state = cluster_state.load(data_dir.absolute())
    if as_json:
        nodes = [
            {
                "name": node.name,
                "id": node.node_id,
                "kind": node.kind,
                "pid": node.pid,
                "host": node.host,
                "port": node.port,
                "resident_bytes": resident_bytes(node.pid),
                "log_file": node.log_file,
            }
            for node in state.nodes
        ]
        click.echo(
            json.dumps(
                {
                    "bootstrap": state.bootstrap,
                    "zookeeper": state.zookeeper_connect,
                    "data_dir": state.data_dir,
                    "supervisor_pid": state.supervisor_pid,
                    "nodes": nodes,
                },
                indent=2,
            )
        )
        return
    from rich.console import Console

    console = Console(highlight=False)
    console.print(_node_table(state, with_memory=True))
    console.print(f"bootstrap servers: [bold]{state.bootstrap}[/]    data: {state.data_dir}")


@click.command()
@data_dir_option
@user_errors
def stop(data_dir: Path) -> None:
    """Stop the cluster that runs on --data-dir, brokers first, and wait for it."""
    directory = data_dir.absolute()
    state = cluster_state.load(directory)
    try:
        os.kill(state.supervisor_pid, signal.SIGTERM)
    except OSError as error:
        raise ClusterError(
            f"cannot signal the supervisor (pid {state.supervisor_pid}): {error.strerror}"
        ) from None
    deadline = time.monotonic() + STOP_WAIT_SECONDS
    while cluster_state.is_claimed(directory):
        if time.monotonic() > deadline:
            raise ClusterError(
                f"still running after {STOP_WAIT_SECONDS:.0f} s; "
                f"its logs are in {directory / 'logs'}"
            )
        time.sleep(POLL_SECONDS)
    click.echo(
        f"stopped {', '.join(node.name for node in reversed(state.nodes))}; "
        f"the data is in {directory}"
    )
