"""The table of a local cluster: its nodes with their roles, leaders and memory.

The processes come from the supervisor's file, roles and partitions from the metadata of any broker
that answers; without one, the table says so and shows the processes alone.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..broker.resources import machine
from ..local.cluster_state import ClusterState, NodeState, NodeStatus
from ..local.secured import ADMIN, SecurityFiles
from .target import Target

if TYPE_CHECKING:
    from rich.table import Table

METADATA_TIMEOUT_SECONDS = 3.0


@dataclass(slots=True)
class ClusterView:
    """Roles and partitions in one broker's metadata."""

    controller_id: int = -1
    alive: set[int] = field(default_factory=set)
    leaders: Counter[int] = field(default_factory=Counter)
    replicas: Counter[int] = field(default_factory=Counter)
    out_of_sync: Counter[int] = field(default_factory=Counter)
    partitions: int = 0
    under_replicated: list[str] = field(default_factory=list)
    without_leader: list[str] = field(default_factory=list)

    def is_settled(self, state: ClusterState) -> bool:
        """Whether the cluster has noticed which nodes run, and every partition has a leader.

        Brokers that are not of this local cluster may have joined it.
        """
        own = {node.node_id for node in state.brokers}
        return (
            self.alive & own == _running(state)
            and self.controller_id in self.alive
            and not self.without_leader
        )

    def is_caught_up(self, state: ClusterState) -> bool:
        """Whether all replicas of running brokers are in sync."""
        return self.out_of_sync.keys().isdisjoint(_running(state))


def _running(state: ClusterState) -> set[int]:
    return {node.node_id for node in state.brokers if node.status == NodeStatus.RUNNING}


def security_of(state: ClusterState) -> dict[str, str]:
    """The settings of our login at this cluster. Raises ClusterError."""
    if not state.secured:
        return {}
    return SecurityFiles(Path(state.data_dir)).client_settings(ADMIN)


async def look_at(state: ClusterState) -> ClusterView | None:
    """Ask the brokers that run; None when none answers in time."""
    import trio

    from ..client.errors import ClientError

    security = security_of(state)
    for node in state.brokers:
        if node.status != NodeStatus.RUNNING:
            continue
        with trio.move_on_after(METADATA_TIMEOUT_SECONDS):
            try:
                target = Target(f"{node.host}:{node.port}", security, as_json=False)
                async with target.opened(is_quiet=True) as admin:
                    return _view_of(await admin.client.metadata(None))
            except ClientError:
                continue
    return None


def _view_of(metadata: Any) -> ClusterView:
    view = ClusterView(metadata.controller_id, {broker.node_id for broker in metadata.brokers})
    for topic in metadata.topics:
        for part in topic.partitions:
            view.partitions += 1
            name = f"{topic.name}-{part.partition_index}"
            if part.leader_id < 0:
                view.without_leader.append(name)
            else:
                view.leaders[part.leader_id] += 1
            view.replicas.update(part.replica_nodes)
            missing = set(part.replica_nodes) - set(part.isr_nodes)
            if missing:
                view.under_replicated.append(name)
                view.out_of_sync.update(missing)
    return view


def node_table(state: ClusterState, view: ClusterView | None) -> Table:
    """A row a node; with a view also its role and partitions."""
    from rich import box
    from rich.table import Table

    # All columns fit into 80 characters, the width of a pipe too: no cell is cut short.
    padding = 1 if view is None else 0
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, padding, 0, 0))
    table.add_column("node", no_wrap=True)
    table.add_column("status", no_wrap=True)
    if view is not None:
        table.add_column("role", no_wrap=True)
    for column in ("leaders", "replicas", "behind") if view is not None else ():
        table.add_column(column, no_wrap=True, justify="right")
    for column in ("port", "pid", "memory"):
        table.add_column(column, no_wrap=True, justify="right")
    for node in state.nodes:
        row = [node.name, _colored(node)]
        if view is not None:
            row += _partition_cells(node, view)
        memory = machine.resident_bytes(node.pid)
        row += [
            str(node.port),
            str(node.pid),
            "" if memory is None else f"{memory / 2**20:.0f} MB",
        ]
        table.add_row(*row)
    if not any(node.kind == "zookeeper" for node in state.nodes):
        gap = [""] * (4 if view is not None else 0)
        table.add_row("zookeeper", "external", *gap, "", "", "")
    return table


def _colored(node: NodeState) -> str:
    if node.status == NodeStatus.RUNNING:
        return "[green]running[/]"
    color = "yellow" if node.status == NodeStatus.PAUSED else "red"
    return f"[{color}]{node.status}[/]"


def _partition_cells(node: NodeState, view: ClusterView) -> list[str]:
    if node.kind != "broker":
        return [_role_in_ensemble(node), "", "", ""]
    number = node.node_id
    role = "controller" if number == view.controller_id else ""
    if number not in view.alive:
        role = "absent"
    late = view.out_of_sync[number]
    return [
        role,
        str(view.leaders[number]),
        str(view.replicas[number]),
        f"[red]{late}[/]" if late else "0",
    ]


def _role_in_ensemble(node: NodeState) -> str:
    """`leader` or `follower`, of a member of our ensemble that runs and has a quorum."""
    from ..local.zookeeper_nodes import mode_of

    is_running = node.status == NodeStatus.RUNNING
    return mode_of(node.host, node.port) if node.node_id and is_running else ""


def partition_line(view: ClusterView | None) -> str:
    """One line with the state of all partitions of the cluster."""
    if view is None:
        return "[red]no broker answers: nothing is known of the partitions[/]"
    counted = "1 partition" if view.partitions == 1 else f"{view.partitions} partitions"
    if not view.under_replicated and not view.without_leader:
        return f"{counted}, all led and fully replicated"
    parts = [counted]
    for names, what in (
        (view.under_replicated, "under-replicated"),
        (view.without_leader, "without leader"),
    ):
        if names:
            shown = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
            parts.append(f"[red]{len(names)} {what}[/] ({shown})")
    return "; ".join(parts)
