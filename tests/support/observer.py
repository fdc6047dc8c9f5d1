"""Watches a cluster while a test breaks it: who leads in which epoch, and how far the HW is.

Job: one thread a broker asks that broker alone, several times a second, for its metadata and for
the end (high watermark) of each partition that it says it leads, fenced with that epoch.
Invariants (`violations`): in an epoch one broker at most answers as the leader; the HW that a
broker tells never goes back, neither within an epoch nor from one to a later one, whoever leads
(KIP-207). Answers count by when they were asked for and when they came: an answer that overlaps
another in time is compared with neither.
Leaves out: what a broker does while it does not answer.
"""

from __future__ import annotations

import threading
import time
from typing import NamedTuple

from pybroker_kafka.protocol.apis.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from pybroker_kafka.protocol.apis.metadata import MetadataRequest, MetadataRequestTopic
from tests.support.cluster import CALL_TIMEOUT_SECONDS, Cluster
from tests.support.wire import WireClient

EVERY_SECONDS = 0.1
LATEST = -1
READ_UNCOMMITTED = 0


class Sighting(NamedTuple):
    """A broker answered as the leader of an epoch."""

    asked: float
    answered: float
    partition: int
    epoch: int
    broker: int
    high_watermark: int


class Observer:
    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._cluster = cluster
        self._topic = topic
        self._ending = threading.Event()
        self.sightings: list[Sighting] = []
        self._threads = [
            threading.Thread(target=self._watch, args=(node,), daemon=True)
            for node in cluster.nodes
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        self._ending.set()
        for thread in self._threads:
            thread.join(4 * CALL_TIMEOUT_SECONDS)

    def _watch(self, node: int) -> None:
        client: WireClient | None = None
        while not self._ending.wait(EVERY_SECONDS):
            try:
                if client is None:
                    client = WireClient(self._cluster.nodes[node].bootstrap, "observer")
                    client.socket.settimeout(CALL_TIMEOUT_SECONDS)
                self._look(node, client)
            except (OSError, AssertionError):
                if client is not None:
                    client.close()
                client = None
        if client is not None:
            client.close()

    def _look(self, node: int, client: WireClient) -> None:
        topics = [MetadataRequestTopic(name=self._topic)]
        (topic,) = client.call(MetadataRequest(topics=topics), 9).topics
        epochs = {
            p.partition_index: p.leader_epoch for p in topic.partitions if p.leader_id == node
        }
        if not epochs:
            return
        wanted = [
            ListOffsetsPartition(
                partition_index=index, current_leader_epoch=epoch, timestamp=LATEST
            )
            for index, epoch in epochs.items()
        ]
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=READ_UNCOMMITTED,
            topics=[ListOffsetsTopic(name=self._topic, partitions=wanted)],
        )
        asked = time.monotonic()
        (answer,) = client.call(request, 5).topics
        answered = time.monotonic()
        self.sightings += [
            Sighting(asked, answered, p.partition_index, epochs[p.partition_index], node, p.offset)
            for p in answer.partitions
            if p.error_code == 0
        ]

    # Verdict

    def violations(self) -> list[str]:
        found = []
        leaders: dict[tuple[int, int], int] = {}
        for one in self.sightings:
            leader = leaders.setdefault((one.partition, one.epoch), one.broker)
            if leader != one.broker:
                found.append(f"two leaders of an epoch: {leader} and {one}")
        for partition in {one.partition for one in self.sightings}:
            found += self._backwards([s for s in self.sightings if s.partition == partition])
        return found

    @staticmethod
    def _backwards(sightings: list[Sighting]) -> list[str]:
        """What was asked for after an answer of the same or an earlier epoch must not be less."""
        found = []
        highest: Sighting | None = None
        waiting: list[Sighting] = []
        for one in sorted(sightings, key=lambda sighting: sighting.asked):
            for earlier in [w for w in waiting if w.answered <= one.asked]:
                waiting.remove(earlier)
                if highest is None or earlier.high_watermark > highest.high_watermark:
                    highest = earlier
            if (
                highest is not None
                and one.epoch >= highest.epoch
                and one.high_watermark < highest.high_watermark
            ):
                found.append(f"HW back: {highest}, then {one}")
            waiting.append(one)
        return found
