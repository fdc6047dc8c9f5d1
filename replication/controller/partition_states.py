"""The partition state machine: NonExistent -> New -> Online <-> Offline -> NonExistent.

Job: move partitions between states, choosing leaders on the way to Online, and collect the requests
that notify the brokers.

| target      | what happens                                                                    |
|-------------|---------------------------------------------------------------------------------|
| New         | state only                                                                      |
| Online      | from New: first live replica leads, ISR = live replicas, state node created;    |
|             | from Online or Offline: the election given by the caller, state node rewritten   |
|             |   so from New, too, if there is a state node (`topic_import`)                    |
| Offline     | state only                                                                      |
| NonExistent | state only                                                                      |

Invariants: a leader is in the ISR; without an unclean election it was a member before, and no
replica joins the ISR by an election; an election raises the leader epoch. VALID_PREVIOUS_STATES is
the only list of legal transitions; an illegal one is logged and counted and changes nothing. A
partition gets Online only after its state is in ZooKeeper.

Mirrors kafka.controller.ZkPartitionStateMachine.
"""

import logging
from collections.abc import Mapping, Sequence

from ...protocol.invariants import BrokenInvariant
from ...protocol.topics import TopicPartition
from ...protocol.zookeeper.constants import ZkCode
from ...protocol.zookeeper.operations import Flow, GetData
from . import znodes
from .config import ControllerConfig
from .context import ControllerContext, PartitionStateName
from .effects import Effect
from .elections import Elected, Election, elect_after_failover, elect_offline
from .leadership import (
    Failure,
    Outcome,
    create_states,
    read_states,
    write_states,
)
from .request_batch import RequestBatch
from .znodes import LeaderAndIsr

logger = logging.getLogger("pybroker.replication.controller.partition_states")

NON_EXISTENT = PartitionStateName.NON_EXISTENT
NEW = PartitionStateName.NEW
ONLINE = PartitionStateName.ONLINE
OFFLINE = PartitionStateName.OFFLINE

VALID_PREVIOUS_STATES: Mapping[PartitionStateName, frozenset[PartitionStateName]] = {
    NEW: frozenset({NON_EXISTENT}),
    ONLINE: frozenset({NEW, ONLINE, OFFLINE}),
    OFFLINE: frozenset({NEW, ONLINE, OFFLINE}),
    NON_EXISTENT: frozenset({OFFLINE}),
}
UNCLEAN_CONFIG = "unclean.leader.election.enable"


