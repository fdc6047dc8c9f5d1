"""Leader elections: Kafka's four kinds as pure functions.

Each takes the current state and returns the state to write (leader epoch one higher, partition
epoch as read) with the brokers to notify, or None if no replica may lead.

- offline: first assigned replica that is live and in the ISR, ISR shrunk to live members; if none
  and unclean election is allowed, the first live replica alone, recovering (KIP-704).
- preferred: only the first assigned replica, if live and in the ISR; ISR kept.
- reassignment: first target replica that is live and in the ISR; ISR of assigned replicas kept (a
  leader that writes states itself may just have added one that is not assigned any more).
- controlled shutdown: first assigned ISR member that is not shutting down; ISR without those.

Mirrors kafka.controller.Election.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from ...protocol.topics import TopicPartition
from .context import ControllerContext
from .znodes import RECOVERING, LeaderAndIsr


class Elected(NamedTuple):
    state: LeaderAndIsr
    recipients: tuple[int, ...]


Election: TypeAlias = Callable[
    [ControllerContext, TopicPartition, LeaderAndIsr, bool], Elected | None
]


def elect_offline(
    context: ControllerContext, partition: TopicPartition, state: LeaderAndIsr, unclean: bool
) -> Elected | None:
    """A live replica in the ISR leads, the first in the order of assignment; without one, and with
    `unclean`, the first live replica. None: no replica can lead."""
    live = _live_replicas(context, partition, context.replicas(partition))
    leader = next((r for r in live if r in state.isr), None)
    if leader is not None:
        isr = tuple(r for r in state.isr if context.is_replica_online(r, partition))
        return Elected(_led_by(state, leader, isr), live)
    if unclean and live:
        unclean_state = _led_by(state, live[0], (live[0],))
        if context.has_leader_recovery:
            unclean_state = replace(unclean_state, leader_recovery_state=RECOVERING)
        return Elected(unclean_state, live)
    return None


def elect_after_failover(
    context: ControllerContext, partition: TopicPartition, state: LeaderAndIsr, unclean: bool
) -> Elected | None:
    """Like `elect_offline`, for a leader that has died with the controller. The epoch is that of
    Kafka's controller, which first removes each dead replica from the ISR."""
    elected = elect_offline(context, partition, state, unclean)
    if elected is None:
        return None
    gone = sum(r in context.replicas(partition) for r in state.isr) - sum(
        context.is_replica_online(r, partition) for r in state.isr
    )
    epoch = elected.state.leader_epoch + max(0, gone)
    return elected._replace(state=replace(elected.state, leader_epoch=epoch))


def elect_preferred(
    context: ControllerContext, partition: TopicPartition, state: LeaderAndIsr, unclean: bool
) -> Elected | None:
    replicas = context.replicas(partition)
    live = _live_replicas(context, partition, replicas)
    if not replicas or replicas[0] not in live or replicas[0] not in state.isr:
        return None
    return Elected(_led_by(state, replicas[0], state.isr), live)


def elect_for_reassignment(
    context: ControllerContext, partition: TopicPartition, state: LeaderAndIsr, unclean: bool
) -> Elected | None:
    """A live target replica in the ISR leads, and removed replicas leave the ISR with it: a leader
    does not wait for unassigned replicas, so none of them may lead any more. Kafka takes them out
    one by one afterwards, each under an epoch of its own, which is counted here."""
    targets = context.assignment(partition).target_replicas
    live = _live_replicas(context, partition, targets)
    leader = next((r for r in live if r in state.isr), None)
    if leader is None:
        return None
    isr = tuple(r for r in state.isr if r in context.replicas(partition))
    elected = _led_by(state, leader, isr)
    epoch = elected.leader_epoch + len(state.isr) - len(isr)
    return Elected(replace(elected, leader_epoch=epoch), live)


def elect_for_shutdown(
    context: ControllerContext, partition: TopicPartition, state: LeaderAndIsr, unclean: bool
) -> Elected | None:
    """The first replica in the ISR that is up and stays leads, and those that shut down leave the
    ISR. None: no replica can lead, and the leader stays. `unclean` makes no difference."""
    up = tuple(
        r
        for r in context.replicas(partition)
        if context.is_replica_online(r, partition, include_shutting_down=True)
    )
    staying = (r for r in up if r in state.isr and r not in context.shutting_down)
    leader = next(staying, None)
    if leader is None:
        return None
    isr = tuple(r for r in state.isr if r not in context.shutting_down)
    return Elected(_led_by(state, leader, isr), up)


def _live_replicas(
    context: ControllerContext, partition: TopicPartition, replicas: tuple[int, ...]
) -> tuple[int, ...]:
    return tuple(r for r in replicas if context.is_replica_online(r, partition))


def _led_by(state: LeaderAndIsr, leader: int, isr: tuple[int, ...]) -> LeaderAndIsr:
    return replace(state, leader=leader, isr=isr, leader_epoch=state.leader_epoch + 1)
