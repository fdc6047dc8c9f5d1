"""Orders to nodes of a local cluster to stop, to freeze or to restart: through its supervisor."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import trio

from ..local.cluster_control import command_node
from .asked import Wrong, text
from .cluster_view import Happening
from .collector import Collector

COMMANDS: Final = ("kill", "pause", "resume", "restart", "stop")


async def node_command(collector: Collector, asked: dict[str, Any]) -> dict[str, str]:
    """`{"command": ..., "node": a broker's id or zookeeper}`. Raises Wrong, ClusterError."""
    command, node = text(asked, "command"), text(asked, "node")
    data_dir: Path | None = collector.data_dir
    if data_dir is None:
        raise Wrong("only nodes of a local cluster have commands")
    if command not in COMMANDS:
        raise Wrong(f"the commands for a node are {', '.join(COMMANDS)}")
    collector.tell([Happening("node", f"{command} {node}, asked in the console")])
    done = await trio.to_thread.run_sync(command_node, data_dir, command, node)
    return {"done": done}
