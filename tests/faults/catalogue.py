"""All cases: importing a module of scripts registers them."""

from tests.faults import directories, disks, minorities, network, nodes, topics, zookeepers
from tests.faults.scenario import CASES

__all__ = [
    "CASES",
    "directories",
    "disks",
    "minorities",
    "network",
    "nodes",
    "topics",
    "zookeepers",
]
