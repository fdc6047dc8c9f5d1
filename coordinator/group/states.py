"""The states of a classic consumer group and its legal transitions, in one table.

Mirrors the state diagram of Kafka's GroupMetadata: a group is Empty (only offsets, or nothing),
PreparingRebalance (waiting for members to join), CompletingRebalance (waiting for the leader's
assignment), Stable, or Dead (deleted, expired or moved to another broker).

Invariant: a group leaves the coordinator's map in the same step that makes it Dead, so no request
ever meets a Dead group.
"""

from collections.abc import Mapping
from enum import Enum

from ...protocol.invariants import BrokenInvariant


class GroupState(Enum):
    """A group's state; the value is the name that clients see."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


# New state -> states from which it may be entered.
LEGAL_PREVIOUS_STATES: Mapping[GroupState, frozenset[GroupState]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.PREPARING_REBALANCE: frozenset(
        {GroupState.EMPTY, GroupState.COMPLETING_REBALANCE, GroupState.STABLE}
    ),
    GroupState.COMPLETING_REBALANCE: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.STABLE: frozenset({GroupState.COMPLETING_REBALANCE}),
    GroupState.DEAD: frozenset(GroupState),
}


def check_transition(old: GroupState, new: GroupState) -> None:
    """Raise BrokenInvariant, with nothing changed, if the table does not allow old -> new."""
    if old not in LEGAL_PREVIOUS_STATES[new]:
        raise BrokenInvariant(f"a group cannot go from {old.value} to {new.value}")
