"""The assignment of partitions to fetchers, one group of fetchers per leader.

Job: turn role changes into partitions of fetchers. A partition belongs to one fetcher at most:
(its leader, a hash of its name modulo `num.replica.fetchers`).

Mirrors AbstractFetcherManager and ReplicaFetcherManager.
"""

from collections.abc import Iterable

from ..protocol.invariants import BrokenInvariant
from ..protocol.java_hash import java_string_hash
from ..protocol.topics import TopicPartition
from .follower import FollowerPartition
from .follower_fetcher import FollowerFetcher
from .follower_steps import FetcherConfig
from .replica_manager import ReplicaManager
from .types import FlushNeeded, RoleChange

FetcherKey = tuple[int, int]  # source broker, fetcher id


class FollowerFetchers:
    __slots__ = ("_home", "_manager", "config", "fetchers", "fetchers_per_source")

    def __init__(
        self, manager: ReplicaManager, config: FetcherConfig, fetchers_per_source: int = 1
    ) -> None:
        self._manager = manager
        self.config = config
        self.fetchers_per_source = fetchers_per_source
        self.fetchers: dict[FetcherKey, FollowerFetcher] = {}
        self._home: dict[TopicPartition, FollowerFetcher] = {}

    def fetcher_id(self, key: TopicPartition) -> int:
        value = (31 * java_string_hash(key[0]) + key[1]) & 0xFFFFFFFF
        signed = value - (1 << 32) if value & 0x80000000 else value
        return 0 if signed == -(1 << 31) else abs(signed) % self.fetchers_per_source

    def follow(self, changes: Iterable[RoleChange]) -> list[FollowerFetcher]:
        """These partitions have a leader epoch to follow; returns the fetchers with new work, in
        the order of the changes."""
        touched: dict[FollowerFetcher, None] = {}
        for change in changes:
            key = (change.topic, change.partition)
            self._remove(key)
            partition = self._manager.partitions.get(key)
            if partition is None or partition.is_leader or partition.leader_id < 0:
                continue
            place = (partition.leader_id, self.fetcher_id(key))
            fetcher = self.fetchers.get(place)
            if fetcher is None:
                fetcher = FollowerFetcher(self._manager, *place, self.config)
                self.fetchers[place] = fetcher
            fetcher.table.add(
                FollowerPartition(partition, truncates_on_fetch=self.config.truncates_on_fetch)
            )
            self._home[key] = fetcher
            if partition.log.unflushed_from >= 0:
                # The first fetch acknowledges the whole log.
                end_offset = partition.log.log_end_offset
                fetcher.table.wait_for_flush(key, end_offset)
                self._manager.effects.append(FlushNeeded(*key, end_offset, partition.log))
            touched[fetcher] = None
        return list(touched)

    def resize(self, fetchers_per_source: int) -> list[FollowerFetcher]:
        """Spread all partitions over another number of fetchers."""
        self.fetchers_per_source = fetchers_per_source
        partitions = self._manager.partitions
        return self.follow(
            RoleChange(*key, partitions[key].leader_id, partitions[key].leader_epoch)
            for key in list(self._home)
            if key in partitions
        )

    def stop(self, changes: Iterable[RoleChange]) -> None:
        """These partitions are led here now, or not hosted any more."""
        for change in changes:
            self._remove((change.topic, change.partition))

    def _remove(self, key: TopicPartition) -> None:
        fetcher = self._home.pop(key, None)
        if fetcher is not None:
            fetcher.table.remove(key)

    def discard(self, fetcher: FollowerFetcher) -> None:
        """A fetcher without partitions ends."""
        if fetcher.table.states:
            raise BrokenInvariant(f"a fetcher ends, with {list(fetcher.table.states)}")
        del self.fetchers[fetcher.source_id, fetcher.fetcher_id]

    def of_partition(self, key: TopicPartition) -> FollowerFetcher | None:
        return self._home.get(key)

    @property
    def failed_count(self) -> int:
        return sum(len(fetcher.table.failed_keys) for fetcher in self.fetchers.values())

    @property
    def max_lag(self) -> int:
        """The largest known distance to a leader's HW."""
        return max(
            (
                state.lag
                for fetcher in self.fetchers.values()
                for state in fetcher.table.states.values()
            ),
            default=0,
        )