class PartitionStateMachine:
    __slots__ = (
        "_batch",
        "_config",
        "_context",
        "_effects",
        "elections",
        "illegal_transitions",
        "unclean_elections",
    )

    def __init__(
        self,
        config: ControllerConfig,
        context: ControllerContext,
        batch: RequestBatch,
        effects: list[Effect],
    ) -> None:
        self._config = config
        self._context = context
        self._batch = batch
        self._effects = effects
        self.illegal_transitions = 0
        self.elections = 0
        self.unclean_elections = 0

    def startup(self) -> Flow[None]:
        """Set the states of all known partitions at the start of a controller, then elect
        leaders."""
        context = self._context
        for partition in context.all_partitions():
            state = context.leadership.get(partition)
            if state is None:
                context.partition_states[partition] = NEW
            elif context.is_replica_online(state.leader, partition):
                context.partition_states[partition] = ONLINE
            else:
                context.partition_states[partition] = OFFLINE
        yield from self.elect_offline_and_new(election=elect_after_failover)

    def elect_offline_and_new(
        self, topic: str | None = None, *, election: Election = elect_offline
    ) -> Flow[dict[TopicPartition, Outcome]]:
        """Try to bring every Offline and New partition online (of one topic, or of all)."""
        waiting = [
            partition
            for partition in self._context.partitions_in((OFFLINE, NEW), topic)
            if not self._context.is_doomed(partition)
        ]
        return (yield from self.change(waiting, ONLINE, election))

    def change(
        self,
        partitions: Sequence[TopicPartition],
        target: PartitionStateName,
        election: Election = elect_offline,
        *,
        unclean: bool = False,
    ) -> Flow[dict[TopicPartition, Outcome]]:
        """Move partitions to `target`; the outcome of each election that was held."""
        if not partitions:
            return {}
        valid = [partition for partition in partitions if self._is_legal(partition, target)]
        outcomes: dict[TopicPartition, Outcome] = {}
        if target is ONLINE:
            states = self._context.partition_states
            fresh = [p for p in valid if states[p] is NEW]
            known = [p for p in valid if states[p] is not NEW]
            known += yield from self._initialize(fresh)
            outcomes = yield from self._elect(known, election, unclean)
            for partition, outcome in outcomes.items():
                if isinstance(outcome, LeaderAndIsr):
                    states[partition] = ONLINE
        else:
            for partition in valid:
                if target is NON_EXISTENT:
                    del self._context.partition_states[partition]
                else:
                    self._context.partition_states[partition] = target
        self._effects.extend(self._batch.take_requests())
        return outcomes

    def _is_legal(self, partition: TopicPartition, target: PartitionStateName) -> bool:
        current = self._context.partition_state(partition)
        if current in VALID_PREVIOUS_STATES[target]:
            return True
        self.illegal_transitions += 1
        logger.error("%s-%d cannot go from %s to %s", *partition, current.value, target.value)
        return False

    # New -> Online

    def _initialize(self, partitions: Sequence[TopicPartition]) -> Flow[list[TopicPartition]]:
        """Returns the partitions that have a state already, as Offline: see `topic_import`."""
        context = self._context
        existing: list[TopicPartition] = []
        states = {}
        for partition in partitions:
            replicas = context.replicas(partition)
            live = tuple(r for r in replicas if context.is_replica_online(r, partition))
            if not live:
                logger.error(
                    "%s-%d stays new: none of its replicas %s is alive", *partition, replicas
                )
                continue
            states[partition] = LeaderAndIsr(
                leader=live[0],
                leader_epoch=0,
                isr=live,
                partition_epoch=0,
                controller_epoch=context.epoch,
            )
        codes = yield from create_states(context, states)
        for partition, code in codes.items():
            if code is ZkCode.NODE_EXISTS:
                context.partition_states[partition] = OFFLINE
                existing.append(partition)
                continue
            if code is not ZkCode.OK:
                logger.error("%s-%d stays new: ZooKeeper answered %s", *partition, code.name)
                continue
            state = states[partition]
            context.leadership[partition] = state
            context.partition_states[partition] = ONLINE
            assignment = context.assignment(partition)
            self._batch.add_leader_and_isr(state.isr, partition, state, assignment, is_new=True)
        return existing

    # Elections

    def _elect(
        self, partitions: Sequence[TopicPartition], election: Election, unclean: bool
    ) -> Flow[dict[TopicPartition, Outcome]]:
        outcomes: dict[TopicPartition, Outcome] = {}
        remaining = list(partitions)
        while remaining:  # again for those whose ISR changed meanwhile
            finished, remaining = yield from self._elect_once(remaining, election, unclean)
            outcomes.update(finished)
        for partition, outcome in outcomes.items():
            if isinstance(outcome, Failure):
                logger.warning("no leader elected for %s-%d: %s", *partition, outcome.reason)
        return outcomes

    def _elect_once(
        self, partitions: Sequence[TopicPartition], election: Election, unclean: bool
    ) -> Flow[tuple[dict[TopicPartition, Outcome], list[TopicPartition]]]:
        context = self._context
        read = yield from read_states(context, partitions)
        outcomes: dict[TopicPartition, Outcome] = dict(read.failed)
        outcomes.update({p: Failure("it has no state in ZooKeeper") for p in read.missing})
        unclean_topics: set[str] = set()
        if election in (elect_offline, elect_after_failover) and not unclean:
            unclean_topics = yield from self._topics_allowing_unclean(read.states)
        elected: dict[TopicPartition, Elected] = {}
        for partition, state in read.states.items():
            allowed = unclean or partition[0] in unclean_topics
            result = election(context, partition, state, allowed)
            if result is None:
                outcomes[partition] = Failure("no eligible replica is alive")
            else:
                _check_elected(partition, state, result.state, unclean=allowed)
                elected[partition] = result
        updates = {partition: result.state for partition, result in elected.items()}
        written = yield from write_states(context, updates)
        outcomes.update(written.failed)
        for partition, state in written.written.items():
            context.leadership[partition] = state
            outcomes[partition] = state
            self.elections += 1
            self.unclean_elections += state.leader not in read.states[partition].isr
            self._batch.add_leader_and_isr(
                elected[partition].recipients,
                partition,
                state,
                context.assignment(partition),
                is_new=False,
            )
        return outcomes, written.retry

    def _topics_allowing_unclean(
        self, states: Mapping[TopicPartition, LeaderAndIsr]
    ) -> Flow[set[str]]:
        """The topics of partitions without a live ISR member whose config allows data loss."""
        context = self._context
        topics = sorted(
            {
                partition[0]
                for partition, state in states.items()
                if not any(context.is_replica_online(r, partition) for r in state.isr)
            }
        )
        if not topics:
            return set()
        results = yield [GetData(znodes.config_path(f"topics/{topic}")) for topic in topics]
        allowing = set()
        for topic, result in zip(topics, results, strict=True):
            try:
                config = znodes.decode_config(result.data)
            except znodes.MalformedZnode as error:
                logger.error("no unclean election for %s: %s", topic, error)
                continue
            override = config.get(UNCLEAN_CONFIG)
            if override is None:
                allowed = self._config.unclean_leader_election_enable
            else:
                allowed = override.strip().lower() == "true"
            if allowed:
                allowing.add(topic)
        return allowing


def _check_elected(
    partition: TopicPartition, before: LeaderAndIsr, after: LeaderAndIsr, *, unclean: bool
) -> None:
    known = set(before.isr) | ({after.leader} if unclean else set())
    if (
        after.leader not in after.isr
        or not known.issuperset(after.isr)
        or after.leader_epoch <= before.leader_epoch
    ):
        raise BrokenInvariant(f"{partition}: {after} is elected from {before}, unclean: {unclean}")
