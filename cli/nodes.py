"""`pybroker status`, and the commands to a running cluster or to one node of it.

After a node was stopped, killed, paused, resumed or restarted, the command waits until the cluster
has noticed, and a moment for the replicas of running brokers to catch up, then shows the table, so
that a person sees the effect on the partitions. Without a quorum of ZooKeepers no broker notices:
then the command says so and waits for nothing.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import click

from ..broker.resources import machine
from ..local import cluster_state
from ..local.cluster_state import MAX_ZOOKEEPERS, ClusterError, ClusterState, NodeStatus
from .cluster_table import (
    ClusterView,
    look_at,
    node_table,
    partition_line,
)
from .completion import complete_nodes
from .options import data_dir_option, echo, user_errors

STOP_WAIT_SECONDS = 75.0  # longer than a supervisor waits for its nodes
SETTLE_WAIT_SECONDS = 30.0  # longer than ZooKeeper takes to miss a killed or paused broker
CATCH_UP_WAIT_SECONDS = 10.0  # a replica that has more to fetch is shown as behind
POLL_SECONDS = 0.05

node_argument = click.argument("node", metavar="NODE", shell_complete=complete_nodes)


def _show(state: ClusterState, view: ClusterView | None) -> None:
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=True)
    console.print(node_table(state, view))
    console.print(partition_line(view))
    if state.secured:
        console.print("[green]secured[/]: clients log in over TLS, and do what ACLs allow")
    console.print(
        f"bootstrap servers: [bold]{state.bootstrap}[/]    data and logs: {state.data_dir}"
    )


@click.command(
    epilog="""\b
Examples:
  pybroker status
  pybroker status --json --data-dir /tmp/cluster
"""
)
@data_dir_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, for programs.")
@user_errors
def status(data_dir: Path, as_json: bool) -> None:
    """Show the nodes of the cluster on --data-dir: role, leaders, replicas, memory.

    The exit status is 2 if no cluster runs there.
    """
    import trio

    state = cluster_state.load(data_dir.absolute())
    view = trio.run(look_at, state)
    if not as_json:
        _show(state, view)
        return
    nodes = [
        {
            "name": node.name,
            "id": node.node_id,
            "kind": node.kind,
            "status": node.status,
            "pid": node.pid,
            "host": node.host,
            "port": node.port,
            "resident_bytes": machine.resident_bytes(node.pid),
            "leaders": view.leaders[node.node_id] if view and node.kind == "broker" else None,
            "is_controller": view is not None and node.node_id == view.controller_id,
            "log_file": node.log_file,
        }
        for node in state.nodes
    ]
    summary = {
        "bootstrap": state.bootstrap,
        "zookeeper": state.zookeeper_connect,
        "data_dir": state.data_dir,
        "secured": state.secured,
        "supervisor_pid": state.supervisor_pid,
        "partitions": view.partitions if view else None,
        "under_replicated_partitions": view.under_replicated if view else None,
        "partitions_without_leader": view.without_leader if view else None,
        "nodes": nodes,
    }
    click.echo(json.dumps(summary, indent=2))


@click.command(
    epilog="""\b
Examples:
  pybroker stop
  pybroker stop 2
"""
)
@click.argument("node", metavar="[NODE]", required=False, shell_complete=complete_nodes)
@data_dir_option
@user_errors
def stop(node: str | None, data_dir: Path) -> None:
    """Stop the cluster on --data-dir, brokers first, or only NODE (a broker id, or zookeeper)."""
    from ..local.cluster_control import command_node

    directory = data_dir.absolute()
    if node is not None:
        _command("stop", node, directory)
        return
    cluster_state.check_claimed(directory)
    nodes = _nodes_on(directory)
    record = cluster_state.SupervisorLog(directory)
    command_node(directory, "shutdown", "")
    deadline = time.monotonic() + STOP_WAIT_SECONDS
    while cluster_state.is_claimed(directory):
        if time.monotonic() > deadline:
            raise ClusterError(
                f"still running after {STOP_WAIT_SECONDS:.0f} s; "
                f"its logs are in {directory / 'logs'}"
            )
        time.sleep(POLL_SECONDS)
    for line in record.news():
        echo(line, err=True)
    click.echo(f"stopped {nodes}; the data is in {directory}")


def _nodes_on(directory: Path) -> str:
    try:
        return ", ".join(node.name for node in reversed(cluster_state.load(directory).nodes))
    except ClusterError:
        return "a cluster that was starting"


@click.command(
    epilog="""\b
