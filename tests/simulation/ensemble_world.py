"""The world of a simulated ensemble: its clock, its events, its members and the links between them.

Time passes from one event to the next; events of one instant run in the order in which they were
scheduled. All chances come from one generator, so a seed is the same run each time.
"""

import heapq
import itertools
import random
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

from pybroker_kafka.zookeeper.quorum.member import Member
from tests.simulation.ensemble_disk import Disk

START_MS = 1_700_000_000_000


class Stream(NamedTuple):
    """A connection of the quorum port, from a learner to the one that it takes for its leader."""

    number: int
    learner: int
    leader: int


class Node:
    def __init__(self, number: int, plant: str | None) -> None:
        self.number = number
        self.disk = Disk(plant)
        self.member: Member | None = None
        self.life = 0
        self.streams: dict[object, Stream] = {}
        self.is_flushing = False
        self.timer_ms: int | None = None


class World(ABC):
    def __init__(self, seed: int, members: int, plant: str | None) -> None:
        self.random = random.Random(seed)
        self.plant = plant
        self.now_ms = START_MS
        self.nodes = {n: Node(n, plant) for n in range(1, members + 1)}
        self.cut: set[frozenset[int]] = set()
        self.slow = 0  # the learner that its leader's bytes reach late
        self.is_chaotic = True
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._order = itertools.count()

    def at(self, delay_ms: int, action: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now_ms + delay_ms, next(self._order), action))

    def run_until(self, end_ms: int) -> None:
        while self._events and self._events[0][0] <= end_ms:
            self.now_ms, _, action = heapq.heappop(self._events)
            action()
        self.now_ms = end_ms

    def is_cut(self, one: int, other: int) -> bool:
        return frozenset((one, other)) in self.cut

    @abstractmethod
    def perform(self, node: Node) -> None:
        """Carry out the effects of the node's member."""
