"""Brokers that follow each other through their real handlers, one exchange at a time, no sockets.

Every request and response passes through the codec. The test plays the controller, which agrees to
all ISR changes, and decides who exchanges when.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.apis.fetch import FetchRequest
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.records.batch import iter_batch_headers
from pybroker_kafka.replication.follower_fetcher import FollowerFetcher
from pybroker_kafka.replication.follower_fetchers import FollowerFetchers
from pybroker_kafka.replication.follower_steps import Exchange, FetcherConfig, Wait
from pybroker_kafka.replication.types import (
    AlterIsr,
    Completion,
    Done,
    FlushNeeded,
    LeadershipResult,
    ReplicatedAppend,
)
from pybroker_kafka.storage.log import Log
from tests.support.handlers import Call
from tests.support.replication import KEY, TOPIC_ID, batch
from tests.support.replication_handlers import HandlerBroker

MAX_ROUNDS = 100


class Node(HandlerBroker):
    """One broker: its handlers as a leader, its fetchers as a follower."""

    def __init__(
        self, directory: Path, broker_id: int, fetcher: FetcherConfig, **options: Any
    ) -> None:
        super().__init__(directory, broker_id=broker_id, **options)
        self.broker_id = broker_id
        self.manager = self.cluster.manager
        self.fetchers = FollowerFetchers(self.manager, fetcher)
        self.flushes: list[FlushNeeded] = []
        self.proposals: list[AlterIsr] = []
        self.replica_runtime.on_isr_change = self.proposals.append

    @property
    def log(self) -> Log:
        return self.manager.partitions[KEY].log

    def fetcher(self, source: int) -> FollowerFetcher | None:
        return self.fetchers.fetchers.get((source, 0))

    def settle(self) -> list[Completion]:
        """What the runtime would do, with the disk and the controller's answers held back."""
        manager = self.manager
        for effect in manager.take_effects():
            if isinstance(effect, FlushNeeded):
                self.flushes.append(effect)
            elif isinstance(effect, AlterIsr):
                self.proposals.append(effect)
        completed = manager.take_completed()
        for token, result in completed:
            if hasattr(token, "complete"):
                token.complete(result)
        return completed

    def flush(self) -> None:
        """The disk is done with all that it was asked for."""
        flushes, self.flushes = self.flushes, []
        for effect in flushes:
            effect.log.flush(effect.offset)
            self.manager.flushed(effect.topic, effect.partition, effect.offset, 0)
            for fetcher in self.fetchers.fetchers.values():
                fetcher.table.flushed((effect.topic, effect.partition), effect.offset)
        self.settle()

    def change_roles(self, result: LeadershipResult) -> None:
        self.fetchers.stop(result.became_leader)
        self.fetchers.follow(result.became_follower)
        self.settle()


