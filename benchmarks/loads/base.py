"""What a load is made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from benchmarks.brokers import Cluster
from benchmarks.machine import cpu_seconds

OURS_AND_KAFKA = ("pybroker", "kafka")
BOTH_WAYS = ("pybroker", "kafka", "pybroker-pure")


class Pace(NamedTuple):
    """How long a run takes its time."""

    warm_up: float
    seconds: float
    bulk_megabytes: int
    rounds: int

    def records(self, share: float = 1.0) -> int:
        """How many records of 1 KiB a bulk load moves."""
        return int(self.bulk_megabytes * share * 1e6 / 1024)


FULL = Pace(warm_up=0.2, seconds=1.7, bulk_megabytes=1000, rounds=3)
QUICK = Pace(warm_up=0.3, seconds=1.0, bulk_megabytes=200, rounds=1)
WARM_UP = Pace(warm_up=0.1, seconds=0.7, bulk_megabytes=200, rounds=1)


@dataclass(slots=True)
class Bench:
    """What a load works with: a warm cluster, or the means to start its own."""

    pace: Pace
    new_cluster: Callable[[int], Cluster]
    running: Cluster | None = None

    @property
    def cluster(self) -> Cluster:
        assert self.running is not None
        return self.running


Figures = dict[str, float]


class Figure(NamedTuple):
    name: str
    more_is_better: bool = False


@dataclass(slots=True, frozen=True)
class Load:
    """`nodes` brokers that are up already, or none. `family` is its chapter in the results.

    Its first figure is what the load is about; if it `warms_up`, it is run until that no longer
    grows, before it counts. Loads that take long have fewer rounds.
    """

    name: str
    family: str
    figures: tuple[Figure, ...]
    run: Callable[[Bench], Figures]
    nodes: int = 1
    brokers: tuple[str, ...] = field(default=OURS_AND_KAFKA)
    warms_up: bool = True
    most_rounds: int = 3
    about_seconds: float = 8.0  # of a round, until it has been measured


class BrokerCpu:
    """CPU seconds of a cluster's brokers since this was made."""

    def __init__(self, cluster: Cluster) -> None:
        self._pids = cluster.broker_pids
        self._before = cpu_seconds(self._pids)

    def spent(self) -> float:
        return cpu_seconds(self._pids) - self._before