Examples:
  pybroker restart 2
  pybroker restart zookeeper
"""
)
@node_argument
@data_dir_option
@user_errors
def restart(node: str, data_dir: Path) -> None:
    """Start NODE (a broker id, or zookeeper) again; stop it cleanly first if it runs."""
    _command("restart", node, data_dir.absolute())


@click.command(
    epilog="""\b
Examples:
  pybroker kill 2
  pybroker kill 2 --as-lost
"""
)
@node_argument
@click.option(
    "--as-lost",
    is_flag=True,
    help="Simulate a lost machine: the cluster notices only when the broker's ZooKeeper session "
    "expires.",
)
@data_dir_option
@user_errors
def kill(node: str, as_lost: bool, data_dir: Path) -> None:
    """Kill NODE with SIGKILL, like a crash; pybroker restart starts it again.

    The supervisor closes the ZooKeeper session of a dead broker, so its partitions get new leaders
    at once.
    """
    _command("kill-as-lost" if as_lost else "kill", node, data_dir.absolute())


@click.command(
    epilog="""\b
Examples:
  pybroker pause 2
"""
)
@node_argument
@data_dir_option
@user_errors
def pause(node: str, data_dir: Path) -> None:
    """Freeze NODE with SIGSTOP until pybroker resume: the process lives but does not answer."""
    _command("pause", node, data_dir.absolute())


@click.command(
    epilog="""\b
Examples:
  pybroker resume 2
"""
)
@node_argument
@data_dir_option
@user_errors
def resume(node: str, data_dir: Path) -> None:
    """Continue a paused NODE."""
    _command("resume", node, data_dir.absolute())


@click.command(
    epilog="""\b
Examples:
  pybroker zookeepers 3
  pybroker zookeepers 1
"""
)
@click.argument("count", metavar="N", type=click.IntRange(1, MAX_ZOOKEEPERS))
@data_dir_option
@user_errors
def zookeepers(count: int, data_dir: Path) -> None:
    """Give the running cluster N ZooKeepers: one, or the members of an ensemble.

    The brokers go on, with their sessions. No partition gets a new leader meanwhile, which takes
    about a second.
    """
    _command("zookeepers", str(count), data_dir.absolute())


def _command(command: str, node: str, directory: Path) -> None:
    """Have the supervisor do it, wait until the partitions have leaders again, show the table."""
    import trio
    from rich.console import Console

    from ..local.cluster_control import command_node

    cluster_state.load(directory)
    echo(command_node(directory, command, node))
    state = cluster_state.load(directory)
    if not any(node.status == NodeStatus.RUNNING for node in state.brokers):
        view = None
    elif not state.zookeeper_may_answer:
        echo("ZooKeeper does not answer: until it does, no broker is missed and no leader changes")
        view = trio.run(look_at, state)
    else:
        with Console(stderr=True).status("waiting for the cluster to take it in ..."):
            view = trio.run(_settle, state)
    _show(state, view)


async def _settle(state: ClusterState) -> ClusterView | None:
    import trio

    view = await look_at(state)
    with trio.move_on_after(SETTLE_WAIT_SECONDS):
        while view is None or not view.is_settled(state):
            await trio.sleep(POLL_SECONDS)
            view = await look_at(state)
    with trio.move_on_after(CATCH_UP_WAIT_SECONDS):
        while view is not None and not view.is_caught_up(state):
            await trio.sleep(POLL_SECONDS)
            view = await look_at(state) or view
    return view
