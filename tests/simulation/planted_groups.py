"""Faults put into consumer groups on purpose, to see that the simulation finds them.

As in `planted.py`, each is a small change of one rule, as a bug would make it.
"""

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

from pybroker_kafka.broker.coordinators.group_runtime import GroupRuntime
from pybroker_kafka.coordinator.group import commits
from pybroker_kafka.coordinator.group.consumer import reconciliation
from pybroker_kafka.coordinator.group.consumer.consumer_group import ConsumerGroup
from pybroker_kafka.coordinator.group.consumer.heartbeats import ConsumerGroups
from pybroker_kafka.coordinator.group.core import Append
from pybroker_kafka.protocol.errors import ErrorCode
from tests.simulation.cluster import Result
from tests.simulation.groups import simulate_groups
from tests.simulation.planted_transactions import together

MAX_SEEDS = 300
ACKS_LEADER = 1


def _answers_before_the_log_is_durable() -> Any:
    """The coordinator does not wait until its records are replicated."""

    def append(self: GroupRuntime, append: Append) -> None:
        self._append_batch(append, ACKS_LEADER, self._commit_timeout_ms, append.verification)

    return patch.object(GroupRuntime, "_append", append)


def _partitions_are_given_before_they_are_free() -> Any:
    """A member gets its target at once."""
    return patch.object(
        ConsumerGroup, "owner_epoch", lambda _self, _topic_id, _partition: reconciliation.FREE
    )


def _stale_commits_are_accepted() -> Any:
    """Nobody looks at the epoch of a commit, nor at its member."""

    def accept(*_args: Any, **_more: Any) -> ErrorCode:
        return ErrorCode.NONE

    return together(
        patch.object(commits, "check_commit", accept),
        patch.object(commits, "check_partition", accept),
    )


def _sessions_do_not_end() -> Any:
    """Members that are gone keep their partitions."""
    return patch.object(ConsumerGroups, "session_expired", lambda *_args: None)


PLANTED: dict[str, Callable[[], Any]] = {
    "heartbeat answered before the log is durable": _answers_before_the_log_is_durable,
    "partitions are given before they are free": _partitions_are_given_before_they_are_free,
    "stale commits are accepted": _stale_commits_are_accepted,
    "sessions do not end": _sessions_do_not_end,
}


def find(name: str, seeds: range = range(MAX_SEEDS)) -> Result | None:
    """The first seed that notices the fault; None if none does."""
    for seed in seeds:
        with PLANTED[name]():
            result = simulate_groups(seed)
        if result.error is not None:
            return result
    return None
