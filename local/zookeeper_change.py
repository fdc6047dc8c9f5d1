"""Another number of ZooKeepers for a cluster that runs: checked before the old ones are stopped.

The supervisor stops the old ones, copies their newest state to the new ones and starts these. The
first keeps its client port, so that the brokers reach it; from `/zookeeper/config` they learn the
others (`pybroker.zookeeper.follow.members`). Their sessions are in the state, and no session
expires while no ZooKeeper runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .cluster_spec import ClusterSpec, port_problem
from .cluster_state import MAX_ZOOKEEPERS, ClusterError
from .free_ports import take_ports
from .zookeeper_nodes import Ports, free_ports


class ZooKeepers(NamedTuple):
    """The ZooKeepers of a cluster, as `ClusterSpec` has them."""

    number: int
    ports: list[int]
    ensemble_ports: Ports

    def set_in(self, spec: ClusterSpec) -> None:
        spec.zookeeper_count, spec.zookeeper_ports, spec.ensemble_ports = self


def planned(spec: ClusterSpec, client_ports: Sequence[int], wanted: str) -> ZooKeepers:
    """The new ones; `client_ports` are those of the old ones. Raises ClusterError."""
    if not (wanted.isascii() and wanted.isdecimal() and 1 <= int(wanted) <= MAX_ZOOKEEPERS):
        raise ClusterError(f"a cluster has 1 to {MAX_ZOOKEEPERS} ZooKeepers, not {wanted!r}")
    if spec.zookeeper_connect is not None:
        raise ClusterError(f"the ZooKeepers at {spec.zookeeper_connect} are not of this cluster")
    if spec.own_keys is not None and "zookeeper.connect" in spec.own_keys(1):
        raise ClusterError("the brokers reach ZooKeeper through a proxy: their number is fixed")
    count = int(wanted)
    if count == spec.zookeeper_count:
        raise ClusterError(f"the cluster has {wanted} already")
    spec.check_zookeepers(count)
    kept = client_ports[:count]
    taken = set(client_ports)
    more = range(len(kept) + 1, count + 1)
    ports = [*kept, *(_port_of(spec, number, taken) for number in more)]
    return ZooKeepers(count, ports, free_ports(count, taken) if count > 1 else {})


def _port_of(spec: ClusterSpec, number: int, taken: set[int]) -> int:
    if not spec.zookeeper_port:
        return take_ports(1, taken)
    port = spec.zookeeper_port + number - 1
    if (problem := port_problem(port)) is not None:
        raise ClusterError(f"port {port}, wanted for ZooKeeper {number}, cannot be used: {problem}")
    return port
