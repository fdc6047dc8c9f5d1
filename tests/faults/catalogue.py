"""All cases: importing a module of scripts registers them."""

from tests.faults import disks, minorities, network, nodes, topics, zookeepers
from tests.faults.scenario import CASES

__all__ = ["CASES", "disks", "minorities", "network", "nodes", "topics", "zookeepers"]