class Nodes:
    """A cluster of one partition that is on all brokers."""

    def __init__(
        self,
        directory: Path,
        broker_ids: Iterable[int] = (1, 2, 3),
        *,
        fetcher: FetcherConfig | None = None,
        topic_config: dict[str, str] | None = None,
    ) -> None:
        self.directory = directory
        self.broker_ids = tuple(broker_ids)
        self.fetcher_config = fetcher or FetcherConfig()
        self.topic_config = topic_config or {}
        self.nodes: dict[int, Node] = {}
        self.leader_epoch = 0
        self.partition_epoch = 0
        self.leader_id = -1
        self.isr: tuple[int, ...] = self.broker_ids
        for broker_id in self.broker_ids:
            self.start(broker_id)

    def __getitem__(self, broker_id: int) -> Node:
        return self.nodes[broker_id]

    @property
    def leader(self) -> Node:
        return self.nodes[self.leader_id]

    @property
    def now_ms(self) -> int:
        return next(iter(self.nodes.values())).cluster.now_ms

    def pass_time(self, delta_ms: int) -> None:
        for node in self.nodes.values():
            node.cluster.now_ms += delta_ms
            node.manager.waiting.tick(node.cluster.now_ms)
            node.settle()

    # Processes

    def start(self, broker_id: int) -> Node:
        path = self.directory / f"broker{broker_id}"
        path.mkdir(exist_ok=True)
        node = Node(path, broker_id, self.fetcher_config, topic_config=self.topic_config)
        if self.nodes:
            node.cluster.now_ms = self.now_ms
        node.cluster.alive(self.broker_ids)
        node.cluster.publish(broker_id)
        self.nodes[broker_id] = node
        return node

    def crash(self, broker_id: int) -> None:
        """The process is gone; what it wrote is still there."""
        self.nodes.pop(broker_id).cluster.log_manager.release()

    def release(self) -> None:
        for node in self.nodes.values():
            node.cluster.log_manager.release()

    # The controller

    def elect(
        self, leader_id: int, isr: Sequence[int] | None = None, *, told: Iterable[int] | None = None
    ) -> None:
        """A new leader epoch, told to these brokers (all that run)."""
        self.leader_epoch += 1
        self.partition_epoch += 1
        self.leader_id = leader_id
        self.isr = tuple(self.broker_ids if isr is None else isr)
        for broker_id in list(self.nodes) if told is None else told:
            self.tell(broker_id)

    def tell(self, broker_id: int) -> None:
        """LeaderAndIsr with the state of now."""
        node = self.nodes[broker_id]
        result = node.cluster.role(
            leader=self.leader_id,
            replicas=self.broker_ids,
            isr=self.isr,
            leader_epoch=self.leader_epoch,
            partition_epoch=self.partition_epoch,
            topic_id=TOPIC_ID,
        )
        node.change_roles(result)

    def answer_proposals(self) -> None:
        """Agree to what the leader has proposed for its ISR."""
        node = self.leader
        proposals = list(node.proposals)
        node.proposals.clear()
        for proposal in proposals:
            if proposal.leader_epoch != self.leader_epoch:
                continue
            self.partition_epoch += 1
            self.isr = proposal.isr
            node.manager.isr_changes.altered(
                proposal, ErrorCode.NONE, self.isr, self.partition_epoch, self.now_ms
            )
        node.settle()

    # Clients and followers

    def produce(self, *values: bytes, acks: int = 1, token: object = "p") -> bool:
        """Whether the append is acknowledged at once."""
        node = self.leader
        entries = {KEY: batch(*values or (b"value",))}
        outcome = node.manager.appends.append(
            token, entries, ReplicatedAppend(acks, 30_000, self.now_ms)
        )
        node.settle()
        return isinstance(outcome, Done)

    def step(self, broker_id: int) -> Exchange | Wait:
        """The follower's next step, wholly done if it is an exchange; its long polls are cut."""
        node = self.nodes[broker_id]
        fetcher = node.fetcher(node.manager.partitions[KEY].leader_id)
        if fetcher is None or not fetcher.table.states:
            return Wait(None)
        step = fetcher.next_step(self.now_ms)
        if isinstance(step, Exchange):
            source = self.nodes.get(fetcher.source_id)
            if source is None:
                fetcher.failed(step, self.now_ms)
            else:
                fetcher.answered(step, self.ask(source, step), self.now_ms)
        node.settle()
        return step

    def ask(self, source: Node, step: Exchange) -> Any:
        """The answer of `source`; a poll that finds nothing waits for as long as it wants."""
        key = ApiKey(step.request._spec.api_key)
        call = Call(source.area_of(key), key, step.version, step.request)
        source.settle()
        if call.answer is None:
            assert isinstance(step.request, FetchRequest)
            self.pass_time(step.request.max_wait_ms + 1)
        assert call.answer is not None
        return call.answer

    def catch_up(self, broker_id: int) -> None:
        """Steps until the follower has what the leader has, with two polls on top for the HW."""
        polls = 0
        for _ in range(MAX_ROUNDS):
            step = self.step(broker_id)
            self.answer_proposals()
            if isinstance(step, Wait):
                if step.until_ms is None:
                    return
                self.pass_time(max(0, step.until_ms - self.now_ms))
                continue
            if self[broker_id].log.log_end_offset == self.leader.log.log_end_offset:
                polls += step.is_long_poll
                if polls == 3:
                    return
        raise AssertionError(f"broker {broker_id} does not catch up")


def history(log: Log) -> list[tuple[int, int]]:
    """(base offset, leader epoch) of every batch."""
    return [
        (header.base_offset, header.partition_leader_epoch)
        for _, header in iter_batch_headers(content(log))
    ]


def content(log: Log) -> bytes:
    """All bytes of a log, from its first segment on."""
    return b"".join(segment.log_file.read_at(segment.size, 0) for segment in list(log.segments))
