"""What is on a test's cluster: topics, records, leaders, and all that is removed between tests.

The part of `KafkaCluster` that asks the cluster as a client does (`inspection`), and that cleans it
(`cleaning`). Synchronous; each question names what was lacking if it gets no answer in time.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ..local.cluster_state import ClusterError
from .members import Members
from .options import config_texts
from .story import Story

if TYPE_CHECKING:
    from collections.abc import Awaitable

    import pyarrow as pa

    from ..client.cluster import Cluster
    from .cleaning import Snapshot
    from .inspection import Address
    from .records import KafkaRecord

DEFAULT_TIMEOUT_SECONDS = 30.0
TABLE_TIMEOUT_SECONDS = 60.0  # the writer imports the format's library first

T = TypeVar("T")


class Contents(ABC):
    """`data_dir` is that of the cluster while it runs; it raises ClusterError otherwise."""

    def __init__(
        self, data_dir: Callable[[], Path], configs: Mapping[str, str] | None = None
    ) -> None:
        self._configs = configs or {}  # of the brokers
        self.story = Story()
        self._members = Members(data_dir, self.story)
        self._numbers = itertools.count(2)
        self._used: set[str] = set()  # the names that `topic` has tried

    @abstractmethod
    def _address(self) -> Address:
        """Of the brokers that run, with the login of an admin."""

    # Topics and records

    def topic(
        self,
        name: str = "topic",
        partitions: int = 1,
        *,
        replication_factor: int = -1,
        config: Mapping[str, object] | None = None,
        exact: bool = False,
    ) -> str:
        """Create a topic; returns its name: the given one, or if that is taken, a fresh one that
        begins with it; no name comes twice. `exact`: the given one, even if it was deleted before;
        ClusterError if the topic exists. -1 replicas: as many as brokers, 3 at most."""
        from .inspection import make_topic

        configs = config_texts(config or {})
        while True:
            is_fresh = exact or name not in self._used
            fresh = name if is_fresh else f"{name}-{next(self._numbers)}"
            self._used.add(fresh)
            question = partial(
                make_topic,
                name=fresh,
                partitions=partitions,
                replication_factor=replication_factor,
                configs=configs,
            )
            if self._ask(question):
                break
            if exact:
                raise ClusterError(
                    f"topic {name!r} exists already, made by this test or by a client of an "
                    f"earlier one that still runs; kafka.delete_topics({name!r}) deletes it"
                )
        self.story.tell(f"created topic {fresh}")
        return fresh

    def delete_topics(self, *names: str) -> None:
        """Delete topics; afterwards no broker that runs knows them, but their files may be there.
        Missing ones are ignored."""
        from .cleaning import delete_topics

        delete_topics(self._members, list(names))
        self.story.tell(f"deleted {', '.join(names)}")

    def produce(
        self,
        topic: str,
        *values: bytes | str | None,
        key: bytes | str | None = None,
        partition: int | None = None,
        headers: Mapping[str, bytes] | None = None,
        timeout: float = DEFAULT_TIMEOUT_SECONDS,
    ) -> list[KafkaRecord]:
        """Write records with these values, and wait until all in-sync replicas have them; text is
        encoded as UTF-8. Without a key or a partition, the partition is any."""
        from .inspection import write_records

        pairs = [(name, value) for name, value in (headers or {}).items()]
        contents = [_encoded(value) for value in values]
        return self._ask(
            lambda cluster: write_records(
                cluster, topic, contents, _encoded(key), partition, tuple(pairs)
            ),
            timeout,
        )

    def records(
        self,
        topic: str,
        *,
        partition: int | None = None,
        at_least: int = 0,
        committed: bool = False,
        timeout: float = DEFAULT_TIMEOUT_SECONDS,
    ) -> list[KafkaRecord]:
        """All records in a topic, by partition and offset.

        Waits until there are `at_least` so many, for `timeout` seconds at most. `committed`:
        without records of open or aborted transactions, as in `read_committed`.
        """
        from .inspection import Reading

        reading = Reading(topic, partition, at_least, committed)
        return self._ask(reading.read, timeout, reading.lack)

    def table(self, topic: str, *, timeout: float = TABLE_TIMEOUT_SECONDS) -> pa.Table:
        """The rows of the topic's table, as an Arrow table; `.to_pandas()` makes a DataFrame of it.

        Waits until the table has all records that are committed now, for `timeout` seconds at most:
        give the topic a small `pybroker.table.target.lag.ms`. Needs `pybroker-kafka[tables]`.
        """
        from .topic_tables import TableReading, read

        reading = TableReading(topic)
        report = self._ask(reading.wait, timeout, reading.lack)
        return read(report, topic, self._configs)

    def leader(self, topic: str, partition: int = 0) -> int:
        """The id of the broker that leads a partition; waits until there is one."""
        from .inspection import wait_until

        found = self._ask(
            lambda cluster: wait_until(
                cluster, topic, lambda one: one.partitions[partition].leader_id > 0
            )
        )
        leaders = {part.partition_index: part.leader_id for part in found.partitions}
        return leaders[partition]

    def controller(self) -> int:
        """The id of the controller; waits until it is a broker that runs."""
        from .inspection import controller

        running = self._members.running()
        return self._ask(lambda cluster: controller(cluster, running))

    def wait_for_brokers(self, *, timeout: float = DEFAULT_TIMEOUT_SECONDS) -> None:
        """Wait until each running broker knows that these, and no others, are in the cluster."""
        from .inspection import wait_for_brokers

        running = self._members.running()
        self._ask(lambda cluster: wait_for_brokers(cluster, running), timeout)

    def wait_for_isr(
        self, topic: str, size: int | None = None, *, timeout: float = DEFAULT_TIMEOUT_SECONDS
    ) -> None:
        """Wait until each partition has a leader and `size` in-sync replicas; None: all running."""
        from .inspection import wait_until

        running = self._members.running()
        self._ask(
            lambda cluster: wait_until(
                cluster,
                topic,
                lambda found: all(
                    part.leader_id > 0
                    and (
                        set(part.isr_nodes) == running & set(part.replica_nodes)
                        if size is None
                        else len(part.isr_nodes) == size
                    )
                    for part in found.partitions
                ),
            ),
            timeout,
        )

    def _ask(
        self,
        question: Callable[[Cluster], Awaitable[T]],
        timeout: float = DEFAULT_TIMEOUT_SECONDS,
        lack: Callable[[], str] | None = None,
    ) -> T:
        from .inspection import ask

        return ask(self._address(), question, timeout, lack)

    # Between tests

    def snapshot(self) -> Snapshot:
        """The names of all that is on the cluster now, for `clean`."""
        from .cleaning import read

        return read(self._members)

    def clean(self, since: Snapshot, *, keep: Collection[str] = ()) -> None:
        """Remove what has come since a snapshot: topics, groups with their members, transactional
        ids with their open transactions, delegation tokens. Dynamic configs, quotas, credentials
        of users and ACLs become again as they were.

        `keep`: names that stay, with * and ? as in a shell. Afterwards no broker that runs knows
        any of it. The fixture `kafka` calls this after each test.
        """
        from .cleaning import clean

        removed = clean(self._members, since, keep)
        if any(removed):
            self.story.tell(f"cleaned: {removed.words()}")


def _encoded(content: bytes | str | None) -> bytes | None:
    return content.encode() if isinstance(content, str) else content
