"""Reading and writing partition states in ZooKeeper, with the controller's two fences.

Job: pipelined reads and conditional writes of .../partitions/<p>/state.
Invariants: every write is a multi that first checks the version of /controller_epoch, so that a
controller that has been replaced cannot write (`ControllerMoved`); and it names the version that
was read, so that a leader's concurrent ISR change is never overwritten (such partitions come back
in `retry`). A state that a newer controller has written is never used.

Mirrors KafkaZkClient.updateLeaderAndIsr, createTopicPartitionStatesRaw and getTopicPartitionStates.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias

from ...protocol.topics import TopicPartition
from ...protocol.zookeeper.constants import ZkCode
from ...protocol.zookeeper.operations import (
    Check,
    Create,
    Flow,
    GetData,
    Multi,
    SetData,
    WriteOperation,
    ZkError,
    ZkResult,
    run_one,
)
from . import znodes
from .context import ControllerContext
from .znodes import LeaderAndIsr

logger = logging.getLogger("pybroker.replication.controller.leadership")


class ControllerMoved(Exception):
    """Another broker is the controller now: nothing was written."""


class Failure(NamedTuple):
    """A state change that did not happen, and why."""

    reason: str


GROUP_SIZE = 100

Outcome: TypeAlias = LeaderAndIsr | Failure


@dataclass(slots=True)
class StatesRead:
    states: dict[TopicPartition, LeaderAndIsr] = field(default_factory=dict)
    missing: list[TopicPartition] = field(default_factory=list)
    failed: dict[TopicPartition, Failure] = field(default_factory=dict)


@dataclass(slots=True)
class StatesWritten:
    written: dict[TopicPartition, LeaderAndIsr] = field(default_factory=dict)
    retry: list[TopicPartition] = field(default_factory=list)
    failed: dict[TopicPartition, Failure] = field(default_factory=dict)


def fenced_writes(
    context: ControllerContext, operations: Sequence[WriteOperation]
) -> Flow[list[ZkResult]]:
    """Perform each write only if we are still the controller; one result a write.

    Writes go in atomic groups, which cost a tenth of single writes; if one write fails, its group
    is repeated one by one.
    """
    groups = [
        operations[start : start + GROUP_SIZE] for start in range(0, len(operations), GROUP_SIZE)
    ]
    answers = yield from _fenced(context, groups)
    results: list[ZkResult] = []
    for group, group_results in zip(groups, answers, strict=True):
        if len(group) > 1 and not all(result.ok for result in group_results):
            single = yield from _fenced(context, [[operation] for operation in group])
            results += [result for (result,) in single]
        else:
            results += group_results
    return results


def _fenced(
    context: ControllerContext, groups: Sequence[Sequence[WriteOperation]]
) -> Flow[list[Sequence[ZkResult]]]:
    fence = Check(znodes.CONTROLLER_EPOCH, context.epoch_zk_version)
    results = yield [Multi((fence, *group)) for group in groups]
    answers: list[Sequence[ZkResult]] = []
    for group, result in zip(groups, results, strict=True):
        if not result.results:
            raise ZkError(result.code, group[0].path)
        if result.results[0].code in (ZkCode.BAD_VERSION, ZkCode.NO_NODE):
            raise ControllerMoved
        answers.append(result.results[1:])
    return answers


def read_states(
    context: ControllerContext, partitions: Sequence[TopicPartition]
) -> Flow[StatesRead]:
    """States as they are in ZooKeeper now, each with the version of its node."""
    outcome = StatesRead()
    if not partitions:
        return outcome
    results = yield [GetData(znodes.partition_state_path(*p)) for p in partitions]
    for partition, result in zip(partitions, results, strict=True):
        if result.code is ZkCode.NO_NODE:
            outcome.missing.append(partition)
            continue
        if not result.ok:
            outcome.failed[partition] = Failure(f"ZooKeeper answered {result.code.name}")
            continue
        try:
            state = znodes.decode_partition_state(result.data, result.version)
        except znodes.MalformedZnode as error:
            outcome.failed[partition] = Failure(str(error))
            continue
        if state.controller_epoch > context.epoch:
            yield from _check_still_controller(context)
            outcome.failed[partition] = Failure(
                f"the state was written by a newer controller (epoch {state.controller_epoch})"
            )
            continue
        outcome.states[partition] = state
    return outcome


def _check_still_controller(context: ControllerContext) -> Flow[None]:
    """A controller with a higher epoch has written: our successor, unless ZooKeeper's data is
    mixed."""
    epoch = yield from run_one(GetData(znodes.CONTROLLER_EPOCH))
    if not epoch.ok or epoch.version != context.epoch_zk_version:
        raise ControllerMoved


def write_states(
    context: ControllerContext, updates: Mapping[TopicPartition, LeaderAndIsr]
) -> Flow[StatesWritten]:
    """Write each state where the node still has the version in its `partition_epoch`."""
    outcome = StatesWritten()
    if not updates:
        return outcome
    ours = {p: replace(s, controller_epoch=context.epoch) for p, s in updates.items()}
    results = yield from fenced_writes(
        context,
        [
            SetData(
                znodes.partition_state_path(*partition),
                znodes.encode_partition_state(state),
                state.partition_epoch,
            )
            for partition, state in ours.items()
        ],
    )
    for (partition, state), result in zip(ours.items(), results, strict=True):
        if result.ok:
            outcome.written[partition] = replace(state, partition_epoch=result.version)
        elif result.code is ZkCode.BAD_VERSION:
            outcome.retry.append(partition)
        else:
            outcome.failed[partition] = Failure(f"ZooKeeper answered {result.code.name}")
    return outcome


def create_states(
    context: ControllerContext, states: Mapping[TopicPartition, LeaderAndIsr]
) -> Flow[dict[TopicPartition, ZkCode]]:
    """Create the state nodes of new partitions, with their parents, pipelined in one go."""
    if not states:
        return {}
    topics = list(dict.fromkeys(partition[0] for partition in states))
    operations: list[WriteOperation] = [Create(znodes.partitions_path(t)) for t in topics]
    operations += [Create(znodes.partition_path(*partition)) for partition in states]
    parents = len(operations)
    operations += [
        Create(znodes.partition_state_path(*partition), znodes.encode_partition_state(state))
        for partition, state in states.items()
    ]
    results = yield from fenced_writes(context, operations)
    return {
        partition: result.code for partition, result in zip(states, results[parents:], strict=True)
    }


def refresh_leadership(
    context: ControllerContext, partitions: Iterable[TopicPartition]
) -> Flow[None]:
    """Read states into the context (start of a controller)."""
    outcome = yield from read_states(context, list(partitions))
    context.leadership.update(outcome.states)
    for partition, failure in outcome.failed.items():
        logger.error("cannot use the state of %s-%d: %s", *partition, failure.reason)
