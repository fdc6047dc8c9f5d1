"""All cases: importing a module of scripts registers them."""

from tests.faults import (
    directories,
    disks,
    ensembles,
    minorities,
    network,
    nodes,
    partitions,
    topics,
    zookeepers,
)
from tests.faults.scenario import CASES

__all__ = [
    "CASES",
    "directories",
    "disks",
    "ensembles",
    "minorities",
    "network",
    "nodes",
    "partitions",
    "topics",
    "zookeepers",
]
